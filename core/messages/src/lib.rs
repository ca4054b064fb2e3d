//! Messages and collective operations of groups over the hybrid tree, as state machines.
//!
//! Values in, values out: no clock, no socket, no thread. Read [`MessageLayer`] first: it is the
//! message layer of one node, with an endpoint for each of the node's members. `docs/messages.md`
//! lists what is promised, `frame.rs` what is sent.
//!
//! Source: Wu et al. 1997. Each group has two overlaid connections: a tree of unicast links between
//! its members' nodes, and a multicast connection from the tree's root to all others.
#![warn(clippy::wildcard_enum_match_arm)]

mod codec;
mod frame;
mod member_endpoint;
mod message_layer;
mod operation;
mod outputs;
mod roster;
mod stream;
mod switches;
mod values;

pub use codec::DecodeError;
pub use frame::{
    Ack, Announcement, Body, Content, Frame, Hello, JoinRevision, Missing, Notice, Packet, Part,
    Piece, Report, RosterChange, Source,
};
pub use message_layer::{MemberId, MessageLayer};
pub use operation::{
    Answer, Call, Gathered, Item, Kind, OnFailure, Operation, OperationError, Outcome, Segment,
    Terms,
};
pub use outputs::{
    Limits, Mode, OpenError, Output, Place, PlaceNeighbor, SendError, SendId, StartError,
};
pub use switches::{Combination, Offer, Run, Wide, Work};
pub use values::{Reduction, ReductionError, Values};
