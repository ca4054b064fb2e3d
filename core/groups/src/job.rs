//! Jobs: sets of nodes that a scheduler gives to one user, and the groups that a job may form.
//!
//! The directory stores jobs and ensures that no endpoint belongs to two jobs that were placed
//! here; `fabricast_placement` decides which nodes a job gets and how many groups it may form.

use fabricast_placement::JobClass;
use serde::{Deserialize, Serialize};

use crate::ids::{Moment, Revision};
use crate::names::{AccountName, EndpointName, JobName, NodeName, RequestId, UserName};
use crate::token::TokenHash;

/// A job and its nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// Name given by the scheduler, unique among the present jobs.
    pub name: JobName,
    /// Kind of unit that held the job when it was placed; `None` if the scheduler chose the nodes,
    /// which other jobs may use too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<JobClass>,
    /// The nodes, sorted by name.
    pub nodes: Vec<JobNode>,
    /// When it was created, on the TIC's clock.
    pub created: Moment,
    /// Revision of its creation.
    pub revision: Revision,
    /// Groups that the job may form; `None` if none were reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<JobShare>,
}

/// A node of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobNode {
    /// Name of the node; that of its endpoint if no node with it has registered.
    pub name: NodeName,
    /// Adapter ports of the node.
    pub endpoints: Vec<EndpointName>,
}

/// Groups that are reserved for a job, and how its processes prove that they belong to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobShare {
    /// User who runs the job, as the scheduler says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<UserName>,
    /// Account that the job counts against.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<AccountName>,
    /// Groups that the job may have at a time.
    pub groups: u32,
    /// Aggregation entries that are kept for the job in each switch on and above the leaf switches
    /// of its nodes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub aggregation_entries: u16,
    /// Number of the reservation of these entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation: Option<u32>,
    /// Steps that run at a time, at least 1.
    pub steps: u32,
    /// Hash of the token that forms and joins groups of the job.
    pub token: TokenHash,
    /// Latest end of the job, as the scheduler says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<Moment>,
    /// The job is released then, unless its reservation is repeated; `None` if only its scheduler
    /// releases it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Moment>,
    /// True once the job is being released: its token is no longer accepted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ending: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_zero(number: &u16) -> bool {
    *number == 0
}

impl JobShare {
    /// Returns the groups of one step: an equal part of those of the job, at least one.
    pub fn groups_per_step(&self) -> u32 {
        (self.groups / self.steps.max(1)).max(1)
    }
}

/// Request to create a job on nodes that have been chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateJob {
    /// Request id; a repetition gets the first answer.
    pub request_id: RequestId,
    /// Name of the job.
    pub job: JobName,
    /// Kind of unit that holds the nodes.
    pub class: JobClass,
    /// Nodes of the job, at least one.
    pub nodes: Vec<JobNode>,
}

/// Request to reserve groups for a job, which is created if necessary.
///
/// A repetition for the same job with the same token, user, account and nodes gets the same answer,
/// and extends the reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReserveJob {
    /// Name of the job.
    pub job: JobName,
    /// Nodes of the job, sorted by name; may be empty for a job that exists.
    pub nodes: Vec<JobNode>,
    /// Its share, as decided.
    pub share: JobShare,
}
