//! What trees cost in time, on the simulator: MR4LMS tables 1 and 2; C-MR4LMS table 1, figures 11 and 12.
//!
//! The papers measured on Sunway machines. Our constants are those below; which were fitted, and to
//! which published number, the report says.

use fabricast_simulator::{Model, MulticastPolicy};

mod claims;
mod collectives;
mod figures;
mod trees;
mod turns;

use crate::experiment::{Experiment, ExperimentError, Run};
use crate::report::Report;

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "latency",
    title: "what height, shared links and engines cost in time, by packet-level simulation",
    source: "MR4LMS tables 1 and 2; C-MR4LMS §4.4, table 1, figures 11 and 12",
    repeats_rounds: true,
    run,
};

/// Links of 100 Gbit/s; 20 ns of cable, 100 ns of switch.
const MODEL: Model = Model {
    ps_per_byte: 80,
    wire_ps: 20_000,
    switch_ps: 100_000,
    channels: 1,
    buffer_bytes: 16_384,
    multicast: MulticastPolicy::Bulletin,
};
/// Bytes of a packet beside its data.
const HEADER: u32 = 56;
/// The papers' small message.
const SMALL: u32 = 8;
/// Host time of a message of the turns: fitted to the small message's +20 % in MR4LMS table 1.
const SOFTWARE_PS: u64 = 1_055_000;
/// Host time of a byte of a longer message: fitted to +15 % at 2 KiB there.
const COPY_PS: u64 = 113;
/// Mean of the exponential noise on top of the host time; ours.
const NOISE_PS: u64 = 20_000;
/// Width of the gathering tree (aggregation-tree paper, §2).
const FAN_IN: u32 = 32;
/// Time of an adapter to match a packet, or to find that it is for another group: fitted to the barrier's -10 %
/// in C-MR4LMS §4.4.
const MATCH_PS: u64 = 55_000;
/// Time of a process between two collectives: fitted to the -40 % of 2 KiB there.
const MPI_PS: u64 = 6_500_000;
/// Mean of the exponential noise on top of it; ours.
const MPI_NOISE_PS: u64 = 500_000;

/// Times of one measurement, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Summary {
    count: usize,
    mean_us: f64,
    median_us: f64,
    tail_us: f64, // 99 % are not above it
}

impl Summary {
    /// Sums up times in picoseconds, in any order; all 0 if there are none.
    fn of(times_ps: &[u64]) -> Self {
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

fn run(run: &mut Run<'_>) -> Result<Report, ExperimentError> {
    let of = trees::steps(run.quick) + collectives::steps(run.quick);
    let mut done = 0;
    let mut step = |run: &mut Run<'_>, what: &str| {
        run.step(done, of, what);
        done += 1;
    };
    let heights = trees::heights(run, &mut step)?;
    let shared = trees::shared(run, &mut step)?;
    let timed = collectives::timed(run, &mut step)?;
    let cut = collectives::cut(run, &mut step)?;
    Ok(figures::report(run, &figures::Found { heights, shared, timed, cut }))
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
