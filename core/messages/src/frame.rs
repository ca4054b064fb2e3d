//! Frames on unicast links and packets on the multicast connection.
//!
//! A link carries the frames of all groups that two nodes share, in order and each once, until it
//! is cut; frames under way are lost then. The multicast connection may lose, repeat and reorder.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_groups::{Gn, Pn, Revision};

use crate::operation::{Call, Gathered, Outcome};

/// Largest number of a part, a round or an operation: no correct member counts so far. Larger ones
/// are ignored, so that counting on never overflows.
const MAX_COUNT: u64 = 1 << 62;

/// Revision at which a member joined; distinguishes successive holders of a rank.
pub type JoinRevision = Revision;

/// A frame from one member's endpoint to that of a neighbour in the tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// Group of both; groups share links.
    pub gn: Gn,
    /// Rank of the sender.
    pub from: Pn,
    /// Rank of the receiver.
    pub to: Pn,
    /// Content, by kind.
    pub body: Body,
}

/// A packet on the multicast connection, from the root of a group's tree to all other members.
#[derive(Clone, Debug, PartialEq)]
pub struct Packet {
    /// Group of the sender.
    pub gn: Gn,
    /// Content, by kind.
    pub notice: Notice,
}

/// Content of a [`Packet`].
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// A part of a reliable message.
    Part(Arc<Part>),
    /// A part of a best-effort message.
    BestEffort(Arc<Part>),
    /// An operation has ended.
    Decided {
        /// Round in which the root decided.
        round: u64,
        /// Outcome of the operation.
        outcome: Arc<Outcome>,
    },
    /// A piece of what is too long for a packet.
    Piece(Arc<Piece>),
}

/// A piece of what is announced in pieces. All but the last are equally long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The announcement of all pieces.
    pub of: Announcement,
    /// Number of the piece, from 0.
    pub index: u32,
    /// Bytes of the content in this piece.
    pub payload: Vec<u8>,
}

/// Announces pieces of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Number of the operation.
    pub number: u64,
    /// Content of the pieces together.
    pub content: Content,
    /// Number of pieces.
    pub pieces: u32,
}

/// Content that is sent in pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The encoded outcome, from the root.
    Outcome {
        /// Round in which the root decided.
        round: u64,
    },
    /// The payload of a broadcast, from its source, before the operation is decided.
    Payload {
        /// Source of the broadcast.
        source: Source,
        /// Digest of the payload.
        digest: u64,
    },
}

/// A source of messages: a member, by rank and join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Source {
    /// Rank of the member.
    pub pn: Pn,
    /// Revision of its join.
    pub joined: JoinRevision,
}

/// A message, or a piece of one that is too long for a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Sender of the message.
    pub source: Source,
    /// Number among all parts of the source in the group, from 1.
    pub number: u64,
    /// Number of the last part that no member needed any more when this one was sent.
    pub floor: u64,
    /// True for the first part of a message.
    pub first: bool,
    /// True for the last part of a message.
    pub last: bool,
    /// Bytes of the message in this part.
    pub payload: Vec<u8>,
}

/// Content of a [`Frame`].
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// The sender has become a neighbour, or its link is new.
    Hello(Hello),
    /// Members that take part on the sender's side of the edge.
    Roster(RosterChange),
    /// No member needs the parts of this source up to `floor` any more.
    Floor {
        /// Source of the parts, which has found this out.
        source: Source,
        /// Number of the last part that all members have or need not have.
        floor: u64,
    },
    /// A part of a reliable message.
    Part(Arc<Part>),
    /// A part of a best-effort message.
    BestEffort(Arc<Part>),
    /// Progress of the sender's side; sent towards the source.
    Ack {
        /// Source of the parts.
        source: Source,
        /// Parts that the sender's side has.
        ack: Ack,
    },
    /// A new root collects contributions again; earlier rounds are void.
    Round {
        /// Number of the round.
        round: u64,
        /// Last operation whose outcome the sender knows; 0 if none.
        decided: u64,
    },
    /// The contributions of the sender's side.
    Report(Report),
    /// An operation has ended.
    Decided {
        /// Round in which the root decided, or a later one that the sender knows of.
        round: u64,
        /// Outcome of the operation.
        outcome: Arc<Outcome>,
    },
    /// Asks for the outcome of an operation.
    Query {
        /// Number of the operation.
        number: u64,
    },
    /// Asks for parts that the multicast connection has not brought, though later ones. This and
    /// the kinds that follow are only for neighbours that it reaches.
    Lacks {
        /// Source of the parts.
        source: Source,
        /// First part that the sender lacks.
        from: u64,
        /// First part after those that it asks for.
        to: u64,
    },
    /// A piece that the multicast connection has not brought.
    Piece(Arc<Piece>),
    /// All members on the sender's side that the multicast connection reaches have the pieces
    /// before this one.
    Collected {
        /// Announcement of the pieces.
        of: Announcement,
        /// Number of the first piece that is missing somewhere.
        have: u32,
    },
    /// Asks for pieces.
    Missing(Missing),
}

