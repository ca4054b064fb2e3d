//! MR4LMS §4: colors, EFI, TFI and run time on six fabrics, against the two methods behind OpenSM.
//!
//! Source: figures 6 to 12 and the numbers of the text. The tables are per switch, as in InfiniBand.

use fabricast_routing::{
    EngineKind, MAX_COLORS, MR4LMS_FABRICS, Mr4lmsFabric, Mr4lmsPattern, PatternShape,
};
use fabricast_topology::TableKind;

mod claims;
mod figures;

use crate::experiment::{Experiment, ExperimentError, Run};
use crate::report::Report;
use crate::routing::{Fabric, Routed, Way, route};

/// The experiment.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "mr4lms",
    title: "colors, EFI, TFI and run time on six fabrics, per-switch tables",
    source: "MR4LMS §4, figures 6 to 12",
    repeats_rounds: false,
    run,
};

/// The engines whose EFI is compared without a limit of colors.
const UNLIMITED: [EngineKind; 3] = [EngineKind::Mr4lms, EngineKind::MinHopMc, EngineKind::SsspMc];
/// Numbers of colors of figure 8.
const SWEEP: [u16; 8] = [16, 32, 64, 128, 256, 512, 1024, 2048];
/// The patterns of figure 8, and the one of figure 11.
const SWEPT: [(&str, PatternShape); 2] =
    [("taihulight", PatternShape::Cube(34, 34, 34)), ("random", PatternShape::Cube(32, 32, 40))];
const COUNTED: (&str, PatternShape) = ("taihulight", PatternShape::Cube(128, 32, 40));

/// One pattern on one fabric.
#[derive(Debug)]
struct Outcome {
    fabric: &'static Mr4lmsFabric,
    pattern: Mr4lmsPattern,
    /// Without a limit of colors, in the order of [`UNLIMITED`].
    unlimited: Vec<Routed>,
    /// MR4LMS with the recommended number of colors.
    recommended: Routed,
}

/// Maximum EFI over the number of colors.
#[derive(Debug)]
struct Sweep {
    preset: &'static str,
    pattern: Mr4lmsPattern,
    max_efi: Vec<(u16, u32)>,
}

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
