//! Jobs: sets of nodes that a scheduler gives to one user, and the groups that a job may form.
//!
//! The directory stores jobs and ensures that no endpoint belongs to two jobs that were placed
//! here; `fabricast_placement` decides which nodes a job gets and how many groups it may form.

use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use fabricast_placement::JobClass;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

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
    pub nodes: JobNodes,
    /// Time when it was created, on the TIC's clock.
    pub created: Moment,
    /// Revision of its creation.
    pub revision: Revision,
    /// Groups that the job may form; `None` if none were reserved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<JobShare>,
}

/// The nodes of a job. A job keeps them and may have all nodes of a fabric, while its record
/// changes: copies share them, and the JSON text that records have of them.
#[derive(Clone, Default)]
pub struct JobNodes(Arc<SharedNodes>);

#[derive(Default)]
struct SharedNodes {
    nodes: Vec<JobNode>,
    /// The nodes as JSON, once they were encoded.
    json: OnceLock<Box<RawValue>>,
}

impl JobNodes {
    /// Takes nodes and encodes them, so that the first record with them takes no longer to encode
    /// than others.
    ///
    /// Cost: some hundred nanoseconds for each node.
    #[must_use]
    pub fn new(nodes: Vec<JobNode>) -> Self {
        let encoded = Self::not_encoded(nodes);
        encoded.json();
        encoded
    }

    fn not_encoded(nodes: Vec<JobNode>) -> Self {
        Self(Arc::new(SharedNodes { nodes, json: OnceLock::new() }))
    }

    /// Returns whether one is a copy of the other. Cost: O(1).
    #[must_use]
    pub fn is_copy_of(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    fn json(&self) -> &RawValue {
        let encode = || to_raw_value(&self.0.nodes).expect("names and lists are JSON");
        self.0.json.get_or_init(encode)
    }
}

impl Deref for JobNodes {
    type Target = [JobNode];

    fn deref(&self) -> &[JobNode] {
        &self.0.nodes
    }
}

impl PartialEq for JobNodes {
    fn eq(&self, other: &Self) -> bool {
        self.is_copy_of(other) || self.0.nodes == other.0.nodes
    }
}

impl Eq for JobNodes {}

impl fmt::Debug for JobNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0.nodes, f)
    }
}

impl FromIterator<JobNode> for JobNodes {
    fn from_iter<I: IntoIterator<Item = JobNode>>(nodes: I) -> Self {
        Self::new(nodes.into_iter().collect())
    }
}

impl<'a> IntoIterator for &'a JobNodes {
    type Item = &'a JobNode;
    type IntoIter = std::slice::Iter<'a, JobNode>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Only for JSON.
impl Serialize for JobNodes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.json().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JobNodes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::not_encoded)
    }
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
    pub nodes: JobNodes,
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
    pub nodes: JobNodes,
    /// Its share, as decided.
    pub share: JobShare,
}
