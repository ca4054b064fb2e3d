//! Chooses the shape of the tree over a group's members by the cost model.
//!
//! The tree carries reports to the root and outcomes back, each as a whole, and messages in parts
//! that follow one another. The paper counts the first only (equation 3): each level takes a path
//! and the packets of its children. On the way back a node stores and sends a copy for each child.
//! A message in parts is limited by the node with the most children, which sends every part so many
//! times; there a k-nomial tree, whose root has children of every level, is the worse one.

use fabricast_groups::tree::TreeShape;

use crate::adapter_shape::nomial_children;
use crate::cost::CostParameters;
use crate::operation::Operation;

/// Widths that are compared; those between differ by little.
const WIDTHS: [u32; 11] = [2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64];

/// Links between two endpoints at one leaf switch.
const LEAF_LINKS: f64 = 2.0;

/// Facts of a group on which the shape of its tree depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ShapeInputs {
    /// Members it will have.
    pub members: u32,
    /// Bytes of an operation or message that matters most.
    pub bytes: u32,
    /// Members that follow one another by rank and are at one leaf switch, equally many at each but
    /// the last; `None` if their places are not known or not such.
    pub block: Option<u32>,
}

/// Chooses the cheapest shape; of equal ones the k-ary, then the narrower.
///
/// Cost: at most 64 evaluations of the model.
#[must_use]
pub fn choose_shape(parameters: &CostParameters, size: ShapeInputs) -> TreeShape {
    let blocks = size.block.filter(|block| (2..size.members).contains(block));
    let k_ary = WIDTHS.map(|width| TreeShape::KAry { width });
    let k_nomial = WIDTHS.map(|width| TreeShape::KNomial { width });
    let hierarchical = blocks.into_iter().flat_map(|block| {
        WIDTHS.into_iter().map(move |width| TreeShape::Hierarchical { width, block })
    });
    let all = k_ary.into_iter().chain(k_nomial).chain(hierarchical);
    let cost = |shape: &TreeShape| shape_us(parameters, size, *shape);
    all.min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap_or_default()
}

/// Returns the time of an all-reduce and of a message to all along a tree, in microseconds.
#[must_use]
pub fn shape_us(parameters: &CostParameters, size: ShapeInputs, shape: TreeShape) -> f64 {
    let levels = levels(size, shape);
    let per_copy = parameters.matching_us + f64::from(size.bytes) * parameters.store_us_per_byte;
    let per_report = parameters.per_child_us(Operation::AllReduce, size.bytes);
    let (mut way_us, mut children, mut most) = (0.0, 0.0, 0.0_f64);
    for level in &levels {
        let links = if level.leaves_leaf { parameters.path_links } else { LEAF_LINKS };
        way_us += links * parameters.link_us;
        children += level.children;
        most = match shape {
            TreeShape::KAry { .. } => most.max(level.children),
            TreeShape::KNomial { .. } | TreeShape::Hierarchical { .. } => children,
        };
    }
    let all_reduce_us = 2.0 * way_us + children * (per_report + per_copy);
    let message_us = way_us + most * per_copy;
    all_reduce_us + message_us
}

/// Level of a tree.
struct Level {
    /// Children that a node of the next level has on this one.
    children: f64,
    leaves_leaf: bool,
}

fn levels(size: ShapeInputs, shape: TreeShape) -> Vec<Level> {
    let members = size.members.max(1);
    let block = size.block.map_or(1, u64::from);
    match shape {
        TreeShape::KAry { width } => {
            let (members, width) = (u64::from(members), u64::from(width));
            let mut levels = Vec::new();
            let mut below = 1; // members of a child's subtree
            while below < members {
                let children = width.min((members - 1).div_ceil(below));
                let whole = width * below + 1;
                let children = u32::try_from(children).unwrap_or(u32::MAX);
                levels.push(Level::new(children, whole > block));
                below = whole;
            }
            levels
        }
        TreeShape::KNomial { width } => {
            let level = |(below, children): (u32, u32)| {
                let whole = u64::from(below) * u64::from(width);
                Level::new(children, whole > block || !block.is_multiple_of(whole))
            };
            nomial_children(members, width).map(level).collect()
        }
        TreeShape::Hierarchical { width, block } => {
            let level =
                |leaves_leaf| move |(_, children): (u32, u32)| Level::new(children, leaves_leaf);
            let blocks = nomial_children(members.div_ceil(block), width).map(level(true));
            nomial_children(members.min(block), width).map(level(false)).chain(blocks).collect()
        }
    }
}

