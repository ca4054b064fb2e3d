//! C-MR4LMS §4.2 and §4.3: EFI and TFI on the paper's own fabric, pattern by pattern.
//!
//! Source: figures 9 and 10, (a) to (e), and the numbers of the text. The run times, (f), are in a
//! table of their own.

mod claims;
mod figures;
mod setup;

use std::time::Duration;

use fabricast_routing::Metrics;

use crate::experiment::{Experiment, ExperimentError, Length, Run};
use crate::pattern::{self, Pattern};
use crate::report::Report;
use crate::routing::{Fabric, Refusal, route};
use setup::{ENGINES_COMPARED, Outcome, PATTERNS, POLICIES, QUICK, Variant};

/// C-MR4LMS with each root policy and each way to choose MGIDs.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "c-mr4lms",
    title: "EFI and TFI on the paper's fabric with 32 entries a port, per root policy and layers",
    source: "C-MR4LMS §4.2, §4.3, figures 9 and 10",
    length: Length::Fixed,
    run: |run| perform(run, &POLICIES),
};

/// C-MR4LMS against all other engines.
pub(crate) const ENGINES: Experiment = Experiment {
    name: "engines",
    title: "all engines on the C-MR4LMS paper's fabric with 32 entries a port",
    source: "C-MR4LMS §4.2, §4.3, figures 9 and 10",
    length: Length::Fixed,
    run: |run| perform(run, &ENGINES_COMPARED),
};

fn perform(run: &mut Run<'_>, variants: &[Variant]) -> Result<Report, ExperimentError> {
    let fabric = Fabric::preset("paper")?;
    let patterns: Vec<Pattern> = match run.quick {
        true => QUICK.map(|at| PATTERNS[at]).to_vec(),
        false => PATTERNS.to_vec(),
    };
    let steps = patterns.len() * variants.len();
    let mut outcomes: Vec<Outcome> = Vec::with_capacity(steps);
    for pattern in &patterns {
        for variant in variants {
            let what = format!("{pattern}, {}", variant.label());
            run.step(outcomes.len(), steps, &what);
            let routed = outcome(run, &fabric, *pattern, *variant);
            outcomes.push(routed.map_err(|source| ExperimentError { step: what, source })?);
        }
    }
    Ok(figures::report(run, &patterns, variants, &outcomes))
}

/// Routes a pattern with every seed; without chance these are runs of the same groups, of which
/// only the times differ.
fn outcome(
    run: &Run<'_>,
    fabric: &Fabric,
    pattern: Pattern,
    variant: Variant,
) -> Result<Outcome, Refusal> {
    let routed = run.all_seeds().map(|seed| {
        let routed = route(run, fabric, variant.way, |space| {
            pattern::groups(pattern, variant.layers, space, fabric.endpoints(), seed)
        })?;
        Ok((routed.figures, routed.took))
    });
    let routed = routed.collect::<Result<Vec<(Metrics, Duration)>, Refusal>>()?;
    let (mut figures, times): (Vec<Metrics>, Vec<Duration>) = routed.into_iter().unzip();
    if !pattern.is_random() {
        figures.truncate(1);
    }
    Ok(Outcome { pattern, variant, figures, times })
}
