//! Cuts the colors into layers so that no endpoint of a grid uses a color in two groups.
//!
//! Source: C-MR4LMS §3.5, theorem 3 and equation (5) (lost; rebuilt as `wide`). An endpoint runs `P`
//! consecutive processes of a grid, x fastest, and takes part in the lines of all of them. If all these
//! lines are in different layers, and layers have different colors, every color is used once.
//!
//! All members of a line compute the same layer: it depends on coordinates that the line keeps.

use thiserror::Error;

use crate::mgid::Mgid;
use crate::spt::MgidSpace;

/// A way of telling apart the lines that meet in one endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LayerPlan {
    /// The paper's: `2P-1` layers for every dimension.
    Wide,
    /// Ours, fewer and evener: two layers for x-lines, `P` or `P+1` for the others.
    #[default]
    Compact,
}

/// A grid of processes, x fastest, then y, then z, `per_endpoint` consecutive ones to an endpoint.
///
/// A 2-D grid has `z = 1` and no z-lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Size in x.
    pub x: u32,
    /// Size in y.
    pub y: u32,
    /// Size in z; 1 for a 2-D grid.
    pub z: u32,
    /// Processes of an endpoint (P), less than each dimension that has lines.
    pub per_endpoint: u32,
}

/// A line of a grid: all processes that differ in one coordinate only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Line {
    /// Along x.
    X {
        /// Its y.
        b: u32,
        /// Its z.
        c: u32,
    },
    /// Along y.
    Y {
        /// Its x.
        a: u32,
        /// Its z.
        c: u32,
    },
    /// Along z.
    Z {
        /// Its x.
        a: u32,
        /// Its y.
        b: u32,
    },
}

impl Line {
    /// Gives its dimension: 0, 1, 2 for x, y, z.
    #[must_use]
    pub const fn dimension(self) -> usize {
        match self {
            Self::X { .. } => 0,
            Self::Y { .. } => 1,
            Self::Z { .. } => 2,
        }
    }
}

impl Grid {
    /// Makes a 2-D grid.
    ///
    /// # Errors
    ///
    /// [`GridError`] if a size is 0 or there are too many processes of an endpoint or in all.
    pub fn plane(x: u32, y: u32, per_endpoint: u32) -> Result<Self, GridError> {
        Self::checked(Self { x, y, z: 1, per_endpoint }, &[("x", x), ("y", y)])
    }

    /// Makes a 3-D grid.
    ///
    /// # Errors
    ///
    /// [`GridError`] if a size is 0 or there are too many processes of an endpoint or in all.
    pub fn cube(x: u32, y: u32, z: u32, per_endpoint: u32) -> Result<Self, GridError> {
        Self::checked(Self { x, y, z, per_endpoint }, &[("x", x), ("y", y), ("z", z)])
    }

