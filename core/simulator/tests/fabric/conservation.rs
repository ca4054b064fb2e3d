//! SIM-5: what is sent arrives everywhere it must, once, whatever the policy.

use std::collections::BTreeMap;

use fabricast_routing::{Change, EngineOptions, FixedRootEngine};
use fabricast_simulator::{Model, MulticastPolicy, Simulator};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{EndpointId, Faults, Mgid, Peer, TableKind};
use proptest::prelude::*;

use crate::support::{Fixture, Script, mixed_load, model, multicast, unicast};

/// Runs a script to its end and gives who got what.
fn run(fixture: &Fixture, model: Model, script: Script) -> BTreeMap<u64, Vec<u32>> {
    let mut simulator = Simulator::new(fixture.network(), model, script).expect("a valid model");
    assert_eq!(simulator.run_until(u64::MAX), Ok(false));
    assert_eq!(simulator.copies_in_flight().0, 0);
    let mut got: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    for (_, delivery) in &simulator.workload().deliveries {
        got.entry(delivery.tag).or_default().push(delivery.to.0);
    }
    got.values_mut().for_each(|list| list.sort_unstable());
    got
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn every_packet_arrives_everywhere_it_must_once(
        seed: u64,
        policy in 0usize..4,
        channels in 1u8..3,
        buffer_bytes in prop_oneof![Just(1_024u32), Just(1_500), Just(4_096)],
    ) {
        let multicast = [
            MulticastPolicy::BulletinIdle,
            MulticastPolicy::Bulletin,
            MulticastPolicy::Splitting,
            MulticastPolicy::FixedPriority,
        ][policy];
        let mut fixture = Fixture::m_port(4, 3);
        let (script, due) = mixed_load(&mut fixture, 150, channels, seed);
        let model = Model { multicast, channels, buffer_bytes, ..model() };
        prop_assert_eq!(run(&fixture, model, script), due);
    }
}

#[test]
fn a_plans_tree_reaches_all_its_endpoints_from_each_of_them() {
    let spec = TopologySpec::demo();
    let mut fixture = Fixture::of(spec.generate().unwrap());
    let (graph, tree) = (fixture.graph.clone().into(), fixture.tree.clone().into());
    let options = EngineOptions::new(8, TableKind::PerPort);
    let mut engine = FixedRootEngine::new(graph, tree, options).unwrap();
    let members: Vec<EndpointId> = [3, 4, 90, 700, 701, 1_999].map(EndpointId).into();
    engine.apply(&[Change::Put { mgid: Mgid(5), members: members.clone() }]).unwrap();
    let plan = engine.plan();
    let ports = plan.virtual_group_of(Mgid(5)).unwrap().ports;
    let id = fixture.routes.add_tree(&fixture.graph, ports).unwrap();
    assert!(fixture.routes.senders(id).eq(members.iter().copied()));
    let (mut script, mut due) = (Script::default(), BTreeMap::new());
    for (tag, from) in (0u64..).zip(&members) {
        script.add(0, from.0, 0, multicast(id, 512, 0, tag));
        let others = members.iter().filter(|to| *to != from).map(|to| to.0);
        due.insert(tag, others.collect::<Vec<u32>>());
    }
    assert_eq!(run(&fixture, model(), script), due);
}

#[test]
fn copies_into_a_cut_link_are_counted_as_dropped() {
    let mut fixture = Fixture::m_port(4, 3);
    let mut script = Script::default();
    let tree = fixture.rooted(0, &[5], 0);
    script.add(0, 0, 0, multicast(tree, 100, 0, 0));
    script.add(0, 1, 0, unicast(2, 100, 0, 1));
    let mut simulator = Simulator::new(fixture.network(), model(), script).unwrap();
    let mut faults = Faults::new();
    faults.fail_endpoint(EndpointId(5));
    simulator.set_faults(&faults);
    assert_eq!(simulator.run_until(u64::MAX), Ok(false));
    let counters = simulator.counters();
    assert_eq!((counters.injected, counters.delivered, counters.dropped_cut), (2, 1, 1));
}

/// Unicast between all pairs arrives even if any single link between switches is cut.
#[test]
fn unicast_goes_round_a_cut_link() {
    let fixture = Fixture::m_port(4, 3);
    let graph = &fixture.graph;
    let links = graph.switches().flat_map(|switch| graph.ports(switch));
    let links = links.filter(|port| matches!(graph.peer(*port), Peer::Switch(far) if *port < far));
    for port in links {
        let mut script = Script::default();
        for (from, to) in (0..16).flat_map(|from| (0..16).map(move |to| (from, to))) {
            script.add(0, from, 0, unicast(to, 64, 0, u64::from(from * 16 + to)));
        }
        let mut simulator = Simulator::new(fixture.network(), model(), script).unwrap();
        let mut faults = Faults::new();
        faults.fail_link(graph, port);
        simulator.set_faults(&faults);
        simulator.run_until(u64::MAX).unwrap();
        assert_eq!(simulator.counters().delivered, 256, "{}", graph.port_label(port));
    }
}
