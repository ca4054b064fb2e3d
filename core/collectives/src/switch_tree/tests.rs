//! Checks minimality against dynamic programming, and roots against breadth-first search.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{EndpointId, Faults, Graph, Peer, Place};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::fabric::Fabric;

/// A physical tree of switches 0, 1, ... with these parents (each lower than its child), and
/// members on some of them. Switches with nothing below are left out.
fn physical(parents: &[usize], members: &[usize]) -> PhysicalTree {
    let mut used = vec![false; parents.len() + 1];
    used[0] = true;
    for member in members {
        let mut at = *member;
        while !std::mem::replace(&mut used[at], true) {
            at = parents[at - 1];
        }
    }
    let mut places = vec![0; used.len()];
    let mut switches = Vec::new();
    for at in (0..used.len()).filter(|at| used[*at]) {
        places[at] = u32::try_from(switches.len()).unwrap();
        let up = (at > 0).then(|| UpLink { parent: places[parents[at - 1]], port: PortId(0) });
        switches.push(PhysicalSwitch { switch: SwitchId(u32::try_from(at).unwrap()), up });
    }
    PhysicalTree { switches, members: members.iter().map(|at| places[*at]).collect() }
}

/// The fewest switches by dynamic programming: for every switch and number of packets that leave it
/// upwards, the fewest kept below.
fn fewest(tree: &PhysicalTree, limits: &[u32]) -> Option<u32> {
    let mut tables: Vec<BTreeMap<u32, u32>> = Vec::new();
    for place in 0..tree.switches.len() {
        let members = tree.members.iter().filter(|leaf| **leaf as usize == place).count();
        tables.push(BTreeMap::from([(u32::try_from(members).unwrap(), 0)]));
    }
    for place in (0..tree.switches.len()).rev() {
        let limit = limits[place];
        let table = tables[place].clone();
        let Some(up) = tree.switches[place].up else {
            let fits = table.iter().filter(|(packets, _)| limit > 0 && **packets <= limit);
            return fits.map(|(_, kept)| kept + 1).min();
        };
        let mut here = table.clone();
        for (packets, kept) in table {
            for taken in 1..=limit.min(packets) {
                let least = here.entry(packets - taken + 1).or_insert(kept + 1);
                *least = (*least).min(kept + 1);
            }
        }
        let mut sums = BTreeMap::new();
        for (a, kept_a) in &tables[up.parent as usize] {
            for (b, kept_b) in &here {
                let least = sums.entry(a + b).or_insert(kept_a + kept_b);
                *least = (*least).min(kept_a + kept_b);
            }
        }
        tables[up.parent as usize] = sums;
    }
    None
}

/// Checks that a tree hangs in its physical tree and keeps to the limits.
fn check(tree: &SwitchTree, limits: impl Fn(SwitchId) -> u32) {
    let places: BTreeMap<SwitchId, usize> =
        tree.physical.switches.iter().enumerate().map(|(at, node)| (node.switch, at)).collect();
    let is_above = |upper: usize, mut lower: usize| {
        while let Some(up) = tree.physical.switches[lower].up {
            lower = up.parent as usize;
            if lower == upper {
                return true;
            }
        }
        false
    };
    let place = |kept: u32| places[&tree.kept[kept as usize].switch];
    assert_eq!(place(0), 0, "the root is kept");
    for (at, kept) in tree.kept.iter().enumerate() {
        let own = places[&kept.switch];
        assert_eq!(at == 0, kept.parent.is_none());
        assert!(kept.parent.is_none_or(|parent| is_above(place(parent), own)));
    }
    for (leaf, parent) in tree.physical.members.iter().zip(&tree.member_parents) {
        let (leaf, parent) = (*leaf as usize, place(*parent));
        assert!(leaf == parent || is_above(parent, leaf));
    }
    for (kept, children) in tree.kept.iter().zip(tree.children()) {
        assert!((1..=limits(kept.switch)).contains(&children), "{kept:?}: {children}");
    }
}

/// Figure 11: 16 processes on 13 switches of at most 5 children need 4 switches. The figure is
/// lost; of the shapes with these numbers that need 4, this is one.
#[test]
fn thirteen_switches_are_reduced_to_four() {
    let parents = [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4];
    let on = [(5, 3), (6, 2), (7, 3), (8, 2), (9, 2), (10, 2), (11, 1), (12, 1)];
    let members: Vec<usize> = on.into_iter().flat_map(|(leaf, count)| vec![leaf; count]).collect();
    let tree = physical(&parents, &members);
    assert_eq!((tree.switches.len(), tree.members.len()), (13, 16));
    let reduced = minimum_tree(tree, |_| 5).unwrap();
    assert_eq!(reduced.cost(), 4);
    check(&reduced, |_| 5);
}

