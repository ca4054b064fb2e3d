//! Finds the parts of an expected fabric that are missing.

use std::collections::BTreeMap;

use fabricast_topology::{EndpointId, Graph, Peer, PortId, SwitchId};

/// A part of the expected fabric that was not found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missing {
    /// A switch; its cables are not listed.
    Switch(SwitchId),
    /// A cable between two switches that were both found, by its lower port, or the cable of an
    /// endpoint that was found elsewhere.
    Link(PortId),
    /// An endpoint or its cable, which cannot be told apart.
    Endpoint(EndpointId),
}

/// Compares the expected fabric with the subnet found, by GUIDs, in ascending order.
///
/// Parts beyond the expected ones are left out: they are not used until the topology has them.
/// Cost: O(ports log ports).
#[must_use]
pub fn missing(expected: &Graph, found: &Graph) -> Vec<Missing> {
    let there: BTreeMap<&str, SwitchId> =
        found.switches().map(|switch| (found.switch_name(switch), switch)).collect();
    let attached: BTreeMap<(&str, u8), Option<PortId>> =
        found.endpoints().map(|one| (endpoint(found, one), found.attachment(one))).collect();
    let find = |port: PortId| {
        let switch = there.get(expected.switch_name(expected.switch_of(port)))?;
        found.port(*switch, expected.port_number(port))
    };
    let mut missing = Vec::new();
    for switch in expected.switches() {
        if !there.contains_key(expected.switch_name(switch)) {
            missing.push(Missing::Switch(switch));
        }
    }
    for port in expected.switches().flat_map(|switch| expected.ports(switch)) {
        let Peer::Switch(far) = expected.peer(port) else { continue };
        if port > far {
            continue; // its other end has been looked at
        }
        // Where a switch is missing, its cables are part of it.
        if let (Some(port_there), Some(far_there)) = (find(port), find(far))
            && found.peer(port_there) != Peer::Switch(far_there)
        {
            missing.push(Missing::Link(port));
        }
    }
    for one in expected.endpoints() {
        let Some(port) = expected.attachment(one) else { continue };
        let Some(port_there) = find(port) else { continue };
        match attached.get(&endpoint(expected, one)) {
            Some(Some(now)) if *now == port_there => {}
            Some(Some(_)) => missing.push(Missing::Link(port)),
            Some(None) | None => missing.push(Missing::Endpoint(one)),
        }
    }
    missing
}

/// Identity of an endpoint, independent of its description: GUID of the adapter and port number.
fn endpoint(graph: &Graph, endpoint: EndpointId) -> (&str, u8) {
    (graph.adapter_name(graph.adapter_of(endpoint)), graph.endpoint_facts(endpoint).number)
}
