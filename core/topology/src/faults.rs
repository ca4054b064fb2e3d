//! Faults of a fabric, laid over a graph that does not change.
//!
//! Dead switches, dead links and dead endpoints are kept apart, so that a switch that is healed
//! leaves its links as they were.

use std::collections::BTreeSet;

use crate::graph::Graph;
use crate::ids::{EndpointId, Peer, PortId, SwitchId};

/// Dead switches, links and endpoints of one graph.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    switches: BTreeSet<SwitchId>,
    ports: BTreeSet<PortId>,
    endpoints: BTreeSet<EndpointId>,
}

impl Faults {
    /// Creates the overlay of a healthy fabric.
    #[must_use]
    pub const fn new() -> Self {
        Self { switches: BTreeSet::new(), ports: BTreeSet::new(), endpoints: BTreeSet::new() }
    }

    /// Returns whether nothing has failed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.switches.is_empty() && self.ports.is_empty() && self.endpoints.is_empty()
    }

    /// Marks a switch dead; false if it was already.
    pub fn fail_switch(&mut self, switch: SwitchId) -> bool {
        self.switches.insert(switch)
    }

    /// Marks a switch alive; false if it was already.
    pub fn heal_switch(&mut self, switch: SwitchId) -> bool {
        self.switches.remove(&switch)
    }

    /// Marks the link at a switch port dead, at both its ends; false if it was already.
    pub fn fail_link(&mut self, graph: &Graph, port: PortId) -> bool {
        let was_live = self.ports.insert(port);
        if let Peer::Switch(other) = graph.peer(port) {
            self.ports.insert(other);
        }
        was_live
    }

    /// Marks the link at a switch port alive, at both its ends; false if it was already.
    pub fn heal_link(&mut self, graph: &Graph, port: PortId) -> bool {
        let was_dead = self.ports.remove(&port);
        if let Peer::Switch(other) = graph.peer(port) {
            self.ports.remove(&other);
        }
        was_dead
    }

    /// Marks an endpoint dead; false if it was already.
    pub fn fail_endpoint(&mut self, endpoint: EndpointId) -> bool {
        self.endpoints.insert(endpoint)
    }

    /// Marks an endpoint alive; false if it was already.
    pub fn heal_endpoint(&mut self, endpoint: EndpointId) -> bool {
        self.endpoints.remove(&endpoint)
    }

    /// Returns whether a switch is alive.
    #[must_use]
    pub fn switch_is_live(&self, switch: SwitchId) -> bool {
        !self.switches.contains(&switch)
    }

    /// Returns whether an endpoint itself is alive, whatever its link.
    #[must_use]
    pub fn endpoint_is_live(&self, endpoint: EndpointId) -> bool {
        !self.endpoints.contains(&endpoint)
    }

    /// Returns whether packets pass a switch port: its switch, its link and the part at the other
    /// end are alive. False for an unconnected port.
    #[must_use]
    pub fn port_is_live(&self, graph: &Graph, port: PortId) -> bool {
        let far_end = match graph.peer(port) {
            Peer::None => return false,
            Peer::Endpoint(_) | Peer::Switch(_) if self.is_empty() => return true,
            Peer::Endpoint(_) | Peer::Switch(_) if self.ports.contains(&port) => return false,
            Peer::Endpoint(endpoint) => self.endpoint_is_live(endpoint),
            Peer::Switch(other) => self.switch_is_live(graph.switch_of(other)),
        };
        far_end && self.switch_is_live(graph.switch_of(port))
    }

    /// Returns the ports for which [`Self::port_is_live`] may say something else than with other
    /// faults, in no order; some come twice.
    ///
    /// Cost: O(parts that have failed here or there), and O(ports) of those that have in one only.
    #[must_use]
    pub fn differing_ports(&self, graph: &Graph, other: &Self) -> Vec<PortId> {
        let mut ports = Vec::new();
        let switches = self.switches.symmetric_difference(&other.switches);
        for switch in switches.filter(|switch| switch.index() < graph.switch_count()) {
            for port in graph.ports(*switch) {
                ports.push(port);
                if let Peer::Switch(far_end) = graph.peer(port) {
                    ports.push(far_end);
                }
            }
        }
        let links = self.ports.symmetric_difference(&other.ports);
        ports.extend(links.filter(|port| port.index() < graph.port_count()));
        let endpoints = self.endpoints.symmetric_difference(&other.endpoints);
        let known = endpoints.filter(|endpoint| endpoint.index() < graph.endpoint_count());
        ports.extend(known.filter_map(|endpoint| graph.attachment(*endpoint)));
        ports
    }

    /// Iterates over the dead switches in rising order.
    pub fn dead_switches(&self) -> impl Iterator<Item = SwitchId> + '_ {
        self.switches.iter().copied()
    }

    /// Iterates over the switch ports of dead links in rising order, both ends of each.
    pub fn dead_link_ports(&self) -> impl Iterator<Item = PortId> + '_ {
        self.ports.iter().copied()
    }

    /// Iterates over the dead endpoints in rising order.
    pub fn dead_endpoints(&self) -> impl Iterator<Item = EndpointId> + '_ {
        self.endpoints.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::tests::two_leaves_one_spine;
    use crate::graph::{GraphBuilder, SwitchFacts};

    #[test]
    fn a_dead_link_is_dead_at_both_ends_and_heals_from_either() {
        let graph = two_leaves_one_spine();
        let up = graph.port(SwitchId(0), 2).unwrap();
        let Peer::Switch(down) = graph.peer(up) else { panic!("wired to the spine") };
        let mut faults = Faults::new();
        assert!(faults.fail_link(&graph, up));
        assert!(!faults.fail_link(&graph, down));
        assert!(!faults.port_is_live(&graph, up) && !faults.port_is_live(&graph, down));
        assert!(faults.heal_link(&graph, down));
        assert!(faults.is_empty() && faults.port_is_live(&graph, up));
    }

    #[test]
    fn a_cable_from_a_port_to_itself_fails_once_and_heals_once() {
        let mut builder = GraphBuilder::new();
        let switch = builder.add_switch("S-0", "", 1, SwitchFacts::default());
        let port = builder.port(switch, 1).unwrap();
        builder.link(port, port).unwrap();
        let graph = builder.build().unwrap();
        let mut faults = Faults::new();
        assert!(faults.fail_link(&graph, port) && !faults.fail_link(&graph, port));
        assert!(faults.heal_link(&graph, port) && !faults.heal_link(&graph, port));
    }

    #[test]
    fn a_dead_switch_or_endpoint_kills_the_ports_towards_it() {
        let graph = two_leaves_one_spine();
        let (host, up) = (graph.port(SwitchId(0), 1).unwrap(), graph.port(SwitchId(0), 2).unwrap());
        let mut faults = Faults::new();
        faults.fail_switch(SwitchId(2));
        assert!(!faults.port_is_live(&graph, up) && faults.port_is_live(&graph, host));
        faults.fail_endpoint(EndpointId(0));
        assert!(!faults.port_is_live(&graph, host));
    }

    #[test]
    fn an_empty_port_is_not_live() {
        let graph = two_leaves_one_spine();
        assert!(!Faults::new().port_is_live(&graph, graph.port(SwitchId(2), 3).unwrap()));
    }
}
