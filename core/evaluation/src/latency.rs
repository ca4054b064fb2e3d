//! Latency of trees on the simulator: MR4LMS tables 1 and 2; C-MR4LMS table 1, figures 11
//! and 12.
//!
//! The papers measured on Sunway machines. Our constants are in `data/hardware.toml`; which were
//! fitted, and to which published number, it and the report say.

mod claims;
mod collectives;
mod figures;
mod model;
mod trees;
mod turns;

use crate::experiment::{Experiment, ExperimentError, Length, Run};
use crate::report::Report;

/// The experiment as the command line lists it.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "latency",
    title: "what height, shared links and engines cost in time, by packet-level simulation",
    source: "MR4LMS tables 1 and 2; C-MR4LMS §4.4, table 1, figures 11 and 12",
    length: Length::Rounds,
    run,
};

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
