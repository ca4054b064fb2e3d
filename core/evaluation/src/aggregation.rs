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
mod switches;
mod timing;

use crate::experiment::{Experiment, ExperimentError, Length, Run};
use crate::report::Report;
use figures::Found;
use parameters::MOST;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "aggregation",
    title: "latency of adapter and switch trees, entries taken and creations failed",
    source: "aggregation trees §2.3 to §6, figures 4 to 6, 12, 13, 15, 16, 18 to 20, tables 2 to 4",
    length: Length::Fixed,
    run,
};

fn run(run: &mut Run<'_>) -> Result<Report, ExperimentError> {
    let counts = [4, 8, 16, 32, 64, 128, 256, MOST];
    run.step(0, 6, "times of trees");
    let idle =
        timing::Idle::new(&counts).map_err(ExperimentError::at("trees on the test fabric"))?;
    run.step(1, 6, "a pruned fat tree with noise");
    let parameters = run.hardware.aggregation.model;
    let noisy = congestion::Noisy::new(&parameters, &counts)
        .map_err(ExperimentError::at("trees on the pruned test fabric"))?;
    run.step(2, 6, "trees on the packet-level simulator");
    let simulated = simulated::Simulated::new(run, &counts)?;
    run.step(3, 6, "switch trees on the packet-level simulator");
    let kinds = switches::measure(run, &counts)?;
    run.step(4, 6, "entries of the patterns");
    let outcomes = entries::measure(run)?;
    run.step(5, 6, "entries on other fabrics");
    let others = entries::others(run)?;
    let found = Found { parameters, idle, noisy, simulated, kinds, outcomes, others };
    Ok(figures::report(run, &found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Verdict;
    use crate::hardware::Hardware;

    /// All but the patterns, which take a fabric of 40 960 endpoints.
    fn report(counts: &[u32]) -> Report {
        let hardware = Hardware::ours();
        let run = Run::quick(&hardware);
        let parameters = hardware.aggregation.model;
        let found = Found {
            parameters,
            idle: timing::Idle::new(counts).unwrap(),
            noisy: congestion::Noisy::new(&parameters, counts).unwrap(),
            simulated: simulated::Simulated::new(&run, counts).unwrap(),
            kinds: switches::measure(&run, counts).unwrap(),
            outcomes: Vec::new(),
            others: Vec::new(),
        };
        figures::report(&run, &found)
    }

    #[test]
    fn what_the_text_says_of_widths_and_packets_comes_out() {
        let report = report(&[32, 64, MOST]);
        let is_same = |what: &str| {
            let mut found = report.claims.iter().filter(|claim| claim.what.contains(what));
            let first = found.next().expect("there is such a row");
            found.chain([first]).all(|claim| claim.verdict == Verdict::Same)
        };
        assert!(is_same("best width") && is_same("least width"));
        assert!(is_same("one link of a leaf switch, 32-ary"));
        // The published order is reversed, be it by little.
        let reversed = "growth by noise, 32-nomial over hierarchical";
        let row = report.claims.iter().find(|claim| claim.what.starts_with(reversed));
        assert_eq!(row.map(|row| row.verdict), Some(Verdict::Worse));
        assert!(report.laws.iter().all(|law| law.holds), "{:?}", report.laws);
    }

    #[test]
    fn no_row_differs_without_a_reason_of_its_own() {
        assert_eq!(report(&[32, 64, MOST]).faults(), Vec::<String>::new());
    }

    #[test]
    fn the_same_files_come_out_again() {
        assert_eq!(report(&[64]).files("x"), report(&[64]).files("x"));
    }
}
