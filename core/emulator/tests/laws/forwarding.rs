//! Packets go where a walker that knows only the written entries says they go.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use fabricast_emulator::{
    Component, Deliveries, Drops, Emulator, EntryWrite, Fence, Outcome, Packet,
};
use fabricast_topology::{EndpointId, Faults, Graph, Peer, PortId, PortSet, SwitchId, TableKind};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::graphs::{COLORS, fitting, graph, kind};

/// The entries by switch, input port and color.
type Entries = BTreeMap<(u32, u8, u16), PortSet>;

fn case() -> impl Strategy<Value = (Arc<Graph>, TableKind, Vec<(u32, EntryWrite)>)> {
    (graph(), kind()).prop_flat_map(|(graph, kind)| {
        let entries = fitting(&graph, kind);
        (Just(graph), Just(kind), entries)
    })
}

fn programmed(
    graph: &Arc<Graph>,
    kind: TableKind,
    writes: &[(u32, EntryWrite)],
) -> (Emulator, Entries) {
    let mut emulator = Emulator::new(Arc::clone(graph), kind, COLORS);
    let mut entries = Entries::new();
    for (switch, write) in writes {
        emulator.write_table(SwitchId(*switch), Fence::default(), &[*write]).unwrap();
        entries.insert((*switch, write.in_port, write.color), write.out);
    }
    (emulator, entries)
}

/// Knows only the graph, what is dead, and what was written.
struct Walker<'a> {
    graph: &'a Graph,
    faults: &'a Faults,
    entries: &'a Entries,
    kind: TableKind,
}

impl Walker<'_> {
    /// Follows every copy, without a budget; `None` if more than `limit` arrive somewhere.
    fn walk(
        &self,
        from: EndpointId,
        color: u16,
        limit: usize,
    ) -> Option<(Outcome, Vec<EndpointId>)> {
        let Self { graph, faults, entries, kind } = *self;
        let mut outcome = Outcome::default();
        let mut delivered = Vec::new();
        let mut arrivals = VecDeque::new();
        match graph.attachment(from).filter(|port| faults.port_is_live(graph, *port)) {
            Some(port) => arrivals.push_back(port),
            None => outcome.dropped.dead_port += 1,
        }
        let mut handled = 0;
        while let Some(port) = arrivals.pop_front() {
            outcome.hops += 1;
            handled += 1;
            if handled > limit {
                return None;
            }
            let number = graph.port_number(port);
            let switch = graph.switch_of(port);
            let out = match kind {
                TableKind::PerPort => entries.get(&(switch.0, number, color)).copied(),
                TableKind::PerSwitch => {
                    entries.get(&(switch.0, 0, color)).map(|out| out.without(number))
                }
            };
            let out = out.unwrap_or_default();
            outcome.dropped.no_entry += u64::from(out.is_empty());
            for number in out.iter() {
                let out = graph.port(switch, number).unwrap();
                match graph.peer(out) {
                    _ if !faults.port_is_live(graph, out) => outcome.dropped.dead_port += 1,
                    Peer::Switch(peer) => arrivals.push_back(peer),
                    Peer::Endpoint(endpoint) => {
                        outcome.hops += 1;
                        delivered.push(endpoint);
                    }
                    Peer::None => unreachable!("an empty port is never live"),
                }
            }
        }
        outcome.delivered = delivered.len() as u64;
        Some((outcome, delivered))
    }
}

fn packet(color: u16) -> Packet {
    Packet { mgid: 7, color, payload: b"x".to_vec(), ..Packet::default() }
}

