//! Adds the parts that a discovery has found to a known graph.

use std::collections::BTreeMap;

use super::{Graph, GraphBuilder};
use crate::ids::{AdapterId, EndpointId, Peer, PortId, SwitchId};

/// Merges two graphs; see [`Graph::merged`].
pub(super) fn merge(known: &Graph, found: &Graph) -> Graph {
    let mut merge = Merge { known, found, builder: GraphBuilder::new() };
    let switches = merge.switches();
    let endpoints = merge.endpoints();
    // Found cables first, so that known ones give way.
    let speeds: Vec<&str> = found
        .switches()
        .flat_map(|switch| found.ports(switch))
        .map(|port| match merge.same_cable(port) {
            Some(before) => known.port_speed(before),
            None => found.port_speed(port),
        })
        .collect();
    merge.cables(found, &switches.found, &endpoints.found, |port| speeds[port.index()]);
    merge.cables(known, &switches.known, &endpoints.known, |port| known.port_speed(port));
    merge.builder.build().expect("every name was added once")
}

fn adapters_by_name(graph: &Graph) -> BTreeMap<&str, AdapterId> {
    graph.adapters().map(|adapter| (graph.adapter_name(adapter), adapter)).collect()
}

/// The merged graph under construction.
struct Merge<'a> {
    known: &'a Graph,
    found: &'a Graph,
    builder: GraphBuilder,
}

/// New numbers of a graph's switches or endpoints.
struct Renumbered<T> {
    known: Vec<T>,
    found: Vec<T>,
}

impl<'a> Merge<'a> {
    fn switches(&mut self) -> Renumbered<SwitchId> {
        let Self { known, found, builder } = self;
        let ports = |graph: &Graph, switch| {
            u8::try_from(graph.ports(switch).len()).expect("a switch has at most 255 ports")
        };
        let mut add = |name: &str| {
            let (before, now) = (known.find_switch(name), found.find_switch(name));
            let count = before.map_or(0, |switch| ports(known, switch));
            let count = count.max(now.map_or(0, |switch| ports(found, switch)));
            let facts = before.map(|switch| known.switch_facts(switch));
            let facts = facts.or(now.map(|switch| found.switch_facts(switch)));
            let text = now.map(|switch| found.switch_description(switch));
            let text = text.filter(|text| !text.is_empty());
            let text = text.or(before.map(|switch| known.switch_description(switch)));
            builder.add_switch(
                name,
                text.unwrap_or_default(),
                count,
                facts.copied().unwrap_or_default(),
            )
        };
        let of_known: Vec<SwitchId> =
            known.switches().map(|switch| add(known.switch_name(switch))).collect();
        let of_found = found.switches().map(|switch| {
            let name = found.switch_name(switch);
            match known.find_switch(name) {
                Some(before) => of_known[before.index()],
                None => add(name),
            }
        });
        let of_found = of_found.collect();
        Renumbered { known: of_known, found: of_found }
    }

    fn endpoints(&mut self) -> Renumbered<EndpointId> {
        let (known, found) = (self.known, self.found);
        let (by_known, by_found) = (adapters_by_name(known), adapters_by_name(found));
        let nowhere = EndpointId(u32::MAX);
        let mut moved = Renumbered {
            known: vec![nowhere; known.endpoint_count()],
            found: vec![nowhere; found.endpoint_count()],
        };
        for adapter in known.adapters() {
            let now = by_found.get(known.adapter_name(adapter)).copied();
            self.adapter(Some(adapter), now, &mut moved);
        }
        for adapter in found.adapters() {
            if !by_known.contains_key(found.adapter_name(adapter)) {
                self.adapter(None, Some(adapter), &mut moved);
            }
        }
        moved
    }