    fn checked(grid: Self, sizes: &[(&'static str, u32)]) -> Result<Self, GridError> {
        let sizes = || sizes.iter().copied().chain([("processes per endpoint", grid.per_endpoint)]);
        if let Some((field, _)) = sizes().find(|(_, size)| *size == 0) {
            return Err(GridError::Zero { field });
        }
        let too_small = |size: u32| grid.per_endpoint > 1 && grid.per_endpoint >= size;
        let dimensions = sizes().filter(|(field, _)| field.len() == 1);
        if let Some((dimension, size)) = dimensions.into_iter().find(|(_, size)| too_small(*size)) {
            return Err(GridError::TooManyPerEndpoint {
                per_endpoint: grid.per_endpoint,
                dimension,
                size,
            });
        }
        let count = grid.x.checked_mul(grid.y).and_then(|xy| xy.checked_mul(grid.z));
        count.map(|_| grid).ok_or(GridError::TooLarge)
    }

    /// Counts the processes.
    #[must_use]
    pub const fn processes(&self) -> u32 {
        self.x * self.y * self.z
    }

    /// Counts the endpoints that run them.
    #[must_use]
    pub const fn endpoints(&self) -> u32 {
        self.processes().div_ceil(self.per_endpoint)
    }

    /// Lists all lines, dimension by dimension. A 2-D grid has no z-lines.
    pub fn lines(&self) -> impl Iterator<Item = Line> + use<> {
        let Self { x, y, z, .. } = *self;
        let planes = move |b: u32, c: u32| (0..c).flat_map(move |c| (0..b).map(move |b| (b, c)));
        let z_lines = if z > 1 { y } else { 0 };
        planes(y, z)
            .map(|(b, c)| Line::X { b, c })
            .chain(planes(x, z).map(|(a, c)| Line::Y { a, c }))
            .chain(planes(x, z_lines).map(|(a, b)| Line::Z { a, b }))
    }

    /// Lists the endpoints on a line, as numbers from 0, rising, each once.
    #[must_use]
    pub fn endpoints_on(&self, line: Line) -> Vec<u32> {
        let at = |a: u32, b: u32, c: u32| (a + self.x * (b + self.y * c)) / self.per_endpoint;
        let mut endpoints: Vec<u32> = match line {
            Line::X { b, c } => (0..self.x).map(|a| at(a, b, c)).collect(),
            Line::Y { a, c } => (0..self.y).map(|b| at(a, b, c)).collect(),
            Line::Z { a, b } => (0..self.z).map(|c| at(a, b, c)).collect(),
        };
        endpoints.dedup();
        endpoints
    }

    /// Gives the layer of a line among those of its dimension.
    #[must_use]
    pub fn layer(&self, plan: LayerPlan, line: Line) -> u32 {
        let wide = |value: u32| cyclic(value, self.per_endpoint);
        match (plan, line) {
            (LayerPlan::Wide, Line::X { b, .. }) => wide(b),
            (LayerPlan::Wide, Line::Y { a, .. } | Line::Z { a, .. }) => wide(a),
            (LayerPlan::Compact, Line::X { .. }) if self.per_endpoint == 1 => 0,
            (LayerPlan::Compact, Line::X { b, c }) => (c * self.y + b) % 2,
            (LayerPlan::Compact, Line::Y { a, .. } | Line::Z { a, .. }) => self.in_block(a),
        }
    }

    /// Cuts the cycle of x into blocks of P and P+1; the place in the block tells any P neighbours apart.
    fn in_block(&self, a: u32) -> u32 {
        let p = self.per_endpoint;
        let long = self.x % p; // so many blocks of P+1, the last ones
        let blocks = self.x / p;
        if long > blocks {
            return cyclic(a, p); // x < P(P-1): it cannot be cut
        }
        let short = (blocks - long) * p;
        if a < short { a % p } else { (a - short) % (p + 1) }
    }
}

/// The paper's f: `P-1` values of their own, then `P` in turn.
const fn cyclic(value: u32, p: u32) -> u32 {
    if value < p - 1 { value } else { p - 1 + (value - (p - 1)) % p }
}

/// Why there is no such grid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GridError {
    /// A size is 0.
    #[error("{field} is 0")]
    Zero {
        /// Which one.
        field: &'static str,
    },
    /// Theorem 3 needs fewer processes of an endpoint than every dimension has.
    #[error("{per_endpoint} processes per endpoint, must be fewer than {dimension} = {size}")]
    TooManyPerEndpoint {
        /// Processes of an endpoint.
        per_endpoint: u32,
        /// The dimension.
        dimension: &'static str,
        /// Its size.
        size: u32,
    },
    /// The number of processes overflows.
    #[error("the grid has 2^32 processes or more")]
    TooLarge,
}

/// How many groups a layer has, and in which dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerSize {
    /// Its dimension; layers of one dimension are neighbours.
    pub dimension: usize,
    /// Its groups.
    pub groups: u32,
}

