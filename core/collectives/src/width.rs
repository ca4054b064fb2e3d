//! Chooses the width of an adapter tree: the paper's equations (5) and (6).
//!
//! A wider tree is lower, so packets cross fewer links in sequence, but each node handles more
//! packets. F(k) = (a + b k) log_k P falls until k (ln k - 1) = a/b, rises from there on, and is
//! flat around the minimum.

use std::ops::RangeInclusive;

use crate::cost::CostParameters;
use crate::operation::Operation;

/// Trade-off of the width: time per level against time per child.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trade {
    /// Time of a packet's way to the next level, in microseconds (a = δl).
    pub per_level_us: f64,
    /// Time a node takes for a child's packet, in microseconds (b = θ + S'β + S*γ).
    pub per_child_us: f64,
}

/// Range of the widths that are about as good as the best one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WidthRange {
    /// Narrowest width that is about as good.
    pub min: u32,
    /// Width of the least time.
    pub best: u32,
    /// Widest width that is about as good.
    pub max: u32,
}

impl WidthRange {
    /// Returns the widths, both ends included.
    #[must_use]
    pub const fn widths(self) -> RangeInclusive<u32> {
        self.min..=self.max
    }
}

impl Trade {
    /// Creates the trade-off of an operation on messages of `bytes`.
    #[must_use]
    pub fn new(parameters: &CostParameters, operation: Operation, bytes: u32) -> Self {
        Self {
            per_level_us: parameters.path_links * parameters.link_us,
            per_child_us: parameters.per_child_us(operation, bytes),
        }
    }

    /// Returns F(k) for a tree of `width` (at least 2) over `processes` (at least 1), in
    /// microseconds.
    #[must_use]
    pub fn latency_us(self, width: u32, processes: u32) -> f64 {
        let width = f64::from(width.max(2));
        let levels = f64::from(processes.max(1)).ln() / width.ln();
        (self.per_level_us + self.per_child_us * width) * levels
    }

    /// Returns the width, not a whole number, where F'(k) = 0; none if children cost nothing, so
    /// that wider is always better.
    #[must_use]
    pub fn stationary_width(self) -> Option<f64> {
        let target = self.per_level_us / self.per_child_us;
        if !target.is_finite() {
            return None;
        }
        let above = |k: f64| k * (k.ln() - 1.0) > target;
        let (mut low, mut high) = (1.0, 4.0);
        while !above(high) {
            high *= 2.0;
        }
        // 200 halvings leave nothing between two neighbouring numbers.
        for _ in 0..200 {
            let middle = low + (high - low) / 2.0;
            if above(middle) { high = middle } else { low = middle }
        }
        Some(high)
    }

    /// Finds the best width between 2 and `most` (taken as at least 2), the smaller of two equal
    /// ones. It does not depend on the number of processes.
    #[must_use]
    pub fn best_width(self, most: u32) -> u32 {
        // F falls up to the best width and does not fall after it.
        let (mut low, mut high) = (2, most.max(2));
        while low < high {
            let middle = low + (high - low) / 2;
            if self.latency_us(middle + 1, 3) < self.latency_us(middle, 3) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Finds the widths between 2 and `most` whose latency is at most `tolerance_us` above the
    /// best's.
    #[must_use]
    pub fn width_range(self, processes: u32, most: u32, tolerance_us: f64) -> WidthRange {
        let best = self.best_width(most);
        let limit = self.latency_us(best, processes) + tolerance_us.max(0.0);
        let good = |width| self.latency_us(width, processes) <= limit;
        let (mut low, mut high) = (2, best);
        while low < high {
            let middle = low + (high - low) / 2;
            if good(middle) { high = middle } else { low = middle + 1 }
        }
        let min = low;
        let (mut low, mut high) = (best, most.max(2));
        while low < high {
            let middle = high - (high - low) / 2;
            if good(middle) { low = middle } else { high = middle - 1 }
        }
        WidthRange { min, best, max: low }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn children_that_cost_nothing_want_the_widest_tree() {
        let trade = Trade { per_level_us: 1.0, per_child_us: 0.0 };
        assert_eq!(trade.stationary_width(), None);
        assert_eq!(trade.best_width(500), 500);
    }

    #[test]
    fn a_limit_of_one_child_still_gives_a_tree() {
        let trade = Trade { per_level_us: 1.0, per_child_us: 0.1 };
        assert_eq!(trade.best_width(0), 2);
        assert_eq!(trade.width_range(9, 1, 0.1), WidthRange { min: 2, best: 2, max: 2 });
    }

    proptest! {
        #[test]
        fn the_best_width_and_its_range_are_what_a_search_finds(
            per_level_us in 0.01..5.0_f64,
            per_child_us in 0.002..0.5_f64,
            processes in 2..2_000_u32,
            most in 2..700_u32,
            tolerance in 0.0..0.3_f64,
        ) {
            let trade = Trade { per_level_us, per_child_us };
            let cost = |width: &u32| trade.latency_us(*width, processes);
            let best = (2..=most).min_by(|a, b| cost(a).total_cmp(&cost(b))).unwrap();
            let range = trade.width_range(processes, most, tolerance);
            prop_assert!((cost(&range.best) - cost(&best)).abs() < 1e-9, "{range:?} {best}");
            let limit = cost(&range.best) + tolerance;
            let good: Vec<u32> = (2..=most).filter(|width| cost(width) <= limit).collect();
            prop_assert_eq!(good, range.widths().collect::<Vec<_>>());
        }

        #[test]
        fn larger_messages_want_narrower_trees(bytes in 0..100_000_u32, more in 1..100_000_u32) {
            let parameters = CostParameters { reduce_us_per_byte: 0.001, ..CostParameters::PAPER };
            let best = |bytes| Trade::new(&parameters, Operation::Reduce, bytes).best_width(512);
            prop_assert!(best(bytes + more) <= best(bytes));
        }

        #[test]
        fn the_stationary_width_lies_beside_the_best(per_child_us in 0.002..0.5_f64) {
            let trade = Trade { per_level_us: 1.12, per_child_us };
            let root = trade.stationary_width().unwrap();
            prop_assert!((f64::from(trade.best_width(10_000)) - root).abs() < 1.0);
        }
    }
}
