//! Durable records of the TIC, and their encoding in a store.
//!
//! A decision of the directory is a list of [`Change`]s. Each change puts or deletes exactly one
//! record under one key, so a shell can write a decision as one store transaction and read the
//! directory back from the same keys. Values are JSON, so that an operator can read a store.

mod codec;

use std::num::NonZeroU32;
use std::sync::Arc;

use fabricast_topology::Mgid;
use serde::{Deserialize, Serialize};

use crate::command::JobEnd;
use crate::flaps::Flaps;
use crate::ids::{Epoch, Gn, Incarnation, Moment, Pn, Revision};
use crate::job::JobRecord;
use crate::names::{
    Address, EndpointName, GroupName, JobName, LayerName, NodeName, ProcessName, RequestId,
};
use crate::tree::TreeShape;
use crate::voucher::{EnrolmentClaim, JoinClaim, MemberClaim, Voucher, VoucherKey};

pub use codec::DecodeError;

/// A compute node as the TIC knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Name of the node.
    pub name: NodeName,
    /// Address where its agents listen.
    pub address: Address,
    /// The adapter ports it owns.
    pub endpoints: Vec<EndpointName>,
    /// Its present incarnation, or its last one if it has failed.
    pub incarnation: Incarnation,
    /// Number that its operating agent chose at its latest start.
    pub start_id: u64,
    /// Up or failed.
    pub state: NodeState,
    /// Flap history; `None` if the node has not flapped or flaps are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flaps: Option<Flaps>,
    /// True if an administrator wants it to be empty: it gets no job, and hosts the agent of a
    /// group only if no other node with a member can.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub drained: bool,
    /// Key under which the TIC vouches to the node, of its latest start; `None` if its agent sent
    /// none. No call returns it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voucher_key: Option<VoucherKey>,
}

impl NodeRecord {
    /// Vouches to this node that a member on it is enrolled; `None` if the node has no key.
    ///
    /// - `agent`: the node of the group's agent.
    pub fn vouch_for_enrolment(
        &self,
        group: &GroupRecord,
        agent: &Self,
        member: &MemberRecord,
    ) -> Option<Voucher> {
        let claim = EnrolmentClaim {
            member: member.claim(self.incarnation),
            group: &group.name,
            mgid: group.mgid,
            epoch: group.epoch,
            agent: &agent.name,
            agent_address: &agent.address,
        };
        self.voucher_key.map(|key| claim.voucher(&key))
    }

    /// Vouches to this node, that of a group's agent, that a member has joined; `None` if the node
    /// has no key.
    ///
    /// - `epoch`: of the agent.
    /// - `from`: the node of the member.
    pub fn vouch_for_join(
        &self,
        epoch: Epoch,
        member: &MemberRecord,
        from: &Self,
    ) -> Option<Voucher> {
        let member = member.claim(from.incarnation);
        let claim = JoinClaim { member, address: &from.address, epoch };
        self.voucher_key.map(|key| claim.voucher(&key))
    }
}

/// State of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeState {
    /// Its operating agent has registered.
    Up,
    /// It was expelled; it comes back only with a new start.
    Failed,
}

/// A group without its members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupRecord {
    /// Group number, never used for another group (G1).
    pub gn: Gn,
    /// The name by which processes find it.
    pub name: GroupName,
    /// Its address on the fabric.
    pub mgid: Mgid,
    /// Node that hosts the group's agent, always a node with a member; `None` if and only if the
    /// group is empty.
    pub agent: Option<NodeName>,
    /// Epoch, which grows with each change of agent (G4); 0 before the first.
    pub epoch: Epoch,
    /// Revision of the latest change of the membership, or of its home.
    pub members_revision: Revision,
    /// Revision of the latest change of this record or the membership.
    pub changed: Revision,
    /// True if the group outlives its last member.
    pub persistent: bool,
    /// True if the group must not share a virtual group.
    pub exclusive: bool,
    /// Time when it was created, on the TIC's clock.
    pub created: Moment,
    /// Latest report of the route service.
    pub route: Option<Route>,
    /// Layer named by its creator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<LayerName>,
    /// The job it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobName>,
    /// Members that the group waits for before it is routed; `None` if it does not wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Expected>,
    /// MGID whose spanning tree the group has been moved to; `None` if it is on that of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub home: Option<Mgid>,
    /// Shape of its unicast tree; never changes.
    #[serde(default, skip_serializing_if = "TreeShape::is_default")]
    pub tree: TreeShape,
}

/// The members that a group waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// Number of members.
    pub members: NonZeroU32,
    /// True once that many were members at the same time. Stays true when members leave; reset when
    /// the last one has left.
    pub met: bool,
}

