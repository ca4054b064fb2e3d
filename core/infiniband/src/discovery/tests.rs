//! Discovery against a subnet made of a graph: every packet is answered as nodes would.

use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{EndpointId, Graph, Peer, PortId, SwitchId, ibnetdiscover};
use proptest::prelude::*;

use super::*;
use crate::missing::{Missing, missing};

/// A graph that answers packets, seen from one of its endpoints.
struct Fabric {
    graph: Graph,
    from: EndpointId,
    dead: Vec<PortId>,
}

/// End of a route: at an endpoint, or at a switch with the port the packet came in by.
enum Place {
    Endpoint(EndpointId),
    Switch(PortId),
}

impl Fabric {
    fn is_dead(&self, port: PortId) -> bool {
        self.dead.contains(&port)
            || matches!(self.graph.peer(port), Peer::Switch(far) if self.dead.contains(&far))
    }

    fn walk(&self, path: &Path) -> Option<Place> {
        let mut place = Place::Endpoint(self.from);
        for hop in path.hops() {
            place = match place {
                Place::Endpoint(endpoint) => {
                    let port = self.graph.attachment(endpoint)?;
                    (!self.is_dead(port)).then_some(Place::Switch(port))?
                }
                Place::Switch(entered) => {
                    let port = self.graph.port(self.graph.switch_of(entered), *hop)?;
                    match self.graph.peer(port) {
                        _ if self.is_dead(port) => return None,
                        Peer::None => return None,
                        Peer::Endpoint(endpoint) => Place::Endpoint(endpoint),
                        Peer::Switch(far) => Place::Switch(far),
                    }
                }
            };
        }
        Some(place)
    }

    fn answer(&self, query: &Query) -> Option<Data> {
        let mut data = [0; 64];
        match (self.walk(&query.path)?, query.attribute) {
            (Place::Endpoint(endpoint), Attribute::NodeInfo) => {
                let facts = self.graph.adapter_facts(self.graph.adapter_of(endpoint));
                data[2..4].copy_from_slice(&[1, 1]);
                data[12..20].copy_from_slice(&facts.guid.to_be_bytes());
                data[36] = 1;
            }
            (Place::Endpoint(endpoint), Attribute::NodeDescription) => {
                let name = self.graph.adapter_description(self.graph.adapter_of(endpoint));
                data[..name.len()].copy_from_slice(name.as_bytes());
            }
            (Place::Switch(entered), Attribute::NodeInfo) => {
                let switch = self.graph.switch_of(entered);
                data[2] = 2;
                data[3] = u8::try_from(self.graph.ports(switch).len()).unwrap();
                let guid = self.graph.switch_facts(switch).guid;
                data[12..20].copy_from_slice(&guid.to_be_bytes());
                data[36] = self.graph.port_number(entered);
            }
            (Place::Switch(entered), Attribute::NodeDescription) => {
                let name = self.graph.switch_description(self.graph.switch_of(entered));
                data[..name.len()].copy_from_slice(name.as_bytes());
            }
            (Place::Switch(_), Attribute::SwitchInfo) => data[4] = 4,
            (Place::Switch(entered), Attribute::PortInfo) => {
                let number = u8::try_from(query.modifier).ok()?;
                let port = self.graph.port(self.graph.switch_of(entered), number)?;
                let is_up = self.graph.peer(port) != Peer::None && !self.is_dead(port);
                data[32] = if is_up { 4 } else { 1 };
            }
            _ => return None,
        }
        Some(data)
    }

    /// Runs a discovery with so many packets under way, answered in an order by chance.
    fn discover(&self, window: usize, mut chance: u64) -> Subnet {
        let mut discovery = Discovery::new();
        let mut under_way: Vec<Query> = Vec::new();
        while !discovery.is_done() {
            while under_way.len() < window {
                let Some(query) = discovery.next_query() else { break };
                under_way.push(query);
            }
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let at = usize::try_from(chance >> 33).unwrap() % under_way.len();
            let query = under_way.swap_remove(at);
            match self.answer(&query) {
                Some(data) => discovery.answered(query.id, &data),
                None => discovery.unanswered(query.id),
            }
        }
        discovery.finish()
    }
}

fn fabric(spec: &str) -> Fabric {
    let graph = TopologySpec::parse(spec).unwrap().generate().unwrap();
    // Once through the text, so that everything has a GUID.
    let graph = ibnetdiscover::read(&ibnetdiscover::write(&graph)).unwrap();
    Fabric { graph, from: EndpointId(0), dead: Vec::new() }
}

