//! Converts answers of the control plane to what is drawn over a fabric.

use fabricast_drawing::Overlay;
use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_topology::{Faults, Graph, PortId};

/// Converts the failed parts; those that the topology does not have are left out.
#[must_use]
pub fn faults(graph: &Graph, failed: &[v1::Element]) -> Faults {
    let mut faults = Faults::new();
    for element in failed.iter().filter_map(|element| element.kind.as_ref()) {
        match element {
            Kind::Link(end) => {
                port(graph, &end.switch_name, end.port).map(|port| faults.fail_link(graph, port));
            }
            Kind::SwitchName(name) => {
                graph.find_switch(name).map(|switch| faults.fail_switch(switch));
            }
            Kind::Endpoint(name) => {
                graph.find_endpoint(name).map(|endpoint| faults.fail_endpoint(endpoint));
            }
        }
    }
    faults
}

/// Adds the trees and members of a group to what is drawn.
pub fn tree_overlay(
    graph: &Graph,
    route: &v1::RouteExplanation,
    members: &[v1::Member],
    overlay: &mut Overlay,
) {
    for link in &route.links {
        if let Some(port) = port(graph, &link.switch_name, link.port) {
            *overlay.tree.entry(port).or_default() |= 1 << link.tree.min(1);
        }
    }
    overlay.root = graph.find_switch(&route.root);
    overlay.members.extend(members.iter().filter_map(|one| graph.find_endpoint(&one.endpoint)));
}

/// True if the route of a group is in the switches.
pub(crate) fn is_routed(group: &v1::Group) -> bool {
    group.route.as_ref().is_some_and(|route| route.state() == v1::RouteState::Routed)
}

/// Finds a port by switch and number.
pub(crate) fn port(graph: &Graph, switch: &str, number: u32) -> Option<PortId> {
    graph.port(graph.find_switch(switch)?, u8::try_from(number).ok()?)
}
