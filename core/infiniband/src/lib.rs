//! InfiniBand's subnet management as values: packets, attributes, multicast tables, discovery.
//!
//! Read [`Discovery`] first: queries out, answers in, a [`Subnet`] at the end. [`Smp`] is the
//! packet that carries them, [`MulticastTable`] a switch's forwarding table in the blocks that are
//! read and written; [`CountersQuery`] asks for the counters of ports. Nothing here sends anything:
//! `platform/umad` does, and `agents/switch` puts the two together.
//!
//! Source: InfiniBand Architecture Specification, volume 1, chapters 13, 14 and 16.
#![warn(clippy::wildcard_enum_match_arm)]

mod attributes;
mod discovery;
mod missing;
mod multicast;
mod performance;
mod smp;
mod subnet;

pub use attributes::{
    AttributeError, NodeDescription, NodeInfo, NodeType, PortInfo, PortState, SwitchInfo,
};
pub use discovery::{Discovery, Query, QueryId};
pub use missing::{Missing, missing};
pub use multicast::{BLOCK_ENTRIES, Block, BlockPlace, FIRST_MULTICAST_LID, MulticastTable};
pub use performance::{Counters, CountersQuery, Traffic, dropped_packets};
pub use smp::{Attribute, Data, Method, Path, PathError, Route, SMP_BYTES, Smp, SmpError};
pub use subnet::{Cable, Node, PortName, Subnet};
