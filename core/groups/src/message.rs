//! Messages between operating agents and group agents.

use std::sync::Arc;

use fabricast_topology::Mgid;
use thiserror::Error;

use crate::directory::MemberView;
use crate::ids::{Epoch, Gn, Incarnation, Pn, Revision, Version};
use crate::names::{Address, GroupName, NodeName};
use crate::record::Route;
use crate::tree::TreeShape;
use crate::voucher::{EnrolmentClaim, JoinClaim, MemberClaim, Voucher, VoucherKey};

/// Registers a new member with its group's agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// Number of the group.
    pub gn: Gn,
    /// Epoch of the agent, from the TIC.
    pub epoch: Epoch,
    /// The member, as the TIC recorded it.
    pub member: MemberView,
    /// Word of the TIC that it has joined in this epoch.
    pub voucher: Option<Voucher>,
}

impl Register {
    /// Returns what its voucher is for.
    pub fn claim(&self) -> JoinClaim<'_> {
        let MemberView { member, incarnation, address } = &self.member;
        let member = MemberClaim { gn: self.gn, ..member.claim(*incarnation) };
        JoinClaim { member, address, epoch: self.epoch }
    }

    /// Returns whether the TIC has vouched for it, under the key of the node of the group's agent.
    pub fn is_vouched(&self, key: &VoucherKey) -> bool {
        self.voucher == Some(self.claim().voucher(key))
    }
}

/// Tells a group's agent that a member has left; the TIC has recorded that before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deregister {
    /// Number of the group.
    pub gn: Gn,
    /// The epoch of the agent, as the member knows it.
    pub epoch: Epoch,
    /// Rank of the former member.
    pub pn: Pn,
    /// Name of the node.
    pub node: NodeName,
}

/// A member's place in the unicast tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PositionUpdate {
    /// Number of the group.
    pub gn: Gn,
    /// Epoch of the sending agent.
    pub epoch: Epoch,
    /// PN of the member.
    pub pn: Pn,
    /// Name of the node.
    pub node: NodeName,
    /// Shape of the tree.
    pub tree: TreeShape,
    /// The neighbour towards the root; `None` at the root.
    pub parent: Option<Neighbor>,
    /// The neighbours away from the root, ascending by PN.
    pub children: Vec<Neighbor>,
    /// Hardware route of the group, as far as the agent knows.
    pub route: Option<Arc<Route>>,
    /// Version, which grows with every change of this member's place or route within the epoch.
    pub version: Version,
    /// The membership itself, sent until the node is known to have it.
    pub enrolment: Option<Box<Enrolment>>,
}

/// A membership as the TIC recorded it, for a node that may not know it because another party
/// created it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrolment {
    /// The name of the group.
    pub group: GroupName,
    /// The group's address on the fabric.
    pub mgid: Mgid,
    /// Record and address of the member.
    pub member: MemberView,
    /// The node of the group's agent.
    pub agent: NodeName,
    /// Address where the agent listens.
    pub agent_address: Address,
    /// Revision of the records in which it was seen.
    pub known: Revision,
    /// Word of the TIC for all but the revision.
    pub voucher: Option<Voucher>,
}

impl Enrolment {
    /// Returns what its voucher is for.
    ///
    /// - `epoch`: of the position that it comes with.
    pub fn claim(&self, epoch: Epoch) -> EnrolmentClaim<'_> {
        EnrolmentClaim {
            member: self.member.member.claim(self.member.incarnation),
            group: &self.group,
            mgid: self.mgid,
            epoch,
            agent: &self.agent,
            agent_address: &self.agent_address,
        }
    }

    /// Returns whether the TIC has vouched for it, under the key of the member's node.
    ///
    /// - `epoch`: of the position that it comes with.
    pub fn is_vouched(&self, epoch: Epoch, key: &VoucherKey) -> bool {
        self.voucher == Some(self.claim(epoch).voucher(key))
    }
}

/// A tree neighbour and where to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// Rank in the group.
    pub pn: Pn,
    /// Name of the node.
    pub node: NodeName,
    /// Address where its operating agent listens.
    pub address: Address,
}

/// Periodic report of a node to all group agents on one host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OaReport {
    /// The reporting node.
    pub node: NodeName,
    /// Incarnation of the node.
    pub incarnation: Incarnation,
    /// All its memberships in groups of that host.
    pub memberships: Vec<MembershipStatus>,
}

/// One membership as its operating agent knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MembershipStatus {
    /// Number of the group.
    pub gn: Gn,
    /// The epoch it follows.
    pub epoch: Epoch,
    /// Rank in the group.
    pub pn: Pn,
    /// Revision of its join: the rank may belong to another process by now, even on the same node.
    pub joined: Revision,
    /// Version of the position that it holds; 0 if none.
    pub version: Version,
}

/// The answer to an [`OaReport`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OaReportReply {
    /// Positions that the node was behind on.
    pub positions: Vec<PositionUpdate>,
    /// Memberships that the agents do not know; the node fetches their groups from the TIC.
    pub unknown: Vec<(Gn, Pn)>,
}

impl OaReportReply {
    /// Returns true if the node was behind on nothing.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty() && self.unknown.is_empty()
    }
}

/// Refusal of a group agent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AgentRefusal {
    /// The group's agent is elsewhere, or has not heard of its appointment yet.
    #[error("group {gn} has no agent here in epoch {epoch}")]
    NotHosted {
        /// Number of the group.
        gn: Gn,
        /// The epoch asked for.
        epoch: Epoch,
    },
    /// The caller follows a former agent (G4).
    #[error("group {gn} is in epoch {known}, not {given}")]
    StaleEpoch {
        /// Number of the group.
        gn: Gn,
        /// The epoch asked for.
        given: Epoch,
        /// The epoch of this agent.
        known: Epoch,
    },
    /// The member has left or was removed.
    #[error("group {gn} has no such member with rank {pn}")]
    UnknownMember {
        /// Number of the group.
        gn: Gn,
        /// Rank in the group.
        pn: Pn,
    },
}

/// Highest version of a position that an operating agent accepts, unless it has asked for it. Group
/// agents count from 1, and pass it only for a member that somebody else gave so high a version.
pub const MAX_VERSION: Version = Version(1 << 62);

/// Refusal of a position by an operating agent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PositionRefusal {
    /// The node is not up, or is another one.
    #[error("node {node:?} is not up")]
    NotUp {
        /// Name of the node.
        node: NodeName,
    },
    /// The node does not know the membership and fetches the group from the TIC.
    #[error("rank {pn} of group {gn} is not on this node")]
    UnknownMember {
        /// Number of the group.
        gn: Gn,
        /// Rank in the group.
        pn: Pn,
    },
    /// The sender is a former agent (G4).
    #[error("group {gn} is in epoch {known}, not {given}")]
    StaleEpoch {
        /// Number of the group.
        gn: Gn,
        /// The epoch of the sender.
        given: Epoch,
        /// Newest epoch known.
        known: Epoch,
    },
    /// The TIC has not named the sender, or not yet, as the agent of that epoch.
    #[error("the sender is not known as the agent of group {gn} in epoch {given}")]
    UnknownAgent {
        /// Number of the group.
        gn: Gn,
        /// Epoch of the sender.
        given: Epoch,
    },
    /// It came unasked with a version above that.
    #[error("a position of group {gn} has version {given}, above {MAX_VERSION}")]
    VersionOutOfRange {
        /// Number of the group.
        gn: Gn,
        /// Version of the position.
        given: Version,
    },
}
