//! Entries that the communicators of five patterns take, and creations that fail (§6.2.2).

use std::sync::Arc;

use fabricast_collectives::{Fabric, Method, Survey, survey};
use fabricast_routing::{MR4LMS_FABRICS, MgidSpace, Mr4lmsPattern, PatternGroup, PatternShape};
use fabricast_simulator::Chance;
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{EndpointId, TableKind};

use super::parameters::LIMITS;
use crate::experiment::{ExperimentError, Run};
use crate::sample::Sample;

/// Entries of a switch (§6.2.2).
pub(super) const ENTRIES: u32 = 16;
/// Fewer entries, of which the text only says that creations begin to fail.
pub(super) const FEWER: [u32; 4] = [1, 2, 4, 8];
/// Patterns of the quick form.
const QUICK: usize = 2;

/// The fabrics, both of 160 midplanes of 256 endpoints. How many top midplanes the machine has is
/// not published: one for each leaf switch's uplink, or four.
pub(super) const FABRICS: [(&str, &str); 2] = [
    (
        "pruned",
        "kind = 'cn-tn-fat-tree'\nq = 32\nm = 16\np = 1\nk = 10\nw = 16\nendpoints_per_leaf = 8\n",
    ),
    (
        "wide",
        "kind = 'cn-tn-fat-tree'\nq = 32\nm = 16\np = 4\nk = 10\nw = 16\nendpoints_per_leaf = 8\n",
    ),
];

/// A pruned fat tree of 34 midplanes below 8 directors, 8 704 endpoints.
const BLUELIGHT: &str = "bluelight";
/// 33 groups of 8 switches, 1 056 endpoints.
const DRAGONFLY: &str = "kind = 'dragonfly'\na = 8\np = 4\nh = 4\n";
/// All of its endpoints, as planes, a cube, and by chance.
const DRAGONFLY_PATTERNS: [Mr4lmsPattern; 3] = [
    of_dragonfly(PatternShape::Plane(33, 32)),
    of_dragonfly(PatternShape::Cube(8, 12, 11)),
    of_dragonfly(PatternShape::Random(65)),
];

const fn of_dragonfly(shape: PatternShape) -> Mr4lmsPattern {
    Mr4lmsPattern { shape, processes: 1, published: false }
}

/// Result of one pattern on one fabric.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) fabric: &'static str,
    pub(super) pattern: String,
    /// With entries without end; of every seed if chance has a part in the pattern, else once.
    pub(super) endless: Vec<Both>,
    /// Results with [`ENTRIES`] entries in each switch.
    pub(super) limited: Vec<Both>,
    /// Results of the plain method with [`ENTRIES`] entries in each switch, the communicators
    /// created in an order by chance; of every seed.
    pub(super) by_chance: Vec<Survey>,
    /// Results with [`FEWER`] entries in each switch.
    pub(super) fewer: Vec<[Both; FEWER.len()]>,
}

/// The plain method and ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Both {
    pub(super) plain: Survey,
    pub(super) minimum: Survey,
}

impl Outcome {
    /// The part of the plain method's entries that ours saves, from 0 to 1.
    pub(super) fn saved(&self) -> Sample {
        self.sample(
            self.endless
                .iter()
                .map(|both| 1.0 - both.minimum.entries as f64 / both.plain.entries as f64),
        )
    }

    /// Creations of the plain method that fail in orders by chance, in percent.
    pub(super) fn failed_by_chance(&self) -> Sample {
        self.by_chance.iter().map(|plain| 100.0 * plain.failure_rate()).collect()
    }

    /// Makes a sample of values of the seeds.
    pub(super) fn sample(&self, values: impl Iterator<Item = f64>) -> Sample {
        match self.pattern.starts_with("random") {
            true => values.collect(),
            false => Sample::from_certain(values),
        }
    }
}

/// Measures the paper's patterns on its fabric, as far as that is known.
pub(super) fn measure(run: &Run<'_>) -> Result<Vec<Outcome>, ExperimentError> {
    let patterns = of_one_process("taihulight");
    let patterns = if run.quick { &patterns[..QUICK] } else { &patterns[..] };
    let mut outcomes = Vec::new();
    for (name, text) in FABRICS.iter().take(if run.quick { 1 } else { FABRICS.len() }) {
        let spec = TopologySpec::parse(text).map_err(ExperimentError::at(*name))?;
        outcomes.extend(on_fabric(run, name, &spec, patterns)?);
    }
    Ok(outcomes)
}