    /// Adds one adapter with the endpoints that either graph has of it.
    fn adapter(
        &mut self,
        before: Option<AdapterId>,
        now: Option<AdapterId>,
        moved: &mut Renumbered<EndpointId>,
    ) {
        let Self { known, found, builder } = self;
        let first = before.map(|adapter| (&**known, adapter));
        let last = now.map(|adapter| (&**found, adapter));
        let Some((graph, adapter)) = first.or(last) else { return };
        let text = last.map_or("", |(graph, adapter)| graph.adapter_description(adapter));
        let text = if text.is_empty() { graph.adapter_description(adapter) } else { text };
        builder.add_adapter(graph.adapter_name(adapter), text, *graph.adapter_facts(adapter));
        let of = |part: Option<(&Graph, AdapterId)>| -> Vec<EndpointId> {
            part.map_or_else(Vec::new, |(graph, adapter)| {
                graph.adapter_endpoints(adapter).collect()
            })
        };
        let (mut known_ones, mut found_ones) =
            (of(first).into_iter().peekable(), of(last).into_iter().peekable());
        loop {
            let number = |graph: &Graph, endpoint: Option<&EndpointId>| {
                endpoint.map(|endpoint| graph.endpoint_facts(*endpoint).number)
            };
            let next = (number(known, known_ones.peek()), number(found, found_ones.peek()));
            let least = match next {
                (Some(one), Some(other)) => one.min(other),
                (Some(one), None) | (None, Some(one)) => one,
                (None, None) => return,
            };
            let a = known_ones.next_if(|_| next.0 == Some(least));
            let b = found_ones.next_if(|_| next.1 == Some(least));
            let facts = a.map(|endpoint| *known.endpoint_facts(endpoint));
            let facts = facts.or(b.map(|endpoint| *found.endpoint_facts(endpoint)));
            let new = builder.add_endpoint(facts.unwrap_or_default());
            let speed = a.map(|endpoint| known.endpoint_speed(endpoint));
            let speed = speed.or(b.map(|endpoint| found.endpoint_speed(endpoint)));
            builder.set_endpoint_speed(new, speed.unwrap_or_default());
            if let Some(endpoint) = a {
                moved.known[endpoint.index()] = new;
            }
            if let Some(endpoint) = b {
                moved.found[endpoint.index()] = new;
            }
        }
    }

    /// Adds a graph's cables where both ends are free.
    fn cables(
        &mut self,
        graph: &Graph,
        switches: &[SwitchId],
        endpoints: &[EndpointId],
        speed: impl Fn(PortId) -> &'a str,
    ) {
        let builder = &mut self.builder;
        let moved = |builder: &GraphBuilder, port: PortId| {
            let switch = switches[graph.switch_of(port).index()];
            builder.port(switch, graph.port_number(port)).expect("it has as many ports")
        };
        for port in graph.switches().flat_map(|switch| graph.ports(switch)) {
            let here = moved(builder, port);
            // A port that has a cable already refuses this one, and nothing is changed.
            let (plugged, far) = match graph.peer(port) {
                Peer::Endpoint(endpoint) => {
                    (builder.attach(endpoints[endpoint.index()], here), None)
                }
                Peer::Switch(far) if port <= far => {
                    (builder.link(here, moved(builder, far)), Some(far))
                }
                Peer::None | Peer::Switch(_) => continue, // done from the lower end
            };
            if plugged.is_ok() {
                for end in std::iter::once(port).chain(far) {
                    builder.set_port_speed(moved(builder, end), speed(end));
                }
            }
        }
    }

