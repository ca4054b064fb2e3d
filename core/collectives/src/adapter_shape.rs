//! Chooses kind and width of an adapter tree by the cost model: the paper's type I (§3).
//!
//! The result goes back by multicast, so only the way to the root depends on the tree. Each level
//! takes the longest path of its edges, and the packets of a node's children, one after the other
//! (equation 3). That is computed from the sizes of groups of processes, not from the tree, so that
//! it takes no longer for many processes than for few.
//!
//! Invariants
//! - AGG-10: no k-ary or k-nomial tree gathers longer than is computed for it; a full one of equal
//!   paths takes exactly so long.

use std::iter::successors;

use serde::{Deserialize, Serialize};

use crate::cost::CostParameters;
use crate::nesting::NestingSizes;
use crate::operation::Operation;

/// Kind and width of an adapter tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdapterShape {
    /// Complete tree, filled level by level.
    KAry {
        /// Children of a node.
        width: u32,
    },
    /// Tree of k trees of one level less.
    KNomial {
        /// Number of these trees (k).
        width: u32,
    },
    /// The same in each group of processes that are near one another, and over the first of them.
    Hierarchical {
        /// The k of these trees.
        width: u32,
    },
}

/// Time that some processes take to gather, by the shape of their tree.
#[derive(Clone, Copy, Debug)]
pub struct AdapterCost<'a> {
    sizes: &'a NestingSizes,
    link_us: f64,
    per_child_us: f64,
}

/// Level of a tree.
#[derive(Clone, Copy, Debug)]
struct Level {
    /// Most links of an edge.
    links: u32,
    /// Most children that a node has on the level below.
    children: u32,
}

impl<'a> AdapterCost<'a> {
    /// Takes the cost of an operation on messages of `bytes`.
    #[must_use]
    pub fn new(
        parameters: &CostParameters,
        sizes: &'a NestingSizes,
        operation: Operation,
        bytes: u32,
    ) -> Self {
        let per_child_us = parameters.per_child_us(operation, bytes);
        Self { sizes, link_us: parameters.link_us, per_child_us }
    }

    /// Returns the time until the root has everything, in microseconds.
    #[must_use]
    pub fn gather_us(&self, shape: AdapterShape) -> f64 {
        self.sum_us(&self.levels(shape))
    }

    /// Chooses the cheapest shape whose nodes have at most `most` children (taken as at least 1);
    /// of equal ones the k-ary, then the k-nomial, then the narrower.
    ///
    /// Cost: some tens of widths of each kind, of at most 32 levels each.
    #[must_use]
    pub fn cheapest(&self, most: u32) -> AdapterShape {
        let (processes, most) = (self.sizes.processes(), most.max(1));
        let bases = || widths(most.saturating_add(1).min(processes));
        let k_ary = widths(most.min(processes.saturating_sub(1)));
        let k_ary = k_ary.map(|width| AdapterShape::KAry { width });
        let k_nomial = bases().map(|width| AdapterShape::KNomial { width });
        let hierarchical = bases().map(|width| AdapterShape::Hierarchical { width });
        let priced = k_ary.chain(k_nomial).chain(hierarchical).filter_map(|shape| {
            let levels = self.levels(shape);
            (degree(shape, &levels) <= most).then(|| (self.sum_us(&levels), shape))
        });
        let cheapest = priced.min_by(|a, b| a.0.total_cmp(&b.0));
        cheapest.map_or(AdapterShape::KAry { width: most }, |(_us, shape)| shape)
    }

    fn sum_us(&self, levels: &[Level]) -> f64 {
        let level_us = |level: &Level| {
            f64::from(level.links) * self.link_us + f64::from(level.children) * self.per_child_us
        };
        levels.iter().map(level_us).sum()
    }

    /// Returns the levels of a tree, from the lowest.
    fn levels(&self, shape: AdapterShape) -> Vec<Level> {
        let (processes, farthest) = (self.sizes.processes(), self.sizes.farthest_links());
        match shape {
            AdapterShape::KAry { width } => k_ary_levels(processes, width, farthest),
            AdapterShape::KNomial { width } => nomial_levels(processes, width, farthest).collect(),
            AdapterShape::Hierarchical { width } => {
                let groups = self.sizes.levels().iter();
                groups.flat_map(|group| nomial_levels(group.parts, width, group.links)).collect()
            }
        }
    }
}

/// Returns the widths that are compared: all up to 16, then each an eighth wider, and the largest.
fn widths(largest: u32) -> impl Iterator<Item = u32> {
    let largest = largest.max(1);
    let all = successors(Some(2_u32), |width| width.checked_add((width / 8).max(1)));
    all.take_while(move |width| *width < largest).chain([largest])
}

/// Returns the most children of a node. In a k-nomial tree the root has some on every level.
fn degree(shape: AdapterShape, levels: &[Level]) -> u32 {
    let children = levels.iter().map(|level| level.children);
    match shape {
        AdapterShape::KAry { .. } => children.max().unwrap_or(0),
        AdapterShape::KNomial { .. } | AdapterShape::Hierarchical { .. } => {
            children.fold(0, u32::saturating_add)
        }
    }
}

