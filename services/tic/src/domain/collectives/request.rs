//! Requests about collectives.

use fabricast_collectives::{Operation, Quota, ReservationId};
use fabricast_groups::names::{GroupName, NodeName, ProcessName};
use fabricast_topology::EndpointId;

use crate::domain::collectives::member_trees::MeasuredConstants;
use crate::domain::job_places::JobPlaces;

/// Prefix of the names of collectives that members ask for; no other one may begin with it.
pub(crate) const REQUESTED: &str = "requested/";

/// Gives a collective of a group its trees; one that exists is returned if it is the same.
#[derive(Clone, Debug)]
pub(crate) struct CreateCollective {
    pub(crate) name: String,
    pub(crate) group: GroupName,
    pub(crate) tenant: String,
    pub(crate) job: String,
    pub(crate) operations: Vec<Operation>,
    pub(crate) min_bytes: u32,
    pub(crate) max_bytes: u32,
    pub(crate) switch_tree_required: bool,
}

/// Gives the members of a group a collective with a switch tree, because one of them asks.
#[derive(Clone, Debug)]
pub(crate) struct RequestSwitchTree {
    pub(crate) group: GroupName,
    pub(crate) node: NodeName,
    pub(crate) process: ProcessName,
}

/// Releases a collective and its trees.
#[derive(Clone, Debug)]
pub(crate) struct ReleaseCollective {
    pub(crate) name: String,
}

/// Reserves aggregation entries.
#[derive(Clone, Debug)]
pub(crate) struct ReserveEntries {
    pub(crate) holder: HolderName,
    /// Entries in each switch.
    pub(crate) entries: u16,
    /// On and above the leaf switches of these.
    pub(crate) endpoints: Vec<EndpointId>,
}

/// Reserves entries for a job with these nodes.
#[derive(Clone, Debug)]
pub(crate) struct JobEntries {
    pub(crate) holder: HolderName,
    /// Entries in each switch.
    pub(crate) entries: u16,
    pub(crate) places: JobPlaces,
}

/// Ends a reservation.
#[derive(Clone, Debug)]
pub(crate) struct CancelReservation {
    pub(crate) id: ReservationId,
}

/// Limits a tenant or a job.
#[derive(Clone, Debug)]
pub(crate) struct SetQuota {
    pub(crate) holder: HolderName,
    pub(crate) quota: Quota,
}

/// A tenant, or one job of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HolderName {
    pub(crate) tenant: String,
    pub(crate) job: Option<String>,
}

/// Takes measured constants for the trees of new groups, or forgets them.
#[derive(Clone, Debug)]
pub(crate) struct SetConstants(pub(crate) Option<MeasuredConstants>);

/// Reads these constants.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewConstants;
