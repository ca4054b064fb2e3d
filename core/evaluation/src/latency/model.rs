//! The summary of measured times, and the papers' small message.

use fabricast_simulator::{Model, MulticastPolicy};

use crate::hardware::Latency;

/// The papers' small message, in bytes.
pub(super) const SMALL: u32 = 8;

/// Gives the constants of the simulator.
pub(super) fn model(hardware: &Latency) -> Model {
    hardware.link.model(MulticastPolicy::Bulletin)
}

/// Times of one measurement, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Summary {
    pub(super) count: usize,
    pub(super) mean_us: f64,
    pub(super) median_us: f64,
    pub(super) tail_us: f64, // 99 % are not above it
}

impl Summary {
    /// Sums up times in picoseconds, in any order; all 0 if there are none.
    pub(super) fn of(times_ps: &[u64]) -> Self {
        let mut sorted = times_ps.to_vec();
        sorted.sort_unstable();
        let Some(last) = sorted.len().checked_sub(1) else {
            return Self { count: 0, mean_us: 0.0, median_us: 0.0, tail_us: 0.0 };
        };
        let at = |percent: usize| sorted[last * percent / 100] as f64 / 1e6;
        let sum: u64 = sorted.iter().sum();
        let mean_us = sum as f64 / sorted.len() as f64 / 1e6;
        Self { count: sorted.len(), mean_us, median_us: at(50), tail_us: at(99) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_do_not_depend_on_the_order() {
        let summary = Summary::of(&[3_000_000, 1_000_000, 2_000_000]);
        let expected = Summary { count: 3, mean_us: 2.0, median_us: 2.0, tail_us: 2.0 };
        assert_eq!(summary, expected);
        assert_eq!(Summary::of(&[]).count, 0);
    }
}
