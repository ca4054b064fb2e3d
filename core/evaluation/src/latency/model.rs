//! The constants of the simulation, and the summary of measured times.

use fabricast_simulator::{Model, MulticastPolicy};

/// Links of 100 Gbit/s; 20 ns of cable, 100 ns of switch.
pub(super) const MODEL: Model = Model {
    ps_per_byte: 80,
    wire_ps: 20_000,
    switch_ps: 100_000,
    channels: 1,
    buffer_bytes: 16_384,
    multicast: MulticastPolicy::Bulletin,
};
/// Bytes of a packet beside its data.
pub(super) const HEADER: u32 = 56;
/// The papers' small message.
pub(super) const SMALL: u32 = 8;
/// Host time of a message of the turns: fitted to the small message's +20 % in MR4LMS table 1.
pub(super) const SOFTWARE_PS: u64 = 1_055_000;
/// Host time of a byte of a longer message: fitted to +15 % at 2 KiB there.
pub(super) const COPY_PS: u64 = 113;
/// Mean of the exponential noise on top of the host time; ours.
pub(super) const NOISE_PS: u64 = 20_000;
/// Width of the gathering tree (aggregation-tree paper, §2).
pub(super) const FAN_IN: u32 = 32;
/// Time of an adapter to match a packet, or to find that it is for another group: fitted to the
/// barrier's -10 % in C-MR4LMS §4.4.
pub(super) const MATCH_PS: u64 = 55_000;
/// Time of a process between two collectives: fitted to the -40 % of 2 KiB there.
pub(super) const MPI_PS: u64 = 6_500_000;
/// Mean of the exponential noise on top of it; ours.
pub(super) const MPI_NOISE_PS: u64 = 500_000;

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
