//! Streams: where unicast goes, how roots are chosen, what the registers know.

use fabricast_routing::RootPolicy;
use fabricast_simulator::{
    Chance, Destinations, LoadMeasure, Model, MulticastLoad, Network, Offer, PortStatistics,
    Reading, Registers, Routes, Simulator, Streams, StreamsSpec, UnicastLoad, UnicastPattern,
    Workload, m_port_n_tree,
};
use fabricast_topology::{EndpointId, FatTree, Graph, PortId};

fn ft_8_3() -> (Graph, FatTree) {
    let graph = m_port_n_tree(8, 3).expect("valid sizes");
    let tree = FatTree::detect(&graph).expect("a fat tree");
    (graph, tree)
}

/// Counts where 100 000 packets of endpoint 40 go: same leaf, same pod, elsewhere, first 16.
fn share(pattern: UnicastPattern) -> [u32; 4] {
    let (graph, tree) = ft_8_3();
    let destinations = Destinations::new(&graph, &tree, pattern);
    let (mut chance, mut counts) = (Chance::new(3, 3), [0; 4]);
    for _ in 0..100_000 {
        let to = destinations.draw(EndpointId(40), &mut chance).expect("there are others").0;
        assert_ne!(to, 40);
        counts[if to / 4 == 10 {
            0
        } else if to / 16 == 2 {
            1
        } else {
            2
        }] += 1;
        counts[3] += u32::from(to < 16);
    }
    counts
}

fn near(counts: [u32; 4], expected: [f64; 4]) {
    for (count, share) in counts.into_iter().zip(expected) {
        let error = f64::from(count) / 100_000.0 - share;
        assert!(error.abs() < 0.006, "{counts:?} is not {expected:?}");
    }
}

/// Dawning §5.1, with 3 others at the leaf, 15 in the pod, 127 in all.
#[test]
fn patterns_send_the_papers_shares() {
    let all = 127.0;
    near(share(UnicastPattern::Uniform), [3.0, 12.0, 112.0, 16.0].map(|count| count / all));
    let sphere = |near: f64, count: f64| 0.5 * near / 15.0 + 0.5 * count / all;
    near(
        share(UnicastPattern::Sphere),
        [sphere(3.0, 3.0), sphere(12.0, 12.0), sphere(0.0, 112.0), sphere(0.0, 16.0)],
    );
    let weight = 3.0 * 3.0 + 12.0 * 2.0 + 112.0;
    near(share(UnicastPattern::Decay), [9.0, 24.0, 112.0, 16.0].map(|part| part / weight));
    let hot = |count: f64| 0.75 * count / all;
    near(
        share(UnicastPattern::HotRegion),
        [hot(3.0), hot(12.0), hot(112.0) + 0.25, hot(16.0) + 0.25],
    );
}

#[test]
fn registers_are_known_late_and_stay_until_the_next_reading() {
    let (graph, _) = ft_8_3();
    let reading = Reading { every_ps: 100, delay_ps: 30, measure: LoadMeasure::Bandwidth };
    let mut registers = Registers::new(&graph, reading);
    let bytes = |sent_bytes| move |_| PortStatistics { sent_bytes, waited_ps: 7 };
    assert_eq!(registers.next_ps(), 100);
    registers.read(bytes(500));
    for (now, load) in [(129, 0), (130, 500), (200, 500)] {
        registers.look(now);
        assert_eq!(registers.port(PortId(3)), load, "at {now}");
    }
    assert_eq!(registers.switch(0), 8 * 500);
    registers.read(bytes(620));
    registers.look(229);
    assert_eq!(registers.port(PortId(3)), 500);
    registers.look(230);
    assert_eq!(registers.port(PortId(3)), 120);
}

