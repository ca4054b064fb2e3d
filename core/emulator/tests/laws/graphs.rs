//! Random small graphs, and random entries for them.

use std::sync::Arc;

use fabricast_emulator::EntryWrite;
use fabricast_topology::{
    AdapterFacts, EndpointFacts, Graph, GraphBuilder, PortId, SwitchFacts, TableKind,
};
use proptest::collection::vec;
use proptest::prelude::*;

/// Colors of every emulator in these tests.
pub(crate) const COLORS: u16 = 3;

/// Any graph of up to five switches: cables in any order, to the same switch and even the same port
/// too; the first endpoint is always plugged in.
pub(crate) fn graph() -> impl Strategy<Value = Arc<Graph>> {
    let cables = vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..12);
    let hosts = vec(proptest::option::of(any::<prop::sample::Index>()), 1..6);
    (vec(1..9_u8, 1..5), prop::sample::select(&[1, 63, 64, 130][..]), cables, hosts).prop_map(
        |(mut sizes, large, cables, hosts)| {
            sizes.push(large);
            let mut builder = GraphBuilder::new();
            for (number, ports) in sizes.iter().enumerate() {
                builder.add_switch(&format!("S-{number}"), "", *ports, SwitchFacts::default());
            }
            let ports: u32 = sizes.iter().map(|size| u32::from(*size)).sum();
            let port = |index: prop::sample::Index| {
                PortId(u32::try_from(index.index(ports as usize)).unwrap())
            };
            for (number, host) in hosts.into_iter().enumerate() {
                let facts = AdapterFacts { ports: 1, ..AdapterFacts::default() };
                builder.add_adapter(&format!("H-{number}"), "", facts);
                let endpoint =
                    builder.add_endpoint(EndpointFacts { number: 1, ..EndpointFacts::default() });
                let place = if number == 0 { Some(PortId(0)) } else { host.map(port) };
                if let Some(place) = place {
                    // A port that is taken leaves the endpoint unplugged, which is a case too.
                    let _ = builder.attach(endpoint, place);
                }
            }
            for (a, b) in cables {
                let _ = builder.link(port(a), port(b));
            }
            Arc::new(builder.build().unwrap())
        },
    )
}

/// Either kind of table.
pub(crate) fn kind() -> impl Strategy<Value = TableKind> {
    prop_oneof![Just(TableKind::PerPort), Just(TableKind::PerSwitch)]
}

/// Entries, each with the switch it is for, that fit a graph and a kind.
pub(crate) fn fitting(graph: &Graph, kind: TableKind) -> BoxedStrategy<Vec<(u32, EntryWrite)>> {
    let sizes: Vec<u8> =
        graph.switches().map(|s| u8::try_from(graph.ports(s).len()).unwrap()).collect();
    let entry = (0..sizes.len()).prop_flat_map(move |switch| {
        let ports = sizes[switch];
        let in_ports = if kind == TableKind::PerPort { 1..=ports } else { 0..=0 };
        // Low ports more often, where most cables are.
        let out = vec(prop_oneof![1..=ports, 1..=ports.min(8)], 0..5);
        (in_ports, 0..COLORS, out).prop_map(move |(in_port, color, out)| {
            let out = out.into_iter().collect();
            (u32::try_from(switch).unwrap(), EntryWrite { in_port, color, out })
        })
    });
    vec(entry, 0..120).boxed()
}
