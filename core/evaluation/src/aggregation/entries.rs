//! Entries that the communicators of five patterns take, and creations that fail (§6.2.2).

use std::sync::Arc;

use fabricast_collectives::{Fabric, Method, Survey, survey};
use fabricast_routing::{MR4LMS_FABRICS, MgidSpace, Mr4lmsPattern, PatternGroup, PatternShape};
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

/// Result of one pattern on one fabric.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) fabric: &'static str,
    pub(super) pattern: String,
    /// With entries without end; of every seed if chance has a part in the pattern, else once.
    pub(super) endless: Vec<Both>,
    /// Results with [`ENTRIES`] entries in each switch.
    pub(super) limited: Vec<Both>,
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

    /// Makes a sample of values of the seeds.
    pub(super) fn sample(&self, values: impl Iterator<Item = f64>) -> Sample {
        match self.pattern.starts_with("random") {
            true => values.collect(),
            false => Sample::from_certain(values),
        }
    }
}

pub(super) fn measure(run: &Run<'_>) -> Result<Vec<Outcome>, ExperimentError> {
    let patterns = patterns();
    let patterns = if run.quick { &patterns[..QUICK] } else { &patterns[..] };
    let mut outcomes = Vec::new();
    for (name, text) in FABRICS.iter().take(if run.quick { 1 } else { FABRICS.len() }) {
        let spec = TopologySpec::parse(text).map_err(ExperimentError::at(*name))?;
        let graph = Arc::new(spec.generate().map_err(ExperimentError::at(*name))?);
        let fabric = Fabric::detect(graph);
        for pattern in patterns {
            let once =
                if matches!(pattern.shape, PatternShape::Random(_)) { usize::MAX } else { 1 };
            let mut outcome = Outcome {
                fabric: name,
                pattern: pattern.name(),
                endless: Vec::new(),
                limited: Vec::new(),
                fewer: Vec::new(),
            };
            for seed in run.all_seeds().take(once) {
                let groups = communicators(pattern, &fabric, seed)
                    .map_err(ExperimentError::at(pattern.name()))?;
                outcome.endless.push(both(&fabric, &groups, u32::MAX));
                outcome.limited.push(both(&fabric, &groups, ENTRIES));
                outcome.fewer.push(FEWER.map(|entries| both(&fabric, &groups, entries)));
            }
            outcomes.push(outcome);
        }
    }
    Ok(outcomes)
}

/// MR4LMS's patterns for a fabric of this size, one process to an endpoint: this paper's are two
/// planes, two cubes and a random one, of which it names the planes.
fn patterns() -> Vec<Mr4lmsPattern> {
    let fabric = MR4LMS_FABRICS.iter().find(|fabric| fabric.preset == "taihulight");
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
    let of = |method| survey(fabric, groups.iter().map(Vec::as_slice), method, entries);
    let children = LIMITS.switch_children;
    Both { plain: of(Method::Plain), minimum: of(Method::Minimum { children }) }
}
