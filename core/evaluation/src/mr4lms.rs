//! MR4LMS §4: colors, EFI, TFI and run time on six fabrics, against the two methods behind OpenSM.
//!
//! Source: figures 6 to 12 and the numbers of the text. The tables are per switch, as in
//! InfiniBand.

use fabricast_routing::{EngineKind, MAX_COLORS, MR4LMS_FABRICS, Mr4lmsFabric, Mr4lmsPattern};
use fabricast_topology::TableKind;
use fabricast_topology::spec::TopologySpec;

mod claims;
mod figures;
mod setup;

use crate::experiment::{Experiment, ExperimentError, Length, Run};
use crate::report::Report;
use crate::routing::{Fabric, Refusal, Routed, Way, route};
use crate::sample::Sample;
use setup::{Measured, OfColor, Outcome, SWEEP, SWEPT, Single, Sweep, UNLIMITED};

/// The experiment as the command line lists it.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "mr4lms",
    title: "colors, EFI, TFI and run time on six fabrics, per-switch tables",
    source: "MR4LMS §4, figures 6 to 12",
    length: Length::Fixed,
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
        let networks = networks(run, fabric)?;
        for pattern in fabric.patterns {
            let what = format!("{} {}", fabric.preset, pattern.name());
            run.step(outcomes.len(), steps, &what);
            let outcome = measure(run, fabric, &networks, pattern);
            outcomes.push(outcome.map_err(|source| ExperimentError { step: what, source })?);
            if SWEPT.contains(&(fabric.preset, pattern.shape)) {
                sweeps.push(sweep(run, fabric, &networks, pattern)?);
            }
        }
    }
    Ok(figures::report(run, &outcomes, &sweeps))
}

/// Makes the fabric, or one for each seed if it is linked by chance.
fn networks(run: &Run<'_>, fabric: &Mr4lmsFabric) -> Result<Vec<Fabric>, ExperimentError> {
    let name = fabric.preset;
    let spec = TopologySpec::preset(name).ok_or("there is no such preset");
    let spec = spec.map_err(ExperimentError::at(name))?;
    let TopologySpec::Random(random) = &spec else {
        return Ok(vec![Fabric::of(name, &spec)?]);
    };
    let of_seed = |seed| {
        let mut random = random.clone();
        random.seed = seed;
        Fabric::of(name, &TopologySpec::Random(random))
    };
    run.all_seeds().map(of_seed).collect()
}

fn measure(
    run: &Run<'_>,
    fabric: &'static Mr4lmsFabric,
    networks: &[Fabric],
    pattern: Mr4lmsPattern,
) -> Result<Outcome, Refusal> {
    let (mut routed, mut of_colors) = (Vec::new(), Vec::new());
    // Without chance every seed routes the same groups, of which only the times differ.
    for (at, seed) in run.all_seeds().enumerate() {
        let network = &networks[at.min(networks.len() - 1)];
        let by = |engine, colors| {
            let way = Way::new(engine, colors, TableKind::PerSwitch);
            route(run, network, way, |space| {
                Ok(pattern.groups(space, network.endpoints(), seed)?)
            })
        };
        let [mr4lms, minhop, sssp] = UNLIMITED;
        let single = |engine| Ok::<_, Refusal>(Single::from(&by(engine, MAX_COLORS)?));
        let unlimited = [single(mr4lms)?, single(minhop)?, single(sssp)?];
        let recommended = by(EngineKind::Mr4lms, fabric.colors)?;
        if at == 0 {
            of_colors = per_color(fabric.colors, &recommended);
        }
        routed.push(Measured { unlimited, recommended: Single::from(&recommended) });
    }
    Ok(Outcome { fabric, pattern, routed, of_colors })
}

/// Counts trees and groups of every color.
fn per_color(colors: u16, routed: &Routed) -> Vec<OfColor> {
    let mut counts = vec![OfColor::default(); usize::from(colors)];
    for group in routed.plan.virtual_groups().filter(|group| !group.ports.is_empty()) {
        let of_color = &mut counts[usize::from(group.color)];
        of_color.trees += 1;
        of_color.groups += u32::try_from(group.groups.len()).expect("groups have 32-bit MGIDs");
    }
    counts
}

/// Routes a pattern with several numbers of colors, on the fabric of every seed.
fn sweep(
    run: &Run<'_>,
    fabric: &'static Mr4lmsFabric,
    networks: &[Fabric],
    pattern: Mr4lmsPattern,
) -> Result<Sweep, ExperimentError> {
    let preset = fabric.preset;
    let mut max_efi = Vec::with_capacity(SWEEP.len());
    for colors in SWEEP {
        let way = Way::new(EngineKind::Mr4lms, colors, TableKind::PerSwitch);
        let each = networks.iter().zip(run.all_seeds()).map(|(network, seed)| {
            let routed = route(run, network, way, |space| {
                Ok(pattern.groups(space, network.endpoints(), seed)?)
            });
            Ok(f64::from(routed?.figures.switch_links.max_efi))
        });
        let each = each.collect::<Result<Vec<f64>, Refusal>>();
        let each = each.map_err(|source| ExperimentError {
            step: format!("{preset} {} with {colors} colors", pattern.name()),
            source,
        })?;
        let sample = match Outcome::is_random(fabric, &pattern) {
            true => Sample::from(each),
            false => Sample::from_certain(each),
        };
        max_efi.push((colors, sample));
    }
    Ok(Sweep { preset, pattern, max_efi })
}
