//! The patterns and engines of the experiment, and the outcome of one of each.

use std::time::Duration;

use fabricast_routing::{
    EngineKind, Grid, LayerPlan, LayerSize, Metrics, PatternShape, RootScope, divide_colors,
};
use fabricast_topology::TableKind;

use crate::pattern::Pattern;
use crate::routing::Way;
use crate::sample::Sample;

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
    /// One for each seed if chance has a part in the pattern, else one.
    pub(super) figures: Vec<Metrics>,
    /// Run times, one for each seed, also where chance has no part.
    pub(super) times: Vec<Duration>,
}

impl Outcome {
    /// Returns a figure of all seeds.
    pub(super) fn sample(&self, figure: fn(&Metrics) -> f64) -> Sample {
        let values = self.figures.iter().map(figure);
        if self.pattern.is_random() { values.collect() } else { Sample::from_certain(values) }
    }

    pub(super) fn took_ms(&self) -> Sample {
        Sample::from_runs(self.times.iter().map(|took| took.as_secs_f64() * 1e3))
    }

    /// Returns the colors of the layers, as 4/9/19; nothing if the engine does not look at layers.
    pub(super) fn layer_colors(&self) -> Option<String> {
        let by_mgid = [EngineKind::CMr4lmsFixed, EngineKind::CMr4lmsDynamic];
        if !by_mgid.contains(&self.variant.way.engine) {
            return None;
        }
        let processes = self.pattern.processes;
        let grid = match self.pattern.shape {
            PatternShape::Plane(x, y) => Grid::plane(x, y, processes),
            PatternShape::Cube(x, y, z) => Grid::cube(x, y, z, processes),
            PatternShape::Random(_) => return None,
        };
        let grid = grid.ok()?;
        let layer = |line: fabricast_routing::Line| {
            (line.dimension(), grid.layer(self.variant.layers, line))
        };
        let mut layers: Vec<(usize, u32)> = grid.lines().map(layer).collect();
        layers.sort_unstable();
        let sizes = layers.chunk_by(|a, b| a == b).map(|same| LayerSize {
            dimension: same[0].0,
            groups: u32::try_from(same.len()).expect("fewer lines than processes"),
        });
        let colors = divide_colors(COLORS.into(), &sizes.collect::<Vec<_>>()).ok()?;
        Some(colors.iter().map(ToString::to_string).collect::<Vec<_>>().join("/"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calibrated_colors_are_those_of_the_layers() {
        let of = |pattern, variant| {
            let (figures, times) = (Vec::new(), Vec::new());
            Outcome { pattern, variant, figures, times }.layer_colors()
        };
        assert_eq!(of(PATTERNS[3], FIXED), Some("4/9/19".to_owned()));
        assert_eq!(of(PATTERNS[4], DYNAMIC), Some("10/10/12".to_owned()));
        assert_eq!(of(PATTERNS[6], FIXED), None);
        assert_eq!(of(PATTERNS[3], Variant::new(EngineKind::Mr4lms)), None);
    }
}
