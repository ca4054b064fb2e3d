//! Inputs, outputs, limits and errors of a message layer.

use std::time::Duration;

use fabricast_groups::names::{Address, NodeName};
use fabricast_groups::tree::TreeShape;
use fabricast_groups::{Gn, Pn};
use thiserror::Error;

use crate::frame::{Frame, JoinRevision, Packet};
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
    /// Contributions of all members to an operation, at most, in bytes: with what describes them
    /// they fit a frame.
    pub gathered: usize,
    /// Parts that a source may be ahead of the slowest member.
    pub window: u64,
    /// Parts of one member that wait for room in the window, at most.
    pub backlog: usize,
    /// Delivered messages that the process has not taken yet, at most.
    pub inbox: usize,
    /// Time after which a missing part is sent over the tree.
    pub retry: Duration,
    /// Time for which a neighbour that has missed a part gets everything over the tree.
    pub mistrust: Duration,
    /// Time for which a link that no group needs is kept.
    pub linger: Duration,
    /// Pieces of an outcome, or of a payload, that may be under way on the multicast connection.
    pub pieces: u32,
    /// The multicast connection carries what all members send, and what it has carried is sent over
    /// links only to neighbours that it does not reach. Otherwise the root sends on it beside the
    /// links.
    pub relies_on_multicast: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            part: 3_968,
            packet: 4_096,
            message: 1 << 20,
            gathered: 32 << 20,
            window: 64,
            backlog: 512,
            inbox: 256,
            retry: Duration::from_millis(20),
            mistrust: Duration::from_secs(1),
            linger: Duration::from_secs(1),
            pieces: 64,
            relies_on_multicast: false,
        }
    }
}

/// Guarantee of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Every live member that takes part gets it, in the order of its source.
    Reliable,
    /// Sent once, without acknowledgement.
    BestEffort,
}

/// Place of a member of this node in its group's tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the group.
    pub gn: Gn,
    /// Rank of the member.
    pub pn: Pn,
    /// Revision of its join.
    pub joined: JoinRevision,
    /// Shape of the tree; the same for all members, as long as the group exists.
    pub tree: TreeShape,
    /// Neighbour towards the root; `None` at the root.
    pub parent: Option<PlaceNeighbor>,
    /// Neighbours away from the root.
    pub children: Vec<PlaceNeighbor>,
    /// True if the multicast connection is open for the member.
    pub multicast: bool,
}

/// A neighbour in a group's tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlaceNeighbor {
    /// Rank of the neighbour.
    pub pn: Pn,
    /// Node of the neighbour.
    pub node: NodeName,
    /// Address of the operating agent of that node.
    pub address: Address,
}

/// Names a message of one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SendId(pub u64);

/// Work for the owner of a message layer.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// Link to a node; call `link_up` then, and `link_down` whenever the link is cut.
    Connect {
        /// Node to link to.
        node: NodeName,
        /// Address of its operating agent.
        address: Address,
    },
    /// Close the link to a node: no group needs it any more.
    Disconnect {
        /// Node at the other end.
        node: NodeName,
    },
    /// Send a frame on a link that is up.
    Frame {
        /// Node at the other end.
        node: NodeName,
        /// Frame to send.
        frame: Frame,
    },
    /// Send a packet on a group's multicast connection.
    Multicast {
        /// Rank of the sender: the root, or any with [`Limits::relies_on_multicast`].
        pn: Pn,
        /// Packet to send.
        packet: Packet,
    },
    /// Deliver a message to a process; call [`crate::MessageLayer::consumed`] once the process has
    /// taken it.
    Deliver {
        /// Number of the group.
        gn: Gn,
        /// Rank of the member.
        pn: Pn,
        /// Rank of the sender.
        from: Pn,
        /// Bytes of the message.
        payload: Vec<u8>,
    },
    /// All live members that take part have a message.
    Acknowledged {
        /// Number of the group.
        gn: Gn,
        /// Rank of the sender.
        pn: Pn,
        /// Name of the message.
        id: SendId,
        /// Members that took part when it was sent and have left since; they may have it or not.
        missed: Vec<Pn>,
    },
    /// There is room for more messages again, after [`SendError::NoRoom`].
    Room {
        /// Number of the group.
        gn: Gn,
        /// Rank of the member.
        pn: Pn,
    },
    /// The roster has changed; read it with [`crate::MessageLayer::roster`].
    Roster {
        /// Number of the group.
        gn: Gn,
        /// Rank of the member that knows it.
        pn: Pn,
    },
    /// Contribute to a run of the switches for a member; call
    /// [`crate::MessageLayer::combined`] at its end.
    Combine {
        /// Number of the group.
        gn: Gn,
        /// Rank of the member.
        pn: Pn,
        /// Contribution of the member.
        run: Run,
    },
    /// Withdraw the member's run, which fails it for all that have contributed.
    Withdraw {
        /// Number of the group.
        gn: Gn,
        /// Rank of the member.
        pn: Pn,
    },
    /// A member's operation has ended.
    Ended {
        /// Number of the group.
        gn: Gn,
        /// Rank of the member.
        pn: Pn,
        /// Call of the member.
        call: Call,
        /// Outcome of the operation.
        outcome: std::sync::Arc<Outcome>,
        /// True if the switches gave the member the outcome.
        by_switches: bool,
    },
}

/// Reason why a member cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// The node has no such member, or its place is not known yet.
    #[error("rank {pn} of group {gn} has no place here")]
    NoPlace {
        /// Number of the group.
        gn: Gn,
        /// Rank of the member.
        pn: Pn,
    },
    /// The member takes part already.
    #[error("rank {pn} of group {gn} takes part already")]
    Open {
        /// Number of the group.
        gn: Gn,
        /// Rank of the member.
        pn: Pn,
    },
}

/// Reason why a message is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SendError {
    /// The member is not open.
    #[error("rank {pn} of group {gn} does not take part")]
    NotOpen {
        /// Number of the group.
        gn: Gn,
        /// Rank of the member.
        pn: Pn,
    },
    /// The message is too long.
    #[error("a message has {bytes} bytes, at most {limit} are allowed")]
    TooLong {
        /// Length in bytes.
        bytes: usize,
        /// Greatest length, in bytes.
        limit: usize,
    },
    /// The slowest member is too far behind; wait for [`Output::Room`].
    #[error("the slowest member is too far behind")]
    NoRoom,
}

/// Reason why an operation is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StartError {
    /// The member is not open.
    #[error("rank {pn} of group {gn} does not take part")]
    NotOpen {
        /// Number of the group.
        gn: Gn,
        /// Rank of the member.
        pn: Pn,
    },
    /// The member's last operation has not ended.
    #[error("an operation is under way")]
    Busy,
    /// The contribution is too long.
    #[error("a contribution has {bytes} bytes, at most {limit} are allowed")]
    TooLong {
        /// Length in bytes.
        bytes: usize,
        /// Greatest length, in bytes.
        limit: usize,
    },
    /// The values cannot be combined by the rule.
    #[error(transparent)]
    Reduction(#[from] ReductionError),
}