    /// Returns the known port with the same cable as a found one.
    fn same_cable(&self, port: PortId) -> Option<PortId> {
        let Self { known, found, .. } = self;
        let before = |port: PortId| {
            let switch = known.find_switch(found.switch_name(found.switch_of(port)))?;
            known.port(switch, found.port_number(port))
        };
        let known_port = before(port)?;
        let is_same = match (found.peer(port), known.peer(known_port)) {
            (Peer::Switch(far), Peer::Switch(other)) => before(far) == Some(other),
            (Peer::Endpoint(one), Peer::Endpoint(other)) => {
                let place = |graph: &Graph, endpoint| {
                    let adapter = graph.adapter_name(graph.adapter_of(endpoint)).to_owned();
                    (adapter, graph.endpoint_facts(endpoint).number)
                };
                place(found, one) == place(known, other)
            }
            _ => false,
        };
        is_same.then_some(known_port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::Faults;
    use crate::graph::tests::two_leaves_one_spine;
    use crate::spec::TopologySpec;

    fn fabric() -> Graph {
        let text =
            "kind = 'leaf-spine'\nleaves = 3\nspines = 2\nendpoints_per_leaf = 2\nlanes0 = 2";
        TopologySpec::parse(text).unwrap().generate().unwrap()
    }

    /// Returns the faults of each single part of a graph.
    fn holes(graph: &Graph) -> Vec<Faults> {
        let mut holes = Vec::new();
        for switch in graph.switches() {
            let mut faults = Faults::new();
            faults.fail_switch(switch);
            holes.push(faults);
            for port in graph.ports(switch) {
                let mut faults = Faults::new();
                faults.fail_link(graph, port);
                holes.push(faults);
            }
        }
        for endpoint in graph.endpoints() {
            let mut faults = Faults::new();
            faults.fail_endpoint(endpoint);
            holes.push(faults);
        }
        holes
    }

    #[test]
    fn what_is_not_found_stays() {
        let graph = fabric();
        for faults in holes(&graph) {
            assert_eq!(graph.merged(&graph.without(&faults)), graph, "{faults:?}");
        }
    }

    #[test]
    fn what_is_found_is_added_and_then_there_is_nothing_more_to_add() {
        let graph = fabric();
        for faults in holes(&graph) {
            let merged = graph.without(&faults).merged(&graph);
            assert_eq!(merged.merged(&graph), merged, "{faults:?}");
            // The same parts, perhaps in another order.
            assert_eq!(graph.merged(&merged), graph, "{faults:?}");
            let counts =
                |graph: &Graph| (graph.switch_count(), graph.endpoint_count(), graph.port_count());
            assert_eq!(counts(&merged), counts(&graph), "{faults:?}");
        }
        let nothing = GraphBuilder::new().build().unwrap();
        assert_eq!(nothing.merged(&graph), graph);
        assert_eq!(graph.merged(&nothing), graph);
    }

    #[test]
    fn a_cable_that_was_moved_is_where_it_was_found() {
        let graph = two_leaves_one_spine();
        // Leaf 0 goes into port 3 of the spine instead of port 1, with another speed.
        let mut moved = GraphBuilder::new();
        let leaf = moved.add_switch("S-0", "first", 2, super::super::SwitchFacts::default());
        let spine = moved.add_switch("S-2", "", 3, super::super::SwitchFacts::default());
        let (up, down) = (moved.port(leaf, 2).unwrap(), moved.port(spine, 3).unwrap());
        moved.link(up, down).unwrap();
        moved.set_port_speed(up, "4xEDR");
        let merged = graph.merged(&moved.build().unwrap());
        let spine = merged.find_switch("S-2").unwrap();
        let peer = |number| merged.peer(merged.port(spine, number).unwrap());
        let leaf = merged.find_switch("S-0").unwrap();
        let up = merged.port(leaf, 2).unwrap();
        assert_eq!((peer(1), peer(3)), (Peer::None, Peer::Switch(up)));
        assert_eq!((merged.port_speed(up), merged.switch_description(leaf)), ("4xEDR", "first"));
        // The other leaf and the hosts are as they were.
        assert!(matches!(peer(2), Peer::Switch(_)) && merged.endpoint_count() == 2);
    }

    #[test]
    fn a_link_that_was_trained_to_another_speed_is_no_news() {
        let with_speed = |speed: &str| {
            let mut builder = GraphBuilder::new();
            let ids = ["S-0", "S-1"]
                .map(|name| builder.add_switch(name, "", 1, super::super::SwitchFacts::default()));
            let [a, b] = ids.map(|switch| builder.port(switch, 1).unwrap());
            builder.link(a, b).unwrap();
            builder.set_port_speed(a, speed);
            builder.set_port_speed(b, speed);
            builder.build().unwrap()
        };
        assert_eq!(with_speed("4xEDR").merged(&with_speed("1xSDR")), with_speed("4xEDR"));
    }
}