/// The smallest tree where keeping the fullest switch first, the likely published rule, takes one
/// switch too many: it takes 3.
#[test]
fn two_switches_are_enough_where_a_simple_rule_takes_three() {
    let members = [0, 0, 0, 2, 2, 3, 3, 4, 4];
    let reduced = minimum_tree(physical(&[0, 1, 1, 1], &members), |_| 5).unwrap();
    assert_eq!(reduced.cost(), 2);
    check(&reduced, |_| 5);
}

#[test]
fn switches_that_cannot_reduce_are_passed_by() {
    let tree = physical(&[0, 0, 1, 2], &[3, 3, 3, 4, 4, 4]);
    let limit = |switch: SwitchId| if switch.0 == 0 { 4 } else { u32::from(switch.0 == 1) * 3 };
    let reduced = minimum_tree(tree.clone(), limit).unwrap();
    let kept: Vec<u32> = reduced.kept.iter().map(|kept| kept.switch.0).collect();
    assert_eq!(kept, [0, 1]);
    assert_eq!(minimum_tree(tree.clone(), |switch| u32::from(switch.0 != 0) * 9), None);
    assert_eq!(minimum_tree(tree, |switch| u32::from(switch.0 == 0) * 5), None);
}

#[test]
fn packets_with_no_work_behind_them_are_taken_first() {
    // A chain of three switches: the member on the root's own switch goes to the root.
    let reduced = minimum_tree(physical(&[0, 1], &[0, 1, 2, 2, 2]), |_| 3).unwrap();
    check(&reduced, |_| 3);
    assert_eq!((reduced.cost(), reduced.height()), (2, 2));
}

proptest! {
    /// AGG-4.
    #[test]
    fn no_tree_has_fewer_switches(
        parents in vec(any::<prop::sample::Index>(), 0..12),
        members in vec(any::<prop::sample::Index>(), 1..20),
        limits in vec(prop_oneof![1 => Just(0_u32), 1 => Just(1), 8 => 2..7_u32], 13),
    ) {
        let parents: Vec<usize> =
            parents.iter().enumerate().map(|(at, parent)| parent.index(at + 1)).collect();
        let members: Vec<usize> =
            members.iter().map(|member| member.index(parents.len() + 1)).collect();
        let tree = physical(&parents, &members);
        let limit = |switch: SwitchId| limits[switch.index()];
        let by_place: Vec<u32> = tree.switches.iter().map(|node| limit(node.switch)).collect();
        let fewest = fewest(&tree, &by_place);
        let reduced = minimum_tree(tree, limit);
        let cost = reduced.as_ref().map(|tree| u32::try_from(tree.cost()).unwrap());
        prop_assert_eq!(cost, fewest);
        if let Some(reduced) = reduced {
            check(&reduced, limit);
        }
    }
}

/// Hops from every switch to an endpoint's switch, over live links of the fat tree, by
/// breadth-first search.
fn hops(graph: &Graph, faults: &Faults, from: SwitchId) -> Vec<Option<u32>> {
    let mut hops = vec![None; graph.switch_count()];
    hops[from.index()] = Some(0);
    let mut queue = std::collections::VecDeque::from([from]);
    while let Some(switch) = queue.pop_front() {
        for port in graph.ports(switch).filter(|port| faults.port_is_live(graph, *port)) {
            let Peer::Switch(peer) = graph.peer(port) else { continue };
            let other = graph.switch_of(peer);
            if hops[other.index()].is_none() {
                hops[other.index()] = hops[switch.index()].map(|hops| hops + 1);
                queue.push_back(other);
            }
        }
    }
    hops
}

