//! The unicast tree of a group, a function of its live process numbers.
//!
//! The paper (Wu et al. 1997, tree maintenance) repairs a tree step by step: the children of a
//! leaver move to its parent, and a newcomer takes a vacant position with the children it had. Both
//! follow from one stateless rule. PN `n` has place `n` in an unbounded binary search tree; its
//! parent is the nearest live place above it. Agents that agree on the members thus agree on the
//! tree, in whatever order they learned of the changes.
//!
//! ```text
//!               7
//!       3              11      above 0, 2, 4, ... are 1, 5, 9, ..., above those 3, 11, 19, ...
//!    1     5        9      13
//!   0 2   4 6     8 10   12 14
//! ```
//!
//! The places below a place are a range of numbers. Where numbers follow the fabric, as a launcher
//! assigns them, the members of one leaf switch or midplane are therefore in one subtree, and few
//! edges leave it.
//!
//! No member is deeper than log2 of the highest live number plus one; that is the paper's bound if
//! the numbers have no gaps. After leaves the tree may be deeper than log2 of the members that are
//! left: of 32, the members 0, 1, 3, 7, 15 and 31 are a chain. A newcomer gets the lowest free
//! number, so gaps are filled first. The root is a member like any other, and not the group's
//! agent, which may be on another node.
//!
//! Invariants
//! - TREE-1: the positions of the live members are one tree over exactly them (G2).
//! - TREE-2: the members at a place and below it have the numbers of one range, whichever are live;
//!   the root is the highest live place.
//! - TREE-3: a join or leave changes the position of its own PN, its parent and its children only.

use std::collections::BTreeSet;

use crate::ids::Pn;

/// Returns the position of `pn` in the tree over `live`; `None` if it is not live.
///
/// Cost: O(children x depth) look-ups in `live`, however sparse it is.
pub fn position(pn: Pn, live: &BTreeSet<Pn>) -> Option<Position> {
    if !live.contains(&pn) {
        return None;
    }
    Some(Position { parent: parent(pn, live), children: children(pn, live) })
}

/// Returns every PN whose position differs between `live` and `live` without `pn`: itself, its
/// parent and its children, ascending.
///
/// Call it with `pn` live: after its join, or before its leave. Cost: as [`position`].
pub fn affected(pn: Pn, live: &BTreeSet<Pn>) -> Vec<Pn> {
    let Some(Position { parent, children }) = position(pn, live) else {
        return Vec::new();
    };
    let mut all: Vec<Pn> = parent.into_iter().chain([pn]).chain(children).collect();
    all.sort_unstable();
    all
}

/// A member's neighbours in the tree.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Position {
    /// The neighbour towards the root; `None` at the root.
    pub parent: Option<Pn>,
    /// The neighbours away from the root, ascending.
    pub children: Vec<Pn>,
}

/// Returns whether a place is `top` or below it, whichever members are live. Only the numbers
/// matter.
pub fn is_below(pn: Pn, top: Pn) -> bool {
    Place::of(top).covers(Place::of(pn))
}

/// A place of the unbounded tree, stored as PN + 1. Its lowest set bit is its height.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place(u64);

/// The place above all others.
const TOP: Place = Place(1 << 32);

impl Place {
    fn of(pn: Pn) -> Self {
        Self(u64::from(pn.0) + 1)
    }

    fn pn(self) -> Option<Pn> {
        u32::try_from(self.0 - 1).ok().map(Pn)
    }

    fn height(self) -> u64 {
        self.0 & self.0.wrapping_neg()
    }

    fn above(self) -> Option<Self> {
        let height = self.height();
        (self != TOP).then_some(Self((self.0 ^ height) | (height << 1)))
    }

    fn below(self) -> impl Iterator<Item = Self> {
        let half = self.height() / 2;
        [self.0 - half, self.0 + half].into_iter().filter(move |_| half > 0).map(Self)
    }

    fn covers(self, other: Self) -> bool {
        self.0.abs_diff(other.0) < self.height()
    }

    /// Returns whether a live member is here or below; these places are one range.
    fn has_any(self, live: &BTreeSet<Pn>) -> bool {
        let (first, last) = (self.0 - self.height(), self.0 + self.height() - 2);
        let last = u32::try_from(last).unwrap_or(u32::MAX);
        let first = u32::try_from(first).map(Pn);
        first.is_ok_and(|first| live.range(first..=Pn(last)).next().is_some())
    }
}

/// Returns the live member with the highest place; of several at one height, the lowest number.
///
/// Cost: O(1) look-ups while the highest places are taken, at most O(live).
fn root(live: &BTreeSet<Pn>) -> Option<Pn> {
    let last = Place::of(*live.last()?).0;
    let mut height = 1 << last.ilog2();
    while usize::try_from(last / height).is_ok_and(|places| places <= live.len()) {
        let row = (height..=last).step_by(usize::try_from(2 * height).ok()?);
        let mut taken = row.filter_map(|place| Place(place).pn()).filter(|pn| live.contains(pn));
        if let Some(pn) = taken.next() {
            return Some(pn);
        }
        height = (height / 2).max(1);
    }
    live.iter().copied().rev().max_by_key(|pn| Place::of(*pn).height())
}

