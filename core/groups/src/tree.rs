//! The unicast tree of a group, a function of its shape and its live process numbers.
//!
//! The paper (Wu et al. 1997, tree maintenance) repairs a tree step by step: the children of a
//! leaver move to its parent, and a newcomer takes a vacant position with the children it had. Both
//! follow from one stateless rule. A [`TreeShape`] gives every PN a place in an unbounded tree; the
//! parent of a member is the nearest live place above its own. Agents that agree on the shape and
//! the members thus agree on the tree, in whatever order they learned of the changes.
//!
//! ```text
//!               7                      0         k-nomial of width 2: above a number is
//!       3              11            / | \       that without its lowest non-zero digit
//!    1     5        9      13       1  2  4
//!   0 2   4 6     8 10   12 14         |  |\
//!   k-ary of width 2, the default      3  5 6-7
//! ```
//!
//! The places at a place and below it are a range of numbers, whatever the shape. Where numbers
//! follow the fabric, as a launcher assigns them, the members of one leaf switch or midplane are
//! therefore in one subtree, and few edges leave it.
//!
//! No member of a tree of width 2 is deeper than log2 of the highest live number plus one; that is
//! the paper's bound if the numbers have no gaps. After leaves the tree may be deeper than log2 of
//! the members that are left: of 32, the members 0, 1, 3, 7, 15 and 31 are a chain. A newcomer gets
//! the lowest free number, so gaps are filled first. The root is a member like any other, and not
//! the group's agent, which may be on another node.
//!
//! Invariants
//! - TREE-1: the positions of the live members are one tree over exactly them (G2).
//! - TREE-2: the members at a place and below it have the numbers of one range, whichever are live;
//!   the root is the highest live place.
//! - TREE-3: a join or leave changes the position of its own PN, its parent and its children only.

use std::collections::BTreeSet;
use std::ops::Range;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::ids::Pn;

/// Widest tree there may be.
pub const MAX_WIDTH: u32 = 64;

/// Shape of a group's tree, the same as long as the group exists.
///
/// Source: Chen et al. 2024, §3 (type I: trees over the processes' adapters).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TreeShape {
    /// Each place has up to `width` below it; one whole subtree of these has the numbers before its
    /// own.
    KAry {
        /// Places below a place, 2 to [`MAX_WIDTH`].
        width: u32,
    },
    /// Numbers in base `width`: above a number is that without its lowest non-zero digit.
    KNomial {
        /// Base of the numbers, 2 to [`MAX_WIDTH`].
        width: u32,
    },
    /// A k-nomial tree in each block of numbers that follow one another, such as the members at one
    /// leaf switch, and one over the first of the blocks.
    Hierarchical {
        /// Base of the numbers, 2 to [`MAX_WIDTH`].
        width: u32,
        /// Numbers of a block, at least 2.
        block: u32,
    },
}

impl Default for TreeShape {
    /// Two below each.
    fn default() -> Self {
        Self::KAry { width: 2 }
    }
}

/// Shape that no tree has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ShapeError {
    /// The width is out of range.
    #[error("a tree of width {width}, which must be 2 to {MAX_WIDTH}")]
    Width {
        /// Width asked for.
        width: u32,
    },
    /// The blocks are too small.
    #[error("blocks of {block}, which must be at least 2")]
    Block {
        /// Size asked for.
        block: u32,
    },
}

/// A member's neighbours in the tree.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Position {
    /// The neighbour towards the root; `None` at the root.
    pub parent: Option<Pn>,
    /// The neighbours away from the root, ascending.
    pub children: Vec<Pn>,
}

impl TreeShape {
    /// Returns the shape if there are trees of it.
    ///
    /// # Errors
    ///
    /// [`ShapeError`], the caller's mistake.
    pub fn checked(self) -> Result<Self, ShapeError> {
        let (width, block) = match self {
            Self::KAry { width } | Self::KNomial { width } => (width, 2),
            Self::Hierarchical { width, block } => (width, block),
        };
        if !(2..=MAX_WIDTH).contains(&width) {
            return Err(ShapeError::Width { width });
        }
        if block < 2 { Err(ShapeError::Block { block }) } else { Ok(self) }
    }

