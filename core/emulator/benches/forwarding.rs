//! Forwarding rate in packet-hops per second. Budget: 2 million per core.

use std::sync::Arc;

use divan::Bencher;
use divan::counter::ItemsCount;
use fabricast_emulator::{Deliveries, Emulator, EntryWrite, Fence, Packet};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{EndpointId, Graph, Peer, PortSet, SwitchId, TableKind};

const SMALL: &str =
    "kind = \"leaf-spine\"\nleaves = 4\nspines = 4\nendpoints_per_leaf = 24\nlanes0 = 6\n";
const LARGE: &str = "kind = \"k-ary-3-level\"\nk = 36\n";

fn main() {
    divan::main();
}

/// A fabric whose color 0 is one tree over every `step`-th endpoint.
fn fabric(text: &str, kind: TableKind, step: u32) -> (Emulator, u64) {
    let spec = TopologySpec::parse(text).expect("a correct description");
    let graph = Arc::new(spec.generate().expect("a correct description"));
    let mut emulator = Emulator::new(Arc::clone(&graph), kind, 32);
    for (switch, out) in tree(&graph, step) {
        let entries: Vec<_> = match kind {
            TableKind::PerPort => out
                .iter()
                .map(|in_port| EntryWrite { in_port, color: 0, out: out.without(in_port) })
                .collect(),
            TableKind::PerSwitch => vec![EntryWrite { in_port: 0, color: 0, out }],
        };
        emulator.write_table(switch, Fence::default(), &entries).expect("entries fit");
    }
    let outcome = emulator.inject(EndpointId(0), &Packet::default(), &mut Deliveries::new());
    let members = u64::try_from(graph.endpoint_count()).expect("fits").div_ceil(u64::from(step));
    assert_eq!((outcome.delivered, outcome.dropped.total()), (members - 1, 0));
    (emulator, outcome.hops)
}

/// The tree's ports by switch: the way of every member to the first one, breadth first.
fn tree(graph: &Graph, step: u32) -> Vec<(SwitchId, PortSet)> {
    let home = graph.switch_of(graph.attachment(EndpointId(0)).expect("plugged in"));
    let mut up = vec![None; graph.switch_count()];
    let mut order = vec![home];
    let mut next = 0;
    while let Some(&switch) = order.get(next) {
        next += 1;
        for port in graph.ports(switch) {
            if let Peer::Switch(peer) = graph.peer(port) {
                let other = graph.switch_of(peer);
                if other != home && up[other.index()].is_none() {
                    up[other.index()] = Some(peer);
                    order.push(other);
                }
            }
        }
    }
    let mut ports = vec![PortSet::EMPTY; graph.switch_count()];
    let mut add = |port| {
        let set = &mut ports[graph.switch_of(port).index()];
        let number = graph.port_number(port);
        let new = !set.contains(number);
        set.insert(number);
        new
    };
    for endpoint in graph.endpoints().step_by(step as usize) {
        let mut port = graph.attachment(endpoint).expect("plugged in");
        while add(port) {
            let Some(out) = up[graph.switch_of(port).index()] else { break };
            let Peer::Switch(peer) = graph.peer(out) else { break };
            add(out);
            port = peer;
        }
    }
    graph.switches().zip(ports).filter(|(_, ports)| !ports.is_empty()).collect()
}

fn run(bencher: Bencher<'_, '_>, text: &str, kind: TableKind, step: u32) {
    let (mut emulator, hops) = fabric(text, kind, step);
    let packet = Packet::default();
    let mut deliveries = Deliveries::new();
    bencher
        .counter(ItemsCount::new(hops))
        .bench_local(|| emulator.inject(EndpointId(0), divan::black_box(&packet), &mut deliveries));
}

#[divan::bench(args = [1, 24])]
fn cluster_of_96_per_port(bencher: Bencher<'_, '_>, step: u32) {
    run(bencher, SMALL, TableKind::PerPort, step);
}

#[divan::bench(args = [1, 18, 648])]
fn fabric_of_11664_per_port(bencher: Bencher<'_, '_>, step: u32) {
    run(bencher, LARGE, TableKind::PerPort, step);
}

#[divan::bench(args = [1, 18, 648])]
fn fabric_of_11664_per_switch(bencher: Bencher<'_, '_>, step: u32) {
    run(bencher, LARGE, TableKind::PerSwitch, step);
}
