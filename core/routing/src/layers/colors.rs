//! Divides the colors among layers, and numbers the groups of each.

use thiserror::Error;

use crate::spt::MgidSpace;
use fabricast_topology::Mgid;

/// Number of groups of a layer, and its dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayerSize {
    /// Its dimension; layers of one dimension are neighbours.
    pub dimension: usize,
    /// Number of groups in the layer.
    pub groups: u32,
}

/// Divides colors among layers, at least one each.
///
/// Every dimension gets the floor of its share in proportion to its groups, the last one the rest;
/// inside a dimension the next color goes to the layer with the most groups per color, the later on
/// a tie. If "at least one" makes that too many, the colors go to all layers in that last way.
/// (Calibrated against the paper's §4.3: 4/9/19 for 64x32x16, 10/10/12 for 32x32x32.)
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
