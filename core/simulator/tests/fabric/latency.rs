//! Zero load: the time of every packet is the closed form.

use fabricast_simulator::{Model, Packet, Route, Simulator};
use fabricast_topology::EndpointId;
use proptest::prelude::*;

use crate::support::{Fixture, POLICIES, Script, mixed_load, model, multicast, unicast};

#[test]
fn a_lone_packet_takes_the_closed_form() {
    let fixture = Fixture::m_port(8, 3);
    for (to, switches) in [(1, 1), (5, 3), (127, 5)] {
        for bytes in [1, 256, 1_024] {
            let mut script = Script::default();
            script.add(7_000, 0, 0, unicast(to, bytes, 7_000, 0));
            let mut simulator = Simulator::new(fixture.network(), model(), script).unwrap();
            simulator.run_until(u64::MAX).unwrap();
            let (at, _) = simulator.workload().deliveries[0];
            assert_eq!(at - 7_000, model().zero_load_ps(switches, bytes));
            let closed = (switches + 1) * 10_000 + switches * 50_000 + u64::from(bytes) * 1_000;
            assert_eq!(at - 7_000, closed);
            assert_eq!(simulator.counters().hops, switches + 1);
        }
    }
}

/// By way of the root all members are equally far, whatever the policy.
#[test]
fn a_lone_broadcast_takes_the_closed_form_everywhere() {
    let mut fixture = Fixture::m_port(8, 3);
    let members: Vec<u32> = (0..128).collect();
    let tree = fixture.rooted(77, &members, 9);
    for policy in POLICIES {
        let mut script = Script::default();
        script.add(0, 77, 0, multicast(tree, 1_024, 0, 0));
        let model = Model { multicast: policy, ..model() };
        let mut simulator =
            Simulator::new(fixture.network(), model, script).expect("a valid model");
        simulator.run_until(u64::MAX).unwrap();
        let deliveries = &simulator.workload().deliveries;
        assert_eq!(deliveries.len(), 128);
        assert!(deliveries.iter().all(|(at, _)| *at == model.zero_load_ps(5, 1_024)));
        // To the leaf, up two links, down to 8 switches, 32 leaves, 128 endpoints.
        assert_eq!(simulator.counters().hops, 1 + 2 + 8 + 32 + 128);
    }
}

/// A unit inside its switch: there and back take a picosecond each instead of a wire, and credit
/// comes back as soon.
#[test]
fn an_endpoint_without_a_wire_is_a_wire_nearer() {
    let fixture = Fixture::m_port(8, 3);
    for (from, to) in [(0, 1), (1, 0)] {
        let mut script = Script::default();
        (0..20).for_each(|tag| script.add(0, from, 0, unicast(to, 1_024, 0, tag)));
        let mut simulator = Simulator::new(fixture.network(), model(), script).unwrap();
        simulator.remove_wire(EndpointId(1));
        simulator.run_until(u64::MAX).unwrap();
        let nearer = model().zero_load_ps(1, 1_024) - model().wire_ps + 1;
        for ((at, delivery), tag) in simulator.workload().deliveries.iter().zip(0u64..) {
            assert_eq!((*at, delivery.tag), (nearer + tag * 1_024_000, tag));
        }
        assert_eq!(simulator.counters().delivered, 20);
    }
}

/// Packets of one adapter follow each other without a gap: the k-th one is k packet times later.
#[test]
fn a_train_of_packets_arrives_at_link_rate() {
    let fixture = Fixture::m_port(8, 3);
    let mut script = Script::default();
    (0..20).for_each(|tag| script.add(0, 3, 0, unicast(100, 256, 0, tag)));
    let mut simulator = Simulator::new(fixture.network(), model(), script).unwrap();
    simulator.run_until(u64::MAX).unwrap();
    for ((at, delivery), tag) in simulator.workload().deliveries.iter().zip(0u64..) {
        assert_eq!(delivery.tag, tag);
        assert_eq!(*at, model().zero_load_ps(5, 256) + tag * 256_000);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// Under load a copy takes the closed form and what it waited on its way, to the picosecond.
    #[test]
    fn latency_is_the_closed_form_and_the_waits(seed: u64, policy in 0usize..4, channels in 1u8..3) {
        let mut fixture = Fixture::m_port(4, 3);
        let (script, _) = mixed_load(&mut fixture, 200, channels, seed);
        let model = Model { multicast: POLICIES[policy], channels, ..model() };
        let mut simulator = Simulator::new(fixture.network(), model, script).unwrap();
        simulator.record_trails();
        simulator.run_until(u64::MAX).unwrap();
        for (at, delivery) in &simulator.workload().deliveries {
            let trail = delivery.trail.unwrap();
            let (adapter, switches) = trail.waits_ps().split_first().unwrap();
            let zero_load = model.zero_load_ps(switches.len() as u64, delivery.bytes);
            prop_assert_eq!(at - delivery.sent_ps, zero_load + switches.iter().sum::<u64>());
            prop_assert!(delivery.sent_ps - delivery.born_ps >= *adapter);
        }
    }
}

#[test]
fn packets_inside_a_node_take_no_link_and_do_not_hold_up_others() {
    let fixture = Fixture::m_port(4, 2);
    let mut script = Script::default();
    let inside = |tag| Packet { route: Route::Inside(EndpointId(1)), ..unicast(1, 100, 0, tag) };
    script.add(0, 0, 0, inside(1));
    script.add(0, 0, 0, inside(2));
    script.add(0, 0, 0, unicast(1, 100, 0, 3));
    let mut simulator = Simulator::new(fixture.network(), model(), script).expect("a valid model");
    assert_eq!(simulator.run_until(u64::MAX), Ok(false));
    let told: Vec<(u64, u64, u32)> = simulator
        .workload()
        .deliveries
        .iter()
        .map(|(at, delivery)| (*at, delivery.tag, delivery.to.0))
        .collect();
    let across = model().zero_load_ps(1, 100);
    assert_eq!(told, [(1, 1, 1), (1, 2, 1), (across, 3, 1)]);
}
