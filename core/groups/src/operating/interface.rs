//! Inputs, outputs and settings of an operating agent.

use std::time::Duration;

use thiserror::Error;

use super::Membership;
use crate::command::{GroupSpec, Join, Leave, RegisterNode};
use crate::ids::{Gn, Incarnation};
use crate::message::{Deregister, Register};
use crate::names::{Address, EndpointName, GroupName, NodeName, ProcessName, RequestId};
use crate::refusal::TicRefusal;

/// Name, address and endpoints of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Name of the node.
    pub node: NodeName,
    /// Address where its operating agent listens.
    pub address: Address,
    /// The adapter ports it owns.
    pub endpoints: Vec<EndpointName>,
}

/// Timeouts and limits of an operating agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OaConfig {
    /// Time after which a request to the TIC or an agent is repeated.
    pub retry: Duration,
    /// Time after which the groups of a host that answers no report are fetched from the TIC. Must
    /// be longer than the detection of a failed host, or the fetch precedes the new agent.
    pub host_timeout: Duration,
    /// Timeout of a process's call.
    pub call_timeout: Duration,
    /// Limit on open calls of processes.
    pub calls: usize,
}

/// Phase of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It has sent its registration and waits for the TIC.
    Registering,
    /// The TIC has admitted its present incarnation.
    Up,
    /// It is switched off.
    Stopped,
}

/// Number of a process's call until it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// Join requested by a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinCall {
    /// Request id at the TIC; a repetition of the call uses the same one.
    pub request_id: RequestId,
    /// The group, and its properties if it is new.
    pub group: GroupSpec,
    /// Name of the process.
    pub process: ProcessName,
    /// The adapter port it uses; `None` means the node's first.
    pub endpoint: Option<EndpointName>,
    /// True if it only sends.
    pub sends_only: bool,
}

/// Leave requested by a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveCall {
    /// Request id at the TIC; a repetition of the call uses the same one.
    pub request_id: RequestId,
    /// Name of the group.
    pub group: GroupName,
    /// Name of the process.
    pub process: ProcessName,
}

/// Output of an [`Oa`](super::Oa), to be carried out by its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OaOutput {
    /// Register the node with the TIC; pass the answer to [`super::Oa::registered`].
    RegisterNode(RegisterNode),
    /// Send a join to the TIC; pass the answer to [`super::Oa::join_answered`].
    Join(CallId, Join),
    /// Send a leave to the TIC; pass the answer to [`super::Oa::leave_answered`].
    Leave(CallId, Leave),
    /// Fetch a group from the TIC; pass the answer to [`super::Oa::group`] or
    /// [`super::Oa::no_group`].
    FetchGroup(Gn),
    /// Register a member with its group's agent; pass the answer to
    /// [`super::Oa::member_registered`].
    RegisterMember {
        /// The node of the agent.
        agent: NodeName,
        /// Address where it listens.
        address: Address,
        /// Registration to send.
        register: Register,
    },
    /// Tell a group's agent that a member has left; needs no answer.
    DeregisterMember {
        /// The node of the agent.
        agent: NodeName,
        /// Address where it listens.
        address: Address,
        /// Message to send.
        deregister: Deregister,
    },
    /// A process's call is answered.
    Answered(CallId, CallAnswer),
    /// Memberships have ended without a leave of their processes.
    Ended(Vec<Membership>),
    /// The TIC has admitted the node in this incarnation; its owner creates a host for group
    /// agents.
    Up(Incarnation),
    /// This incarnation has ended, by expulsion or failure; its owner drops the host for group
    /// agents.
    Down(Incarnation),
    /// The TIC refuses the node. The registration is repeated, but an operator must act.
    NodeRefused(TicRefusal),
}

/// Result of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallAnswer {
    /// The process is a member and has its place in the tree.
    Joined(Box<Membership>),
    /// The process is not a member any more.
    Left,
    /// The call failed.
    Failed(CallError),
}

/// Reason why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    /// The TIC refuses.
    #[error("the topology information center refuses")]
    Refused(#[source] TicRefusal),
    /// No answer came in time, so the outcome is unknown. The process should repeat the call with
    /// the same request id.
    #[error("no answer in time")]
    TimedOut,
    /// The node is switched off.
    #[error("node {node:?} is stopped")]
    Stopped {
        /// Name of the node.
        node: NodeName,
    },
    /// The limit on open calls is reached; the process should retry later.
    #[error("{limit} calls are waiting already")]
    Busy {
        /// Limit on open calls.
        limit: usize,
    },
}
