//! Single calls to other agents, which the state machines repeat or can do without.

use fabricast_group::GroupAgentHost;
use fabricast_groups::ids::Incarnation;
use fabricast_groups::message::Deregister;
use fabricast_groups::names::{Address, NodeName};
use fabricast_proto::v1;
use tracing::debug;

use crate::runtime::Runtime;

/// Probes a node for the group agents of another. No answer is no sign of life.
///
/// - `node`: the node of the group agents.
pub(crate) fn probe(
    runtime: &Runtime,
    node: NodeName,
    peer: NodeName,
    address: &Address,
    probe: u64,
) {
    let Ok(mut agent) = runtime.channels.operating_agents_at(address.as_str()) else { return };
    let nodes = runtime.nodes.clone();
    runtime.tasks.spawn(async move {
        let request = v1::ProbeNodeRequest { node: peer.to_string() };
        if let Ok(answer) = agent.probe_node(request).await {
            let incarnation = Incarnation(answer.into_inner().incarnation);
            nodes.with_agents(&node, |agents, now| {
                agents.probe_answered(now, &peer, incarnation, probe);
            });
        }
    });
}

/// Tells a group's agent that a member has left. If the call fails the agent learns it from the
/// TIC.
pub(crate) fn deregister(
    runtime: &Runtime,
    agent: &NodeName,
    address: &Address,
    deregister: &Deregister,
) {
    let Ok(mut agents) = runtime.channels.group_agents_at(address.as_str()) else { return };
    let request = v1::DeregisterMemberRequest {
        agent_node: agent.to_string(),
        gn: deregister.gn.0,
        epoch: deregister.epoch.0,
        pn: deregister.pn.0,
        node: deregister.node.to_string(),
    };
    runtime.tasks.spawn(async move {
        let group = request.gn;
        if let Err(status) = agents.deregister_member(request).await {
            debug!(group, error = %status.message(), "member not deregistered");
        }
    });
}