/// A question for pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Announcement of the pieces.
    pub of: Announcement,
    /// First piece that the sender lacks.
    pub from: u32,
    /// First piece after those that it asks for.
    pub to: u32,
    /// True if the multicast connection has brought some of them.
    pub heard: bool,
}

/// Progress of one side of an edge with the parts of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// All parts up to this have reached the sender.
    pub have: u64,
    /// All parts up to this were taken by all members on the sender's side.
    pub side: u64,
}

/// The first frame on an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Revision of the sender's join.
    pub joined: JoinRevision,
    /// True if the receiver shall say hello, too.
    pub reply: bool,
    /// True if the multicast connection reaches the sender, as far as it knows.
    pub hears: bool,
    /// Round that the sender takes part in.
    pub round: u64,
    /// Last operation whose outcome the sender knows; 0 if none.
    pub decided: u64,
}

/// Members that take part on one side of an edge, or a change of these.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RosterChange {
    /// True if `here` names all members; otherwise this is a change.
    pub whole: bool,
    /// Ranks that no longer take part.
    pub gone: Vec<Pn>,
    /// Ranks that take part, with their joins.
    pub here: Vec<(Pn, JoinRevision)>,
}

/// Contributions of one side of the tree to an operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// Number of the operation in its group, from 1.
    pub number: u64,
    /// Round of the report.
    pub round: u64,
    /// The call of these members.
    pub call: Call,
    /// A different call, if members do not agree.
    pub other: Option<String>,
    /// Members that contributed.
    pub included: BTreeSet<Pn>,
    /// Newest of their joins.
    pub newest: JoinRevision,
    /// Members that took part when these called.
    pub expected: Arc<BTreeSet<Pn>>,
    /// Members of `expected` that are gone.
    pub lost: BTreeSet<Pn>,
    /// The contributions, merged. Payloads are announced only to neighbours that the multicast
    /// connection reaches.
    pub gathered: Gathered,
}

impl Body {
    /// Tells if a correct member may have counted so far.
    pub(crate) fn is_plausible(&self) -> bool {
        let largest = match self {
            Self::Hello(hello) => hello.round.max(hello.decided),
            Self::Roster(_) => 0,
            Self::Floor { floor, .. } => *floor,
            Self::Part(part) | Self::BestEffort(part) => part.number.max(part.floor),
            Self::Ack { ack, .. } => ack.have.max(ack.side),
            Self::Round { round, decided } => *round.max(decided),
            Self::Report(report) => report.number.max(report.round),
            Self::Decided { round, outcome } => outcome.number.max(*round),
            Self::Query { number } => *number,
            Self::Lacks { from, to, .. } => *from.max(to),
            Self::Piece(piece) => piece.of.largest(),
            Self::Collected { of, .. } => of.largest(),
            Self::Missing(missing) => missing.of.largest(),
        };
        largest <= MAX_COUNT
    }
}

impl Notice {
    pub(crate) fn is_plausible(&self) -> bool {
        let largest = match self {
            Self::Part(part) | Self::BestEffort(part) => part.number.max(part.floor),
            Self::Decided { round, outcome } => outcome.number.max(*round),
            Self::Piece(piece) => piece.of.largest(),
        };
        largest <= MAX_COUNT
    }
}

impl Announcement {
    /// The source of a payload; `None` for an outcome.
    pub(crate) fn source(&self) -> Option<Source> {
        match self.content {
            Content::Outcome { .. } => None,
            Content::Payload { source, .. } => Some(source),
        }
    }

    fn largest(&self) -> u64 {
        match self.content {
            Content::Outcome { round } => self.number.max(round),
            Content::Payload { .. } => self.number,
        }
    }
}
