//! Aggregation engines: they reduce on the way up a tree and send the result back down.
//!
//! A process contributes to an operation (a tree and a sequence number) by sending its values to
//! the switch or adapter that its tree names. A node with an entry for the tree combines the values
//! of its children, in the order of the entry and not of arrival, and sends the result to its
//! parent; the root sends it back to its children, and so on down to the processes. Between nodes
//! packets take unicast routes, hop by hop, so that a part can fail between two hops.
//!
//! Call [`Emulator::contribute`](crate::Emulator::contribute) for each process and
//! [`Emulator::run_aggregation`](crate::Emulator::run_aggregation) to move packets
//! ([`Emulator::step_aggregation`](crate::Emulator::step_aggregation) for one hop), then drain
//! [`Emulator::poll_finished`](crate::Emulator::poll_finished). There is no clock here: an
//! operation waits for a missing process until [`Emulator::abandon`](crate::Emulator::abandon).

mod contribution;
mod engine;
mod fabric;
mod operation;
mod routes;
mod table;
mod values;

pub use contribution::{Contribution, ContributionError, Failure, Finished, Work};
pub(crate) use engine::Aggregation;
pub use fabric::AggregationPlace;
pub(crate) use fabric::FabricState;
pub use table::{
    AggregationError, AggregationLimits, AggregationProblem, AggregationWrite, ChangeProblem,
};
pub use values::{Reduction, Values};