fn three_levels() -> Fabric {
    fabric("kind = \"k-ary-3-level\"\nk = 4\n")
}

/// Lists every cable by names, in an order that does not depend on that of the parts.
fn cables(graph: &Graph) -> Vec<(String, u8, String)> {
    let ports = graph.switches().flat_map(|switch| graph.ports(switch));
    let mut lines: Vec<_> = ports
        .filter_map(|port| {
            let far = match graph.peer(port) {
                Peer::None => return None,
                Peer::Endpoint(endpoint) => graph.endpoint_name(endpoint).to_owned(),
                Peer::Switch(far) => format!(
                    "{} {}",
                    graph.switch_name(graph.switch_of(far)),
                    graph.port_number(far)
                ),
            };
            let name = graph.switch_name(graph.switch_of(port)).to_owned();
            Some((name, graph.port_number(port), far))
        })
        .collect();
    lines.sort_unstable();
    lines
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn the_whole_fabric_is_found_in_any_order_of_answers(window in 1usize..40, chance in any::<u64>()) {
        let fabric = three_levels();
        let found = fabric.discover(window, chance);
        prop_assert_eq!(found.unanswered, 0);
        prop_assert_eq!(cables(&found.graph().unwrap()), cables(&fabric.graph));
    }

    #[test]
fn dead_links_are_named_and_heal(chance in any::<u64>(), dead in proptest::collection::vec(0usize..80, 1..4)) {
        let mut fabric = three_levels();
        let is_link = |port: &PortId| {
            matches!(fabric.graph.peer(*port), Peer::Switch(far) if *port < far)
        };
        let ports = fabric.graph.switches().flat_map(|switch| fabric.graph.ports(switch));
        let links: Vec<PortId> = ports.filter(is_link).collect();
        fabric.dead = dead.iter().map(|at| links[at % links.len()]).collect();
        fabric.dead.sort_unstable();
        fabric.dead.dedup();
        let found = fabric.discover(8, chance).graph().unwrap();
        // Three cables cannot cut a switch off that has four, but two can cut off a leaf of two.
        let named = missing(&fabric.graph, &found);
        let switches: Vec<SwitchId> = named
            .iter()
            .filter_map(|one| match one {
                Missing::Switch(switch) => Some(*switch),
                Missing::Link(_) | Missing::Endpoint(_) => None,
            })
            .collect();
        let expected = fabric.dead.iter().filter(|port| {
            let Peer::Switch(far) = fabric.graph.peer(**port) else { return false };
            ![**port, far].iter().any(|end| switches.contains(&fabric.graph.switch_of(*end)))
        });
        let expected: Vec<Missing> = expected.map(|port| Missing::Link(*port)).collect();
        let links: Vec<Missing> =
            named.iter().filter(|one| matches!(one, Missing::Link(_))).copied().collect();
        prop_assert_eq!(links, expected);
        fabric.dead.clear();
        let healed = fabric.discover(3, chance).graph().unwrap();
        prop_assert_eq!(missing(&fabric.graph, &healed), vec![]);
    }
}

#[test]
fn an_endpoint_without_its_cable_is_missing() {
    let mut fabric = three_levels();
    let last = EndpointId(u32::try_from(fabric.graph.endpoint_count()).unwrap() - 1);
    fabric.dead = vec![fabric.graph.attachment(last).unwrap()];
    let found = fabric.discover(4, 1).graph().unwrap();
    assert_eq!(missing(&fabric.graph, &found), [Missing::Endpoint(last)]);
}

#[test]
fn an_answer_that_makes_no_sense_counts_as_none() {
    let mut discovery = Discovery::new();
    let first = discovery.next_query().unwrap();
    discovery.answered(first.id, &[0xff; 64]);
    assert!(discovery.is_done());
    assert_eq!(discovery.finish().unanswered, 1);
}

#[test]
fn a_cable_is_asked_for_from_one_end_only() {
    let fabric = three_levels();
    let mut discovery = Discovery::new();
    let mut node_queries = 0;
    while let Some(query) = discovery.next_query() {
        node_queries += u32::from(query.attribute == Attribute::NodeInfo);
        discovery.answered(query.id, &fabric.answer(&query).unwrap());
    }
    let cables = u32::try_from(discovery.finish().cables().count()).unwrap();
    assert!(node_queries <= cables + 1, "{node_queries} queries for {cables} cables");
}
