//! The table against a plain search, on random fabrics with random faults.

use std::collections::VecDeque;

use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{AdapterFacts, EndpointFacts};
use fabricast_topology::{GraphBuilder, Peer, SwitchFacts};
use proptest::prelude::*;

use super::*;

/// A graph with these links between switches and an endpoint at some of them.
fn fabric(switches: u32, leaves: &[u32], links: &[(u32, u32)]) -> Graph {
    let mut builder = GraphBuilder::new();
    let mut taken = vec![0u8; switches as usize];
    for switch in 0..switches {
        builder.add_switch(&format!("S-{switch}"), "", 64, SwitchFacts::default());
    }
    let mut next = |builder: &GraphBuilder, switch: u32| {
        taken[switch as usize] += 1;
        builder.port(SwitchId(switch), taken[switch as usize]).unwrap()
    };
    for leaf in leaves {
        builder.add_adapter(&format!("H-{leaf}"), "", AdapterFacts::default());
        let endpoint = builder.add_endpoint(EndpointFacts::default());
        builder.attach(endpoint, next(&builder, *leaf)).unwrap();
    }
    for (a, b) in links {
        let (a, b) = (next(&builder, *a), next(&builder, *b));
        builder.link(a, b).unwrap();
    }
    builder.build().unwrap()
}

/// Reference implementation: one queue, ports and faults read anew at every step.
fn oracle(graph: &Graph, faults: &Faults, leaf: SwitchId) -> Vec<u8> {
    let mut hops = vec![NO_PATH; graph.switch_count()];
    if !faults.switch_is_live(leaf) {
        return hops;
    }
    hops[leaf.index()] = 0;
    let mut queue = VecDeque::from([leaf]);
    while let Some(at) = queue.pop_front() {
        for port in graph.ports(at).filter(|port| faults.port_is_live(graph, *port)) {
            let Peer::Switch(peer) = graph.peer(port) else { continue };
            let to = graph.switch_of(peer);
            if hops[to.index()] == NO_PATH {
                hops[to.index()] = hops[at.index()] + 1;
                queue.push_back(to);
            }
        }
    }
    hops
}

fn assert_equal_to_oracle(table: &MinHops, graph: &Graph, faults: &Faults) {
    for (number, leaf) in table.leaves().iter().enumerate() {
        assert_eq!(table.row(number), oracle(graph, faults, *leaf), "leaf {}", leaf.0);
    }
}

fn faults(graph: &Graph, switches: &[usize], ports: &[usize]) -> Faults {
    let mut faults = Faults::new();
    for switch in switches {
        faults.fail_switch(graph.switches().nth(switch % graph.switch_count()).unwrap());
    }
    let all: Vec<_> = graph.switches().flat_map(|switch| graph.ports(switch)).collect();
    for port in ports {
        faults.fail_link(graph, all[port % all.len()]);
    }
    faults
}

#[test]
fn two_endpoints_of_the_papers_fabric_are_at_most_six_hops_apart() {
    let graph = TopologySpec::demo().generate().unwrap();
    let table = MinHops::new(&graph, &Faults::new());
    assert_eq!(table.leaves().len(), 128);
    let farthest = table.leaves().iter().map(|leaf| table.hops(*leaf, SwitchId(0))).max();
    assert_eq!(farthest, Some(Some(6)));
    assert_eq!(table.hops_to_endpoint(&graph, SwitchId(0), EndpointId(0)), Some(1));
}

#[test]
fn nearest_links_are_those_to_switches_one_hop_nearer() {
    let spec = "kind = 'leaf-spine'\nleaves = 3\nspines = 2\nendpoints_per_leaf = 1\nlanes0 = 2";
    let graph = TopologySpec::parse(spec).unwrap().generate().unwrap();
    let table = MinHops::new(&graph, &Faults::new());
    let to = |from, leaf| {
        let links = table.nearest_links(SwitchId(from), SwitchId(leaf));
        links.map(|link| link.to.0).collect::<Vec<_>>()
    };
    assert_eq!(to(0, 1), [3, 3, 4, 4]);
    assert_eq!(to(3, 1), [1, 1]);
    assert_eq!((to(1, 1), to(0, 3)), (vec![], vec![]), "the leaf itself; not a leaf");
    assert_eq!(table.hops(SwitchId(0), SwitchId(3)), None);
}

#[test]
fn a_byte_holds_the_longest_way_there_can_be() {
    // Numbered from the middle out, so that one part reaches as far as it may both ways.
    let reach = 127;
    let links: Vec<_> = (1..=2 * reach).map(|to| (if to < 3 { 0 } else { to - 2 }, to)).collect();
    let graph = fabric(2 * reach + 1, &[2 * reach - 1, 2 * reach], &links);
    let table = MinHops::new(&graph, &Faults::new());
    let ends = (SwitchId(2 * reach - 1), SwitchId(2 * reach));
    assert_eq!(table.hops(ends.0, ends.1), Some(MOST_HOPS));
}

#[test]
fn after_a_dead_link_only_the_rows_that_needed_it_are_counted_again() {
    let graph = TopologySpec::demo().generate().unwrap();
    let mut table = MinHops::new(&graph, &Faults::new());
    let up = graph.ports(SwitchId(0)).nth(16).unwrap();
    let mut faults = Faults::new();
    faults.fail_link(&graph, up);
    assert_eq!(table.set_faults(&graph, &faults), 1, "that of the leaf at the link");
    assert_eq!(table, MinHops::new(&graph, &faults));
    assert_eq!(table.set_faults(&graph, &faults), 0);
}

proptest! {
    /// HOP-1, and the table itself: any graph, any faults, any change of faults.
    #[test]
    fn the_table_is_what_a_plain_search_finds(
        switches in 1u32..90,
        cables in proptest::collection::vec((0u32..90, 0u32..90), 0..160),
        leaves in proptest::collection::btree_set(0u32..90, 1..80),
        before in (proptest::collection::vec(0usize..1000, 0..4), proptest::collection::vec(0usize..9000, 0..6)),
        after in (proptest::collection::vec(0usize..1000, 0..4), proptest::collection::vec(0usize..9000, 0..6)),
    ) {
        let leaves: std::collections::BTreeSet<u32> = leaves.iter().map(|leaf| leaf % switches).collect();
        let mut degree = vec![0; 90];
        let cables: Vec<_> = cables
            .into_iter()
            .map(|(a, b)| (a % switches, b % switches))
            .filter(|(a, b)| {
                degree[*a as usize] += 1;
                degree[*b as usize] += 1;
                degree[*a as usize] < 60 && degree[*b as usize] < 60
            })
            .collect();
        let leaves: Vec<u32> = leaves.into_iter().collect();
        let graph = fabric(switches, &leaves, &cables);
        let (before, after) =
            (faults(&graph, &before.0, &before.1), faults(&graph, &after.0, &after.1));
        let mut table = MinHops::new(&graph, &before);
        assert_equal_to_oracle(&table, &graph, &before);
        table.set_faults(&graph, &after);
        assert_equal_to_oracle(&table, &graph, &after);
        prop_assert_eq!(&table, &MinHops::new(&graph, &after));
        let mut search = HopSearch::new();
        for leaf in graph.switches().filter(|switch| after.switch_is_live(*switch)) {
            prop_assert_eq!(search.from(table.links(), leaf), oracle(&graph, &after, leaf));
        }
    }
}
