//! Cuts the colors into layers so that no endpoint of a grid uses a color in two groups.
//!
//! Source: C-MR4LMS §3.5, theorem 3 and equation (5) (lost; rebuilt as `wide`). An endpoint runs
//! `P` consecutive processes of a grid, x fastest, and takes part in the lines of all of them. If
//! all these lines are in different layers, and layers have different colors, every color is used
//! once.
//!
//! All members of a line compute the same layer: it depends on coordinates that the line keeps.

mod colors;

use thiserror::Error;

pub use colors::{LayerSize, TooFewColors, assign_mgids, divide_colors};

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
    /// Processes that differ in x.
    X {
        /// Coordinate y of all its processes.
        b: u32,
        /// Coordinate z of all its processes.
        c: u32,
    },
    /// Processes that differ in y.
    Y {
        /// Coordinate x of all its processes.
        a: u32,
        /// Coordinate z of all its processes.
        c: u32,
    },
    /// Processes that differ in z.
    Z {
        /// Coordinate x of all its processes.
        a: u32,
        /// Coordinate y of all its processes.
        b: u32,
    },
}

impl Line {
    /// Returns its dimension: 0, 1, 2 for x, y, z.
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

    /// Returns the layer of a line among those of its dimension.
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

    /// Cuts the cycle of x into blocks of P and P+1; the place in the block tells any P neighbours
    /// apart.
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

/// Reason why there is no such grid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum GridError {
    /// A size is 0.
    #[error("{field} is 0")]
    Zero {
        /// `x`, `y`, `z` or the processes per endpoint.
        field: &'static str,
    },
    /// Theorem 3 needs fewer processes of an endpoint than every dimension has.
    #[error("{per_endpoint} processes per endpoint, must be fewer than {dimension} = {size}")]
    TooManyPerEndpoint {
        /// Processes of an endpoint.
        per_endpoint: u32,
        /// `x`, `y` or `z`.
        dimension: &'static str,
        /// Processes along that dimension.
        size: u32,
    },
    /// The number of processes overflows.
    #[error("the grid has 2^32 processes or more")]
    TooLarge,
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
}
