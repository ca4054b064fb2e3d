//! What travels: frames on unicast links, packets on the multicast connection.
//!
//! A link carries the frames of all groups that two nodes share, in order and each once, until it is
//! cut; what is under way then is lost. The multicast connection may lose, repeat and reorder.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_groups::{Gn, Pn, Revision};

use crate::operation::{Call, Gathered, Outcome};

/// When a member joined; tells two apart that had the same PN one after the other.
pub type Life = Revision;

/// From one member's station to a neighbour's in the tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// The group; tells apart the groups that share a link.
    pub gn: Gn,
    /// Whose station sends.
    pub from: Pn,
    /// Whose station it is for.
    pub to: Pn,
    /// What is said.
    pub body: Body,
}

/// On the multicast connection, from the root of a group's tree to all others.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    /// The group.
    pub gn: Gn,
    /// What is said.
    pub notice: Notice,
}

/// What a [`Packet`] says.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// A part of a reliable message.
    Part(Arc<Part>),
    /// A part of a message that nobody misses.
    Loose(Arc<Part>),
    /// An operation has ended.
    Decided {
        /// The collection it ended in.
        round: u64,
        /// How.
        outcome: Arc<Outcome>,
    },
}

/// Who sends messages: a member in one life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// The member.
    pub pn: Pn,
    /// Its life.
    pub life: Life,
}

/// A message, or a piece of one that is too long for a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Who sent it.
    pub source: Source,
    /// Its place among all parts of that source in the group, from 1.
    pub number: u64,
    /// The last part that nobody needed any more when this one was sent.
    pub floor: u64,
    /// Whether a message begins with it.
    pub first: bool,
    /// Whether a message ends with it.
    pub last: bool,
    /// The bytes.
    pub payload: Vec<u8>,
}

/// What a [`Frame`] says.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// The sender has become a neighbour, or its link is new.
    Hello(Hello),
    /// Who takes part on the sender's side of the edge.
    Roster(RosterChange),
    /// Nobody needs the parts of this source up to `floor` any more.
    Floor {
        /// The source, which has found it out.
        source: Source,
        /// The last part that everybody has, or need not have.
        floor: u64,
    },
    /// A part of a reliable message.
    Part(Arc<Part>),
    /// A part of a message that nobody misses.
    Loose(Arc<Part>),
    /// How far the sender's side is; goes towards the source.
    Ack {
        /// The source.
        source: Source,
        /// All parts up to this have reached the sender.
        have: u64,
        /// All parts up to this have been taken by everybody on the sender's side.
        side: u64,
    },
    /// A new root collects what operations need anew; older collections count no more.
    Round {
        /// The collection.
        round: u64,
        /// The last operation whose end the sender knows.
        decided: u64,
    },
    /// The contributions of the sender's side.
    Report(Report),
    /// An operation has ended.
    Decided {
        /// The collection it ended in, or a later one if the sender knows of one.
        round: u64,
        /// How.
        outcome: Arc<Outcome>,
    },
    /// Has this operation ended?
    Ask {
        /// The operation.
        number: u64,
    },
}

/// The first words on an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The sender's life.
    pub life: Life,
    /// Whether the receiver is to say hello, too.
    pub reply: bool,
    /// Whether the multicast connection reaches the sender, as far as it knows.
    pub hears: bool,
    /// The collection that the sender takes part in.
    pub round: u64,
    /// The last operation whose end the sender knows; 0 if none.
    pub decided: u64,
}

/// Who takes part on one side of an edge, or how that has changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RosterChange {
    /// Whether `here` is everybody; else it is what has changed.
    pub whole: bool,
    /// Who takes no part any more.
    pub gone: Vec<Pn>,
    /// Who takes part, and in which life.
    pub here: Vec<(Pn, Life)>,
}

/// The contributions of one side of the tree to an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Which operation of the group, from 1.
    pub number: u64,
    /// The collection it belongs to.
    pub round: u64,
    /// What was called.
    pub call: Call,
    /// What else was called, if members do not agree.
    pub other: Option<String>,
    /// Whose contributions these are.
    pub included: BTreeSet<Pn>,
    /// The newest of their lives.
    pub newest: Life,
    /// Who took part when they were made.
    pub expected: Arc<BTreeSet<Pn>>,
    /// Who has gone since.
    pub lost: BTreeSet<Pn>,
    /// The contributions.
    pub gathered: Gathered,
}
