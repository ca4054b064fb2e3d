//! What the TIC keeps for good, and how each record lies in a store.
//!
//! A decision of the directory is a list of [`Change`]s; each one puts or deletes exactly one
//! record under one key, so a shell can write a decision as one store transaction and read the
//! directory back from the same keys. Values are JSON, so that an operator can read a store.

mod codec;

use std::num::NonZeroU32;
use std::sync::Arc;

use fabricast_routing::Mgid;
use serde::{Deserialize, Serialize};

use crate::command::JobEnd;
use crate::flaps::Flaps;
use crate::ids::{Epoch, Gn, Incarnation, Moment, Pn, Revision};
use crate::job::JobRecord;
use crate::names::{
    Address, EndpointName, GroupName, JobName, LayerName, NodeName, ProcessName, RequestId,
};

pub use codec::DecodeError;

/// A compute node as the TIC knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Its name.
    pub name: NodeName,
    /// Where its agents listen.
    pub address: Address,
    /// The adapter ports it owns.
    pub endpoints: Vec<EndpointName>,
    /// Its present life.
    pub incarnation: Incarnation,
    /// The number its operating agent chose at this start.
    pub start_id: u64,
    /// Whether it takes part.
    pub state: NodeState,
    /// How often it has come and gone; `None` if it has not, or that is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flaps: Option<Flaps>,
}

/// Whether a node takes part.
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
    /// Its number, never used for another group (G1).
    pub gn: Gn,
    /// The name by which processes find it.
    pub name: GroupName,
    /// Its address on the fabric.
    pub mgid: Mgid,
    /// The node that hosts its agent: always a member's node, so `None` if and only if it is empty.
    pub agent: Option<NodeName>,
    /// Grows with each change of agent (G4); 0 before the first.
    pub epoch: Epoch,
    /// When the membership last changed.
    pub members_revision: Revision,
    /// When anything in this record or the membership last changed.
    pub changed: Revision,
    /// Whether it outlives its last member.
    pub persistent: bool,
    /// Whether it must not share a virtual group.
    pub exclusive: bool,
    /// When it was created, on the TIC's clock.
    pub created: Moment,
    /// What the route service last reported.
    pub route: Option<Route>,
    /// The layer that its creator named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer: Option<LayerName>,
    /// The job it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobName>,
    /// How many members it waits for before it is routed; `None` if for nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Expected>,
}

/// The members that a group waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    /// How many.
    pub members: NonZeroU32,
    /// Whether they have been there at one time; leaves undo it only when the last one has left.
    pub met: bool,
}

impl GroupRecord {
    /// Answers whether the hardware may serve the group: it waits for nobody any more.
    pub fn is_complete(&self) -> bool {
        self.expected.is_none_or(|expected| expected.met)
    }
}

/// How the hardware serves a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The records up to this revision are in the switches.
    pub revision: Revision,
    /// Whether there is a tree.
    pub state: RouteState,
    /// Why there is no tree, or what is special about it; empty otherwise.
    pub reason: String,
    /// Member endpoints that the tree leaves out.
    pub cut_off: Vec<EndpointName>,
}

impl Route {
    /// Answers the colors with which the hardware serves a member; `None` where it does not: the
    /// switches do not hold this member's join yet, leave its endpoint out, or hold no tree.
    pub fn colors_for(&self, member: &MemberRecord) -> Option<Colors> {
        let covered = self.revision >= member.joined && !self.cut_off.contains(&member.endpoint);
        match self.state {
            RouteState::Routed { colors, .. } if covered => Some(colors),
            RouteState::Routed { .. } | RouteState::UnicastOnly => None,
        }
    }
}

/// The table entries with which every packet of a group is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Colors {
    /// The entry of its tree, or of both of its trees.
    #[serde(rename = "color")]
    pub first: u16,
    /// The entry of its second tree, where that has one of its own: the packet is sent again with it.
    #[serde(rename = "second_color", default, skip_serializing_if = "Option::is_none")]
    pub second: Option<u16>,
}

