//! Failing and healing, and what watchers see of it.

use std::sync::Arc;

use fabricast_emulator::{
    Component, Deliveries, Emulator, EntryWrite, Event, Fence, Packet, PortCounters, TableProblem,
};
use fabricast_topology::{EndpointId, Graph, PortId, PortSet, SwitchId, TableKind};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::graphs::{COLORS, graph};

fn all_ports(graph: &Graph) -> impl Iterator<Item = PortId> + '_ {
    graph.switches().flat_map(|switch| graph.ports(switch))
}

proptest! {
    #[test]
    fn events_tell_the_whole_state(
        graph in graph(),
        steps in vec((any::<bool>(), 0..3_u8, 0..12_u32), 0..40),
    ) {
        let mut emulator = Emulator::new(Arc::clone(&graph), TableKind::PerPort, COLORS);
        let mut seen: Vec<bool> = all_ports(&graph).map(|port| emulator.port_is_up(port)).collect();
        let mut cursor = 0;
        for (fail, what, number) in steps {
            let (component, count) = match what {
                0 => (Component::Switch(SwitchId(number)), graph.switch_count()),
                1 => (Component::Link(PortId(number)), graph.port_count()),
                _ => (Component::Endpoint(EndpointId(number)), graph.endpoint_count()),
            };
            let before = emulator.faults().clone();
            let result =
                if fail { emulator.fail(component) } else { emulator.heal(component) };
            prop_assert_eq!(result.is_ok(), (number as usize) < count);
            let page = emulator.events_since(cursor).unwrap();
            prop_assert!(result.is_ok() || page.events.is_empty());
            prop_assert!(*emulator.faults() != before || page.events.is_empty());
            cursor = page.cursor;
            for event in page.events {
                match event {
                    Event::Port { port, up } => {
                        prop_assert!(seen[port.index()] != up, "only changes are told");
                        seen[port.index()] = up;
                    }
                    Event::Switch { switch, up } => {
                        prop_assert_eq!(component, Component::Switch(switch));
                        prop_assert_eq!(up, !fail);
                    }
                }
            }
            for port in all_ports(&graph) {
                prop_assert_eq!(seen[port.index()], emulator.port_is_up(port));
                prop_assert_eq!(seen[port.index()], emulator.faults().port_is_live(&graph, port));
            }
        }
    }
}

/// Two leaves with two hosts each (ports 1 and 2), one spine above them, and one broadcast group of
/// color 0.
fn broadcasting() -> Emulator {
    let text = "kind = \"leaf-spine\"\nleaves = 2\nspines = 1\nendpoints_per_leaf = 2\n";
    let graph = fabricast_topology::spec::TopologySpec::parse(text).unwrap().generate().unwrap();
    let mut emulator = Emulator::new(graph.into(), TableKind::PerPort, 1);
    let graph = Arc::clone(emulator.graph());
    for switch in graph.switches() {
        program(&mut emulator, switch);
    }
    emulator
}

fn program(emulator: &mut Emulator, switch: SwitchId) {
    let graph = Arc::clone(emulator.graph());
    let used: PortSet = graph
        .ports(switch)
        .filter(|port| graph.peer(*port) != fabricast_topology::Peer::None)
        .map(|port| graph.port_number(port))
        .collect();
    let entries: Vec<_> = used
        .iter()
        .map(|in_port| EntryWrite { in_port, color: 0, out: used.without(in_port) })
        .collect();
    emulator.write_table(switch, Fence { term: 3, generation: 1 }, &entries).unwrap();
}

fn send(emulator: &mut Emulator, from: &str) -> Vec<String> {
    let graph = Arc::clone(emulator.graph());
    let mut deliveries = Deliveries::new();
    let packet = Packet::default();
    emulator.inject(graph.find_endpoint(from).unwrap(), &packet, &mut deliveries);
    let mut names: Vec<_> =
        deliveries.as_slice().iter().map(|e| graph.endpoint_name(*e).to_owned()).collect();
    names.sort();
    names
}

#[test]
fn a_power_cycle_empties_a_switch_and_resets_its_fence() {
    let mut emulator = broadcasting();
    assert_eq!(send(&mut emulator, "h0"), ["h1", "h2", "h3"]);
    let graph = Arc::clone(emulator.graph());
    let leaf = graph.switch_of(graph.attachment(EndpointId(2)).unwrap());
    assert_eq!(emulator.fail(Component::Switch(leaf)), Ok(true));
    assert_eq!(emulator.fail(Component::Switch(leaf)), Ok(false));
    assert_eq!(send(&mut emulator, "h0"), ["h1"]);
    assert!(send(&mut emulator, "h2").is_empty());
    let refused = emulator.write_table(leaf, Fence { term: 9, generation: 9 }, &[]).unwrap_err();
    assert_eq!(refused.problem, TableProblem::Dead);
    assert_eq!(refused.to_string(), format!("switch {}: not answering", graph.switch_name(leaf)));
    assert!(emulator.read_table(leaf).is_err());

    assert_eq!(emulator.heal(Component::Switch(leaf)), Ok(true));
    assert!(emulator.read_table(leaf).unwrap().is_empty());
    assert_eq!(emulator.fence(leaf).unwrap(), Fence::default());
    assert!(graph.ports(leaf).all(|port| emulator.counters(port) == PortCounters::default()));
    assert_eq!(send(&mut emulator, "h0"), ["h1"], "its tables are gone");
    program(&mut emulator, leaf);
    assert_eq!(send(&mut emulator, "h0"), ["h1", "h2", "h3"]);
}

#[test]
fn a_dead_link_or_endpoint_drops_and_recovers_with_tables_intact() {
    let mut emulator = broadcasting();
    let graph = Arc::clone(emulator.graph());
    let host = graph.attachment(EndpointId(0)).unwrap();
    let leaf = graph.switch_of(host);
    let up = graph
        .ports(leaf)
        .find(|port| matches!(graph.peer(*port), fabricast_topology::Peer::Switch(_)))
        .unwrap();
    emulator.fail(Component::Link(up)).unwrap();
    assert_eq!(send(&mut emulator, "h0"), ["h1"]);
    assert_eq!(send(&mut emulator, "h2"), ["h3"]);
    assert_eq!(emulator.counters(up).dropped, 1);
    emulator.heal(Component::Link(up)).unwrap();
    emulator.fail(Component::Endpoint(EndpointId(3))).unwrap();
    assert_eq!(send(&mut emulator, "h0"), ["h1", "h2"]);
    assert!(send(&mut emulator, "h3").is_empty());
    emulator.heal(Component::Endpoint(EndpointId(3))).unwrap();
    assert_eq!(send(&mut emulator, "h0"), ["h1", "h2", "h3"]);
    assert!(emulator.faults().is_empty());
}

#[test]
fn an_unknown_part_is_named() {
    let mut emulator = broadcasting();
    let error = emulator.fail(Component::Switch(SwitchId(40))).unwrap_err();
    assert_eq!(error.to_string(), "the fabric has no Switch(SwitchId(40))");
}
