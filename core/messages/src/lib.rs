//! The hybrid tree carries data: messages and collective operations of groups, as state machines.
//!
//! Values in, values out: no clock, no socket, no thread. Read [`Courier`] first: it is the message
//! layer of one node, with a station for each member that lives there. `docs/messages.md` says what
//! is promised to whom, `frame.rs` what travels.
//!
//! Source: Wu et al. 1997. Each group has two overlaid connections: a tree of unicast links between
//! its members' nodes, and a multicast connection from the tree's root to all others.
#![warn(clippy::wildcard_enum_match_arm)]

mod codec;
mod courier;
mod frame;
mod operation;
mod outputs;
mod roster;
mod station;
mod stream;
mod switches;
mod values;

pub use codec::DecodeError;
pub use courier::Courier;
pub use frame::{Body, Frame, Hello, Life, Notice, Packet, Part, Report, RosterChange, Source};
pub use operation::{
    Answer, Call, Gathered, Item, Kind, OnFailure, Operation, OperationError, Outcome,
};
pub use outputs::{
    Limits, Mode, OpenError, Output, Place, PlaceNeighbor, SendError, SendId, StartError,
};
pub use switches::{Offer, Run, Wide, Work};
pub use values::{Reduction, ReductionError, Values};
