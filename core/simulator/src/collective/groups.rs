//! Who is in which groups.

use fabricast_topology::EndpointId;
use thiserror::Error;

/// One process: where it runs, and the groups it goes through in a round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessPlan {
    /// Its endpoint.
    pub endpoint: EndpointId,
    /// Its groups, in turn, each once. The members of a group are those that name it, the first of them
    /// its root. All processes have to name groups in one common order.
    pub groups: Vec<u32>,
}

/// Why there is no such run.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CollectiveError {
    /// A process names a group that has no list of trees.
    #[error("process {process} names group {group}, which there is not")]
    UnknownGroup {
        /// The process.
        process: u32,
        /// The group.
        group: u32,
    },
    /// A process goes through a group twice in a round.
    #[error("process {process} names group {group} twice")]
    Twice {
        /// The process.
        process: u32,
        /// The group.
        group: u32,
    },
    /// A process runs on an endpoint that the fabric does not have.
    #[error("process {process} runs on an endpoint that there is not")]
    UnknownEndpoint {
        /// The process.
        process: u32,
    },
    /// A group of several adapters has no tree.
    #[error("group {group} has members on several endpoints and no tree")]
    NoTree {
        /// The group.
        group: u32,
    },
    /// What was given as a group's gathering tree is none.
    #[error("group {group}: the parents given are no tree of its adapters with the first as root")]
    NotATree {
        /// The group.
        group: u32,
    },
    /// The gathering tree is too narrow.
    #[error("fan_in is {fan_in}, must be 2 or more")]
    FanIn {
        /// What was given.
        fan_in: u32,
    },
}

/// Makes the processes of a grid of `x` columns and any number of rows, `per_endpoint` consecutive ones to
/// an endpoint: first their row, which is group `row`, then their column, group `rows + column`.
///
/// `endpoints` are those that run them, in order; the grid has `endpoints * per_endpoint` processes at
/// most, and whole rows only.
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
