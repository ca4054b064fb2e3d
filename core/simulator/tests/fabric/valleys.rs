//! Trees that go down to a leaf switch and up again deadlock a lossless fabric; trees that turn
//! once do not.

use fabricast_routing::SwitchLinks;
use fabricast_simulator::{Deadlock, Model, MulticastPolicy, RunError, Simulator, WaitFor};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{Faults, Graph, PortId, SwitchId};

use crate::support::{Fixture, Script, model, multicast};

/// Packets of every host on every tree: enough to fill all buffers.
const PACKETS: u64 = 40;

/// Three leaves, 0 to 2, with four hosts each, and two spines, 3 and 4.
fn leaf_spine() -> Graph {
    let spec = "kind = 'leaf-spine'\nleaves = 3\nspines = 2\nendpoints_per_leaf = 4";
    TopologySpec::parse(spec).expect("sound").generate().expect("sound")
}

/// The ports of a tree to all hosts, whose links between switches are those of two ways.
fn tree(graph: &Graph, ways: [&[u32]; 2]) -> Vec<PortId> {
    let links = SwitchLinks::new(graph, &Faults::new());
    let mut ports: Vec<PortId> =
        graph.endpoints().filter_map(|endpoint| graph.attachment(endpoint)).collect();
    for pair in ways.iter().flat_map(|way| way.windows(2)) {
        let link = links.of(SwitchId(pair[0])).find(|link| link.to == SwitchId(pair[1]));
        let link = link.expect("they are linked");
        ports.extend([link.port, link.peer]);
    }
    ports.sort_unstable();
    ports
}

/// All hosts send on both trees at once.
fn run(trees: [[&[u32]; 2]; 2], policy: MulticastPolicy) -> Option<Deadlock> {
    let mut fixture = Fixture::of(leaf_spine());
    let mut script = Script::default();
    for ways in trees {
        let ports = tree(&fixture.graph, ways);
        let tree = fixture.routes.add_tree(&fixture.graph, &ports).expect("a tree");
        for from in 0..12 {
            for packet in 0..PACKETS {
                let tag = script_tag(from, tree.0, packet);
                script.add(0, from, 0, multicast(tree, 1_000, 0, tag));
            }
        }
    }
    let model = Model { multicast: policy, ..model() };
    let mut simulator = Simulator::new(fixture.network(), model, script).expect("a valid model");
    match simulator.run_until(u64::MAX) {
        Ok(_) => {
            let sent = 2 * 12 * usize::try_from(PACKETS).expect("few");
            assert_eq!(simulator.workload().deliveries.len(), sent * 11);
            None
        }
        Err(RunError::Deadlock(deadlock)) => Some(deadlock),
        Err(other) => panic!("{other}"),
    }
}

/// Mixes the packets of both trees.
fn script_tag(from: u32, tree: u32, packet: u64) -> u64 {
    (packet * 2 + u64::from(tree)) * 12 + u64::from(from)
}

const POLICIES: [MulticastPolicy; 2] = [MulticastPolicy::Bulletin, MulticastPolicy::Splitting];

#[test]
fn two_trees_with_valleys_deadlock_for_want_of_room() {
    // One goes down to leaf 1 and up again, the other to leaf 0.
    let valleys: [[&[u32]; 2]; 2] = [[&[0, 3, 1, 4, 2], &[]], [&[1, 4, 0, 3, 2], &[]]];
    for policy in POLICIES {
        let deadlock = run(valleys, policy).expect("the trees close a cycle");
        assert!(deadlock.circle.iter().any(|wait| wait.why == WaitFor::Room), "{deadlock}");
    }
}

#[test]
fn two_trees_that_turn_once_never_deadlock() {
    let stars: [[&[u32]; 2]; 2] = [[&[0, 3, 1], &[3, 2]], [&[0, 4, 1], &[4, 2]]];
    for policy in POLICIES {
        assert_eq!(run(stars, policy), None);
    }
}
