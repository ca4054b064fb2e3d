//! Groups whose packets a change of faults may lose though their plan stays.

use std::collections::BTreeSet;

use fabricast_routing::Plan;
use fabricast_topology::{EndpointId, Faults, Graph, Mgid, Peer, PortId, SwitchId};

/// Parts of the fabric that have failed or come back.
#[derive(Debug, Default)]
pub(super) struct FaultChange {
    /// Both ends of links, and ports of endpoints.
    ports: BTreeSet<PortId>,
    pub(super) endpoints: BTreeSet<EndpointId>,
}

impl FaultChange {
    /// Adds the differences between two sets of faults.
    pub(super) fn add(&mut self, graph: &Graph, before: &Faults, after: &Faults) {
        let dead_ports = |faults: &Faults| faults.dead_link_ports().collect();
        self.ports.extend(differing(dead_ports(before), dead_ports(after)));
        let dead_switches = |faults: &Faults| faults.dead_switches().collect();
        let switches: Vec<SwitchId> = differing(dead_switches(before), dead_switches(after));
        for port in switches.into_iter().flat_map(|switch| graph.ports(switch)) {
            self.ports.insert(port);
            match graph.peer(port) {
                Peer::Switch(other) => drop(self.ports.insert(other)),
                Peer::Endpoint(endpoint) => drop(self.endpoints.insert(endpoint)),
                Peer::None => {}
            }
        }
        let dead_endpoints = |faults: &Faults| faults.dead_endpoints().collect();
        for endpoint in differing(dead_endpoints(before), dead_endpoints(after)) {
            self.ports.extend(graph.attachment(endpoint));
            self.endpoints.insert(endpoint);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.endpoints.is_empty()
    }

    /// Groups whose trees lead over a part that has failed or come back.
    ///
    /// Cost: the virtual groups, times the ports that changed, times the logarithm of a tree.
    pub(super) fn groups_on<'a>(&'a self, plan: &'a Plan) -> impl Iterator<Item = Mgid> + 'a {
        let is_on =
            |ports: &[PortId]| self.ports.iter().any(|port| ports.binary_search(port).is_ok());
        let trees = plan.virtual_groups().filter(move |tree| is_on(tree.ports));
        trees.flat_map(|tree| tree.groups.iter().copied())
    }
}

fn differing<T: Ord + Copy>(before: BTreeSet<T>, after: BTreeSet<T>) -> Vec<T> {
    before.symmetric_difference(&after).copied().collect()
}
