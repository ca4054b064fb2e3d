//! The experiments on aggregation trees: what trees cost, and the entries they take (figures 4 to
//! 6, 12, 13, 15, 16, 18 to 20, tables 2 to 4).
//!
//! Times come from the cost model with the published constants, from following every packet of a
//! tree through the test fabric, and from the packet-level simulator; nothing is measured, so that
//! the same comes out everywhere.

mod claims;
mod congestion;
mod creations;
mod entries;
mod figures;
mod parameters;
mod simulated;
mod timing;

use crate::experiment::{Experiment, ExperimentError, Run};
use crate::report::Report;
use figures::Found;
use parameters::MOST;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "aggregation",
    title: "latency of adapter and switch trees, entries taken and creations failed",
    source: "aggregation trees §2.3 to §6, figures 4 to 6, 12, 13, 15, 16, 18 to 20, tables 2 to 4",
    repeats_rounds: false,
    run,
};

fn run(run: &mut Run<'_>) -> Result<Report, ExperimentError> {
    let counts = [4, 8, 16, 32, 64, 128, 256, MOST];
    run.step(0, 4, "times of trees");
    let idle =
        timing::Idle::new(&counts).map_err(ExperimentError::at("trees on the test fabric"))?;
    run.step(1, 4, "a pruned fat tree with noise");
    let noisy = congestion::Noisy::new(&counts)
        .map_err(ExperimentError::at("trees on the pruned test fabric"))?;
    run.step(2, 4, "trees on the packet-level simulator");
    let simulated = simulated::Simulated::new(run, &counts)?;
    run.step(3, 4, "entries of the patterns");
    let outcomes = entries::measure(run)?;
    let found = Found { idle, noisy, simulated, outcomes };
    Ok(figures::report(run, &found))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::report::Verdict;

    /// All but the patterns, which take a fabric of 40 960 endpoints.
    fn report(counts: &[u32]) -> Report {
        let (clock, mut progress) = (|| Duration::ZERO, |_: crate::Step<'_>| {});
        let run =
            Run { quick: true, seed: 1, rounds: None, clock: &clock, progress: &mut progress };
        let found = Found {
            idle: timing::Idle::new(counts).unwrap(),
            noisy: congestion::Noisy::new(counts).unwrap(),
            simulated: simulated::Simulated::new(&run, counts).unwrap(),
            outcomes: Vec::new(),
        };
        figures::report(&run, &found)
    }

    #[test]
    fn what_the_text_says_of_widths_and_packets_comes_out() {
        let report = report(&[64, MOST]);
        let agrees = |what: &str| {
            let mut found = report.claims.iter().filter(|claim| claim.what.contains(what));
            found.all(|claim| claim.verdict == Verdict::Agrees)
        };
        assert!(agrees("width") && agrees("packets into") && agrees("most packets"));
        assert!(agrees("switch tree lower"));
        assert!(report.claims.iter().all(|claim| {
            claim.verdict == Verdict::Agrees || !claim.why.is_empty() || claim.ours.contains('%')
        }));
    }

    #[test]
    fn the_same_files_come_out_again() {
        assert_eq!(report(&[64]).files("x"), report(&[64]).files("x"));
    }
}
