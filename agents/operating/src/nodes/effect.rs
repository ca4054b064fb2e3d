//! Work outside the lock that the state machines ask for.

use fabricast_groups::command::{Join, Leave, RegisterNode};
use fabricast_groups::ids::{Gn, Incarnation};
use fabricast_groups::message::{Deregister, PositionUpdate, Register};
use fabricast_groups::names::{Address, NodeName};
use fabricast_groups::operating::{CallAnswer, CallId};

use super::messages::Contribution;

/// One output of a node's state machines. Effects of one input are handled together, after the lock
/// is released.
#[derive(Debug)]
pub(crate) enum Effect {
    /// Announce a node to the TIC.
    RegisterNode { node: NodeName, request: RegisterNode },
    /// Ask the TIC for a membership.
    Join { node: NodeName, id: CallId, join: Join },
    /// Ask the TIC to end a membership.
    Leave { node: NodeName, id: CallId, leave: Leave },
    /// Tell a process how its call has ended.
    EndCall { node: NodeName, id: CallId, answer: CallAnswer },
    /// Fetch a group from the TIC.
    FetchGroup { node: NodeName, gn: Gn, requester: Requester },
    /// Report to the TIC that another node does not answer.
    ReportFailure { node: NodeName, failed: NodeName, incarnation: Incarnation },
    /// Register a member with its group's agent.
    RegisterMember { node: NodeName, agent: NodeName, address: Address, register: Register },
    /// Tell a group's agent that a member has left.
    DeregisterMember { agent: NodeName, address: Address, deregister: Deregister },
    /// Send a member its position in the unicast tree.
    SendPosition { agent: NodeName, address: Address, update: PositionUpdate },
    /// Ask another node for a sign of life.
    Probe { node: NodeName, peer: NodeName, address: Address, probe: u64 },
    /// Link a node hosted here to one of another process.
    OpenLink { node: NodeName, peer: NodeName, address: Address },
    /// Have switches combine a member's contribution with the others'.
    Contribute(Box<Contribution>),
}

/// The state machine that asks for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Requester {
    /// The operating agent, which asks for the members on its own node only.
    OperatingAgent,
    /// The group's agent, which asks for all members.
    GroupAgent,
}

/// Handles effects. Returns at once: what takes time is spawned.
pub(crate) trait EffectHandler: Send + Sync {
    /// Handles the effects of one input, in order.
    fn handle(&self, effects: Vec<Effect>);
}
