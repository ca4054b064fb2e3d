//! What the writer can be asked about collectives, and its answers.

use fabricast_collectives::{Operation, Quota, ReservationId};
use fabricast_groups::names::GroupName;
use fabricast_proto::v1;
use fabricast_topology::EndpointId;

/// A question or an order.
#[derive(Debug)]
pub(crate) enum CollectiveWork {
    /// Look at what has failed.
    Sync,
    /// Create a collective.
    Create(CreateWish),
    /// Release the one of this name.
    Release(String),
    /// Keep entries for somebody.
    Reserve {
        /// For whom.
        holder: HolderName,
        /// In each switch.
        entries: u16,
        /// On and above the leaf switches of these.
        endpoints: Vec<EndpointId>,
    },
    /// End a reservation.
    Cancel(u32),
    /// Limit somebody.
    Quota {
        /// Whom.
        holder: HolderName,
        /// To what.
        quota: Quota,
    },
    /// Say who has what.
    Usage,
}

/// A collective that is asked for.
#[derive(Clone, Debug)]
pub(crate) struct CreateWish {
    pub(crate) name: String,
    pub(crate) group: GroupName,
    pub(crate) tenant: String,
    pub(crate) job: String,
    pub(crate) operations: Vec<Operation>,
    pub(crate) min_bytes: u32,
    pub(crate) max_bytes: u32,
    pub(crate) switch_tree_required: bool,
}

/// A tenant, or one job of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HolderName {
    pub(crate) tenant: String,
    pub(crate) job: Option<String>,
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum CollectiveDone {
    /// Everything is as the fabric is.
    Synced,
    /// The collective.
    Created(Box<v1::Collective>),
    /// Whether it was there.
    Released(bool),
    /// The number of the reservation.
    Reserved(ReservationId),
    /// Whether it was there.
    Cancelled(bool),
    /// The quota holds.
    QuotaSet,
    /// Who has what.
    Usage(Box<v1::GetEntryUsageResponse>),
}
