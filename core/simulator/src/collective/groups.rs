//! Processes and the groups they go through.

use fabricast_topology::EndpointId;
use thiserror::Error;

/// Endpoint of a process, and the groups it goes through in a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessPlan {
    /// Endpoint of the process.
    pub endpoint: EndpointId,
    /// Groups in order, each once. The members of a group are the processes that name it, the first
    /// is its root. All processes must name groups in one common order.
    pub groups: Vec<u32>,
}

/// Reason why a run cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CollectiveError {
    /// A process names a group that has no list of trees.
    #[error("process {process} names group {group}, which there is not")]
    UnknownGroup {
        /// Number of the process.
        process: u32,
        /// Number of the group.
        group: u32,
    },
    /// A process goes through a group twice in a round.
    #[error("process {process} names group {group} twice")]
    Twice {
        /// Number of the process.
        process: u32,
        /// Number of the group.
        group: u32,
    },
    /// A process runs on an endpoint that the fabric does not have.
    #[error("process {process} runs on an endpoint that there is not")]
    UnknownEndpoint {
        /// Number of the process.
        process: u32,
    },
    /// A group of several adapters has no tree.
    #[error("group {group} has members on several endpoints and no tree")]
    NoTree {
        /// Number of the group.
        group: u32,
    },
    /// The gathering tree given for a group is no tree.
    #[error("group {group}: the parents given are no tree of its adapters with the first as root")]
    NotATree {
        /// Number of the group.
        group: u32,
    },
    /// The gathering tree is too narrow.
    #[error("fan_in is {fan_in}, must be 2 or more")]
    FanIn {
        /// Value that was given.
        fan_in: u32,
    },
}

/// Makes the processes of a grid of `x` columns and any number of rows, `per_endpoint` consecutive
/// ones to an endpoint: first their row, which is group `row`, then their column, group `rows +
/// column`.
///
/// `endpoints` are those that run them, in order; the grid has `endpoints * per_endpoint` processes
/// at most, and whole rows only.
#[must_use]
pub fn grid_processes(x: u32, per_endpoint: u32, endpoints: &[EndpointId]) -> Vec<ProcessPlan> {
    let (x, per_endpoint) = (x.max(1), per_endpoint.max(1));
    let room = u32::try_from(endpoints.len()).expect("endpoints are numbered in 32 bits");
    let rows = room * per_endpoint / x;
    let process = |rank: u32| ProcessPlan {
        endpoint: endpoints[(rank / per_endpoint) as usize],
        groups: vec![rank / x, rows + rank % x],
    };
    (0..rows * x).map(process).collect()
}