const FABRICS: [&str; 6] = [
    "kind = 'leaf-spine'\nleaves = 4\nspines = 3\nendpoints_per_leaf = 3\nlanes0 = 2\n",
    "kind = 'k-ary-3-level'\nk = 4\n",
    "kind = 'cn-tn-fat-tree'\nq = 2\nm = 2\np = 1\nk = 2\nw = 2\nendpoints_per_leaf = 2\n",
    "kind = 'pruned-fat-tree'\nmidplanes = 3\nleaves = 2\nspines = 2\nuplinks_per_spine = 2\n\
     cores = 2\nline_ports = 2\ncore_spines = 2\nendpoints_per_leaf = 2\n",
    "kind = 'pruned-fat-tree'\nmidplanes = 3\nleaves = 2\nspines = 2\nuplinks_per_spine = 1\n\
     cores = 1\ncore_spines = 0\nendpoints_per_leaf = 2\n",
    "kind = 'dragonfly'\na = 3\np = 2\nh = 1\n",
];

proptest! {
    #[test]
    fn roots_are_the_switches_of_least_maximum_hop_count(
        spec in prop::sample::select(&FABRICS[..]),
        members in vec(any::<prop::sample::Index>(), 2..9),
        broken in vec(any::<prop::sample::Index>(), 0..3),
    ) {
        let graph = Arc::new(TopologySpec::parse(spec).unwrap().generate().unwrap());
        let mut fabric = Fabric::detect(Arc::clone(&graph));
        let mut faults = Faults::new();
        for port in broken {
            let port = PortId(u32::try_from(port.index(graph.port_count())).unwrap());
            if matches!(graph.peer(port), Peer::Switch(_)) {
                faults.fail_link(&graph, port);
            }
        }
        fabric.set_faults(faults.clone());
        let members: Vec<EndpointId> = members
            .iter()
            .map(|member| EndpointId(u32::try_from(member.index(graph.endpoint_count())).unwrap()))
            .collect();
        let mut climber = Climber::new(&fabric);
        climber.start(&fabric, &members).unwrap();
        let mut roots = climber.roots();
        while roots.is_empty() && climber.climb(&fabric) {
            roots = climber.roots();
        }
        let hops: Vec<_> = members
            .iter()
            .map(|member| hops(&graph, &faults, graph.switch_of(graph.attachment(*member).unwrap())))
            .collect();
        let farthest = |switch: SwitchId| {
            let each = hops.iter().map(|hops| hops[switch.index()]);
            each.collect::<Option<Vec<u32>>>().map(|hops| hops.into_iter().max().unwrap())
        };
        let least = graph.switches().filter_map(farthest).min();
        for root in &roots {
            // With broken links the nearest switch may only be reached down and up again, which no
            // packet of a fat tree does; above the members it is then a little farther.
            prop_assert!(farthest(*root) >= least);
            prop_assert!(!faults.is_empty() || farthest(*root) == least);
            let tree = climber.descend(&fabric, *root, |_| 0);
            prop_assert_eq!(Some(tree.radius()), farthest(*root).map(|hops| hops + 1));
            prop_assert_eq!(tree.switches[0].switch, *root);
            for (member, leaf) in members.iter().zip(&tree.members) {
                let leaf = tree.switches[*leaf as usize].switch;
                prop_assert_eq!(graph.attachment(*member).map(|port| graph.switch_of(port)), Some(leaf));
            }
            for node in &tree.switches {
                let Some(up) = node.up else { continue };
                prop_assert_eq!(graph.switch_of(up.port), node.switch);
                let Peer::Switch(peer) = graph.peer(up.port) else { panic!("no switch") };
                let parent = tree.switches[up.parent as usize].switch;
                prop_assert_eq!(graph.switch_of(peer), parent);
                prop_assert!(faults.port_is_live(&graph, up.port));
            }
        }
        if faults.is_empty() {
            let nearest = graph.switches().filter(|switch| farthest(*switch) == least);
            let above = nearest.filter(|switch| roots.contains(switch));
            prop_assert_eq!(above.count(), roots.len());
            prop_assert!(!roots.is_empty());
        }
    }
}

/// Switches that a packet from a switch reaches: in a fat tree those above it, else all that live
/// links lead to.
fn reached(fabric: &Fabric, from: SwitchId) -> BTreeSet<SwitchId> {
    let level = |switch| match fabric.fat_tree().map(|tree| tree.place(switch)) {
        None => Some(0),
        Some(Place::Outside) => None,
        Some(Place::Leaf { .. }) => Some(0),
        Some(Place::L1 { .. }) => Some(1),
        Some(Place::L2 { .. }) => Some(2),
        Some(Place::L3 { .. }) => Some(3),
    };
    let step = i32::from(fabric.fat_tree().is_some());
    let (graph, mut found) = (fabric.graph(), BTreeSet::from([from]));
    let mut waiting = vec![from];
    while let Some(switch) = waiting.pop() {
        for port in graph.ports(switch).filter(|port| fabric.faults().port_is_live(graph, *port)) {
            let Peer::Switch(peer) = graph.peer(port) else { continue };
            let other = graph.switch_of(peer);
            let leads_on = level(switch).map(|level| level + step) == level(other);
            if level(other).is_some() && leads_on && found.insert(other) {
                waiting.push(other);
            }
        }
    }
    found
}