impl Level {
    fn new(children: u32, leaves_leaf: bool) -> Self {
        Self { children: f64::from(children), leaves_leaf }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fabricast_groups::Pn;
    use proptest::prelude::*;

    use super::*;
    use crate::adapter_tree::AdapterTree;
    use crate::cost::AGENTS;

    fn size(members: u32, bytes: u32) -> ShapeInputs {
        ShapeInputs { members, bytes, block: None }
    }

    fn width(shape: TreeShape) -> u32 {
        match shape {
            TreeShape::KAry { width }
            | TreeShape::KNomial { width }
            | TreeShape::Hierarchical { width, .. } => width,
        }
    }

    /// The tree as it is, for the packet-by-packet model.
    fn gathered_us(parameters: &CostParameters, size: ShapeInputs, shape: TreeShape) -> f64 {
        let live: BTreeSet<Pn> = (0..size.members).map(Pn).collect();
        let parent = |pn: &Pn| shape.position(*pn, &live).unwrap().parent.map(|parent| parent.0);
        let tree = AdapterTree::of_parents(&live.iter().map(parent).collect::<Vec<_>>()).unwrap();
        tree.gather_us(parameters, Operation::AllReduce, size.bytes, |_, _| 4)
    }

    #[test]
    fn long_operations_want_narrower_trees() {
        let widths: Vec<u32> = [0, 1_000, 10_000, 100_000, 1 << 20]
            .into_iter()
            .map(|bytes| width(choose_shape(&AGENTS, size(256, bytes))))
            .collect();
        assert!(widths.is_sorted_by(|a, b| a >= b), "{widths:?}");
        assert!(widths.first() > widths.last(), "{widths:?}");
    }

    #[test]
    fn bytes_that_cost_nothing_do_not_change_the_tree() {
        let free = CostParameters { store_us_per_byte: 0.0, reduce_us_per_byte: 0.0, ..AGENTS };
        let shape = |bytes| choose_shape(&free, size(256, bytes));
        assert_eq!(shape(0), shape(1 << 20), "which is why a fit does not leave them at 0");
    }

    #[test]
    fn members_in_blocks_that_no_width_divides_get_a_tree_of_blocks() {
        let far = CostParameters { link_us: 100.0, path_links: 6.0, ..AGENTS };
        let in_blocks = ShapeInputs { block: Some(18), ..size(360, 8) };
        let chosen = choose_shape(&far, in_blocks);
        assert!(matches!(chosen, TreeShape::Hierarchical { block: 18, .. }), "{chosen:?}");
        assert!(!matches!(choose_shape(&far, size(360, 8)), TreeShape::Hierarchical { .. }));
    }

    #[test]
    fn one_member_needs_no_tree() {
        assert_eq!(choose_shape(&AGENTS, size(1, 8)), TreeShape::default());
        assert!(shape_us(&AGENTS, size(1, 8), TreeShape::default()).abs() < 1e-9);
    }

    proptest! {
        /// Equation 3 against the tree itself, packet by packet: trees that are not full are
        /// cheaper by up to a level.
        #[test]
        fn the_chosen_tree_gathers_hardly_slower_than_the_default(
            members in 2_u32..300,
            bytes in 0_u32..100_000,
            matching_us in 0.1_f64..40.0,
            link_us in 0.1_f64..40.0,
        ) {
            let parameters = CostParameters { matching_us, link_us, ..AGENTS };
            let size = size(members, bytes);
            let chosen = choose_shape(&parameters, size);
            let ours = gathered_us(&parameters, size, chosen);
            let default = gathered_us(&parameters, size, TreeShape::default());
            prop_assert!(ours <= default * 1.35, "{chosen:?}: {ours} us, default {default} us");
        }

        #[test]
        fn a_full_k_nomial_tree_gathers_as_its_levels_say(
            (width, digits) in (2_u32..6, 1_u32..5),
            bytes in 0_u32..10_000,
        ) {
            let size = size(width.pow(digits), bytes);
            let shape = TreeShape::KNomial { width };
            let per_child = AGENTS.per_child_us(Operation::AllReduce, bytes);
            let sum: f64 = levels(size, shape).iter().map(|one| 60.0 + one.children * per_child).sum();
            let gathered = gathered_us(&AGENTS, size, shape);
            prop_assert!((sum - gathered).abs() < 1e-6 * sum, "{sum} {gathered}");
        }
    }
}