fn parent(pn: Pn, live: &BTreeSet<Pn>) -> Option<Pn> {
    let mut place = Place::of(pn);
    while let Some(above) = place.above() {
        place = above;
        if let Some(parent) = place.pn().filter(|pn| live.contains(pn)) {
            return Some(parent);
        }
    }
    root(live).filter(|root| *root != pn) // a member without a live place above it is below the root
}

fn children(pn: Pn, live: &BTreeSet<Pn>) -> Vec<Pn> {
    // Members below no live place are children of the root, so the root searches from the top.
    let mut open = vec![if root(live) == Some(pn) { TOP } else { Place::of(pn) }];
    let mut found = Vec::new();
    while let Some(place) = open.pop() {
        match place.pn().filter(|child| *child != pn && live.contains(child)) {
            Some(child) => found.push(child),
            None => open.extend(place.below().filter(|below| below.has_any(live))),
        }
    }
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn live(numbers: &[u32]) -> BTreeSet<Pn> {
        numbers.iter().copied().map(Pn).collect()
    }

    fn all_positions(live: &BTreeSet<Pn>) -> Vec<(Pn, Position)> {
        live.iter().map(|pn| (*pn, position(*pn, live).unwrap())).collect()
    }

    fn depth(pn: Pn, live: &BTreeSet<Pn>) -> u32 {
        position(pn, live).unwrap().parent.map_or(0, |parent| 1 + depth(parent, live))
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
        assert!(affected(Pn(7), &live(&[0, 1])).is_empty());
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
        let ours = |pn| parent(pn, &live);
        let heap = |pn: Pn| pn.0.checked_sub(1).map(|above| Pn(above / 2));
        assert_eq!([16, 256].map(|block| crossings(4096, block, ours)), [383, 23]);
        assert_eq!([16, 256].map(|block| crossings(4096, block, heap)), [4080, 3840]);
    }

    #[test]
    fn members_that_are_left_may_be_a_chain() {
        let chain = live(&[0, 1, 3, 7, 15, 31]);
        assert_eq!(depth(Pn(0), &chain), 5, "6 members; log2 of 32");
    }

    proptest! {
        /// G2, TREE-1, TREE-2
        #[test]
        fn positions_are_one_tree_over_exactly_the_live_members(
            numbers in proptest::collection::btree_set(0u32..200, 1..60),
        ) {
            let live: BTreeSet<Pn> = numbers.into_iter().map(Pn).collect();
            let root = root(&live).unwrap();
            let mut seen_as_child = BTreeSet::new();
            for (pn, at) in all_positions(&live) {
                match at.parent {
                    None => prop_assert_eq!(pn, root),
                    Some(parent) => {
                        prop_assert!(live.contains(&parent));
                        prop_assert!(is_below(pn, parent) || parent == root);
                        prop_assert!(position(parent, &live).unwrap().children.contains(&pn));
                    }
                }
                for child in at.children {
                    prop_assert_eq!(position(child, &live).unwrap().parent, Some(pn));
                    prop_assert!(seen_as_child.insert(child));
                }
            }
            seen_as_child.insert(root);
            prop_assert_eq!(seen_as_child, live);
        }

        #[test]
        fn a_tree_with_gaps_is_as_flat_as_one_of_all_numbers_up_to_the_highest(
            numbers in proptest::collection::btree_set(0u32..1000, 1..30),
        ) {
            let live: BTreeSet<Pn> = numbers.into_iter().map(Pn).collect();
            let most = (live.last().unwrap().0 + 1).ilog2();
            for pn in &live {
                prop_assert!(depth(*pn, &live) <= most, "{:?} of {:?}", pn, live);
            }
        }

        #[test]
        fn a_dense_tree_is_as_flat_as_a_heap(members in 1u32..2000, pick in 0u32..2000) {
            let live: BTreeSet<Pn> = (0..members).map(Pn).collect();
            prop_assert!(depth(Pn(pick % members), &live) <= members.ilog2());
            prop_assert_eq!(depth(Pn(0), &live), members.ilog2(), "the first is the deepest");
        }

        /// TREE-3, and the paper's rule that a newcomer takes the position and the children back.
        #[test]
        fn a_leave_changes_only_the_neighbours_and_a_join_restores_them(
            numbers in proptest::collection::btree_set(0u32..100, 2..40),
            pick in any::<proptest::sample::Index>(),
        ) {
            let before: BTreeSet<Pn> = numbers.into_iter().map(Pn).collect();
            let leaver = *before.iter().nth(pick.index(before.len())).unwrap();
            let mut after = before.clone();
            after.remove(&leaver);
            let touched = affected(leaver, &before);
            for (pn, at) in all_positions(&after) {
                let same = position(pn, &before).as_ref() == Some(&at);
                prop_assert_eq!(!same, touched.contains(&pn), "{:?}", pn);
            }
            let parent = position(leaver, &before).unwrap().parent;
            if let Some(parent) = parent {
                for child in position(leaver, &before).unwrap().children {
                    prop_assert_eq!(position(child, &after).unwrap().parent, Some(parent));
                }
            }
            after.insert(leaver);
            prop_assert_eq!(all_positions(&after), all_positions(&before));
        }
    }
}
