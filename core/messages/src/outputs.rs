//! What a courier is told and what it asks its owner to do.

use std::time::Duration;

use fabricast_groups::names::{Address, NodeName};
use fabricast_groups::{Gn, Pn};
use thiserror::Error;

use crate::frame::{Frame, Life, Packet};
use crate::operation::{Call, Outcome};
use crate::switches::Run;
use crate::values::ReductionError;

/// Bounds and times of a message layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest payload of one part, in bytes: with its header a part fits a packet of the fabric.
    pub part: usize,
    /// Longest packet on the multicast connection, in bytes.
    pub packet: usize,
    /// Longest message, and longest contribution to an operation, in bytes.
    pub message: usize,
    /// Parts that a source may be ahead of the slowest member.
    pub window: u64,
    /// Parts of one member that may wait for room in the window.
    pub backlog: usize,
    /// Messages that may wait for a process to take them.
    pub inbox: usize,
    /// What multicast has not brought comes over the tree after this.
    pub retry: Duration,
    /// A neighbour that has needed that gets everything over the tree for so long.
    pub mistrust: Duration,
    /// A link that no group needs is kept for so long.
    pub linger: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            part: 3_968,
            packet: 4_096,
            message: 1 << 20,
            window: 64,
            backlog: 512,
            inbox: 256,
            retry: Duration::from_millis(20),
            mistrust: Duration::from_secs(1),
            linger: Duration::from_secs(1),
        }
    }
}

/// How a message is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every member that takes part and lives gets it, in the order of its source.
    Reliable,
    /// Once, over whatever is there; nobody asks who got it.
    BestEffort,
}

/// Where a member of this node is in its group's tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The group.
    pub gn: Gn,
    /// The member.
    pub pn: Pn,
    /// Its life.
    pub life: Life,
    /// The neighbour towards the root; `None` at the root.
    pub parent: Option<PlaceNeighbor>,
    /// The neighbours away from the root.
    pub children: Vec<PlaceNeighbor>,
    /// Whether the multicast connection is open for the member.
    pub multicast: bool,
}

/// A neighbour in a group's tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceNeighbor {
    /// Its rank.
    pub pn: Pn,
    /// Its node.
    pub node: NodeName,
    /// Where its node's operating agent listens.
    pub address: Address,
}

/// Names a message until its end, within its member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SendId(pub u64);

/// What the owner of a courier has to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Link to a node; answer with `link_up`, and `link_down` whenever it is cut.
    Connect {
        /// The node.
        node: NodeName,
        /// Where it listens.
        address: Address,
    },
    /// No group needs the link any more.
    Disconnect {
        /// The node.
        node: NodeName,
    },
    /// Send on a link that is up.
    Frame {
        /// The node at its other end.
        node: NodeName,
        /// What.
        frame: Frame,
    },
    /// Send on a group's multicast connection.
    Multicast {
        /// The member that sends: the root.
        pn: Pn,
        /// What.
        packet: Packet,
    },
    /// Hand a message to a process; say [`crate::Courier::consumed`] when the process has taken it.
    Deliver {
        /// The group.
        gn: Gn,
        /// The member.
        pn: Pn,
        /// Who sent it.
        from: Pn,
        /// The message.
        payload: Vec<u8>,
    },
    /// All that take part and live have a message.
    Acknowledged {
        /// The group.
        gn: Gn,
        /// The member that sent it.
        pn: Pn,
        /// Which message.
        id: SendId,
        /// Who took part when it was sent and has gone since: whether they have it is not known.
        missed: Vec<Pn>,
    },
    /// There is room for more messages again.
    Room {
        /// The group.
        gn: Gn,
        /// The member.
        pn: Pn,
    },
    /// Who takes part has changed; ask [`crate::Courier::roster`].
    Roster {
        /// The group.
        gn: Gn,
        /// The member that knows.
        pn: Pn,
    },
    /// Contribute to a run of the switches for a member; answer with [`crate::Courier::combined`].
    Combine {
        /// The group.
        gn: Gn,
        /// The member.
        pn: Pn,
        /// What to contribute.
        run: Run,
    },
    /// Give the member's run up, for all who have contributed to it.
    Withdraw {
        /// The group.
        gn: Gn,
        /// The member.
        pn: Pn,
    },
    /// A member's operation has ended.
    Ended {
        /// The group.
        gn: Gn,
        /// The member.
        pn: Pn,
        /// What it called.
        call: Call,
        /// How it ended.
        outcome: std::sync::Arc<Outcome>,
        /// Whether the switches brought the member the outcome.
        by_switches: bool,
    },
}

/// Why a member cannot take part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The node has no such member, or does not know its place yet.
    #[error("rank {pn} of group {gn} has no place here")]
    NoPlace {
        /// The group.
        gn: Gn,
        /// The member.
        pn: Pn,
    },
    /// It takes part already.
    #[error("rank {pn} of group {gn} takes part already")]
    Open {
        /// The group.
        gn: Gn,
        /// The member.
        pn: Pn,
    },
}

/// Why a message is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    /// The member does not take part.
    #[error("rank {pn} of group {gn} does not take part")]
    NotOpen {
        /// The group.
        gn: Gn,
        /// The member.
        pn: Pn,
    },
    /// Too long.
    #[error("a message has {bytes} bytes, at most {limit} are allowed")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The most.
        limit: usize,
    },
    /// The slowest member is too far behind; wait for [`Output::Room`].
    #[error("the slowest member is too far behind")]
    NoRoom,
}

/// Why an operation is not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StartError {
    /// The member does not take part.
    #[error("rank {pn} of group {gn} does not take part")]
    NotOpen {
        /// The group.
        gn: Gn,
        /// The member.
        pn: Pn,
    },
    /// Its last operation has not ended.
    #[error("an operation is under way")]
    Busy,
    /// Too long.
    #[error("a contribution has {bytes} bytes, at most {limit} are allowed")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The most.
        limit: usize,
    },
    /// The values cannot be combined so.
    #[error(transparent)]
    Reduction(#[from] ReductionError),
}