fn k_ary_levels(processes: u32, width: u32, links: u32) -> Vec<Level> {
    let width = width.max(1);
    let mut levels = Vec::new();
    // Processes of a full tree of the levels so far, and those of them on its lowest level.
    let (mut whole, mut lowest) = (1_u32, 1_u32);
    while whole < processes {
        // Children of the root that have all levels below; the others are ready a level earlier.
        let children = width.min((processes - whole).div_ceil(lowest));
        levels.push(Level { links, children });
        lowest = lowest.saturating_mul(width);
        whole = whole.saturating_add(lowest);
    }
    levels
}

fn nomial_levels(parts: u32, width: u32, links: u32) -> impl Iterator<Item = Level> {
    nomial_children(parts, width).map(move |(_below, children)| Level { links, children })
}

/// Returns the levels of a k-nomial tree, from the lowest: nodes of a whole tree of the levels
/// below, and the most children that a node has on the level.
pub(crate) fn nomial_children(parts: u32, width: u32) -> impl Iterator<Item = (u32, u32)> {
    let width = width.max(2);
    let powers = successors(Some(1_u32), move |below| Some(below.saturating_mul(width)));
    let powers = powers.take_while(move |below| *below < parts);
    powers.map(move |below| (below, (width - 1).min((parts - 1) / below)))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fabricast_topology::EndpointId;
    use fabricast_topology::spec::TopologySpec;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::cost::AGENTS;
    use crate::fabric::Fabric;

    /// Sizes of processes at these endpoints of 4 leaf switches of 16 endpoints.
    fn sizes(places: impl IntoIterator<Item = u32>) -> NestingSizes {
        let text = "kind = 'leaf-spine'\nleaves = 4\nspines = 2\nendpoints_per_leaf = 16\n";
        let graph = TopologySpec::parse(text).unwrap().generate().unwrap();
        let places: Vec<EndpointId> = places.into_iter().map(EndpointId).collect();
        NestingSizes::of_fabric(&Fabric::detect(Arc::new(graph)), &places).unwrap()
    }

    fn chosen(parameters: &CostParameters, bytes: u32) -> AdapterShape {
        let sizes = sizes(0..64);
        AdapterCost::new(parameters, &sizes, Operation::AllReduce, bytes).cheapest(63)
    }

    #[test]
    fn long_messages_want_a_narrow_tree_and_short_ones_a_wide_one() {
        let long = chosen(&CostParameters::DEFAULT, 1 << 20);
        assert_eq!(long, AdapterShape::Hierarchical { width: 2 });
        // One level of 63 children, or two of 15 and 3 whose paths are longer together.
        assert_eq!(chosen(&CostParameters::DEFAULT, 8), AdapterShape::KAry { width: 63 });
    }

    #[test]
    fn bytes_that_take_no_time_do_not_change_the_tree() {
        let chosen = |bytes| chosen(&CostParameters::PAPER, bytes);
        assert_eq!(chosen(0), chosen(u32::MAX), "which is why they are not chosen by");
    }

    #[test]
    fn what_was_measured_changes_the_tree() {
        let measured = chosen(&AGENTS, 8);
        assert_ne!(measured, chosen(&CostParameters::DEFAULT, 8));
        assert_eq!(measured, AdapterShape::Hierarchical { width: 4 });
    }

    #[test]
    fn few_processes_need_no_choice() {
        let shape = |places: &[u32], most| {
            let sizes = sizes(places.iter().copied());
            let cost = AdapterCost::new(&AGENTS, &sizes, Operation::Reduce, 8);
            (cost.cheapest(most), cost.gather_us(cost.cheapest(most)))
        };
        let (alone, gather_us) = shape(&[7], 63);
        assert_eq!(alone, AdapterShape::KAry { width: 1 });
        assert!(gather_us.abs() < 1e-9, "{gather_us}");
        assert_eq!(shape(&[7, 8], 63).0, AdapterShape::KAry { width: 1 });
        assert_eq!(shape(&[7, 8, 9], 0).0, AdapterShape::KAry { width: 1 }, "a chain");
    }

    #[test]
    fn a_few_hundred_shapes_are_compared_however_many_processes_there_are() {
        assert!(widths(1 << 16).count() < 100, "{}", widths(1 << 16).count());
        assert_eq!(
            widths(20).collect::<Vec<_>>()[..],
            [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20]
        );
    }

    proptest! {
        #[test]
        fn no_other_shape_within_the_limit_is_cheaper(
            places in vec(0..64_u32, 1..200),
            most in 1..64_u32,
            bytes in 0..100_000_u32,
            link_us in 0.0..20.0_f64,
            matching_us in 0.001..20.0_f64,
        ) {
            let sizes = sizes(places);
            let parameters = CostParameters { link_us, matching_us, ..CostParameters::DEFAULT };
            let cost = AdapterCost::new(&parameters, &sizes, Operation::Reduce, bytes);
            let chosen = cost.cheapest(most);
            prop_assert!(degree(chosen, &cost.levels(chosen)) <= most, "{:?}", chosen);
            let others = (2..=16).flat_map(|width| [
                AdapterShape::KAry { width },
                AdapterShape::KNomial { width },
                AdapterShape::Hierarchical { width },
            ]);
            for other in others.filter(|one| degree(*one, &cost.levels(*one)) <= most) {
                let (ours, theirs) = (cost.gather_us(chosen), cost.gather_us(other));
                prop_assert!(ours <= theirs, "{:?}: {} us, {:?}: {} us", chosen, ours, other, theirs);
            }
        }
    }
}
