//! Sizes of the test fabric and its trees; times are [`crate::hardware`].

use fabricast_collectives::Limits;

/// Most children of the paper's adapters and switches, and its ε.
pub(super) const LIMITS: Limits =
    Limits { adapter_children: 64, switch_children: 64, tolerance_us: 0.1 };

/// Processes of the test fabric.
pub(super) const MOST: u32 = 512;