/// Broadcasts by one endpoint over unicast of all others; gives by which roots they went.
fn broadcasts(policy: RootPolicy, packets: u64, seed: u64) -> (Vec<u32>, Streams) {
    let (graph, tree) = ft_8_3();
    let mut routes = Routes::new();
    let unicast = UnicastLoad { pattern: UnicastPattern::Uniform, bytes: 256, every_ps: 1_200_000 };
    let multicast = MulticastLoad {
        source: EndpointId(37),
        groups: vec![graph.endpoints().collect()],
        bytes: 1_024,
        every_ps: 2_500_000,
        packets,
    };
    let spec = StreamsSpec {
        unicast: Some(unicast),
        multicast: vec![multicast],
        policy,
        reading: Reading { every_ps: 5_000_000, delay_ps: 5_000_000, measure: LoadMeasure::Delay },
        channels: [0..1, 1..2],
        seed,
    };
    let streams = Streams::new(&graph, &tree, &mut routes, spec).expect("a whole tree");
    let network = Network { graph: &graph, fat_tree: &tree, routes: &routes };
    let model = Model { channels: 2, ..Model::dawning() };
    let mut simulator = Simulator::new(network, model, streams).expect("a valid model");
    while !simulator.workload().is_done() {
        simulator.run_sampled_until(simulator.now_ps() + 1_000_000).expect("no deadlock");
    }
    let roots = simulator.workload().finished().iter().map(|finished| finished.candidate);
    (roots.collect(), simulator.workload().clone())
}

#[test]
fn every_policy_delivers_all_broadcasts_and_spreads_them_as_it_should() {
    for policy in RootPolicy::ALL {
        let (roots, streams) = broadcasts(policy, 30, 1);
        assert_eq!(roots.len(), 30);
        let fastest = Model::dawning().zero_load_ps(5, 1_024);
        assert!(streams.finished().iter().all(|one| one.done_ps - one.sent_ps >= fastest));
        let mut used = roots.clone();
        used.sort_unstable();
        used.dedup();
        match policy {
            RootPolicy::Cyclic => assert_eq!(used, [37 % 16]),
            RootPolicy::Hlse => assert!(used.len() > 8, "{used:?}"),
            // One root for each reading of 5 us: never more than one change each.
            RootPolicy::Llp | RootPolicy::LlpEcMax | RootPolicy::LlpEcSum => {
                assert!(used.len() > 1, "{policy}: {used:?}");
            }
        }
    }
}

/// Dawning §2 has several virtual channels and does not say who takes which.
#[test]
fn endpoints_take_the_channels_of_their_traffic_in_blocks_of_neighbors() {
    let (graph, tree) = ft_8_3();
    let mut routes = Routes::new();
    let members: Vec<EndpointId> = graph.endpoints().collect();
    let stream = |source| MulticastLoad {
        source: EndpointId(source),
        groups: vec![members.clone()],
        bytes: 1_024,
        every_ps: 1,
        packets: 1,
    };
    let spec = StreamsSpec {
        unicast: Some(UnicastLoad { pattern: UnicastPattern::Uniform, bytes: 256, every_ps: 1 }),
        multicast: vec![stream(0), stream(31), stream(32), stream(127)],
        policy: RootPolicy::Cyclic,
        reading: Reading { every_ps: 1, delay_ps: 1, measure: LoadMeasure::Delay },
        channels: [0..2, 2..6],
        seed: 1,
    };
    let mut streams = Streams::new(&graph, &tree, &mut routes, spec).expect("whole trees");
    let mut channels = |endpoint| -> Vec<u8> {
        let sends = |channel: &u8| {
            streams.next(u64::MAX / 2, EndpointId(endpoint), *channel) != Offer::Nothing
        };
        (0..6).filter(sends).collect()
    };
    let found = [0, 31, 32, 127, 1, 63, 64, 126].map(&mut channels);
    assert_eq!(found, [2, 2, 3, 5, 0, 0, 1, 1].map(|channel| vec![channel]));
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let history = |seed| format!("{:?}", broadcasts(RootPolicy::Hlse, 8, seed).1.finished());
    assert_eq!(history(5), history(5));
    assert_ne!(history(5), history(6));
}