proptest! {
    #[test]
    fn packets_reach_what_the_walker_reaches(
        (graph, kind, writes) in case(),
        dead in vec((0..3_u8, any::<prop::sample::Index>()), 0..4),
    ) {
        let (mut emulator, mut entries) = programmed(&graph, kind, &writes);
        for (what, index) in dead {
            let number = |count: usize| u32::try_from(index.index(count)).unwrap();
            let component = match what {
                0 => Component::Link(PortId(number(graph.port_count()))),
                1 => Component::Endpoint(EndpointId(number(graph.endpoint_count()))),
                _ => Component::Switch(SwitchId(number(graph.switch_count()))),
            };
            emulator.fail(component).unwrap();
            if let Component::Switch(switch) = component {
                entries.retain(|(of, ..), _| *of != switch.0);
            }
        }
        let budget = 2_000;
        emulator.set_hop_budget(budget);
        let mut deliveries = Deliveries::new();
        for from in graph.endpoints() {
            for color in 0..=COLORS {
                let outcome = emulator.inject(from, &packet(color), &mut deliveries);
                let faults = emulator.faults();
                let limit = usize::try_from(budget).unwrap() + 1;
                let walker = Walker { graph: &graph, faults, entries: &entries, kind };
                match walker.walk(from, color, limit) {
                    Some(expected) if expected.0.hops <= budget => {
                        prop_assert_eq!((outcome, deliveries.as_slice().to_vec()), expected);
                    }
                    Some(_) | None => {
                        prop_assert!(outcome.looped());
                        prop_assert_eq!(outcome.hops, budget);
                    }
                }
            }
        }
    }

    #[test]
    fn every_copy_is_accounted_for((graph, kind, writes) in case()) {
        let (mut emulator, _) = programmed(&graph, kind, &writes);
        let mut deliveries = Deliveries::new();
        let mut sum = Outcome::default();
        let mut entered = 0;
        for from in graph.endpoints() {
            for color in 0..COLORS {
                let outcome = emulator.inject(from, &packet(color), &mut deliveries);
                prop_assert_eq!(outcome.delivered, deliveries.as_slice().len() as u64);
                entered += outcome.hops.min(1);
                sum.hops += outcome.hops;
                sum.delivered += outcome.delivered;
                sum.dropped.no_entry += outcome.dropped.no_entry;
                sum.dropped.dead_port += outcome.dropped.dead_port * outcome.hops.min(1);
                sum.dropped.hop_budget += outcome.dropped.hop_budget;
            }
        }
        let ports = graph.switches().flat_map(|switch| graph.ports(switch));
        let (mut received, mut sent, mut dropped) = (0, 0, 0);
        let bytes = packet(0).bytes();
        for port in ports {
            let counters = emulator.counters(port);
            prop_assert_eq!(counters.received_bytes, bytes * counters.received);
            prop_assert_eq!(counters.sent_bytes, bytes * counters.sent);
            received += counters.received;
            sent += counters.sent;
            dropped += counters.dropped;
        }
        prop_assert_eq!(sum.hops, entered + sent);
        prop_assert_eq!(received + sum.delivered, entered + sent);
        prop_assert_eq!(dropped, sum.dropped.total());
    }
}

/// Two switches with three cables between them and one host each at port 4.
fn two_switches() -> Arc<Graph> {
    use fabricast_topology::{AdapterFacts, EndpointFacts, GraphBuilder, SwitchFacts};
    let mut builder = GraphBuilder::new();
    for name in ["S-0", "S-1"] {
        builder.add_switch(name, "", 4, SwitchFacts::default());
    }
    for port in 0..3 {
        builder.link(PortId(port), PortId(port + 4)).unwrap();
    }
    for host in 0..2 {
        builder.add_adapter(&format!("H-{host}"), "", AdapterFacts::default());
        let endpoint = builder.add_endpoint(EndpointFacts::default());
        builder.attach(endpoint, PortId(3 + 4 * host)).unwrap();
    }
    Arc::new(builder.build().unwrap())
}

#[test]
fn a_loop_ends_by_the_hop_budget_and_is_reported() {
    let mut emulator = Emulator::new(two_switches(), TableKind::PerPort, 1);
    let write =
        |in_port, out: &[u8]| EntryWrite { in_port, color: 0, out: out.iter().copied().collect() };
    // Out by cable 1, back by cable 2, and out by cable 1 again.
    let first = [write(4, &[1]), write(2, &[1])];
    emulator.write_table(SwitchId(0), Fence::default(), &first).unwrap();
    emulator.write_table(SwitchId(1), Fence::default(), &[write(1, &[2, 4])]).unwrap();
    let mut deliveries = Deliveries::new();
    let outcome = emulator.inject(EndpointId(0), &packet(0), &mut deliveries);
    assert!(outcome.looped());
    assert_eq!(outcome.hops, 9, "one more than the fabric has ports");
    assert!(outcome.delivered > 1, "duplicates are seen: {outcome:?}");

    emulator.set_hop_budget(1_000);
    assert_eq!(emulator.inject(EndpointId(0), &packet(0), &mut deliveries).hops, 1_000);
}

#[test]
fn per_switch_entries_never_send_a_copy_back() {
    let mut emulator = Emulator::new(two_switches(), TableKind::PerSwitch, 1);
    let out = [1, 4].into_iter().collect();
    for switch in [SwitchId(0), SwitchId(1)] {
        let entry = EntryWrite { in_port: 0, color: 0, out };
        emulator.write_table(switch, Fence::default(), &[entry]).unwrap();
    }
    let mut deliveries = Deliveries::new();
    let outcome = emulator.inject(EndpointId(0), &packet(0), &mut deliveries);
    assert_eq!(deliveries.as_slice(), [EndpointId(1)]);
    assert_eq!(outcome, Outcome { delivered: 1, hops: 3, dropped: Drops::default() });
}

#[test]
fn a_packet_from_nowhere_is_dropped_not_a_panic() {
    let mut emulator = Emulator::new(two_switches(), TableKind::PerPort, 1);
    let mut deliveries = Deliveries::new();
    let outcome = emulator.inject(EndpointId(99), &packet(u16::MAX), &mut deliveries);
    assert_eq!((outcome.hops, outcome.dropped.dead_port), (0, 1));
}
