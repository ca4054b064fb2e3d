//! The engines, numbers of colors and patterns that are compared, and their outcomes.

use std::time::Duration;

use fabricast_routing::{EngineKind, Metrics, Mr4lmsFabric, Mr4lmsPattern, PatternShape};

use crate::routing::Routed;
use crate::sample::Sample;

/// The engines whose EFI is compared without a limit of colors.
pub(super) const UNLIMITED: [EngineKind; 3] =
    [EngineKind::Mr4lms, EngineKind::MinHopMc, EngineKind::SsspMc];
/// Numbers of colors of figure 8.
pub(super) const SWEEP: [u16; 8] = [16, 32, 64, 128, 256, 512, 1024, 2048];
/// The patterns of figure 8, and the one of figure 11.
pub(super) const SWEPT: [(&str, PatternShape); 2] =
    [("taihulight", PatternShape::Cube(34, 34, 34)), ("random", PatternShape::Cube(32, 32, 40))];
pub(super) const COUNTED: (&str, PatternShape) = ("taihulight", PatternShape::Cube(128, 32, 40));

/// One pattern on one fabric.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) fabric: &'static Mr4lmsFabric,
    pub(super) pattern: Mr4lmsPattern,
    /// One for each seed; where chance has no part in the pattern nor in the fabric, only their
    /// times differ.
    pub(super) routed: Vec<Measured>,
    /// Trees and groups of each color with the recommended number of colors, of the first seed.
    pub(super) of_colors: Vec<OfColor>,
}

/// One routing of a pattern.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    /// Without a limit of colors, in the order of [`UNLIMITED`].
    pub(super) unlimited: [Single; 3],
    /// MR4LMS with the recommended number of colors.
    pub(super) recommended: Single,
}

/// One routing by one engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Single {
    pub(super) figures: Metrics,
    pub(super) colors_used: u32,
    pub(super) took: Duration,
}

/// Trees and groups that have one color.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OfColor {
    pub(super) trees: u32,
    pub(super) groups: u32,
}

impl Outcome {
    /// Chance decides who is in a group, or how the fabric is linked.
    pub(super) fn is_random(fabric: &Mr4lmsFabric, pattern: &Mr4lmsPattern) -> bool {
        fabric.preset == "random" || matches!(pattern.shape, PatternShape::Random(_))
    }

    /// Returns a figure of all seeds.
    pub(super) fn sample(&self, figure: fn(&Measured) -> f64) -> Sample {
        let values = self.routed.iter().map(figure);
        match Self::is_random(self.fabric, &self.pattern) {
            true => values.collect(),
            false => Sample::from_certain(values.take(1)),
        }
    }

    /// Returns a time of all runs.
    pub(super) fn times(&self, time: fn(&Measured) -> f64) -> Sample {
        Sample::from_runs(self.routed.iter().map(time))
    }

    pub(super) fn name(&self) -> String {
        format!("{} {}", self.fabric.preset, self.pattern.name())
    }
}

impl Single {
    pub(super) fn max_efi(&self) -> f64 {
        f64::from(self.figures.switch_links.max_efi)
    }

    pub(super) fn took_s(&self) -> f64 {
        self.took.as_secs_f64()
    }

    pub(super) fn took_ms(&self) -> f64 {
        self.took_s() * 1e3
    }
}

impl From<&Routed> for Single {
    fn from(routed: &Routed) -> Self {
        Self { figures: routed.figures, colors_used: routed.colors_used, took: routed.took }
    }
}

/// Maximum EFI over the number of colors, of every seed.
#[derive(Debug)]
pub(super) struct Sweep {
    pub(super) preset: &'static str,
    pub(super) pattern: Mr4lmsPattern,
    pub(super) max_efi: Vec<(u16, Sample)>,
}
