//! Cables of a generated fabric, told by the frames that would cross them.

use fabricast_topology::spec::TopologySpec;
use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const SILENCE: Duration = Duration::from_secs(6);

/// Two leaves with ports 1 and 2 to endpoints, 3 and 4 to the spines, in this order.
fn fabric() -> Graph {
    let spec = "kind = 'leaf-spine'\nleaves = 2\nspines = 2\nendpoints_per_leaf = 2\n";
    TopologySpec::parse(spec).unwrap().generate().unwrap()
}

/// Datapath id of a node id.
fn datapath(name: &str) -> Option<u64> {
    u64::from_str_radix(name.strip_prefix("S-")?, 16).ok()
}

fn node(datapath: u64) -> Option<String> {
    Some(format!("S-{datapath:016x}"))
}

/// The port of a switch by its place in the fabric.
fn port(graph: &Graph, switch: usize, number: u8) -> SwitchPort {
    let switch = graph.switches().nth(switch).unwrap();
    SwitchPort { datapath: datapath(graph.switch_name(switch)).unwrap(), number }
}

fn endpoint(name: &str, last: u8) -> Neighbor {
    Neighbor::Endpoint { name: name.to_owned(), address: [2, 0, 0, 0, 0, last] }
}

fn frame(port: SwitchPort, neighbor: Neighbor) -> HeardFrame {
    HeardFrame { port, neighbor, silence: SILENCE }
}

/// All frames of a fabric in one round.
fn frames(graph: &Graph) -> Vec<HeardFrame> {
    let place = |port: PortId| SwitchPort {
        datapath: datapath(graph.switch_name(graph.switch_of(port))).unwrap(),
        number: graph.port_number(port),
    };
    let ports = graph.switches().flat_map(|switch| graph.ports(switch));
    let heard = ports.filter_map(|port| match graph.peer(port) {
        Peer::Switch(far) => Some(frame(place(port), Neighbor::Switch(place(far)))),
        Peer::Endpoint(one) => {
            let last = u8::try_from(one.0).unwrap();
            Some(frame(place(port), endpoint(graph.endpoint_name(one), last)))
        }
        Peer::None => None,
    });
    heard.collect()
}

fn seen(graph: &Graph) -> Vec<SeenSwitch> {
    let switch = |switch| SeenSwitch {
        datapath: datapath(graph.switch_name(switch)).unwrap(),
        name: graph.switch_name(switch).to_owned(),
        description: graph.switch_description(switch).to_owned(),
        ports: u8::try_from(graph.ports(switch).len()).unwrap(),
    };
    graph.switches().map(switch).collect()
}

fn table(frames: Vec<HeardFrame>) -> NeighborTable {
    let mut table = NeighborTable::default();
    for frame in frames {
        assert!(table.hear(Duration::ZERO, frame));
    }
    table
}

#[test]
fn a_fabric_is_found_as_it_is() {
    let graph = fabric();
    let table = table(frames(&graph));
    let found = table.graph(&seen(&graph), node).unwrap();
    assert_eq!(found.cables(), graph.cables());
    let names = |graph: &Graph| -> Vec<_> {
        let described = |one| graph.switch_description(one).to_owned();
        graph.switches().map(|one| (graph.switch_name(one).to_owned(), described(one))).collect()
    };
    assert_eq!(names(&found), names(&graph));
    assert_eq!(found.resolve_endpoint("0x020000000003").ok(), found.find_endpoint("h3"));
    assert_eq!(table.contradictions(&graph, datapath), BTreeMap::new());
    let leaf = port(&graph, 0, 1).datapath;
    assert_eq!(table.endpoint_ports(leaf).collect::<Vec<_>>(), [1, 2]);
}