/// Divides colors among layers, at least one each.
///
/// Every dimension gets the floor of its share in proportion to its groups, the last one the rest; inside a
/// dimension the next color goes to the layer with the most groups per color, the later on a tie. If "at least one"
/// makes that too many, the colors go to all layers in that last way. (Calibrated against the
/// paper's §4.3: 4/9/19 for 64x32x16, 10/10/12 for 32x32x32.)
///
/// # Errors
///
/// [`TooFewColors`] if there are fewer colors than layers.
pub fn divide_colors(colors: u32, layers: &[LayerSize]) -> Result<Vec<u32>, TooFewColors> {
    let count = u32::try_from(layers.len()).expect("layers are few");
    if colors < count {
        return Err(TooFewColors { colors, layers: count });
    }
    let total: u64 = layers.iter().map(|layer| u64::from(layer.groups)).sum();
    let dimensions: Vec<&[LayerSize]> =
        layers.chunk_by(|a, b| a.dimension == b.dimension).collect();
    let share = |layers: &&[LayerSize]| {
        let groups: u64 = layers.iter().map(|layer| u64::from(layer.groups)).sum();
        let share = (u64::from(colors) * groups).checked_div(total).unwrap_or(0);
        u32::try_from(share)
            .expect("at most all colors")
            .max(u32::try_from(layers.len()).expect("few"))
    };
    let mut shares: Vec<u32> = dimensions.iter().map(share).collect();
    let given: u32 = shares.iter().sum();
    if given > colors {
        return Ok(one_by_one(colors, layers));
    }
    if let Some(last) = shares.last_mut() {
        *last += colors - given;
    }
    let divided =
        dimensions.iter().zip(shares).flat_map(|(layers, share)| one_by_one(share, layers));
    Ok(divided.collect())
}

/// Gives every layer a color, then the next always to the layer with the most groups per color.
fn one_by_one(colors: u32, layers: &[LayerSize]) -> Vec<u32> {
    let mut given = vec![1u32; layers.len()];
    for _ in layers.len()..colors as usize {
        let more = |a: &usize, b: &usize| {
            // groups/colors compared by cross multiplication
            let load =
                |at: usize, other: usize| u64::from(layers[at].groups) * u64::from(given[other]);
            load(*a, *b).cmp(&load(*b, *a)).then(a.cmp(b))
        };
        if let Some(at) = (0..layers.len()).max_by(more) {
            given[at] += 1;
        }
    }
    given
}

/// There are fewer colors than layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{layers} layers need as many colors, there are {colors}")]
pub struct TooFewColors {
    /// Colors there are.
    pub colors: u32,
    /// Layers that need one each.
    pub layers: u32,
}

