//! The patterns and engines of the experiment, and the outcome of one of each.

use fabricast_routing::{EngineKind, LayerPlan, PatternShape, RootScope};
use fabricast_topology::TableKind;

use crate::pattern::Pattern;
use crate::routing::{Routed, Way};

/// Entries of a port's table.
pub(super) const COLORS: u16 = 32;

/// The patterns of §4.1; of the random ones and of the 2-D ones with 4 processes the text
/// names no sizes but 1 000 groups, the others are ours.
pub(super) const PATTERNS: [Pattern; 18] = [
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
pub(super) const QUICK: [usize; 4] = [1, 3, 4, 14];

/// One way to route a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Variant {
    pub(super) way: Way,
    pub(super) layers: LayerPlan,
}

impl Variant {
    pub(super) const fn new(engine: EngineKind) -> Self {
        Self { way: Way::new(engine, COLORS, TableKind::PerPort), layers: LayerPlan::Compact }
    }

    pub(super) const fn scope(self, scope: RootScope) -> Self {
        Self { way: self.way.scope(scope), ..self }
    }

    pub(super) const fn wide(self) -> Self {
        Self { layers: LayerPlan::Wide, ..self }
    }

    pub(super) fn label(self) -> String {
        match self.layers {
            LayerPlan::Compact => self.way.label(),
            LayerPlan::Wide => format!("{}, wide layers", self.way.label()),
        }
    }
}

pub(super) const FIXED: Variant = Variant::new(EngineKind::CMr4lmsFixed);
pub(super) const DYNAMIC: Variant = Variant::new(EngineKind::CMr4lmsDynamic);

pub(super) const POLICIES: [Variant; 4] =
    [FIXED, DYNAMIC.scope(RootScope::Tn), DYNAMIC.scope(RootScope::TnGroup), FIXED.wide()];

pub(super) const ENGINES_COMPARED: [Variant; 7] = [
    FIXED,
    DYNAMIC.scope(RootScope::Tn),
    DYNAMIC.scope(RootScope::TnGroup),
    Variant::new(EngineKind::Mr4lms),
    Variant::new(EngineKind::MinHopMc),
    Variant::new(EngineKind::SsspMc),
    Variant::new(EngineKind::GlobalTree),
];

/// Result of routing a pattern with one engine.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) pattern: Pattern,
    pub(super) variant: Variant,
    pub(super) routed: Routed,
}
