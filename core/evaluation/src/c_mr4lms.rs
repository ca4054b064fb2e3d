//! C-MR4LMS §4.2 and §4.3: EFI and TFI on the paper's own fabric, pattern by pattern.
//!
//! Source: figures 9 and 10, (a) to (e), and the numbers of the text. The run times, (f), are in a
//! table of their own.

use fabricast_routing::{EngineKind, LayerPlan, PatternShape, RootScope};
use fabricast_topology::TableKind;

mod claims;
mod figures;

use crate::experiment::{Experiment, ExperimentError, Run};
use crate::pattern::{self, Pattern};
use crate::report::Report;
use crate::routing::{Fabric, Routed, Way, route};

/// C-MR4LMS with each root policy and each way to choose MGIDs.
pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "c-mr4lms",
    title: "EFI and TFI on the paper's fabric with 32 entries a port, per root policy and layers",
    source: "C-MR4LMS §4.2, §4.3, figures 9 and 10",
    repeats_rounds: false,
    run: |run| perform(run, &POLICIES),
};

/// C-MR4LMS against all other engines.
pub(crate) const ENGINES: Experiment = Experiment {
    name: "engines",
    title: "all engines on the C-MR4LMS paper's fabric with 32 entries a port",
    source: "C-MR4LMS §4.2, §4.3, figures 9 and 10",
    repeats_rounds: false,
    run: |run| perform(run, &ENGINES_COMPARED),
};

/// Entries of a port's table.
const COLORS: u16 = 32;

/// The patterns of §4.1; of the random ones and of the 2-D ones with 4 processes the text
/// names no sizes but 1 000 groups, the others are ours.
const PATTERNS: [Pattern; 18] = [
    Pattern::new(PatternShape::Plane(512, 64), 1),
    Pattern::new(PatternShape::Plane(181, 181), 1),
    Pattern::new(PatternShape::Plane(100, 327), 1),
    Pattern::new(PatternShape::Cube(64, 32, 16), 1),
    Pattern::new(PatternShape::Cube(32, 32, 32), 1),
    Pattern::new(PatternShape::Cube(25, 50, 26), 1),
    Pattern::new(PatternShape::Random(1_000), 1),
    Pattern::new(PatternShape::Random(2_000), 1),
    Pattern::new(PatternShape::Random(4_000), 1),
    Pattern::new(PatternShape::Plane(512, 256), 4),
    Pattern::new(PatternShape::Plane(362, 362), 4),
    Pattern::new(PatternShape::Plane(200, 655), 4),
    Pattern::new(PatternShape::Cube(256, 32, 16), 4),
    Pattern::new(PatternShape::Cube(128, 32, 32), 4),
    Pattern::new(PatternShape::Cube(100, 50, 26), 4),
    Pattern::new(PatternShape::Random(1_000), 4),
    Pattern::new(PatternShape::Random(2_000), 4),
    Pattern::new(PatternShape::Random(4_000), 4),
];

/// Patterns of the quick form.
const QUICK: [usize; 4] = [1, 3, 4, 14];

/// One way to route a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Variant {
    way: Way,
    layers: LayerPlan,
}

impl Variant {
    const fn new(engine: EngineKind) -> Self {
        Self { way: Way::new(engine, COLORS, TableKind::PerPort), layers: LayerPlan::Compact }
    }

    const fn scope(self, scope: RootScope) -> Self {
        Self { way: self.way.scope(scope), ..self }
    }

    const fn wide(self) -> Self {
        Self { layers: LayerPlan::Wide, ..self }
    }

    fn label(self) -> String {
        match self.layers {
            LayerPlan::Compact => self.way.label(),
            LayerPlan::Wide => format!("{}, wide layers", self.way.label()),
        }
    }
}

const FIXED: Variant = Variant::new(EngineKind::CMr4lmsFixed);
const DYNAMIC: Variant = Variant::new(EngineKind::CMr4lmsDynamic);

const POLICIES: [Variant; 4] =
    [FIXED, DYNAMIC.scope(RootScope::Tn), DYNAMIC.scope(RootScope::TnGroup), FIXED.wide()];

const ENGINES_COMPARED: [Variant; 7] = [
    FIXED,
    DYNAMIC.scope(RootScope::Tn),
    DYNAMIC.scope(RootScope::TnGroup),
    Variant::new(EngineKind::Mr4lms),
    Variant::new(EngineKind::MinHopMc),
    Variant::new(EngineKind::SsspMc),
    Variant::new(EngineKind::GlobalTree),
];

/// What came of a pattern routed one way.
#[derive(Clone, Debug)]
struct Outcome {
    pattern: Pattern,
    variant: Variant,
    routed: Routed,
}

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
            let routed = route(run, &fabric, variant.way, |space| {
                pattern::groups(*pattern, variant.layers, space, fabric.endpoints(), run.seed)
            });
            let routed = routed.map_err(|source| ExperimentError { step: what, source })?;
            outcomes.push(Outcome { pattern: *pattern, variant: *variant, routed });
        }
    }
    Ok(figures::report(run, (&patterns, variants), &outcomes))
}
