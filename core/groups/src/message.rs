//! What operating agents and group agents say to each other.

use fabricast_routing::Mgid;
use thiserror::Error;

use crate::directory::MemberView;
use crate::ids::{Epoch, Gn, Incarnation, Pn, Revision, Version};
use crate::names::{Address, GroupName, NodeName};
use crate::record::Route;

/// A new member makes itself known to its group's agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Register {
    /// The group.
    pub gn: Gn,
    /// The epoch of the agent, as the TIC told it.
    pub epoch: Epoch,
    /// The member, as the TIC admitted it.
    pub member: MemberView,
}

/// A member that the TIC has taken out says good-bye.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deregister {
    /// The group.
    pub gn: Gn,
    /// The epoch of the agent, as the member knows it.
    pub epoch: Epoch,
    /// The rank it had.
    pub pn: Pn,
    /// Its node.
    pub node: NodeName,
}

/// A member's place in the unicast tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PositionUpdate {
    /// The group.
    pub gn: Gn,
    /// The epoch of the agent that says so.
    pub epoch: Epoch,
    /// The member.
    pub pn: Pn,
    /// Its node.
    pub node: NodeName,
    /// The neighbour towards the root; `None` at the root.
    pub parent: Option<Neighbor>,
    /// The neighbours away from the root, ascending by PN.
    pub children: Vec<Neighbor>,
    /// How the hardware serves the group, as far as the agent knows.
    pub route: Option<Route>,
    /// Grows with every change of this member's place or route within the epoch.
    pub version: Version,
    /// The membership itself, as long as its node may not have heard of it.
    pub enrolment: Option<Box<Enrolment>>,
}

/// A membership as the TIC recorded it, for a node that may not have heard of it: somebody else may have made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Enrolment {
    /// The name of the group.
    pub group: GroupName,
    /// The group's address on the fabric.
    pub mgid: Mgid,
    /// The member.
    pub member: MemberView,
    /// The node of the group's agent.
    pub agent: NodeName,
    /// Where the agent listens.
    pub agent_address: Address,
    /// The revision at which the TIC had it.
    pub known: Revision,
}

/// A tree neighbour and where to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// Its rank.
    pub pn: Pn,
    /// Its node.
    pub node: NodeName,
    /// Where its operating agent listens.
    pub address: Address,
}

/// A node's report to the group agents on one host: it lives, and this is where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OaReport {
    /// The reporting node.
    pub node: NodeName,
    /// Its life.
    pub incarnation: Incarnation,
    /// All its memberships in groups of that host.
    pub memberships: Vec<MembershipStatus>,
}

/// One membership as its operating agent knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MembershipStatus {
    /// The group.
    pub gn: Gn,
    /// The epoch it follows.
    pub epoch: Epoch,
    /// The rank.
    pub pn: Pn,
    /// When it joined: the rank may be another process's by now, even on the same node.
    pub joined: Revision,
    /// The version of the position it holds; 0 if none.
    pub version: Version,
}

/// The answer to an [`OaReport`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OaReportReply {
    /// Positions that the node was behind on.
    pub positions: Vec<PositionUpdate>,
    /// Memberships that the agents do not know: the TIC knows better.
    pub unknown: Vec<(Gn, Pn)>,
}

/// Why a group agent does not do what it is asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum AgentRefusal {
    /// The group's agent is elsewhere, or has not heard of its office yet.
    #[error("group {gn} has no agent here in epoch {epoch}")]
    NotHosted {
        /// The group.
        gn: Gn,
        /// The epoch asked for.
        epoch: Epoch,
    },
    /// The asker follows an agent of the past (G4).
    #[error("group {gn} is in epoch {known}, not {given}")]
    StaleEpoch {
        /// The group.
        gn: Gn,
        /// The epoch asked for.
        given: Epoch,
        /// The epoch of this agent.
        known: Epoch,
    },
    /// The TIC has taken the member out again.
    #[error("group {gn} has no such member with rank {pn}")]
    UnknownMember {
        /// The group.
        gn: Gn,
        /// The rank.
        pn: Pn,
    },
}

/// Why an operating agent does not take a position over.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PositionRefusal {
    /// The node is not taking part.
    #[error("node {node:?} is not up")]
    NotUp {
        /// The node.
        node: NodeName,
    },
    /// The node does not know the membership; it asks the TIC.
    #[error("rank {pn} of group {gn} is not on this node")]
    UnknownMember {
        /// The group.
        gn: Gn,
        /// The rank.
        pn: Pn,
    },
    /// The agent is one of the past (G4).
    #[error("group {gn} is in epoch {known}, not {given}")]
    StaleEpoch {
        /// The group.
        gn: Gn,
        /// The epoch of the sender.
        given: Epoch,
        /// The epoch of the newest agent known.
        known: Epoch,
    },
}
