//! Switches as values: real multicast tables, real forwarding, faults on demand.
//!
//! Read [`Emulator`] first. The emulated fabric serves it, tests send packets through it, and
//! offline checks walk its tables; it knows tables only, neither groups nor routing. The same calls
//! always give the same answers.
//!
//! Invariants
//! - EMU-1: every copy of a packet ends delivered or dropped for a stated reason, also when the
//!   tables hold a loop.
//! - EMU-2: reads and forwarding use exactly the entries written; a refused batch changes nothing.
//! - EMU-3: nothing passes a dead switch, link or endpoint.
//! - EMU-4: a switch obeys no fence older than the newest it has seen since it was powered on.
//! - EMU-5: a process gets the result over the contributions of all processes, or an error that
//!   says why; never a wrong value, whatever the entries say and whatever fails.
//! - EMU-6: once no packet is in flight, every process of an operation that all have contributed to
//!   has a result or an error.
#![warn(clippy::wildcard_enum_match_arm)]

mod aggregation;
mod collectives;
mod emulator;
mod events;
mod faults;
mod packet;
mod table;

pub use aggregation::{
    AggregationError, AggregationLimits, AggregationPlace, AggregationProblem, AggregationWrite,
    ChangeProblem, Contribution, ContributionError, Failure, Finished, Reduction, Values, Work,
};
pub use emulator::{Emulator, TableError, TableProblem};
pub use events::{Event, EventPage, EventsLost};
pub use faults::{Component, UnknownComponent};
pub use packet::{Deliveries, Drops, HEADER_BYTES, Outcome, Packet, PortCounters};
pub use table::{EntryProblem, EntryWrite, Fence};
