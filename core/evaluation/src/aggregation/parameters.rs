//! The constants of the paper, and ours where it names none.

use fabricast_collectives::{CostParameters, Limits};

/// The paper's constants. What it does not publish is ours: 10 GB/s to store and forward, 2 GB/s to
/// reduce.
pub(super) const PARAMETERS: CostParameters = CostParameters {
    store_us_per_byte: 0.000_1,
    reduce_us_per_byte: 0.000_5,
    ..CostParameters::PAPER
};

/// Times of the paper's adapters and switches, and its ε.
pub(super) const LIMITS: Limits =
    Limits { adapter_children: 64, switch_children: 64, tolerance_us: 0.1 };

/// Processes of the test fabric.
pub(super) const MOST: u32 = 512;
