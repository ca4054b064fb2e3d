//! The unicast tree of a group as a function of its live process numbers.
//!
//! The paper (Wu et al. 1997, tree maintenance) mends a tree step by step: the children of a
//! leaver go to its parent, and a newcomer takes a vacant position and the children it had. Both
//! follow from one rule without any memory: PN `n` has the place `n` of a binary heap, and its
//! parent is the nearest live place above it. Agents that agree on the members thus agree on the
//! tree, whatever order they heard of the changes in.
//!
//! Invariants
//! - TREE-1: the positions of the live members are one tree over exactly them (G2).
//! - TREE-2: every parent has a lower number than its child; the root is the lowest.
//! - TREE-3: a join or leave changes the position of its own PN, its parent and its children only.

use std::collections::BTreeSet;

use crate::ids::Pn;

/// Answers where `pn` sits in the tree over `live`; `None` if it is not live.
///
/// Cost: O(children x depth) look-ups in `live`, however sparse it is.
pub fn position(pn: Pn, live: &BTreeSet<Pn>) -> Option<Position> {
    if !live.contains(&pn) {
        return None;
    }
    Some(Position { parent: parent(pn, live), children: children(pn, live) })
}

/// Answers every PN whose position differs between `live` and `live` without `pn`: itself, its
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

fn parent(pn: Pn, live: &BTreeSet<Pn>) -> Option<Pn> {
    let root = *live.first()?;
    if pn == root {
        return None;
    }
    let mut place = pn.0;
    while place > root.0 {
        place = (place - 1) / 2;
        if live.contains(&Pn(place)) {
            return Some(Pn(place));
        }
    }
    Some(root) // no live place above it: the root stands in for the vacant top
}

fn children(pn: Pn, live: &BTreeSet<Pn>) -> Vec<Pn> {
    // The root also has those below no live place, so it looks from the top, through itself.
    let top = if Some(&pn) == live.first() { 0 } else { u64::from(pn.0) };
    let mut found = Vec::new();
    let mut open = vec![top];
    while let Some(place) = open.pop() {
        for below in [2 * place + 1, 2 * place + 2] {
            match u32::try_from(below).map(Pn) {
                Ok(child) if child != pn && live.contains(&child) => found.push(child),
                Ok(_) if any_live_below(below, live) => open.push(below),
                Ok(_) | Err(_) => {}
            }
        }
    }
    found.sort_unstable();
    found
}

/// Answers whether a live member sits strictly below a place; each level below is one range.
fn any_live_below(place: u64, live: &BTreeSet<Pn>) -> bool {
    let (mut first, mut last) = (2 * place + 1, 2 * place + 2);
    while let Ok(start) = u32::try_from(first) {
        let end = u32::try_from(last).unwrap_or(u32::MAX);
        if live.range(Pn(start)..=Pn(end)).next().is_some() {
            return true;
        }
        (first, last) = (2 * first + 1, 2 * last + 2);
    }
    false
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
    fn a_dense_group_is_the_binary_heap() {
        let live = live(&[0, 1, 2, 3, 4, 5]);
        let one = position(Pn(1), &live).unwrap();
        assert_eq!(one, Position { parent: Some(Pn(0)), children: vec![Pn(3), Pn(4)] });
    }

    #[test]
    fn children_of_a_leaver_go_to_its_parent() {
        let root = position(Pn(0), &live(&[0, 2, 3, 4, 5])).unwrap();
        assert_eq!(root.children, vec![Pn(2), Pn(3), Pn(4)]);
    }

    #[test]
    fn the_lowest_member_stands_in_for_a_vacant_root() {
        let live = live(&[2, 3, 4, 5, 9]);
        let root = position(Pn(2), &live).unwrap();
        assert_eq!(root, Position { parent: None, children: vec![Pn(3), Pn(4), Pn(5)] });
        assert_eq!(position(Pn(9), &live).unwrap().parent, Some(Pn(4)));
    }

    #[test]
    fn a_stranger_has_no_position() {
        assert_eq!(position(Pn(7), &live(&[0, 1])), None);
        assert!(affected(Pn(7), &live(&[0, 1])).is_empty());
    }

    #[test]
    fn the_highest_process_number_is_served() {
        let live = live(&[0, u32::MAX]);
        assert_eq!(position(Pn(u32::MAX), &live).unwrap().parent, Some(Pn(0)));
        assert_eq!(position(Pn(0), &live).unwrap().children, vec![Pn(u32::MAX)]);
    }

    proptest! {
        /// G2, TREE-1, TREE-2
        #[test]
        fn positions_are_one_tree_over_exactly_the_live_members(
            numbers in proptest::collection::btree_set(0u32..200, 1..60),
        ) {
            let live: BTreeSet<Pn> = numbers.into_iter().map(Pn).collect();
            let root = *live.first().unwrap();
            let mut seen_as_child = BTreeSet::new();
            for (pn, at) in all_positions(&live) {
                match at.parent {
                    None => prop_assert_eq!(pn, root),
                    Some(parent) => {
                        prop_assert!(live.contains(&parent) && parent < pn);
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
        fn a_dense_tree_is_as_flat_as_a_heap(members in 1u32..2000) {
            let live: BTreeSet<Pn> = (0..members).map(Pn).collect();
            let deepest = depth(Pn(members - 1), &live);
            prop_assert!(deepest <= members.ilog2());
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
