//! MR4LMS §4: colors, EFI, TFI and run time on six fabrics, against the two methods behind OpenSM.
//!
//! Source: figures 6 to 12 and the numbers of the text. The tables are per switch, as in
//! InfiniBand.

use fabricast_routing::{EngineKind, MAX_COLORS, MR4LMS_FABRICS, Mr4lmsFabric, Mr4lmsPattern};
use fabricast_topology::TableKind;

mod claims;
mod figures;
mod setup;

use crate::experiment::{Experiment, ExperimentError, Run};
use crate::report::Report;
use crate::routing::{Fabric, Way, route};
use setup::{Outcome, SWEEP, SWEPT, Sweep, UNLIMITED};

/// The experiment as the command line lists it.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "mr4lms",
    title: "colors, EFI, TFI and run time on six fabrics, per-switch tables",
    source: "MR4LMS §4, figures 6 to 12",
    repeats_rounds: false,
    run,
};

fn run(run: &mut Run<'_>) -> Result<Report, ExperimentError> {
    let fabrics: Vec<&'static Mr4lmsFabric> = match run.quick {
        true => MR4LMS_FABRICS.iter().filter(|one| one.preset == "bluelight").collect(),
        false => MR4LMS_FABRICS.iter().collect(),
    };
    let steps = fabrics.iter().map(|one| one.patterns.len()).sum();
    let (mut outcomes, mut sweeps) = (Vec::new(), Vec::new());
    for fabric in fabrics {
        let network = Fabric::preset(fabric.preset)?;
        for pattern in fabric.patterns {
            let what = format!("{} {}", fabric.preset, pattern.name());
            run.step(outcomes.len(), steps, &what);
            let outcome = measure(run, fabric, &network, pattern);
            outcomes.push(outcome.map_err(|source| ExperimentError { step: what, source })?);
            if SWEPT.contains(&(fabric.preset, pattern.shape)) {
                sweeps.push(sweep(run, fabric.preset, &network, pattern)?);
            }
        }
    }
    Ok(figures::report(run, &outcomes, &sweeps))
}

fn measure(
    run: &Run<'_>,
    fabric: &'static Mr4lmsFabric,
    network: &Fabric,
    pattern: Mr4lmsPattern,
) -> Result<Outcome, crate::routing::Refusal> {
    let by = |engine, colors| {
        let way = Way::new(engine, colors, TableKind::PerSwitch);
        route(run, network, way, |space| {
            Ok(pattern.groups(space, network.endpoints(), run.seed)?)
        })
    };
    let unlimited = UNLIMITED.map(|engine| by(engine, MAX_COLORS));
    let unlimited = unlimited.into_iter().collect::<Result<_, _>>()?;
    Ok(Outcome { fabric, pattern, unlimited, recommended: by(EngineKind::Mr4lms, fabric.colors)? })
}

fn sweep(
    run: &Run<'_>,
    preset: &'static str,
    network: &Fabric,
    pattern: Mr4lmsPattern,
) -> Result<Sweep, ExperimentError> {
    let mut max_efi = Vec::with_capacity(SWEEP.len());
    for colors in SWEEP {
        let way = Way::new(EngineKind::Mr4lms, colors, TableKind::PerSwitch);
        let routed = route(run, network, way, |space| {
            Ok(pattern.groups(space, network.endpoints(), run.seed)?)
        });
        let routed = routed.map_err(|source| ExperimentError {
            step: format!("{preset} {} with {colors} colors", pattern.name()),
            source,
        })?;
        max_efi.push((colors, routed.figures.switch_links.max_efi));
    }
    Ok(Sweep { preset, pattern, max_efi })
}
