//! Switches as values: real multicast tables, real forwarding, faults on demand.
//!
//! Read [`Emulator`] first. It is what the emulated fabric serves, what tests send packets through,
//! and what offline checks walk; it knows nothing of groups or routing, only tables. Pure: the same
//! calls give the same answers.
//!
//! Invariants
//! - EMU-1: every copy of a packet ends delivered or dropped for a stated reason, also when the
//!   tables hold a loop.
//! - EMU-2: what was written is what is read and what forwards; a refused batch changes nothing.
//! - EMU-3: nothing passes a dead switch, link or endpoint.
//! - EMU-4: a switch obeys no fence older than the newest it has seen since it was powered on.
//! - EMU-5: a process gets the result over the contributions of all processes, or an error that says
//!   why; never a wrong value, whatever the entries say and whatever fails.
//! - EMU-6: when nothing travels any more, every process of an operation that all have contributed to
//!   has got one of both.
#![warn(clippy::wildcard_enum_match_arm)]

mod aggregation;
mod emulator;
mod events;
mod faults;
mod forward;
mod packet;
mod table;

pub use aggregation::{
    AggregationError, AggregationLimits, AggregationPlace, AggregationProblem, AggregationWrite,
    ChangeProblem, Contribution, ContributionError, Failure, Finished, Reduction, Values, Work,
};
pub use emulator::{Emulator, PortCounters, TableError, TableProblem};
pub use events::{Event, EventPage, EventsLost};
pub use faults::{Component, UnknownComponent};
pub use packet::{Deliveries, Drops, HEADER_BYTES, Outcome, Packet};
pub use table::{EntryProblem, EntryWrite, Fence};