    /// Returns whether it is the shape of groups for which nobody has chosen one.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the position of `pn` in the tree over `live`; `None` if it is not live.
    ///
    /// Cost: O(children x depth) look-ups in `live`, however sparse it is; without a live place
    /// above it, also O(depth) for each such member.
    pub fn position(self, pn: Pn, live: &BTreeSet<Pn>) -> Option<Position> {
        if !live.contains(&pn) {
            return None;
        }
        let above = self.way_to(pn, live).filter(|place| place.number != u64::from(pn.0));
        let parent = above.filter_map(|place| place.live(live)).last();
        // A member without a live place above it is below the root, unless it is the root.
        let parent = parent.or_else(|| self.root(live).filter(|root| *root != pn));
        Some(Position { parent, children: self.children(pn, parent.is_none(), live) })
    }

    /// Returns every PN whose position differs between `live` and `live` without `pn`: itself, its
    /// parent and its children, ascending.
    ///
    /// Call it with `pn` live: after its join, or before its leave. Cost: as
    /// [`TreeShape::position`].
    pub fn affected(self, pn: Pn, live: &BTreeSet<Pn>) -> Vec<Pn> {
        let Some(Position { parent, children }) = self.position(pn, live) else {
            return Vec::new();
        };
        let mut all: Vec<Pn> = parent.into_iter().chain([pn]).chain(children).collect();
        all.sort_unstable();
        all
    }

    /// Returns the numbers at the place of `pn` and below it, whichever are live.
    pub fn range(self, pn: Pn) -> Range<u64> {
        let number = u64::from(pn.0);
        let own = self.way(number, number).last().unwrap_or(self.top(number));
        own.first..own.end
    }

    /// Returns the live member with the highest place; of several at one height, the lowest number.
    ///
    /// Cost: O(depth) look-ups for each member without a live place above it.
    fn root(self, live: &BTreeSet<Pn>) -> Option<Pn> {
        let mut best: Option<(u32, Pn)> = None;
        let mut next = live.first().copied();
        while let Some(pn) = next {
            let (place, highest) = self.highest(pn, None, live)?;
            if best.is_none_or(|(height, _)| place.height > height) {
                best = Some((place.height, highest));
            }
            next = first_live_after(place, live);
        }
        best.map(|(_, root)| root)
    }

    fn children(self, pn: Pn, is_root: bool, live: &BTreeSet<Pn>) -> Vec<Pn> {
        let mut found = Vec::new();
        // Members below no live place are children of the root, so the root searches everywhere.
        let range = if is_root { 0..u64::MAX } else { self.range(pn) };
        let within = |one: &Pn| u64::from(one.0) < range.end;
        let mut next =
            u32::try_from(range.start).ok().and_then(|first| first_live_from(first, live));
        while let Some(one) = next.filter(within) {
            if one == pn {
                next = pn.0.checked_add(1).and_then(|first| first_live_from(first, live));
                continue;
            }
            let Some((place, child)) = self.highest(one, Some(pn), live) else { return found };
            found.push(child);
            next = first_live_after(place, live);
        }
        found
    }

    /// The highest live place on the way to a member; below another member, if it is on that way.
    fn highest(self, pn: Pn, below: Option<Pn>, live: &BTreeSet<Pn>) -> Option<(Place, Pn)> {
        let mut taken = self.way_to(pn, live).filter_map(|place| Some((place, place.live(live)?)));
        let below = below.filter(|top| self.range(*top).contains(&u64::from(pn.0)));
        match below {
            Some(top) => taken.skip_while(|(_, one)| *one != top).nth(1),
            None => taken.next(),
        }
    }