proptest! {
    /// On fabrics that lack links and switches, or in which they have failed: a group gets a tree
    /// exactly where its packets can meet, and its packets cross live links only.
    #[test]
    fn on_a_damaged_fabric_a_group_has_a_tree_where_its_packets_can_meet(
        spec in prop::sample::select(&FABRICS[..]),
        members in vec(any::<prop::sample::Index>(), 1..9),
        broken in vec(any::<prop::sample::Index>(), 0..12),
        gone in vec(any::<prop::sample::Index>(), 0..3),
        is_absent in any::<bool>(),
        limit in 2_u32..6,
    ) {
        let graph = TopologySpec::parse(spec).unwrap().generate().unwrap();
        let mut faults = Faults::new();
        for port in broken {
            let port = PortId(u32::try_from(port.index(graph.port_count())).unwrap());
            if matches!(graph.peer(port), Peer::Switch(_)) {
                faults.fail_link(&graph, port);
            }
        }
        for switch in gone {
            faults.fail_switch(SwitchId(u32::try_from(switch.index(graph.switch_count())).unwrap()));
        }
        let fabric = match is_absent {
            true => Fabric::detect(Arc::new(graph.without(&faults))),
            false => {
                let mut fabric = Fabric::detect(Arc::new(graph));
                fabric.set_faults(faults);
                fabric
            }
        };
        let graph = fabric.graph();
        let all = members.iter().map(|member| member.index(graph.endpoint_count().max(1)));
        let all = all.map(|member| EndpointId(u32::try_from(member).unwrap()));
        let members: Vec<EndpointId> = all.filter(|member| fabric.leaf_of(*member).is_some()).collect();
        prop_assume!(!members.is_empty());
        let mut climber = Climber::new(&fabric);
        climber.start(&fabric, &members).unwrap();
        let mut roots = climber.roots();
        while roots.is_empty() && climber.climb(&fabric) {
            roots = climber.roots();
        }
        let leaves = members.iter().filter_map(|member| fabric.leaf_of(*member));
        let common = leaves.map(|leaf| reached(&fabric, leaf)).reduce(|a, b| &a & &b).unwrap();
        prop_assert_eq!(roots.is_empty(), common.is_empty());
        for root in roots {
            prop_assert!(common.contains(&root));
            let tree = climber.descend(&fabric, root, |_| 0);
            prop_assert_eq!(tree.members.len(), members.len());
            for (at, node) in tree.switches.iter().enumerate() {
                prop_assert_eq!(at == 0, node.up.is_none());
                let Some(up) = node.up else { continue };
                prop_assert!((up.parent as usize) < at, "each switch after its parent");
                prop_assert!(fabric.faults().port_is_live(graph, up.port));
                let Peer::Switch(peer) = graph.peer(up.port) else { panic!("no switch") };
                prop_assert_eq!(graph.switch_of(peer), tree.switches[up.parent as usize].switch);
            }
            if let Some(reduced) = minimum_tree(tree, |_| limit) {
                check(&reduced, |_| limit);
            }
        }
    }
}

#[test]
fn of_parallel_links_the_less_loaded_one_is_taken() {
    let graph = Arc::new(TopologySpec::parse(FABRICS[0]).unwrap().generate().unwrap());
    let fabric = Fabric::detect(Arc::clone(&graph));
    let mut climber = Climber::new(&fabric);
    climber.start(&fabric, &[EndpointId(0), EndpointId(3)]).unwrap();
    climber.climb(&fabric);
    let root = climber.roots()[0];
    let ports = |load: fn(PortId) -> u32| {
        let tree = climber.clone().descend(&fabric, root, load);
        let mut ports: Vec<PortId> =
            tree.switches.iter().filter_map(|node| node.up).map(|up| up.port).collect();
        ports.sort_unstable();
        ports
    };
    let (low, high) = (ports(|port| port.0), ports(|port| u32::MAX - port.0));
    assert!(low.iter().zip(&high).all(|(low, high)| low < high), "{low:?} {high:?}");
}
