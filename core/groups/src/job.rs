//! Jobs: sets of nodes that a scheduler gives to one user, placed so that no two jobs share a link.
//!
//! The directory stores jobs and ensures that no endpoint belongs to two of them;
//! `fabricast_placement` decides which nodes a job gets.

use fabricast_placement::JobClass;
use serde::{Deserialize, Serialize};

use crate::ids::{Moment, Revision};
use crate::names::{EndpointName, JobName, NodeName, RequestId};

/// A job and its nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// Name given by the scheduler, unique among the present jobs.
    pub name: JobName,
    /// Kind of unit that held the job when it was placed.
    pub class: JobClass,
    /// The nodes, sorted by name.
    pub nodes: Vec<JobNode>,
    /// When it was created, on the TIC's clock.
    pub created: Moment,
    /// Revision of its creation.
    pub revision: Revision,
}

/// A node of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobNode {
    /// Name of the node; that of its endpoint if no node with it has registered.
    pub name: NodeName,
    /// Adapter ports of the node.
    pub endpoints: Vec<EndpointName>,
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