    /// The places on the way from the top to a member, those above all live ones left out.
    fn way_to(self, pn: Pn, live: &BTreeSet<Pn>) -> impl Iterator<Item = Place> {
        let number = u64::from(pn.0);
        let last = live.last().map_or(0, |last| u64::from(last.0));
        self.way(number, last.max(number))
    }

    fn way(self, number: u64, last: u64) -> impl Iterator<Item = Place> {
        std::iter::successors(Some(self.top(last)), move |place| self.below(*place, number))
    }

    /// A place that has the numbers up to `last` below it.
    fn top(self, last: u64) -> Place {
        match self {
            Self::KAry { .. } => {
                let (mut end, mut height) = (1, 0);
                while end <= last {
                    (end, height) = (end * self.width() + 1, height + 1);
                }
                Place { number: (end - 1) / self.width(), first: 0, end, height }
            }
            Self::KNomial { .. } | Self::Hierarchical { .. } => {
                Place { number: 0, first: 0, end: u64::MAX, height: u32::MAX }
            }
        }
    }

    /// The next place on the way from `above` to a number below it; `None` at the number.
    fn below(self, above: Place, number: u64) -> Option<Place> {
        if above.number == number {
            return None;
        }
        let width = self.width();
        let block = match self {
            Self::KAry { .. } => {
                let size = (above.end - above.first - 1) / width;
                let first = match number.checked_sub(above.number + 1) {
                    None => above.first,
                    Some(past) => above.number + 1 + past / size * size,
                };
                let (number, end) = (first + (size - 1) / width, first + size);
                return Some(Place { number, first, end, height: above.height - 1 });
            }
            Self::KNomial { .. } => 1,
            Self::Hierarchical { block, .. } => u64::from(block.max(2)),
        };
        let blocks = (number / block).checked_sub(above.number / block)?;
        // Only the first of a block has other blocks below it.
        let (unit, base) = if blocks > 0 { (block, ABOVE_BLOCKS) } else { (1, 0) };
        let rest = if blocks > 0 { blocks } else { number - above.number };
        let digit = rest.ilog(width);
        let size = width.pow(digit);
        let first = above.number + rest / size * size * unit;
        let own_block = (first / block + 1) * block;
        let end = first + size * unit;
        let end = if blocks > 0 { end } else { end.min(own_block) };
        Some(Place { number: first, first, end, height: base + digit })
    }

    fn width(self) -> u64 {
        let (Self::KAry { width } | Self::KNomial { width } | Self::Hierarchical { width, .. }) =
            self;
        u64::from(width.clamp(2, MAX_WIDTH))
    }
}

/// Height from which places of whole blocks are counted: more than any within a block.
const ABOVE_BLOCKS: u32 = 64;

/// A place of the unbounded tree.
#[derive(Clone, Copy, Debug)]
struct Place {
    number: u64,
    /// The places here and below have the numbers `first..end`.
    first: u64,
    end: u64,
    /// Grows towards the top.
    height: u32,
}

impl Place {
    fn live(self, live: &BTreeSet<Pn>) -> Option<Pn> {
        u32::try_from(self.number).ok().map(Pn).filter(|pn| live.contains(pn))
    }
}

/// The first live number that is not at a place or below it, nor before it.
fn first_live_after(place: Place, live: &BTreeSet<Pn>) -> Option<Pn> {
    u32::try_from(place.end).ok().and_then(|end| first_live_from(end, live))
}

