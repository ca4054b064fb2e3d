//! The Dawning 5000's multicast on its simulator's fabric, FT(8, 3): where time goes, root
//! selection, output policies.
//!
//! Source: Dawning §3.1, §4.2.2 and §5, figures 5, 8 and 9. The figures cannot be read; the numbers
//! to stand beside are those of the text.

mod claims;
mod figures;
mod fixture;
mod loads;
mod model;
mod sweep;

use crate::experiment::{Experiment, ExperimentError, Length, Run};
use crate::report::Report;

/// The experiment as the command line lists it.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "dawning",
    title: "root selection and output policies of the Dawning 5000 under load, FT(8, 3)",
    source: "Dawning §3.1, §4.2.2 and §5, figures 5, 8 and 9",
    length: Length::Broadcasts,
    run,
};

fn run(run: &mut Run<'_>) -> Result<Report, ExperimentError> {
    let fixture = fixture::Fixture::new(&run.hardware.dawning)
        .map_err(|source| ExperimentError { step: "FT(8, 3)".to_owned(), source })?;
    let plan = loads::Plan::new(run);
    let (of, mut done) = (plan.steps(), 0);
    let mut step = |run: &mut Run<'_>, what: &str| {
        run.step(done, of, what);
        done += 1;
    };
    let stages = loads::stages(run, &fixture, &plan, &mut step)?;
    let broadcasts = loads::broadcasts(run, &fixture, &plan, &mut step)?;
    let stale = loads::stale(run, &fixture, &plan, &mut step, &broadcasts)?;
    let many = loads::many_to_many(run, &fixture, &plan, &mut step)?;
    let outputs = loads::output_policies(run, &fixture, &plan, &mut step)?;
    let fits = sweep::figure_8(run, &fixture, &plan, &mut step)?;
    let rooms = sweep::figure_9(run, &fixture, &plan, &mut step)?;
    let found = figures::Found { stages, broadcasts, stale, many, outputs, fits, rooms };
    Ok(figures::report(run, &plan, &found))
}
