//! Reasons why requests about collectives are refused.

use fabricast_collectives::Refusal;
use fabricast_groups::names::{GroupName, NodeName, ProcessName};
use thiserror::Error;

/// Most collectives at one time.
pub(super) const MAX_COLLECTIVES: usize = 1 << 16;
/// Most processes of one collective.
pub(super) const MAX_PROCESSES: usize = 1 << 16;
/// Most quotas at one time.
pub(super) const MAX_QUOTAS: usize = 1 << 16;

/// Reason why a request about collectives is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum CollectiveError {
    #[error("name: collective '{name}' exists and differs")]
    Differs { name: String },
    #[error("group: no group '{group}'")]
    UnknownGroup { group: GroupName },
    #[error("group: '{group}' has no member '{process}' on node '{node}'")]
    NotAMember { group: GroupName, node: NodeName, process: ProcessName },
    #[error("no switch tree: group '{group}' has a single member")]
    SingleMember { group: GroupName },
    #[error("at most {MAX_COLLECTIVES} collectives of at most {MAX_PROCESSES} processes")]
    LimitReached,
    #[error("quota: {MAX_QUOTAS} tenants and jobs have one already")]
    TooManyQuotas,
    #[error("group: no endpoint '{endpoint}' in the topology")]
    UnknownEndpoint { endpoint: String },
    /// The allocator refuses it.
    #[error("{text}")]
    Refused {
        refusal: Refusal,
        /// The refusal with names in place of numbers.
        text: String,
    },
    #[error("{field}: {endpoint} is not connected to a leaf switch")]
    CutOff { field: &'static str, endpoint: String },
    #[error("{field}: switch {switch} lacks {missing} of them")]
    TooFewEntries { field: &'static str, switch: String, missing: u32 },
    #[error(
        "{field}: {holder} may hold {limit} entries{}, and would have {needs}",
        place(switch.as_ref())
    )]
    OverQuota {
        field: &'static str,
        /// The holder of the quota, in words.
        holder: String,
        limit: u32,
        /// Entries that it would have.
        needs: u32,
        /// The switch that the limit is of; `None` if of all together.
        switch: Option<String>,
    },
}

fn place(switch: Option<&String>) -> String {
    switch.map_or_else(String::new, |switch| format!(" of switch {switch}"))
}

impl CollectiveError {
    /// Names the fields of a job's share in place of those of a reservation.
    pub(super) fn of_job(mut self) -> Self {
        match &mut self {
            Self::CutOff { field, .. } => *field = "nodes",
            Self::TooFewEntries { field, .. } | Self::OverQuota { field, .. } => {
                *field = "aggregation_entries";
            }
            Self::Differs { .. }
            | Self::UnknownGroup { .. }
            | Self::NotAMember { .. }
            | Self::SingleMember { .. }
            | Self::LimitReached
            | Self::TooManyQuotas
            | Self::UnknownEndpoint { .. }
            | Self::Refused { .. } => {}
        }
        self
    }
}