/// Gives groups their MGIDs: those of a layer go round the spanning trees of its colors.
///
/// `layers` gives the layer of each group as an index into `sizes`. With per-switch tables colors
/// are spanning trees and need no layers; groups are numbered in turn.
///
/// # Errors
///
/// [`TooFewColors`] if there are fewer colors than layers.
pub fn assign_mgids(
    space: &MgidSpace,
    sizes: &[LayerSize],
    layers: &[usize],
) -> Result<Vec<Mgid>, TooFewColors> {
    if space.tables() == fabricast_topology::TableKind::PerSwitch {
        return Ok((0u32..).zip(layers).map(|(mgid, _)| Mgid(mgid)).collect());
    }
    let colors = divide_colors(u32::from(space.colors()), sizes)?;
    let mut first = 0;
    let mut ranges = Vec::with_capacity(colors.len()); // first spanning tree, count, groups so far
    for colors in colors {
        ranges.push((first, colors * space.trees_per_color(), 0));
        first += colors * space.trees_per_color();
    }
    let mgid = |layer: &usize| {
        let (first, trees, groups) = &mut ranges[*layer];
        let mgid = *first + *groups % *trees + *groups / *trees * space.total();
        *groups += 1;
        Mgid(mgid)
    };
    Ok(layers.iter().map(mgid).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The lines of a process, all of whose coordinates come from a start and a count.
    fn lines_of(grid: &Grid, process: u32) -> Vec<Line> {
        let (a, rest) = (process % grid.x, process / grid.x);
        let (b, c) = (rest % grid.y, rest / grid.y);
        let mut lines = vec![Line::X { b, c }, Line::Y { a, c }];
        if grid.z > 1 {
            lines.push(Line::Z { a, b });
        }
        lines
    }

    /// Theorem 3 at every start position, cyclic or not: all lines of P consecutive processes
    /// are in different layers of their dimension.
    fn theorem_3_holds(grid: &Grid, plan: LayerPlan) {
        for first in 0..=grid.processes() - grid.per_endpoint {
            let lines: BTreeSet<Line> = (first..first + grid.per_endpoint)
                .flat_map(|process| lines_of(grid, process))
                .collect();
            let layers: BTreeSet<(usize, u32)> =
                lines.iter().map(|line| (line.dimension(), grid.layer(plan, *line))).collect();
            assert_eq!(layers.len(), lines.len(), "{grid:?} {plan:?} from {first}: {lines:?}");
        }
    }

    /// C-MR4LMS, theorem 3, for all sizes up to 7 and every start.
    #[test]
    fn lines_that_meet_in_an_endpoint_are_in_different_layers() {
        let mut grids = 0;
        for (x, y, z, p) in (1u32..8)
            .flat_map(|x| (1u32..8).map(move |y| (x, y)))
            .flat_map(|(x, y)| (1u32..8).map(move |z| (x, y, z)))
            .flat_map(|(x, y, z)| (1u32..7).map(move |p| (x, y, z, p)))
        {
            let grid = if z == 1 { Grid::plane(x, y, p) } else { Grid::cube(x, y, z, p) };
            if let Ok(grid) = grid {
                grids += 1;
                theorem_3_holds(&grid, LayerPlan::Wide);
                theorem_3_holds(&grid, LayerPlan::Compact);
            }
        }
        assert!(grids > 400, "only {grids} grids fit");
    }

    #[test]
    fn compact_has_as_few_layers_as_the_blocks_allow() {
        let count = |grid: Grid, plan| {
            let layers: BTreeSet<(usize, u32)> =
                grid.lines().map(|line| (line.dimension(), grid.layer(plan, line))).collect();
            layers.len()
        };
        let grid = Grid::cube(100, 50, 26, 4).unwrap();
        assert_eq!((count(grid, LayerPlan::Compact), count(grid, LayerPlan::Wide)), (10, 21));
        let uneven = Grid::cube(101, 50, 26, 4).unwrap();
        assert_eq!(count(uneven, LayerPlan::Compact), 12);
        let single = Grid::cube(64, 32, 16, 1).unwrap();
        assert_eq!((count(single, LayerPlan::Compact), count(single, LayerPlan::Wide)), (3, 3));
    }

    #[test]
    fn colors_are_divided_as_in_the_papers_trials() {
        let sizes = |groups: [u32; 3]| {
            [0, 1, 2].map(|dimension| LayerSize { dimension, groups: groups[dimension] })
        };
        assert_eq!(divide_colors(32, &sizes([512, 1024, 2048])), Ok(vec![4, 9, 19]));
        assert_eq!(divide_colors(32, &sizes([1024, 1024, 1024])), Ok(vec![10, 10, 12]));
        assert_eq!(divide_colors(32, &sizes([1, 16_000, 16_000])), Ok(vec![1, 15, 16]));
        assert_eq!(divide_colors(2, &sizes([1, 1, 1])), Err(TooFewColors { colors: 2, layers: 3 }));
    }

    proptest::proptest! {
        #[test]
        fn every_color_is_given_and_every_layer_has_one(
            groups in proptest::collection::vec((0usize..3, 0u32..5_000), 1..12), more in 0u32..300,
        ) {
            let mut layers: Vec<_> = groups
                .into_iter()
                .map(|(dimension, groups)| LayerSize { dimension, groups })
                .collect();
            layers.sort_by_key(|layer| layer.dimension);
            let colors = u32::try_from(layers.len()).unwrap() + more;
            let divided = divide_colors(colors, &layers).unwrap();
            proptest::prop_assert_eq!(divided.iter().sum::<u32>(), colors);
            proptest::prop_assert!(divided.iter().all(|count| *count > 0));
        }

        #[test]
        fn mgids_differ_and_lie_in_the_colors_of_their_layer(
            layers in proptest::collection::vec(0usize..3, 1..200), colors in 3u16..20, m in 1u32..6,
        ) {
            let space = MgidSpace::new(colors, m, fabricast_topology::TableKind::PerPort).unwrap();
            let size = |layer: usize| LayerSize {
                dimension: layer,
                groups: u32::try_from(layers.iter().filter(|one| **one == layer).count()).unwrap(),
            };
            let sizes = [size(0), size(1), size(2)];
            let mgids = assign_mgids(&space, &sizes, &layers).unwrap();
            let distinct: BTreeSet<Mgid> = mgids.iter().copied().collect();
            proptest::prop_assert_eq!(distinct.len(), mgids.len());
            let mut of_color = vec![None; usize::from(colors)];
            for (mgid, layer) in mgids.iter().zip(&layers) {
                let color = usize::from(space.color(space.spt(*mgid)));
                proptest::prop_assert_eq!(*of_color[color].get_or_insert(*layer), *layer);
            }
        }
    }
}
