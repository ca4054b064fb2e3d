//! OpenFlow 1.3 and 1.4 as values: messages, and multicast tables made of groups and flows.
//!
//! Read [`Message`] first: what a controller and a switch send to each other, as far as a driver
//! of multicast tables needs it. [`Framer`] cuts a byte stream into messages. [`Mapping`] says
//! which group and flow a table entry is; [`Found`] is a table as read back from a switch.
//! [`NeighborTable`] makes a fabric of the frames that switches hand over: those that they send
//! each other ([`LldpFrame`]) and those of hosts ([`Announcement`]). Nothing here sends anything:
//! `agents/switch` does, and `agents/operating` announces.
//!
//! Source: OpenFlow Switch Specification 1.3.5 (ONF TS-023) and 1.4.1 (ONF TS-024), chapter 7;
//! bundles of 1.3 are ONF extension 230.
#![warn(clippy::wildcard_enum_match_arm)]

mod action;
mod announcement;
mod bundle;
mod change;
mod error;
mod fields;
mod flow;
mod framer;
mod group;
mod lldp;
mod mapping;
mod message;
mod multipart;
mod neighbors;
mod port;
mod switch;
mod version;
mod wire;

pub use action::{Action, Instruction};
pub use announcement::Announcement;
pub use bundle::{BundleControl, BundleStep, bundle_flags};
pub use change::{CONTROLLER_FLOWS, Fence};
pub use error::{ErrorMessage, error_type, group_mod_failed, role_request_failed};
pub use fields::{Field, Match};
pub use flow::{FlowCommand, FlowMod, FlowRequest, FlowStats, NO_COOKIE_MASK};
pub use framer::{Framer, MAX_MESSAGE};
pub use group::{ANY_GROUP, Bucket, GroupCommand, GroupDesc, GroupMod, GroupStats, GroupType};
pub use lldp::{CODE_BYTES, LldpFrame};
pub use mapping::{
    Entries, EntryKey, Found, Leftover, Mapping, MappingError, ProgramFlows, ProgramKey, Programs,
    SwitchCapacity,
};
pub use message::{Body, BundleAdd, Hello, Message, PacketIn, PacketOut};
pub use multipart::{
    GroupFeatures, MultipartReply, MultipartRequest, Reply, Request, SwitchDesc, TableDesc,
    TableFeatures, TableStats,
};
pub use neighbors::{Contradiction, HeardFrame, Neighbor, NeighborTable, SeenSwitch, SwitchPort};
pub use port::{ANY_PORT, CONTROLLER_PORT, Port, PortChange, PortStats, PortStatus};
pub use switch::{AsyncMessages, Features, Role, RoleChange, RoleMessage, RoleStatus};
pub use version::Version;
pub use wire::DecodeError;
