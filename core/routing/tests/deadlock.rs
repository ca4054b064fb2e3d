//! The verifier's search for channels that wait for each other, on trees made by hand.

use fabricast_routing::verify::{Cycle, Group, Options, Report, Senders, verify};
use fabricast_routing::{PartBuilder, Plan, PlannedTree, SwitchLinks, table_entries};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{EndpointId, Faults, Graph, Mgid, PortId, SwitchId, TableKind};

fn graph(spec: &str) -> Graph {
    TopologySpec::parse(spec).expect("sound").generate().expect("sound")
}

/// Three leaves, 0 to 2, with a host each, and two spines, 3 and 4.
fn leaf_spine() -> Graph {
    graph("kind = 'leaf-spine'\nleaves = 3\nspines = 2\nendpoints_per_leaf = 1")
}

/// Both ports of the links between switches that follow each other on a way.
fn way(graph: &Graph, switches: &[u32]) -> Vec<PortId> {
    let links = SwitchLinks::new(graph, &Faults::new());
    let hop = |pair: &[u32]| {
        let link = links.of(SwitchId(pair[0])).find(|link| link.to == SwitchId(pair[1]));
        let link = link.expect("they are linked");
        [link.port, link.peer]
    };
    switches.windows(2).flat_map(hop).collect()
}

/// Walks packets through trees that each have a color and a group: all endpoints of its switches.
fn walk(graph: &Graph, tables: TableKind, trees: &[Vec<PortId>], senders: Senders) -> Report {
    let colors = u16::try_from(trees.len()).expect("few trees");
    let mut plan = Plan::listed(colors, tables);
    let mut groups = Vec::new();
    for (color, tree) in (0u16..).zip(trees) {
        let mgid = Mgid(10 + u32::from(color));
        let passes = |port: &PortId| {
            tree.iter().any(|other| graph.switch_of(*other) == graph.switch_of(*port))
        };
        let is_member =
            |member: &EndpointId| graph.attachment(*member).is_some_and(|port| passes(&port));
        let members: Vec<EndpointId> = graph.endpoints().filter(is_member).collect();
        let mut ports = tree.clone();
        ports.extend(members.iter().filter_map(|member| graph.attachment(*member)));
        let live = u32::try_from(members.len()).expect("few");
        let mut part = PartBuilder::new(u32::from(color), color);
        part.add(PlannedTree { root: None, ports, groups: vec![(mgid, live)] });
        plan.set_part(u32::from(color), part);
        let (virtual_group, copies) = (mgid.0, 1);
        let (colors, only_senders) = (vec![color], Vec::new());
        groups.push(Group { mgid, colors, copies, virtual_group, members, only_senders });
    }
    let options = Options { colors, tables, senders, list: 5 };
    let entries = table_entries(graph, &plan);
    let report = verify(graph, &Faults::new(), &groups, &entries, options);
    assert_eq!(report.violations, []);
    report
}

/// The switches of a cycle, the smallest first, and the groups that turn there.
fn turns(cycle: Option<Cycle>) -> Vec<(u32, Vec<u32>)> {
    let turns = cycle.map(|cycle| cycle.turns).unwrap_or_default();
    let numbers = |groups: &[Mgid]| groups.iter().map(|mgid| mgid.0).collect();
    let mut turns: Vec<(u32, Vec<u32>)> =
        turns.iter().map(|turn| (turn.switch.0, numbers(&turn.groups))).collect();
    let first = (0..turns.len()).min_by_key(|at| turns[*at].0).unwrap_or(0);
    turns.rotate_left(first);
    turns
}

#[test]
fn two_trees_with_a_valley_in_different_leaves_close_a_cycle() {
    let graph = leaf_spine();
    // One goes down to leaf 1 and up again, the other to leaf 0.
    let trees = [way(&graph, &[0, 3, 1, 4, 2]), way(&graph, &[1, 4, 0, 3, 2])];
    for tables in [TableKind::PerPort, TableKind::PerSwitch] {
        for senders in [Senders::All, Senders::OnePerSwitch] {
            let cycle = walk(&graph, tables, &trees, senders).cycle.expect("a cycle");
            assert!(cycle.is_of_multicast());
            // In a spine the packet that waits can be one of either tree.
            let found = turns(Some(cycle));
            let valleys = [found[0].clone(), found[2].clone()];
            assert_eq!(valleys, [(0, vec![11]), (1, vec![10])]);
            assert_eq!(found[1].0 + found[3].0, 3 + 4);
            assert_eq!(found.len(), 4);
        }
        // Packets go one way only, but the rows for the others are there.
        assert!(walk(&graph, tables, &trees, Senders::First).cycle.is_some());
    }
}

#[test]
fn one_tree_alone_and_trees_that_turn_once_close_none() {
    let graph = leaf_spine();
    let valley = way(&graph, &[0, 3, 1, 4, 2]);
    assert_eq!(walk(&graph, TableKind::PerPort, &[valley], Senders::All).cycle, None);
    let star = |spine| [way(&graph, &[0, spine, 1]), way(&graph, &[spine, 2])].concat();
    for tables in [TableKind::PerPort, TableKind::PerSwitch] {
        assert_eq!(walk(&graph, tables, &[star(3), star(4)], Senders::All).cycle, None);
    }
}

/// Each of two trees has a valley, and no leaf with a valley is in both. Unicast packets from one
/// of these leaves to the other go by way of the spines.
#[test]
fn unicast_packets_can_close_a_cycle_between_two_valleys() {
    let graph = graph("kind = 'leaf-spine'\nleaves = 4\nspines = 2\nendpoints_per_leaf = 1");
    let trees = [way(&graph, &[2, 4, 0, 5, 3]), way(&graph, &[2, 5, 1, 4, 3])];
    let cycle = walk(&graph, TableKind::PerPort, &trees, Senders::All).cycle.expect("a cycle");
    assert!(!cycle.is_of_multicast());
    assert_eq!(turns(Some(cycle)).iter().filter(|(_, groups)| groups.is_empty()).count(), 2);
    for tree in trees {
        assert_eq!(walk(&graph, TableKind::PerPort, &[tree], Senders::All).cycle, None);
    }
}

/// Each tree leaves out another link of a ring.
#[test]
fn a_ring_closes_the_shortest_cycle() {
    let graph = graph("kind = 'torus'\nx = 5\ny = 1\nz = 1\nendpoints_per_switch = 1");
    let arcs =
        (0..5).map(|at| way(&graph, &[at, (at + 1) % 5, (at + 2) % 5, (at + 3) % 5, (at + 4) % 5]));
    let trees: Vec<Vec<PortId>> = arcs.collect();
    let cycle = walk(&graph, TableKind::PerPort, &trees, Senders::All).cycle.expect("a cycle");
    assert_eq!(cycle.turns.len(), 5);
    assert!(cycle.is_of_multicast());
}
