//! The list of all experiments.

use crate::experiment::Experiment;
use crate::{aggregation, all_gather, broadcast, c_mr4lms, damaged, dawning, latency, mr4lms};

/// Lists all experiments, in the order of the papers; then those of rivals, last that of
/// none.
#[must_use]
pub const fn experiments() -> &'static [Experiment] {
    &[
        c_mr4lms::EXPERIMENT,
        c_mr4lms::ENGINES,
        mr4lms::EXPERIMENT,
        latency::EXPERIMENT,
        dawning::EXPERIMENT,
        aggregation::EXPERIMENT,
        broadcast::EXPERIMENT,
        all_gather::EXPERIMENT,
        damaged::EXPERIMENT,
    ]
}

/// Finds an experiment by its name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Experiment> {
    experiments().iter().find(|experiment| experiment.name == name)
}
