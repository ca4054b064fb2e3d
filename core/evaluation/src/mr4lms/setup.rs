//! The engines, numbers of colors and patterns that are compared, and their outcomes.

use fabricast_routing::{EngineKind, Mr4lmsFabric, Mr4lmsPattern, PatternShape};

use crate::routing::Routed;

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
    /// Without a limit of colors, in the order of [`UNLIMITED`].
    pub(super) unlimited: Vec<Routed>,
    /// MR4LMS with the recommended number of colors.
    pub(super) recommended: Routed,
}

/// Maximum EFI over the number of colors.
#[derive(Debug)]
pub(super) struct Sweep {
    pub(super) preset: &'static str,
    pub(super) pattern: Mr4lmsPattern,
    pub(super) max_efi: Vec<(u16, u32)>,
}
