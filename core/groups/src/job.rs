//! Jobs: nodes that a scheduler gives to one user, placed so that no two jobs share a link.
//!
//! The directory keeps them and sees that no endpoint is in two; which nodes a job gets is decided by
//! `fabricast_routing::jobs`.

use fabricast_routing::jobs::JobClass;
use serde::{Deserialize, Serialize};

use crate::ids::{Moment, Revision};
use crate::names::{EndpointName, JobName, NodeName, RequestId};

/// A job and its nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// The name that the scheduler gave it, unique among the jobs there are.
    pub name: JobName,
    /// The kind of unit it lies in, as the fabric was when it was placed.
    pub class: JobClass,
    /// Its nodes, by name.
    pub nodes: Vec<JobNode>,
    /// When it was created, on the TIC's clock.
    pub created: Moment,
    /// The revision of its creation.
    pub revision: Revision,
}

/// A node of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobNode {
    /// Its name; that of its endpoint if no node with it has registered.
    pub name: NodeName,
    /// Its endpoints.
    pub endpoints: Vec<EndpointName>,
}

/// Asks for a job on nodes that have been chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateJob {
    /// The caller's name for the request.
    pub request_id: RequestId,
    /// The name of the job.
    pub job: JobName,
    /// The kind of unit it lies in.
    pub class: JobClass,
    /// Its nodes.
    pub nodes: Vec<JobNode>,
}