/// Agents that share a fabric: each is connected with a part of the switches.
#[test]
fn the_halves_that_two_agents_hear_make_the_whole() {
    let graph = fabric();
    let (all, leaves) = (seen(&graph), [port(&graph, 0, 1).datapath, port(&graph, 1, 1).datapath]);
    let half = |is_leaf: bool| {
        let is_ours = |datapath: u64| leaves.contains(&datapath) == is_leaf;
        let heard = frames(&graph).into_iter().filter(|one| is_ours(one.port.datapath)).collect();
        let seen: Vec<_> = all.iter().filter(|one| is_ours(one.datapath)).cloned().collect();
        table(heard).graph(&seen, node).unwrap()
    };
    let (leaves, spines) = (half(true), half(false));
    assert_eq!(leaves.cables(), graph.cables(), "each cable is heard at both ends");
    assert_eq!(leaves.merged(&spines).cables(), graph.cables());
    assert_eq!(spines.cables().len() + 4, graph.cables().len(), "without the endpoints");
}

#[test]
fn one_direction_is_a_cable_unless_another_frame_contradicts_it() {
    let graph = fabric();
    let (leaf, spine) = (port(&graph, 0, 3), port(&graph, 2, 1));
    let far = |one: &SwitchPort| frame(leaf, Neighbor::Switch(*one));
    let links = |table: &NeighborTable| table.graph(&seen(&graph), node).unwrap().cables().len();
    let mut one_way = table(vec![far(&spine)]);
    assert_eq!(links(&one_way), 1);
    let other = frame(spine, Neighbor::Switch(port(&graph, 1, 3)));
    assert!(one_way.hear(SECOND, other));
    assert_eq!(links(&one_way), 0, "its two directions lead to different ports");
    let both = vec![far(&spine), frame(port(&graph, 1, 3), Neighbor::Switch(spine))];
    assert_eq!(links(&table(both)), 0, "two ports hear one");
    let host = vec![frame(spine, endpoint("h0", 0)), far(&spine)];
    assert_eq!(links(&table(host)), 1, "the endpoint alone");
}

#[test]
fn neighbors_are_forgotten_when_they_are_silent_or_their_port_is_down() {
    let graph = fabric();
    let mut table = table(frames(&graph));
    let all = graph.cables().len();
    let count = |table: &NeighborTable| table.graph(&seen(&graph), node).unwrap().cables().len();
    // All but one cable and one endpoint are heard again.
    let (leaf, spine, host) = (port(&graph, 0, 3), port(&graph, 2, 1), port(&graph, 1, 2));
    let silent = [leaf, spine, host];
    for frame in frames(&graph).into_iter().filter(|frame| !silent.contains(&frame.port)) {
        assert!(!table.hear(3 * SECOND, frame), "that is no news");
    }
    assert!(!table.forget_silent(5 * SECOND));
    assert_eq!(count(&table), all);
    assert!(table.forget_silent(6 * SECOND));
    assert_eq!(count(&table), all - 2);
    // Both directions end with one port.
    assert!(table.forget_port(port(&graph, 0, 4)) && !table.forget_port(port(&graph, 3, 1)));
    assert_eq!(count(&table), all - 3);
    assert!(table.forget_silent(9 * SECOND) && !table.forget_silent(9 * SECOND));
    assert_eq!(count(&table), 0);
}

#[test]
fn a_port_keeps_the_neighbor_that_it_heard_first() {
    let graph = fabric();
    let (first, second) = (port(&graph, 0, 1), port(&graph, 0, 2));
    let mut table = table(vec![frame(first, endpoint("h0", 0))]);
    let mut hears = |now, at, neighbor| table.hear(now, frame(at, neighbor));
    assert!(!hears(SECOND, first, endpoint("h1", 1)), "the port has another endpoint");
    assert!(!hears(SECOND, second, endpoint("h0", 1)), "the name is at another port");
    assert!(!hears(SECOND, second, endpoint("h1", 0)), "the address is at another port");
    assert!(!hears(SECOND, second, Neighbor::Switch(second)), "its own frames come back");
    // An endpoint that was silent may be elsewhere; a switch is believed at once.
    assert!(hears(6 * SECOND, second, endpoint("h0", 0)));
    let far = Neighbor::Switch(port(&graph, 1, 1));
    assert!(hears(7 * SECOND, second, far.clone()));
    assert!(!hears(8 * SECOND, second, endpoint("h0", 0)));
    assert!(!hears(8 * SECOND, second, Neighbor::Switch(port(&graph, 1, 2))));
    assert!(!hears(13 * SECOND, second, far));
}