/// Measures a pruned fat tree below directors, of which a root has several ways down, and a
/// dragonfly, which has no levels. The paper has neither.
pub(super) fn others(run: &Run<'_>) -> Result<Vec<Outcome>, ExperimentError> {
    let preset = TopologySpec::preset(BLUELIGHT);
    let pruned = preset.ok_or("no such preset").map_err(ExperimentError::at(BLUELIGHT))?;
    let dragonfly = TopologySpec::parse(DRAGONFLY).map_err(ExperimentError::at("dragonfly"))?;
    let of_pruned = of_one_process(BLUELIGHT);
    let of_pruned = if run.quick { &of_pruned[..1] } else { &of_pruned[..] };
    let mut outcomes = on_fabric(run, BLUELIGHT, &pruned, of_pruned)?;
    outcomes.extend(on_fabric(run, "dragonfly", &dragonfly, &DRAGONFLY_PATTERNS)?);
    Ok(outcomes)
}

fn on_fabric(
    run: &Run<'_>,
    name: &'static str,
    spec: &TopologySpec,
    patterns: &[Mr4lmsPattern],
) -> Result<Vec<Outcome>, ExperimentError> {
    let graph = Arc::new(spec.generate().map_err(ExperimentError::at(name))?);
    let fabric = Fabric::detect(graph);
    let mut outcomes = Vec::new();
    for pattern in patterns {
        let once = if matches!(pattern.shape, PatternShape::Random(_)) { usize::MAX } else { 1 };
        let mut outcome = Outcome {
            fabric: name,
            pattern: pattern.name(),
            endless: Vec::new(),
            limited: Vec::new(),
            by_chance: Vec::new(),
            fewer: Vec::new(),
        };
        for (at, seed) in run.all_seeds().enumerate() {
            let mut groups = communicators(pattern, &fabric, seed)
                .map_err(ExperimentError::at(pattern.name()))?;
            if at < once {
                outcome.endless.push(both(&fabric, &groups, u32::MAX));
                outcome.limited.push(both(&fabric, &groups, ENTRIES));
                outcome.fewer.push(FEWER.map(|entries| both(&fabric, &groups, entries)));
            }
            Chance::new(seed, 0x0D).shuffle(&mut groups);
            outcome.by_chance.push(one(&fabric, &groups, Method::Plain, ENTRIES));
        }
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

/// MR4LMS's patterns for a fabric, one process to an endpoint: this paper's are two planes, two
/// cubes and a random one, of which it names the planes.
fn of_one_process(preset: &str) -> Vec<Mr4lmsPattern> {
    let fabric = MR4LMS_FABRICS.iter().find(|fabric| fabric.preset == preset);
    let all = fabric.expect("it is listed").patterns;
    all.into_iter().filter(|pattern| pattern.processes == 1).collect()
}

fn communicators(
    pattern: &Mr4lmsPattern,
    fabric: &Fabric,
    seed: u64,
) -> Result<Vec<Vec<EndpointId>>, Box<dyn std::error::Error + Send + Sync>> {
    let endpoints = u32::try_from(fabric.graph().endpoint_count())?;
    let space = MgidSpace::new(16_384, 1, TableKind::PerPort)?;
    let groups = pattern.groups(&space, endpoints, seed)?;
    Ok(groups.into_iter().map(|PatternGroup { members, .. }| members).collect())
}

fn both(fabric: &Fabric, groups: &[Vec<EndpointId>], entries: u32) -> Both {
    let of = |method| one(fabric, groups, method, entries);
    let children = LIMITS.switch_children;
    Both { plain: of(Method::Plain), minimum: of(Method::Minimum { children }) }
}

fn one(fabric: &Fabric, groups: &[Vec<EndpointId>], method: Method, entries: u32) -> Survey {
    survey(fabric, groups.iter().map(Vec::as_slice), method, entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::Hardware;

    /// Communicators of the rows and columns of a fabric's endpoints.
    fn planes(text: &str, x: u32, y: u32) -> Outcome {
        let hardware = Hardware::ours();
        let spec = TopologySpec::parse(text).unwrap();
        let patterns = [of_dragonfly(PatternShape::Plane(x, y))];
        on_fabric(&Run::quick(&hardware), "small", &spec, &patterns).unwrap().remove(0)
    }

    /// On a pruned fat tree and on a dragonfly alike: with 64 children in a switch a communicator
    /// of fewer processes takes one entry.
    #[test]
    fn small_communicators_take_one_entry_on_any_fabric() {
        let pruned = "kind = 'pruned-fat-tree'\nmidplanes = 5\nleaves = 2\nspines = 2\n\
                      uplinks_per_spine = 2\ncores = 2\nline_ports = 3\ncore_spines = 2\n\
                      endpoints_per_leaf = 5\n";
        let dragonfly = "kind = 'dragonfly'\na = 4\np = 2\nh = 2\n";
        for (text, x, y) in [(pruned, 10, 5), (dragonfly, 9, 8)] {
            let outcome = planes(text, x, y);
            let Both { plain, minimum } = outcome.endless[0];
            assert_eq!((minimum.groups, minimum.entries), (x + y, u64::from(x + y)), "{text}");
            assert_eq!((plain.failures, minimum.failures), (0, 0), "{text}");
            assert!(outcome.saved().mean() > 0.5, "{text}: {plain:?}");
        }
    }
}
