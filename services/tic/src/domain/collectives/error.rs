//! Why a request about collectives is refused.

use fabricast_collectives::Refusal;
use fabricast_groups::names::GroupName;
use thiserror::Error;

/// Most collectives at one time.
pub(super) const MAX_COLLECTIVES: usize = 1 << 16;
/// Most processes of one collective.
pub(super) const MAX_PROCESSES: usize = 1 << 16;

/// Why a request about collectives is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum CollectiveError {
    #[error("name: collective '{name}' exists and differs")]
    Differs { name: String },
    #[error("group: no group '{group}'")]
    UnknownGroup { group: GroupName },
    #[error("at most {MAX_COLLECTIVES} collectives of at most {MAX_PROCESSES} processes")]
    LimitReached,
    #[error("group: no endpoint '{endpoint}' in the topology")]
    UnknownEndpoint { endpoint: String },
    /// The allocator refuses it.
    #[error("{text}")]
    Refused {
        refusal: Refusal,
        /// The refusal with names in place of numbers.
        text: String,
    },
    #[error("endpoints: {endpoint} is not connected to a leaf switch")]
    CutOff { endpoint: String },
    #[error("entries: switch {switch} lacks {missing} of them")]
    TooFewEntries { switch: String, missing: u32 },
}
