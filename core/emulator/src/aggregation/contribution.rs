//! Operations, contributions to them, and their outcomes.

use fabricast_topology::{AggregationNode, EndpointId};
use thiserror::Error;

use super::values::{Reduction, Values};

/// The work of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Completes once all processes have contributed; carries no values.
    Barrier,
    /// Sends the values of one process to all.
    Broadcast {
        /// Number of the sending process.
        source: u32,
    },
    /// Combines the values of all processes for one of them.
    Reduce {
        /// Function that combines the values.
        reduction: Reduction,
        /// Number of the process that gets the result; the others learn only that it is complete.
        root: u32,
    },
    /// Combines the values of all processes for all of them.
    AllReduce {
        /// Function that combines the values.
        reduction: Reduction,
    },
}

/// Contribution of one process to an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Contribution {
    /// Number of the aggregation tree.
    pub tree: u32,
    /// Number of the operation, never used before on this tree.
    pub sequence: u64,
    /// Number of the process in the collective.
    pub process: u32,
    /// Endpoint that the process sends from.
    pub endpoint: EndpointId,
    /// Number of processes that take part.
    pub processes: u32,
    /// Node that the process sends to: its switch, or in an adapter tree its parent, or itself if
    /// it has children.
    pub to: AggregationNode,
    /// Work of the operation; all processes must give the same.
    pub work: Work,
    /// Values of the process; none for a barrier, or if it only receives.
    pub values: Option<Values>,
}

/// Outcome of an operation for one process.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// Number of the aggregation tree.
    pub tree: u32,
    /// Number of the operation on the tree.
    pub sequence: u64,
    /// Number of the process.
    pub process: u32,
    /// Result for the process; without values if the work gives it none.
    pub result: Result<Option<Values>, Failure>,
}

/// Reason why an operation failed. Repeat it with a new number, on a tree without faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// A node that held state or a packet of the operation failed.
    #[error("{node:?} failed")]
    NodeFailed {
        /// Node that failed, has no route or has no entry.
        node: AggregationNode,
    },
    /// No live route leads to a node.
    #[error("no route to {to:?}")]
    NoRoute {
        /// Node that failed, has no route or has no entry.
        to: AggregationNode,
    },
    /// A node has no entry for the tree: never written, removed, or lost in a power cycle.
    #[error("{node:?} has no entry for the tree")]
    NoEntry {
        /// Node that failed, has no route or has no entry.
        node: AggregationNode,
    },
    /// An entry that held state of the operation was removed.
    #[error("an entry was removed")]
    EntryRemoved,
    /// A packet came from a node that the entry does not name, or came twice.
    #[error("{node:?} got an unexpected packet")]
    Unexpected {
        /// Node that received the packet.
        node: AggregationNode,
    },
    /// Processes gave different work, or values of different type or length, or there is not
    /// exactly one source.
    #[error("the processes do not agree")]
    Disagreement,
    /// The result does not cover all processes: the entries are not one tree over them.
    #[error("the result is over {have} of {want} processes")]
    Incomplete {
        /// Contributions in the result.
        have: u32,
        /// Processes of the operation.
        want: u32,
    },
    /// All processes have contributed, but a node waits for packets that no node sends: the entries
    /// are not a tree.
    #[error("a node waits for packets that no node sends")]
    Stuck,
    /// The caller abandoned it, after a timeout or because a process is gone.
    #[error("the operation was abandoned")]
    Abandoned,
    /// The root sent the result, but it did not reach this process.
    #[error("the result did not reach the process")]
    NotReached,
}

/// Reason why a contribution was not sent. The caller is at fault, except for `Busy`, `CutOff` and
/// `Failed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ContributionError {
    /// The fabric has no such endpoint or switch.
    #[error("endpoint or target is not part of the fabric")]
    Unknown,
    /// The process has contributed before.
    #[error("the process has contributed already")]
    Twice,
    /// The operation ended without this process, or the process has its result.
    #[error("the operation has ended")]
    Ended,
    /// Another process gave different work or another number of processes.
    #[error("another process described the operation differently")]
    Disagreement,
    /// A barrier with values, a reduction without, or one not defined for the type of the values.
    #[error("the values do not fit the operation")]
    Values,
    /// The fabric runs as many operations as it can: try again later.
    #[error("too many operations are in progress")]
    Busy,
    /// The endpoint has failed or has no cable.
    #[error("the endpoint cannot send")]
    CutOff,
    /// The operation has failed.
    #[error("the operation has failed")]
    Failed(#[source] Failure),
}
