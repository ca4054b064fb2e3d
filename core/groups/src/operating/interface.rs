//! What an operating agent is told and what it asks its owner to do.

use std::time::Duration;

use thiserror::Error;

use super::Membership;
use crate::Refusal;
use crate::command::{GroupSpec, Join, Leave, RegisterNode};
use crate::ids::{Gn, Incarnation};
use crate::message::{Deregister, Register};
use crate::names::{Address, EndpointName, GroupName, NodeName, ProcessName, RequestId};

/// What a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its name.
    pub node: NodeName,
    /// Where its operating agent listens.
    pub address: Address,
    /// The adapter ports it owns.
    pub endpoints: Vec<EndpointName>,
}

/// How long an operating agent waits for what, and how much it takes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OaConfig {
    /// A question to the TIC or an agent is repeated after this.
    pub retry: Duration,
    /// The groups of a host of group agents that answers no report are fetched from the TIC after
    /// this; longer than a host's failure takes to be found, or the new agent is not waited for.
    pub host_timeout: Duration,
    /// A process is told that its call has failed after this.
    pub call_timeout: Duration,
    /// Most calls of processes at one time.
    pub calls: usize,
}

/// Whether the node takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It has announced itself and waits for the TIC.
    Registering,
    /// The TIC knows it in its present life.
    Up,
    /// It is switched off.
    Stopped,
}

/// Names a process's call until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// A process's wish to be a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinCall {
    /// Names the request at the TIC; the same wish repeated has the same name.
    pub request_id: RequestId,
    /// The group and what it is to be like if it is new.
    pub group: GroupSpec,
    /// The process.
    pub process: ProcessName,
    /// The adapter port it uses; `None` means the node's first.
    pub endpoint: Option<EndpointName>,
}

/// A process's wish to be no member any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveCall {
    /// Names the request at the TIC; the same wish repeated has the same name.
    pub request_id: RequestId,
    /// The group.
    pub group: GroupName,
    /// The process.
    pub process: ProcessName,
}

/// What the owner of an [`super::Oa`] has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OaOutput {
    /// Announce the node to the TIC; answer with [`super::Oa::registered`].
    RegisterNode(RegisterNode),
    /// Ask the TIC for a membership; answer with [`super::Oa::join_answered`].
    Join(CallId, Join),
    /// Ask the TIC to end a membership; answer with [`super::Oa::leave_answered`].
    Leave(CallId, Leave),
    /// Fetch a group from the TIC; answer with [`super::Oa::group`] or [`super::Oa::no_group`].
    FetchGroup(Gn),
    /// Register a member with its group's agent; answer with [`super::Oa::member_registered`].
    RegisterMember {
        /// The node of the agent.
        agent: NodeName,
        /// Where it listens.
        address: Address,
        /// What to say.
        register: Register,
    },
    /// Say good-bye to a group's agent; needs no answer.
    DeregisterMember {
        /// The node of the agent.
        agent: NodeName,
        /// Where it listens.
        address: Address,
        /// What to say.
        deregister: Deregister,
    },
    /// A process's call has come to its end.
    Answered(CallId, CallAnswer),
    /// Memberships have ended without their processes' doing.
    Ended(Vec<Membership>),
    /// The TIC has admitted the node in this life: a new host for group agents is due.
    Up(Incarnation),
    /// The life is over, by expulsion or failure: its host for group agents is void.
    Down(Incarnation),
    /// The TIC will not have the node; it is asked again, but a person should look.
    NodeRefused(Refusal),
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallAnswer {
    /// The process is a member and has its place.
    Joined(Box<Membership>),
    /// The process is no member any more.
    Left,
    /// It is not so.
    Failed(CallError),
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// The TIC refuses.
    #[error("the topology information center refuses")]
    Refused(#[source] Refusal),
    /// Nobody has answered in time; the wish may come true nevertheless. Ask again.
    #[error("no answer in time")]
    TimedOut,
    /// The node is switched off.
    #[error("node {node:?} is stopped")]
    Stopped {
        /// The node.
        node: NodeName,
    },
    /// Too many calls at one time.
    #[error("{limit} calls are waiting already")]
    Busy {
        /// The most that may wait.
        limit: usize,
    },
}
