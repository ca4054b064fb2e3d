//! Chooses the parts of a unit so that the fewest nodes are wasted.

use fixedbitset::FixedBitSet;

/// Marks an unreachable sum in a column of counts.
const NEVER: u32 = u32::MAX;

/// Chooses sizes that add up to at least `need`: with the smallest excess, then with the fewest
/// sizes. Returns their indices, ascending; `None` if all sizes together are too small.
///
/// While more than twice the largest size is missing, the largest is taken; the rest is exact.
/// Cost: the number of sizes times three times the largest.
pub(super) fn cover(sizes: &[u32], need: u32) -> Option<Vec<usize>> {
    let total: u64 = sizes.iter().map(|size| u64::from(*size)).sum();
    if total < u64::from(need) {
        return None;
    }
    let mut order: Vec<usize> = (0..sizes.len()).filter(|at| sizes[*at] > 0).collect();
    order.sort_by_key(|at| (std::cmp::Reverse(sizes[*at]), *at));
    let largest = order.first().map_or(0, |at| sizes[*at]);
    let mut chosen = Vec::new();
    let (mut missing, mut rest) = (need, &order[..]);
    while let [first, others @ ..] = rest
        && u64::from(missing) > 2 * u64::from(largest)
    {
        missing = missing.saturating_sub(sizes[*first]);
        chosen.push(*first);
        rest = others;
    }
    chosen.extend(exact(sizes, rest, missing as usize, largest as usize));
    chosen.sort_unstable();
    Some(chosen)
}

/// Solves the rest exactly among the sizes at `order`, which suffice, by dynamic programming over
/// all sums below `need + largest`.
fn exact(sizes: &[u32], order: &[usize], need: usize, largest: usize) -> Vec<usize> {
    let sums = need + largest.max(1); // a sum above could do without one of its parts
    let mut fewest = vec![NEVER; sums];
    fewest[0] = 0;
    let mut used = Vec::with_capacity(order.len());
    for at in order {
        let size = sizes[*at] as usize;
        let mut uses = FixedBitSet::with_capacity(sums);
        for sum in (size..sums).rev() {
            let with = fewest[sum - size].saturating_add(1);
            if with < fewest[sum] {
                fewest[sum] = with;
                uses.insert(sum);
            }
        }
        used.push(uses);
    }
    let reached = (need..sums).find(|sum| fewest[*sum] != NEVER);
    let mut left = reached.expect("the sizes are enough");
    let mut chosen = Vec::new();
    for (at, uses) in order.iter().zip(&used).rev() {
        if uses.contains(left) {
            chosen.push(*at);
            left -= sizes[*at] as usize;
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_least_is_wasted_then_the_fewest_are_used() {
        assert_eq!(cover(&[4, 3, 2], 6), Some(vec![0, 2]));
        assert_eq!(cover(&[4, 4, 1], 5), Some(vec![0, 2]));
        assert_eq!(cover(&[5, 5], 4), Some(vec![0]));
        assert_eq!(cover(&[1, 0, 1], 3), None);
        assert_eq!(cover(&[1, 0, 1], 0), Some(vec![]));
    }

    #[test]
    fn many_equal_parts_are_quick_and_waste_nothing_that_can_be_saved() {
        let sizes = vec![512; 2_000];
        let chosen = cover(&sizes, 700_001).unwrap();
        assert_eq!(chosen.len(), 1_368);
    }

    proptest! {
        #[test]
        fn no_other_choice_wastes_less_or_uses_fewer(
            sizes in proptest::collection::vec(0u32..9, 0..9), need in 0u32..18,
        ) {
            let every = 0u32..1 << sizes.len();
            let sum = |set: u32| -> u32 {
                (0..).zip(&sizes).filter(|(at, _)| set >> at & 1 == 1).map(|(_, size)| size).sum()
            };
            let best = every.filter(|set| sum(*set) >= need)
                .map(|set| (sum(set), set.count_ones()))
                .min();
            let chosen = cover(&sizes, need).map(|chosen| {
                let sum: u32 = chosen.iter().map(|at| sizes[*at]).sum();
                (sum, u32::try_from(chosen.len()).unwrap())
            });
            if need <= 2 * sizes.iter().max().copied().unwrap_or(0) {
                prop_assert_eq!(chosen, best);
            } else {
                prop_assert_eq!(chosen.is_some(), best.is_some());
                prop_assert!(chosen.is_none_or(|(sum, _)| sum >= need));
            }
        }
    }
}
