//! Aggregation engines: reduce on the way up a tree, send the result back down.
//!
//! A process contributes to an operation (a tree and a sequence number) by sending its values to the
//! switch or adapter that its tree says. Whoever holds an entry for the tree combines what its
//! children send, in the order of its entry, whatever order packets come in, and sends the result to
//! its parent; the root sends it back to its children, and so on down to the processes. Between
//! nodes packets take unicast routes, hop by hop, so that anything may fail between two hops.
//!
//! Call [`Emulator::contribute`](crate::Emulator::contribute) for each process, [`Emulator::run_aggregation`](crate::Emulator::run_aggregation) to let packets travel
//! ([`Emulator::step_aggregation`](crate::Emulator::step_aggregation) for one hop), and drain [`Emulator::poll_finished`](crate::Emulator::poll_finished). An operation
//! that waits for a process which will not come waits until [`Emulator::abandon`](crate::Emulator::abandon): there is no clock
//! here.
//!
//! Invariants
//! - EMU-5: a process gets the result over the contributions of all processes, or an error that says
//!   why; never a wrong value, whatever the entries say and whatever fails.
//! - EMU-6: when nothing travels any more, every process of an operation that all have contributed to
//!   has got one of both.

mod ends;
mod engine;
mod operation;
mod routes;
mod table;
mod values;

use std::collections::{BTreeMap, VecDeque};

use fabricast_topology::{AggregationEntry, AggregationNode, EndpointId, Graph};
use thiserror::Error;

pub use table::{
    AggregationError, AggregationLimits, AggregationPlace, AggregationProblem, AggregationWrite,
    ChangeProblem,
};
pub use values::{Reduction, Values};

use engine::Packet;
use operation::Operation;
use routes::Routes;
use table::AggregationTable;

/// Ended operations that are remembered, so that late and repeated contributions are refused.
const ENDED_KEPT: usize = 1_024;

/// Operations under way or remembered; no more are begun.
const OPERATIONS_KEPT: usize = 65_536;

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Nobody goes on before everybody has come. Carries nothing.
    Barrier,
    /// One process's values to all.
    Broadcast {
        /// The process.
        source: u32,
    },
    /// All processes' values, combined, to one.
    Reduce {
        /// How.
        reduction: Reduction,
        /// The process that gets them; the others get nothing but the end.
        root: u32,
    },
    /// All processes' values, combined, to all.
    AllReduce {
        /// How.
        reduction: Reduction,
    },
}

/// A process's part in an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Contribution {
    /// The tree.
    pub tree: u32,
    /// The operation on it: a number that no operation of this tree had before.
    pub sequence: u64,
    /// The process.
    pub process: u32,
    /// Its endpoint.
    pub endpoint: EndpointId,
    /// How many processes take part.
    pub processes: u32,
    /// Where the process sends to: its switch, or in an adapter tree its parent, or itself if it has
    /// children.
    pub to: AggregationNode,
    /// What is done; all must say the same.
    pub work: Work,
    /// Its values; none for a barrier and for those who only receive.
    pub values: Option<Values>,
}

/// The end of an operation for one process.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// The tree.
    pub tree: u32,
    /// The operation.
    pub sequence: u64,
    /// The process.
    pub process: u32,
    /// What it gets; no values where none are due.
    pub result: Result<Option<Values>, Failure>,
}

/// Why an operation failed. Do it again with a new number, on a tree that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// A node with part of the operation, or with a packet of it, failed.
    #[error("{node:?} failed")]
    NodeFailed {
        /// The node.
        node: AggregationNode,
    },
    /// No live way leads to a node.
    #[error("no way to {to:?}")]
    NoWay {
        /// The node.
        to: AggregationNode,
    },
    /// A node has no entry for the tree: not written, removed, or lost with its power.
    #[error("{node:?} has no entry for the tree")]
    NoEntry {
        /// The node.
        node: AggregationNode,
    },
    /// An entry with part of the operation was removed.
    #[error("an entry was removed")]
    EntryRemoved,
    /// A packet came from nobody that the entry names, or twice.
    #[error("{node:?} got an unexpected packet")]
    Unexpected {
        /// Who got it.
        node: AggregationNode,
    },
    /// Processes do not agree on the operation, or on type and length of the values, or there is not
    /// the one source.
    #[error("the processes do not agree")]
    Disagreement,
    /// The result was over other than all processes: the entries are not one tree over them.
    #[error("the result is over {have} of {want} processes")]
    Incomplete {
        /// Contributions in it.
        have: u32,
        /// Processes there are.
        want: u32,
    },
    /// All have contributed, and somebody still waits for packets: the entries are no tree.
    #[error("somebody waits for packets that nobody sends")]
    Stuck,
    /// Somebody gave it up: its time was over, or a process is gone.
    #[error("the operation was given up")]
    Abandoned,
    /// The result went down, but not to this process.
    #[error("the result did not come back")]
    NotReached,
}

/// Why a contribution was not sent; the caller's mistake but for `Busy`, `CutOff` and
/// `Failed`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ContributionError {
    /// The fabric has no such endpoint or switch.
    #[error("endpoint or target is not part of the fabric")]
    Unknown,
    /// The process has contributed.
    #[error("the process has contributed already")]
    Twice,
    /// The operation has ended without it, or it has had its result.
    #[error("the operation has ended")]
    Ended,
    /// Another process has described the operation differently.
    #[error("another process says otherwise of the operation")]
    Disagreement,
    /// A barrier with values, a reduction without, or one that its values do not allow.
    #[error("the values do not fit the operation")]
    Values,
    /// As many operations are under way as the fabric takes: try again later.
    #[error("too many operations are under way")]
    Busy,
    /// The endpoint is dead or not plugged in.
    #[error("the endpoint cannot send")]
    CutOff,
    /// The operation has failed.
    #[error("the operation has failed")]
    Failed(#[source] Failure),
}

/// Everything that aggregation adds to the fabric.
#[derive(Clone, Debug)]
pub(crate) struct Aggregation {
    limits: AggregationLimits,
    tables: Tables,
    /// By tree and sequence number.
    operations: BTreeMap<(u32, u64), Operation>,
    /// The ended ones among them, oldest first.
    ended: VecDeque<(u32, u64)>,
    packets: VecDeque<Packet>,
    finished: VecDeque<Finished>,
    pub(crate) routes: Routes,
}

/// All entries.
#[derive(Clone, Debug)]
struct Tables {
    /// By switch.
    switches: Vec<AggregationTable>,
    adapters: BTreeMap<EndpointId, AggregationTable>,
}

impl Aggregation {
    pub(crate) fn new(graph: &Graph) -> Self {
        let switches = vec![AggregationTable::default(); graph.switch_count()];
        Self {
            limits: AggregationLimits::default(),
            tables: Tables { switches, adapters: BTreeMap::new() },
            operations: BTreeMap::new(),
            ended: VecDeque::new(),
            packets: VecDeque::new(),
            finished: VecDeque::new(),
            routes: Routes::default(),
        }
    }
}

impl Tables {
    /// What a node of a tree holds.
    fn entry(&self, tree: u32, node: AggregationNode) -> Option<&AggregationEntry> {
        match AggregationPlace::of(node) {
            AggregationPlace::Switch(switch) => self.switches.get(switch.index())?.get(tree, node),
            AggregationPlace::Adapter(endpoint) => self.adapters.get(&endpoint)?.get(tree, node),
        }
    }
}