#[test]
fn cables_in_wrong_ports_are_told_with_what_is_there() {
    let graph = fabric();
    let [left, right] = [3, 4].map(|number| port(&graph, 0, number));
    let mut heard = frames(&graph);
    // Two cables of the first leaf are in each other's ports, and two endpoints of the second.
    for one in &mut heard {
        let swap = |at: SwitchPort| match at {
            at if at == left => right,
            at if at == right => left,
            at => at,
        };
        one.port = swap(one.port);
        if let Neighbor::Switch(far) = &mut one.neighbor {
            *far = swap(*far);
        }
        if one.port.datapath == port(&graph, 1, 1).datapath && one.port.number < 3 {
            one.port.number = 3 - one.port.number;
        }
    }
    let table = table(heard);
    let found = table.contradictions(&graph, datapath);
    let label = |port: &PortId| graph.port_number(*port);
    assert_eq!(found.keys().map(label).collect::<Vec<_>>(), [3, 4, 1, 2]);
    let spine = |number| Neighbor::Switch(port(&graph, number, 1));
    let neighbors: Vec<_> = found.values().map(|one| one.neighbor.clone()).collect();
    assert_eq!(neighbors, [spine(3), spine(2), endpoint("h3", 3), endpoint("h2", 2)]);
    assert_eq!(found.values().next().unwrap().port, left);
}

#[test]
fn an_endpoint_that_is_heard_elsewhere_is_missed_at_its_port() {
    let graph = fabric();
    let heard = vec![frame(port(&graph, 3, 2), endpoint("h0", 0))];
    let found = table(heard).contradictions(&graph, datapath);
    let expected = Contradiction { port: port(&graph, 3, 2), neighbor: endpoint("h0", 0) };
    let home = graph.attachment(graph.find_endpoint("h0").unwrap()).unwrap();
    let mut found = found.into_iter();
    assert_eq!(found.next(), Some((home, expected.clone())));
    // The cable between switches there leads elsewhere, too.
    assert_eq!(found.next().map(|(_, one)| one), Some(expected));
    assert_eq!(found.next(), None);
}

proptest! {
    /// OPENFLOW-2, whatever is heard in whatever order.
    #[test]
    fn no_two_ports_have_one_endpoint(
        steps in proptest::collection::vec((0u64..3, 1u8..4, 0u8..4, 0u8..4, 0u32..9), 1..60),
    ) {
        let (mut table, mut now) = (NeighborTable::default(), Duration::ZERO);
        for (datapath, number, name, address, pause) in steps {
            now += pause * SECOND;
            let neighbor = match name {
                0 => Neighbor::Switch(SwitchPort { datapath: 7, number: address + 1 }),
                _ => endpoint(&format!("h{name}"), address),
            };
            table.hear(now, frame(SwitchPort { datapath, number }, neighbor));
            let is_endpoint = |entry: &&Entry| entry.neighbor.endpoint().is_some();
            let heard: Vec<&Entry> = table.heard.values().filter(is_endpoint).collect();
            for (at, one) in heard.iter().enumerate() {
                let twins = heard[at + 1..].iter().filter(|other| {
                    one.neighbor.is_same_endpoint(&other.neighbor)
                });
                prop_assert_eq!(twins.count(), 0);
            }
            prop_assert!(table.graph(&[], node).is_ok());
        }
    }
}