impl GroupRecord {
    /// Returns the MGID whose spanning tree the group is planned on: its own, unless it was moved.
    pub fn home(&self) -> Mgid {
        self.home.unwrap_or(self.mgid)
    }

    /// Returns whether the hardware may serve the group, because it does not wait for members.
    pub fn is_complete(&self) -> bool {
        self.expected.is_none_or(|expected| expected.met)
    }
}

/// Hardware route of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The switches hold the records up to this revision.
    pub revision: Revision,
    /// State of the group's tree.
    pub state: RouteState,
    /// Reason why there is no tree, or a note on the tree; empty otherwise.
    pub reason: String,
    /// The reason as a code.
    #[serde(default, skip_serializing_if = "RouteReason::is_unspecified")]
    pub reason_code: RouteReason,
    /// Member endpoints that the tree leaves out.
    pub cut_off: Vec<EndpointName>,
}

/// Reason of a route, as a code; the text beside it is for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum RouteReason {
    /// The route is as the MGID says, or was reported before there were codes.
    #[default]
    Unspecified,
    /// The group waits for its members.
    WaitsForMembers,
    /// Fewer than two endpoints are to be connected.
    FewerThanTwoEndpoints,
    /// Senders of other groups still use entries that the new route needs.
    WaitsForEntries,
    /// The group is exclusive, and would have to share its tree.
    ExclusiveTreeShared,
    /// The engine refused the group.
    Refused,
    /// No spanning tree serves the group.
    Unrouted,
    /// The group is on another spanning tree than its MGID says.
    Moved,
    /// One of the two trees of the group lacks a link.
    Unprotected,
    /// The engine does not have the group yet.
    NotPlanned,
    /// The planned trees do not reach all members, though links to them are live.
    MembersMissed,
}

impl RouteReason {
    /// All reasons, by their number.
    const ALL: [Self; 11] = [
        Self::Unspecified,
        Self::WaitsForMembers,
        Self::FewerThanTwoEndpoints,
        Self::WaitsForEntries,
        Self::ExclusiveTreeShared,
        Self::Refused,
        Self::Unrouted,
        Self::Moved,
        Self::Unprotected,
        Self::NotPlanned,
        Self::MembersMissed,
    ];

    /// Number of the reason, the same as in the API (`fabricast.v1.RouteReason`).
    pub fn number(self) -> i32 {
        let place = Self::ALL.iter().position(|reason| *reason == self);
        place.and_then(|place| i32::try_from(place).ok()).unwrap_or(0)
    }

    /// Reason of a number; `Unspecified` if there is none.
    pub fn from_number(number: i32) -> Self {
        let place = usize::try_from(number).ok();
        place.and_then(|place| Self::ALL.get(place).copied()).unwrap_or_default()
    }

    /// True if there is no code to keep.
    pub fn is_unspecified(&self) -> bool {
        *self == Self::Unspecified
    }
}

impl Route {
    /// Returns the colors of its tree or trees; `None` without a tree.
    pub const fn colors(&self) -> Option<Colors> {
        match self.state {
            RouteState::Routed { colors, .. } => Some(colors),
            RouteState::UnicastOnly => None,
        }
    }

    /// Returns the colors that a member sends with; `None` if the hardware does not serve the
    /// member: the switches do not hold its join yet, leave its endpoint out, or hold no tree.
    pub fn colors_for(&self, member: &MemberRecord) -> Option<Colors> {
        let covered = self.revision >= member.joined && !self.cut_off.contains(&member.endpoint);
        match self.state {
            RouteState::Routed { colors, .. } if covered => Some(colors),
            RouteState::Routed { .. } | RouteState::UnicastOnly => None,
        }
    }
}

/// Table entries that every packet of a group names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Colors {
    /// Entry of its tree, or of both of its trees.
    #[serde(rename = "color")]
    pub first: u16,
    /// Entry of its second tree if it differs: every packet is then sent a second time, with this
    /// entry.
    #[serde(rename = "second_color", default, skip_serializing_if = "Option::is_none")]
    pub second: Option<u16>,
}

impl From<u16> for Colors {
    fn from(first: u16) -> Self {
        Self { first, second: None }
    }
}

/// State of a group's hardware tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RouteState {
    /// The switches hold its tree.
    Routed {
        /// Table entries that senders name in their packets.
        #[serde(flatten)]
        colors: Colors,
        /// Number of the virtual group: the groups that share the tree.
        virtual_group: u64,
    },
    /// The hardware does not serve the group; its messages use the unicast tree.
    UnicastOnly,
}

