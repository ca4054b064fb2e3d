//! Which side of an edge a member is on, from its number alone.
//!
//! The tree's places are those of a binary heap (`fabricast_groups::tree`), and a member's parent is the nearest
//! live place above it. So whoever is, or ever will be, on the far side of the edge to a child is
//! below that child's place, and what a child says of its side stays true when the edge is gone.

use fabricast_groups::Pn;

/// Answers whether a place is `top` or below it.
pub(crate) fn is_below(pn: Pn, top: Pn) -> bool {
    let mut place = pn.0;
    while place > top.0 {
        place = (place - 1) / 2;
    }
    place == top.0
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use fabricast_groups::tree::position;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        /// The far side of every edge is what the rule says, whoever lives.
        #[test]
        fn sides_are_heap_subtrees(numbers in prop::collection::btree_set(0u32..60, 1..16)) {
            let live: BTreeSet<Pn> = numbers.into_iter().map(Pn).collect();
            for child in &live {
                if position(*child, &live).unwrap().parent.is_none() {
                    continue;
                }
                for pn in &live {
                    let mut up = *pn;
                    while let Some(parent) = position(up, &live).unwrap().parent.filter(|_| up != *child) {
                        up = parent;
                    }
                    prop_assert_eq!(is_below(*pn, *child), up == *child, "{:?} {:?}", pn, child);
                }
            }
        }
    }
}