fn first_live_from(first: u32, live: &BTreeSet<Pn>) -> Option<Pn> {
    live.range(Pn(first)..).next().copied()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    const BINARY: TreeShape = TreeShape::KAry { width: 2 };

    fn live(numbers: &[u32]) -> BTreeSet<Pn> {
        numbers.iter().copied().map(Pn).collect()
    }

    fn position(pn: Pn, live: &BTreeSet<Pn>) -> Option<Position> {
        BINARY.position(pn, live)
    }

    fn all_positions(shape: TreeShape, live: &BTreeSet<Pn>) -> Vec<(Pn, Position)> {
        live.iter().map(|pn| (*pn, shape.position(*pn, live).unwrap())).collect()
    }

    fn depth(shape: TreeShape, pn: Pn, live: &BTreeSet<Pn>) -> u32 {
        let parent = shape.position(pn, live).unwrap().parent;
        parent.map_or(0, |parent| 1 + depth(shape, parent, live))
    }

    fn shapes() -> impl Strategy<Value = TreeShape> {
        prop_oneof![
            Just(BINARY),
            (2_u32..10).prop_map(|width| TreeShape::KAry { width }),
            (2_u32..10).prop_map(|width| TreeShape::KNomial { width }),
            (2_u32..6, 2_u32..40)
                .prop_map(|(width, block)| TreeShape::Hierarchical { width, block }),
        ]
    }

    #[test]
    fn a_wider_tree_has_one_subtree_before_each_number() {
        let live: BTreeSet<Pn> = (0..21).map(Pn).collect();
        let at = |pn| TreeShape::KAry { width: 4 }.position(Pn(pn), &live).unwrap();
        let pns = |numbers: &[u32]| numbers.iter().copied().map(Pn).collect::<Vec<_>>();
        assert_eq!(at(5), Position { parent: None, children: pns(&[1, 7, 12, 17]) });
        assert_eq!(at(12), Position { parent: Some(Pn(5)), children: pns(&[11, 13, 14, 15]) });
    }

    #[test]
    fn a_k_nomial_tree_clears_the_lowest_digit() {
        let live: BTreeSet<Pn> = (0..27).map(Pn).collect();
        let at = |pn| TreeShape::KNomial { width: 3 }.position(Pn(pn), &live).unwrap();
        let pns = |numbers: &[u32]| numbers.iter().copied().map(Pn).collect::<Vec<_>>();
        assert_eq!(at(0), Position { parent: None, children: pns(&[1, 2, 3, 6, 9, 18]) });
        assert_eq!(at(21), Position { parent: Some(Pn(18)), children: pns(&[22, 23]) });
    }

    #[test]
    fn only_the_first_of_a_block_has_neighbours_outside() {
        let live: BTreeSet<Pn> = (0..40).map(Pn).collect();
        let shape = TreeShape::Hierarchical { width: 2, block: 10 };
        for (pn, at) in all_positions(shape, &live) {
            let outside = |one: &Pn| one.0 / 10 != pn.0 / 10;
            let leaves = at.parent.iter().chain(&at.children).any(outside);
            assert_eq!(leaves, pn.0 % 10 == 0, "{pn:?} {at:?}");
        }
        assert_eq!(shape.position(Pn(30), &live).unwrap().parent, Some(Pn(20)));
    }

    #[test]
    fn shapes_that_no_tree_has_are_refused() {
        let refused = |shape: TreeShape| shape.checked().unwrap_err().to_string();
        let width = "a tree of width 1, which must be 2 to 64";
        assert_eq!(refused(TreeShape::KAry { width: 1 }), width);
        assert_eq!(refused(TreeShape::KNomial { width: 65 }), width.replace("h 1", "h 65"));
        let shape = TreeShape::Hierarchical { width: 2, block: 1 };
        assert_eq!(refused(shape), "blocks of 1, which must be at least 2");
        assert!(TreeShape::default().checked().is_ok());
    }

    #[test]
    fn a_dense_group_is_a_search_tree() {
        let live = live(&[0, 1, 2, 3, 4, 5]);
        let at = |pn| position(Pn(pn), &live).unwrap();
        assert_eq!(at(3), Position { parent: None, children: vec![Pn(1), Pn(5)] });
        assert_eq!(at(1), Position { parent: Some(Pn(3)), children: vec![Pn(0), Pn(2)] });
        assert_eq!(at(5), Position { parent: Some(Pn(3)), children: vec![Pn(4)] });
    }

    #[test]
    fn children_of_a_leaver_go_to_its_parent() {
        let root = position(Pn(3), &live(&[0, 2, 3, 4, 5])).unwrap();
        assert_eq!(root.children, vec![Pn(0), Pn(2), Pn(5)]);
    }

    #[test]
    fn the_highest_member_stands_in_for_a_vacant_root() {
        let live = live(&[0, 1, 2, 4, 5, 6, 9]);
        let root = position(Pn(1), &live).unwrap();
        assert_eq!(root, Position { parent: None, children: vec![Pn(0), Pn(2), Pn(5), Pn(9)] });
        assert_eq!(position(Pn(6), &live).unwrap().parent, Some(Pn(5)));
    }

    #[test]
    fn a_number_that_is_not_live_has_no_position() {
        assert_eq!(position(Pn(7), &live(&[0, 1])), None);
        assert!(BINARY.affected(Pn(7), &live(&[0, 1])).is_empty());
    }

    #[test]
    fn the_highest_process_number_is_served() {
        let live = live(&[0, u32::MAX]);
        assert_eq!(position(Pn(0), &live).unwrap().parent, Some(Pn(u32::MAX)));
        assert_eq!(position(Pn(u32::MAX), &live).unwrap().children, vec![Pn(0)]);
    }

    /// Edges between members of different blocks of so many, whose numbers follow one another.
    fn crossings(members: u32, block: u32, parent: impl Fn(Pn) -> Option<Pn>) -> usize {
        let edges = (0..members).filter_map(|pn| Some((pn, parent(Pn(pn))?.0)));
        edges.filter(|(pn, parent)| pn / block != parent / block).count()
    }

    /// 4096 members on 256 leaf switches of 16 midplanes, against the binary heap over the same
    /// numbers.
    #[test]
    fn few_edges_leave_a_leaf_switch_or_a_midplane() {
        let live: BTreeSet<Pn> = (0..4096).map(Pn).collect();
        let ours = |pn| position(pn, &live)?.parent;
        let heap = |pn: Pn| pn.0.checked_sub(1).map(|above| Pn(above / 2));
        assert_eq!([16, 256].map(|block| crossings(4096, block, ours)), [383, 23]);
        assert_eq!([16, 256].map(|block| crossings(4096, block, heap)), [4080, 3840]);
    }

    #[test]
    fn members_that_are_left_may_be_a_chain() {
        let chain = live(&[0, 1, 3, 7, 15, 31]);
        assert_eq!(depth(BINARY, Pn(0), &chain), 5, "6 members; log2 of 32");
    }

    proptest! {
        /// G2, TREE-1, TREE-2
        #[test]
        fn positions_are_one_tree_over_exactly_the_live_members(
            shape in shapes(),
            numbers in proptest::collection::btree_set(0u32..200, 1..60),
        ) {
            let live: BTreeSet<Pn> = numbers.into_iter().map(Pn).collect();
            let root = shape.root(&live).unwrap();
            let is_below = |pn: Pn, top| shape.range(top).contains(&u64::from(pn.0));
            let mut seen_as_child = BTreeSet::new();
            for (pn, at) in all_positions(shape, &live) {
                match at.parent {
                    None => prop_assert_eq!(pn, root),
                    Some(parent) => {
                        prop_assert!(live.contains(&parent));
                        prop_assert!(is_below(pn, parent) || parent == root);
                        let above = shape.position(parent, &live).unwrap();
                        prop_assert!(above.children.contains(&pn));
                    }
                }
                for child in at.children {
                    prop_assert_eq!(shape.position(child, &live).unwrap().parent, Some(pn));
                    prop_assert!(seen_as_child.insert(child));
                }
            }
            seen_as_child.insert(root);
            prop_assert_eq!(seen_as_child, live);
        }

        /// TREE-2: who is on the far side of an edge follows from the numbers.
        #[test]
        fn the_members_below_a_child_are_those_of_its_range(
            shape in shapes(),
            numbers in proptest::collection::btree_set(0u32..200, 1..30),
        ) {
            let live: BTreeSet<Pn> = numbers.into_iter().map(Pn).collect();
            let all: BTreeMap<Pn, Position> = all_positions(shape, &live).into_iter().collect();
            for (pn, _) in all.iter().filter(|(_, at)| at.parent.is_some()) {
                let mut side = BTreeSet::new();
                let mut open = vec![*pn];
                while let Some(one) = open.pop() {
                    side.insert(one);
                    open.extend(&all[&one].children);
                }
                let range = shape.range(*pn);
                let within = live.iter().copied().filter(|one| range.contains(&u64::from(one.0)));
                prop_assert_eq!(side, within.collect::<BTreeSet<_>>());
            }
        }

        #[test]
        fn wider_trees_are_as_low_as_their_width_says(
            width in 2_u32..9,
            members in 1_u32..150,
        ) {
            let live: BTreeSet<Pn> = (0..members).map(Pn).collect();
            let most = members.ilog(width) + 1;
            for shape in [TreeShape::KAry { width }, TreeShape::KNomial { width }] {
                let deepest = live.iter().map(|pn| depth(shape, *pn, &live)).max();
                prop_assert!(deepest.unwrap() <= most, "{:?} {:?} {}", shape, deepest, most);
            }
            let widest = |shape| {
                let all = all_positions(shape, &live).into_iter();
                all.map(|(_, at)| at.children.len()).max().unwrap()
            };
            let most = usize::try_from(width).unwrap();
            let found = widest(TreeShape::KAry { width });
            prop_assert!(found <= most);
        }

        #[test]
        fn a_tree_with_gaps_is_as_flat_as_one_of_all_numbers_up_to_the_highest(
            numbers in proptest::collection::btree_set(0u32..1000, 1..30),
        ) {
            let live: BTreeSet<Pn> = numbers.into_iter().map(Pn).collect();
            let most = (live.last().unwrap().0 + 1).ilog2();
            for pn in &live {
                prop_assert!(depth(BINARY, *pn, &live) <= most, "{:?} of {:?}", pn, live);
            }
        }

        #[test]
        fn a_dense_tree_is_as_flat_as_a_heap(members in 1u32..2000, pick in 0u32..2000) {
            let live: BTreeSet<Pn> = (0..members).map(Pn).collect();
            prop_assert!(depth(BINARY, Pn(pick % members), &live) <= members.ilog2());
            prop_assert_eq!(depth(BINARY, Pn(0), &live), members.ilog2(), "the first is the deepest");
        }

        /// TREE-3, and the paper's rule that a newcomer takes the position and the children back.
        #[test]
        fn a_leave_changes_only_the_neighbours_and_a_join_restores_them(
            shape in shapes(),
            numbers in proptest::collection::btree_set(0u32..100, 2..40),
            pick in any::<proptest::sample::Index>(),
        ) {
            let before: BTreeSet<Pn> = numbers.into_iter().map(Pn).collect();
            let leaver = *before.iter().nth(pick.index(before.len())).unwrap();
            let mut after = before.clone();
            after.remove(&leaver);
            let touched = shape.affected(leaver, &before);
            for (pn, at) in all_positions(shape, &after) {
                let same = shape.position(pn, &before).as_ref() == Some(&at);
                prop_assert_eq!(!same, touched.contains(&pn), "{:?}", pn);
            }
            let parent = shape.position(leaver, &before).unwrap().parent;
            if let Some(parent) = parent {
                for child in shape.position(leaver, &before).unwrap().children {
                    prop_assert_eq!(shape.position(child, &after).unwrap().parent, Some(parent));
                }
            }
            after.insert(leaver);
            prop_assert_eq!(all_positions(shape, &after), all_positions(shape, &before));
        }
    }
}