/// A process in a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecord {
    /// Number of the group.
    pub gn: Gn,
    /// The rank in it.
    pub pn: Pn,
    /// Node that the process runs on, in the node's present incarnation.
    pub node: NodeName,
    /// Name of the process.
    pub process: ProcessName,
    /// The adapter port it uses.
    pub endpoint: EndpointName,
    /// Revision of its join; distinguishes processes that had the same PN one after the other.
    pub joined: Revision,
    /// True if it only sends, so that switches deliver nothing to its endpoint for it.
    #[serde(default)]
    pub sends_only: bool,
}

impl MemberRecord {
    /// Returns the member as a voucher covers it.
    ///
    /// - `incarnation`: of its node.
    pub fn claim(&self, incarnation: Incarnation) -> MemberClaim<'_> {
        let Self { gn, pn, node, process, endpoint, joined, sends_only: _ } = self;
        MemberClaim { gn: *gn, pn: *pn, joined: *joined, node, incarnation, process, endpoint }
    }
}

/// An answered request, kept so that a repetition gets the same answer (S1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// Number in order of age; the lowest is removed first.
    pub sequence: u64,
    /// Request id chosen by the caller.
    pub id: RequestId,
    /// Group of the request; for requests about jobs, the job's name.
    pub group: GroupName,
    /// Outcome of the request.
    pub outcome: Outcome,
}

/// Outcome of a request, reduced to what its answer can be rebuilt from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// A process became a member.
    Joined {
        /// Number of the group.
        gn: Gn,
        /// The rank it was given.
        pn: Pn,
        /// The revision of its join.
        joined: Revision,
        /// Node of the process.
        node: NodeName,
        /// Process that sent the request.
        process: ProcessName,
    },
    /// A process left.
    Left {
        /// Number of the group.
        gn: Gn,
        /// The rank it had.
        pn: Pn,
        /// The revision of the leave.
        revision: Revision,
        /// Node of the process.
        node: NodeName,
        /// Process that sent the request.
        process: ProcessName,
    },
    /// Groups were formed.
    Formed {
        /// Digest of the request, since the batch is too large to keep.
        digest: u64,
        /// The groups, in the order asked.
        groups: Vec<FormedPns>,
    },
    /// The last groups of a job ended.
    JobGroupsDeleted {
        /// The revision of the end.
        revision: Revision,
        /// Groups and memberships that ended.
        ended: JobEnd,
    },
    /// A group was created without members.
    Created {
        /// Number of the group.
        gn: Gn,
        /// The revision of its creation.
        revision: Revision,
    },
    /// A group was deleted.
    Deleted {
        /// Number of the group.
        gn: Gn,
        /// The revision of the end.
        revision: Revision,
    },
    /// A job got its nodes.
    JobCreated {
        /// The revision of its creation.
        revision: Revision,
    },
    /// A job ended.
    JobDeleted {
        /// The revision of the end.
        revision: Revision,
        /// Groups and memberships that ended with it.
        #[serde(default)]
        ended: JobEnd,
    },
}

/// A formed group as the request log keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormedPns {
    /// Number of the group.
    pub gn: Gn,
    /// MGID of the group.
    pub mgid: Mgid,
    /// Ranks in the order of the request, as runs: the first rank, and the number of consecutive
    /// ranks.
    pub runs: Vec<(Pn, u32)>,
}

/// One record put or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A node is new or different.
    NodePut(NodeRecord),
    /// The record of a node that takes no part was removed.
    NodeRemoved(NodeName),
    /// A group is new or different.
    GroupPut(GroupRecord),
    /// A group has ended; its members were deleted before it.
    GroupDeleted(Gn),
    /// A member is new.
    MemberPut(Arc<MemberRecord>),
    /// A member has left; the record tells readers of the change which one.
    MemberDeleted(Arc<MemberRecord>),
    /// An MGID lost its group at this revision and must not be used until no table holds it.
    MgidRetired(Mgid, Revision),
    /// No table holds the MGID any more, so it may be used again.
    MgidReleased(Mgid),
    /// A job is new.
    JobPut(JobRecord),
    /// A job is gone.
    JobDeleted(JobName),
    /// A request was answered.
    RequestPut(RequestRecord),
    /// The oldest answered request is forgotten.
    RequestDeleted(u64),
    /// GN of the next group.
    NextGnPut(Gn),
    /// First incarnation of a node without a record: higher than those of all nodes that were
    /// removed, since one of them may come back.
    FirstIncarnationPut(Incarnation),
    /// The number of decisions so far; the last change of every decision.
    RevisionPut(Revision),
}

#[cfg(test)]
mod tests;
