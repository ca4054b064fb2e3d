//! Removes faulty parts from a graph.

use super::{Graph, GraphBuilder};
use crate::faults::Faults;
use crate::ids::{EndpointId, Peer, PortId, SwitchId};

impl Graph {
    /// Returns the graph that a discovery would find: dead switches are gone together with the
    /// endpoints behind them, dead endpoints are gone, and dead links are unplugged (the endpoint
    /// of a dead host link stays listed).
    ///
    /// Numbers are dense again, so ids of this graph are not valid there; names stay.
    #[must_use]
    pub fn without(&self, faults: &Faults) -> Self {
        let mut builder = GraphBuilder::new();
        let switches: Vec<Option<SwitchId>> = self
            .switches()
            .map(|switch| {
                faults.switch_is_live(switch).then(|| {
                    let ports = u8::try_from(self.ports(switch).len())
                        .expect("a switch has at most 255 ports");
                    let (name, text) = (self.switch_name(switch), self.switch_description(switch));
                    builder.add_switch(name, text, ports, *self.switch_facts(switch))
                })
            })
            .collect();
        let endpoints = self.copy_adapters(faults, &mut builder);
        let moved = |builder: &GraphBuilder, port: PortId| {
            let switch = switches[self.switch_of(port).index()]?;
            builder.port(switch, self.port_number(port))
        };
        for port in (0..self.peers.len()).map(|port| PortId(crate::ids::dense(port))) {
            let Some(here) = moved(&builder, port) else { continue };
            builder.set_port_speed(here, self.port_speed(port));
            if !faults.port_is_live(self, port) {
                continue;
            }
            match self.peer(port) {
                Peer::None => {}
                Peer::Endpoint(endpoint) => {
                    let endpoint = endpoints[endpoint.index()].expect("a live port's endpoint");
                    builder.attach(endpoint, here).expect("one cable per port");
                }
                Peer::Switch(other) if port <= other => {
                    let there = moved(&builder, other).expect("a live port's switch");
                    builder.link(here, there).expect("one cable per port");
                }
                Peer::Switch(_) => {} // done from the lower end
            }
        }
        builder.build().expect("names were unique before")
    }

    fn copy_adapters(
        &self,
        faults: &Faults,
        builder: &mut GraphBuilder,
    ) -> Vec<Option<EndpointId>> {
        let mut moved = vec![None; self.endpoint_count()];
        let is_found = |endpoint: &EndpointId| {
            faults.endpoint_is_live(*endpoint)
                && self
                    .attachment(*endpoint)
                    .is_none_or(|port| faults.switch_is_live(self.switch_of(port)))
        };
        for adapter in self.adapters() {
            let before = self.adapter_endpoints(adapter);
            let listed = before.len() == 0;
            let found: Vec<EndpointId> = before.filter(is_found).collect();
            if found.is_empty() && !listed {
                continue;
            }
            builder.add_adapter(
                self.adapter_name(adapter),
                self.adapter_description(adapter),
                *self.adapter_facts(adapter),
            );
            for endpoint in found {
                let new = builder.add_endpoint(*self.endpoint_facts(endpoint));
                builder.set_endpoint_speed(new, self.endpoint_speed(endpoint));
                moved[endpoint.index()] = Some(new);
            }
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::tests::two_leaves_one_spine;

    #[test]
    fn without_faults_the_graph_is_the_same() {
        let graph = two_leaves_one_spine();
        assert_eq!(graph.without(&Faults::new()), graph);
    }

    #[test]
    fn a_dead_leaf_takes_its_endpoint_along() {
        let graph = two_leaves_one_spine();
        let mut faults = Faults::new();
        faults.fail_switch(SwitchId(0));
        let rest = graph.without(&faults);
        assert_eq!((rest.switch_count(), rest.endpoint_count()), (2, 1));
        assert_eq!(rest.find_endpoint("h0"), None);
        assert_eq!(rest.attachment(EndpointId(0)), Some(PortId(0)));
    }

    #[test]
    fn a_dead_host_link_leaves_the_endpoint_listed() {
        let graph = two_leaves_one_spine();
        let mut faults = Faults::new();
        faults.fail_link(&graph, PortId(0));
        let rest = graph.without(&faults);
        assert_eq!(rest.endpoint_count(), 2);
        assert_eq!(rest.attachment(rest.find_endpoint("h0").unwrap()), None);
    }
}