impl From<u16> for Colors {
    fn from(first: u16) -> Self {
        Self { first, second: None }
    }
}

/// Whether packets of a group travel through switch tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RouteState {
    /// The switches hold its tree.
    Routed {
        /// The table entries that senders name in their packets.
        #[serde(flatten)]
        colors: Colors,
        /// The set of groups that share the tree.
        virtual_group: u64,
    },
    /// The unicast tree alone serves it.
    UnicastOnly,
}

/// A process in a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemberRecord {
    /// The group.
    pub gn: Gn,
    /// The rank in it.
    pub pn: Pn,
    /// The node it runs on; always the node's present incarnation.
    pub node: NodeName,
    /// The process.
    pub process: ProcessName,
    /// The adapter port it uses.
    pub endpoint: EndpointName,
    /// When it joined; tells two processes apart that had the same PN one after the other.
    pub joined: Revision,
}

/// An answered request, kept so that a repetition gets the same answer (S1).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// Age order; the oldest is forgotten first.
    pub sequence: u64,
    /// The caller's name for the request.
    pub id: RequestId,
    /// The group, or the job, it was about.
    pub group: GroupName,
    /// What it came to.
    pub outcome: Outcome,
}

/// What a request came to, in as few bytes as the answer can be rebuilt from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// A process became a member.
    Joined {
        /// The group.
        gn: Gn,
        /// The rank it was given.
        pn: Pn,
        /// The revision of its join.
        joined: Revision,
        /// Who asked.
        node: NodeName,
        /// Who asked.
        process: ProcessName,
    },
    /// A process left.
    Left {
        /// The group.
        gn: Gn,
        /// The rank it had.
        pn: Pn,
        /// The revision of the leave.
        revision: Revision,
        /// Who asked.
        node: NodeName,
        /// Who asked.
        process: ProcessName,
    },
    /// Groups were formed.
    Formed {
        /// Of what was asked, as the batch is too large to be kept.
        digest: u64,
        /// The groups, in the order asked.
        groups: Vec<FormedSeats>,
    },
    /// The last groups of a job ended.
    JobGroupsDeleted {
        /// The revision of the end.
        revision: Revision,
        /// What has ended with them.
        ended: JobEnd,
    },
    /// A group was created without members.
    Created {
        /// The group.
        gn: Gn,
        /// The revision of its creation.
        revision: Revision,
    },
    /// A group was deleted.
    Deleted {
        /// The group.
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
    },
}

/// A formed group in the log of requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FormedSeats {
    /// Its number.
    pub gn: Gn,
    /// Its MGID.
    pub mgid: Mgid,
    /// The ranks in the order asked, as runs: a first one, and how many follow one by one from it.
    pub runs: Vec<(Pn, u32)>,
}

/// One record put or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A node is new or different.
    NodePut(NodeRecord),
    /// A group is new or different.
    GroupPut(GroupRecord),
    /// A group is gone; its members went before it.
    GroupDeleted(Gn),
    /// A member is new.
    MemberPut(Arc<MemberRecord>),
    /// A member is gone; the record tells readers of the change who it was.
    MemberDeleted(Arc<MemberRecord>),
    /// An MGID lost its group at this revision and waits until no table holds it.
    MgidRetired(Mgid, Revision),
    /// No table holds the MGID any more; it may be used again.
    MgidReleased(Mgid),
    /// A job is new.
    JobPut(JobRecord),
    /// A job is gone.
    JobDeleted(JobName),
    /// A request was answered.
    RequestPut(RequestRecord),
    /// The oldest answered request is forgotten.
    RequestDeleted(u64),
    /// The GN that the next group gets.
    NextGnPut(Gn),
    /// The number of decisions so far; the last change of every decision.
    RevisionPut(Revision),
}

#[cfg(test)]
mod tests;
