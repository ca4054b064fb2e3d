//! Explanations against trees that are intersected a second time, without any regard to speed.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_routing::formats::GroupRecord;
use fabricast_routing::{
    EngineKind, EngineOptions, ExplainedTree, Explanation, GroupSource, GroupTree, RootScope,
    Routed, RoutingEngine, SharedPart, Sharer, at_other_size, explain,
};
use fabricast_topology::{EndpointId, Graph, Mgid, Peer, Place, PortId, SwitchId, TableKind};
use proptest::prelude::*;

use crate::fabric::Fabric;

impl Fabric {
    fn explain(&self, routed: &Routed, group: usize) -> Explanation {
        let fat_tree = self.fat_tree.as_deref();
        explain(&*routed.engine, fat_tree, routed.mgids[group]).expect("the group exists")
    }
}

fn records(groups: &[(u32, &[u32])]) -> Vec<GroupRecord> {
    let record = |(mgid, members): &(u32, &[u32])| GroupRecord {
        mgid: Some(Mgid(*mgid)),
        name: None,
        members: members.iter().copied().map(EndpointId).collect(),
    };
    groups.iter().map(record).collect()
}

/// The links (by their smaller port) and ports of members that a group needs of a tree: what is
/// left when switches without a member that hang on one link are taken away, again and again.
fn pruned(graph: &Graph, tree: &[PortId], members: &[EndpointId]) -> BTreeSet<PortId> {
    let slots: BTreeSet<PortId> =
        members.iter().filter_map(|member| graph.attachment(*member)).collect();
    let slots: BTreeSet<PortId> = slots.into_iter().filter(|port| tree.contains(port)).collect();
    let needed: BTreeSet<SwitchId> = slots.iter().map(|port| graph.switch_of(*port)).collect();
    let mut links: BTreeSet<(PortId, PortId)> = BTreeSet::new();
    for port in tree {
        if let Peer::Switch(peer) = graph.peer(*port) {
            links.insert((*port.min(&peer), *port.max(&peer)));
        }
    }
    loop {
        let mut degree: BTreeMap<SwitchId, u32> = BTreeMap::new();
        for port in links.iter().flat_map(|(a, b)| [a, b]) {
            *degree.entry(graph.switch_of(*port)).or_default() += 1;
        }
        let loose = |port: &PortId| {
            let switch = graph.switch_of(*port);
            degree[&switch] == 1 && !needed.contains(&switch)
        };
        let before = links.len();
        links.retain(|(a, b)| !loose(a) && !loose(b));
        if links.len() == before {
            break;
        }
    }
    links.into_iter().map(|(a, _)| a).chain(slots).collect()
}

/// The resource a part stands for, with links by their smaller port.
fn normal(graph: &Graph, part: SharedPart) -> SharedPart {
    match part {
        SharedPart::Link(port) => match graph.peer(port) {
            Peer::Switch(peer) => SharedPart::Link(port.min(peer)),
            Peer::Endpoint(_) | Peer::None => part,
        },
        SharedPart::Switch(_) => part,
    }
}

fn switches(graph: &Graph, links: &BTreeSet<PortId>) -> BTreeSet<SwitchId> {
    let ends = |port: &PortId| match graph.peer(*port) {
        Peer::Switch(peer) => vec![*port, peer],
        Peer::Endpoint(_) | Peer::None => vec![*port],
    };
    links.iter().flat_map(ends).map(|port| graph.switch_of(port)).collect()
}

/// The common parts of the own trees of two groups.
fn common(
    graph: &Graph,
    tables: TableKind,
    a: &BTreeSet<PortId>,
    b: &BTreeSet<PortId>,
) -> BTreeSet<SharedPart> {
    let mut all: BTreeSet<SharedPart> =
        a.intersection(b).map(|port| SharedPart::Link(*port)).collect();
    if tables == TableKind::PerSwitch {
        let (a, b) = (switches(graph, a), switches(graph, b));
        all.extend(a.intersection(&b).map(|switch| SharedPart::Switch(*switch)));
    }
    all
}

const FABRICS: [&str; 6] = [
    "kind = 'leaf-spine'\nleaves = 4\nspines = 2\nendpoints_per_leaf = 3\nlanes0 = 2",
    "kind = 'leaf-spine'\nleaves = 3\nspines = 2\nendpoints_per_leaf = 4\n[faults]\n\
     links = [{switch='leaf0',to='spine0'}]",
    "kind = 'k-ary-3-level'\nk = 4",
    "kind = 'cn-tn-fat-tree'\nq = 2\nm = 2\np = 2\nk = 2\nw = 2\nendpoints_per_leaf = 2",
    "kind = 'pruned-fat-tree'\nmidplanes = 3\nleaves = 2\nspines = 2\nuplinks_per_spine = 2\n\
     cores = 2\nline_ports = 2\ncore_spines = 2\nendpoints_per_leaf = 2",
    "kind = 'torus'\nx = 3\ny = 3\nz = 1\nendpoints_per_switch = 1",
];

/// WHY-1, and that the place in the fat tree is that of every switch the group's tree has.
fn check(fabric: &Fabric, routed: &Routed, group: usize) -> Result<(), TestCaseError> {
    let (graph, engine) = (&*fabric.graph, &*routed.engine);
    let mgid = routed.mgids[group];
    let found = fabric.explain(routed, group);
    let planned = engine.plan().group(mgid).filter(|one| one.has_tree());
    let Some(planned) = planned else {
        prop_assert_eq!(found.route, None);
        return Ok(());
    };
    let route = found.route.expect("the group has a tree");
    prop_assert_eq!((route.part, route.virtual_group), (planned.part, planned.virtual_group));
    let own: Vec<GroupTree> = route.trees.iter().map(|tree| tree.own.clone()).collect();
    prop_assert_eq!(own, engine.group_trees(mgid));
    let shared = engine.plan().virtual_group_trees(mgid);
    let pruned = |ports: &[PortId], mgid: Mgid| {
        pruned(graph, ports, &engine.live_members(mgid).expect("it is routed"))
    };
    let own = |mgid: Mgid| -> BTreeSet<PortId> {
        shared.iter().flat_map(|tree| pruned(tree.ports, mgid)).collect()
    };
    let all: BTreeMap<Mgid, BTreeSet<PortId>> =
        shared[0].groups.iter().map(|mgid| (*mgid, own(*mgid))).collect();
    check_sharers(graph, engine, mgid, &route.sharers, &all)?;
    for tree in &route.trees {
        let whole = shared.iter().find(|one| one.tree == tree.own.tree).expect("it has the tree");
        prop_assert_eq!((tree.color, &tree.ports[..]), (whole.color, whole.ports));
        let is_numbered = engine.plan().home(mgid).is_some();
        check_place(fabric, is_numbered, tree, &pruned(whole.ports, mgid))?;
    }
    Ok(())
}

/// WHY-1: `all` has the links that each group of the virtual group needs by itself.
fn check_sharers(
    graph: &Graph,
    engine: &dyn RoutingEngine,
    mgid: Mgid,
    found: &[Sharer],
    all: &BTreeMap<Mgid, BTreeSet<PortId>>,
) -> Result<(), TestCaseError> {
    let meet = |a: Mgid, b: Mgid| common(graph, engine.plan().tables(), &all[&a], &all[&b]);
    // Steps, by going over all pairs until nothing changes.
    let mut steps: BTreeMap<Mgid, u32> = [(mgid, 0)].into();
    for step in 1..=u32::try_from(all.len()).expect("few") {
        let reached: Vec<Mgid> = steps.keys().copied().collect();
        for other in all.keys() {
            if reached.iter().any(|one| steps[one] == step - 1 && !meet(*one, *other).is_empty()) {
                steps.entry(*other).or_insert(step);
            }
        }
    }
    let sharers: BTreeSet<Mgid> = found.iter().map(|one| one.mgid).collect();
    let expected: BTreeSet<Mgid> = all.keys().copied().filter(|one| *one != mgid).collect();
    prop_assert_eq!(sharers.len(), found.len());
    prop_assert_eq!(sharers, expected);
    for sharer in found {
        let Some(why) = sharer.why else {
            prop_assert!(!steps.contains_key(&sharer.mgid), "{:?}", sharer);
            prop_assert_eq!(engine.plan().home(mgid), None, "C-MR4LMS merges what meets");
            continue;
        };
        prop_assert_eq!(Some(&why.steps), steps.get(&sharer.mgid));
        prop_assert_eq!(steps[&why.through], why.steps - 1);
        let common = meet(why.through, sharer.mgid);
        prop_assert!(common.contains(&normal(graph, why.at)), "{:?} is not in {:?}", why, common);
        let is_link = |one: &SharedPart| matches!(one, SharedPart::Link(_));
        prop_assert_eq!(common.iter().any(is_link), is_link(&why.at));
    }
    Ok(())
}

/// The trees of numbered spanning trees have their root on top, and use one midplane; others are
/// only told by their root.
fn check_place(
    fabric: &Fabric,
    is_numbered: bool,
    tree: &ExplainedTree,
    own: &BTreeSet<PortId>,
) -> Result<(), TestCaseError> {
    let Some(view) = &fabric.fat_tree else {
        prop_assert_eq!((tree.level, tree.top_midplane, tree.tn_group), (None, None, None));
        return Ok(());
    };
    let mut highest = 0;
    let looked_at = match is_numbered {
        true => switches(&fabric.graph, own),
        false => [tree.own.root].into(),
    };
    for switch in looked_at {
        highest = highest.max(match view.place(switch) {
            Place::Outside | Place::Leaf { .. } => 0,
            Place::L1 { g, .. } => {
                prop_assert!(tree.tn_group.is_none_or(|group| group == g));
                1
            }
            Place::L2 { .. } => {
                let tn = tree.top_midplane.expect("a switch of it is there");
                let mut blocks = 0..view.params().blocks;
                prop_assert!(blocks.any(|at| view.l2_switch(tn, at) == Some(switch)));
                2
            }
            Place::L3 { .. } => {
                let tn = tree.top_midplane.expect("a switch of it is there");
                let mut l3s = 0..view.params().l3_per_tn;
                prop_assert!(l3s.any(|x| view.l3_switch(tn, x) == Some(switch)));
                3
            }
        });
    }
    prop_assert_eq!(tree.level, Some(highest));
    let per_group = view.params().tns_per_group;
    if let (Some(tn), Some(group)) = (tree.top_midplane, tree.tn_group) {
        prop_assert_eq!(tn / per_group, group);
    }
    Ok(())
}

fn any_engine() -> impl Strategy<Value = (EngineKind, TableKind, Option<RootScope>)> {
    let kind = proptest::sample::select(EngineKind::ALL);
    let tables = prop_oneof![Just(TableKind::PerPort), Just(TableKind::PerSwitch)];
    (kind, tables, any::<bool>()).prop_map(|(kind, tables, narrow)| {
        (kind, tables, (narrow && kind.has_root_scopes()).then_some(RootScope::Tn))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn explanations_are_what_intersecting_the_trees_says(
        fabric in 0..FABRICS.len(),
        (kind, tables, root_scope) in any_engine(),
        colors in 2u16..5,
        fault_tolerant in any::<bool>(),
        groups in proptest::collection::vec(
            (any::<bool>(), proptest::collection::btree_set(0u32..8, 0..5)), 1..10),
    ) {
        let fabric = Fabric::new(FABRICS[fabric]);
        prop_assume!(fabric.fat_tree.is_some() || !kind.needs_fat_tree());
        let records: Vec<GroupRecord> = (0u32..)
            .zip(&groups)
            .map(|(at, (fixed, members))| GroupRecord {
                mgid: fixed.then_some(Mgid(at * 5 % 17)),
                name: None,
                members: members.iter().copied().map(EndpointId).collect(),
            })
            .collect();
        let fault_tolerant = fault_tolerant && kind.supports_fault_tolerance();
        let options =
            EngineOptions { root_scope, fault_tolerant, ..EngineOptions::new(colors, tables) };
        let scenario = fabric.scenario(kind, options, GroupSource::Listed(&records));
        let now = scenario.route(colors).expect("it can be routed");
        let more = scenario.route(colors + 1).expect("it can be routed");
        for group in 0..records.len() {
            check(&fabric, &now, group)?;
            let found = at_other_size(&scenario, colors + 1, &now, group).expect("it can be routed");
            prop_assert_eq!(&found.explanation, &fabric.explain(&more, group));
            for other in (0..records.len()).filter(|other| *other != group) {
                let together = |routed: &Routed| {
                    let tree = |at: usize| {
                        let plan = routed.engine.plan();
                        plan.group(routed.mgids[at]).map(|one| (one.part, one.virtual_group))
                    };
                    tree(group).is_some() && tree(group) == tree(other)
                };
                let expected = (together(&now), together(&more));
                let is = |list: &[usize]| list.contains(&other);
                prop_assert_eq!(is(&found.stay), expected == (true, true));
                prop_assert_eq!(is(&found.part), expected == (true, false));
                prop_assert_eq!(is(&found.come), expected == (false, true));
            }
        }
    }
}

/// h0 h1 h2 on leaf 0, h3 h4 h5 on leaf 1, h6 h7 h8 on leaf 2; two spines, one color: MGIDs 0, 2
/// and 4 have spanning tree 0. Groups 0 and 4 meet only because 2 meets both.
#[test]
fn a_chain_names_the_group_between_and_the_links() {
    let fabric = Fabric::new("kind = 'leaf-spine'\nleaves = 4\nspines = 2\nendpoints_per_leaf = 3");
    let records = records(&[(0, &[0, 3]), (2, &[4, 6]), (4, &[7, 9]), (6, &[10, 11])]);
    let options = EngineOptions::new(1, TableKind::PerPort);
    let scenario =
        fabric.scenario(EngineKind::CMr4lmsFixed, options, GroupSource::Listed(&records));
    let now = scenario.route(1).unwrap();
    let found = fabric.explain(&now, 0);
    assert_eq!((found.home, found.moved, found.unrouted), (Some(0), None, None));
    let route = found.route.unwrap();
    let tree = &route.trees[0];
    assert_eq!((tree.color, tree.level), (0, Some(1)));
    assert_eq!((tree.tn_group, tree.top_midplane), (Some(0), None));
    let up = |leaf: &str| {
        let leaf = fabric.graph.find_switch(leaf).unwrap();
        fabric.graph.port(leaf, 4).unwrap()
    };
    let steps: Vec<_> = route
        .sharers
        .iter()
        .map(|one| (one.mgid.0, one.why.map(|why| (why.steps, why.through.0, why.at))))
        .collect();
    let expected = [
        (2, Some((1, 0, SharedPart::Link(up("leaf1"))))),
        (4, Some((2, 2, SharedPart::Link(up("leaf2"))))),
    ];
    assert_eq!(steps, expected);
    // With two colors MGIDs 0 and 4 have tree 0 and MGID 2 has tree 2; 0 and 4 do not meet then.
    let more = at_other_size(&scenario, 2, &now, 0).unwrap();
    assert_eq!((more.stay, more.part, more.come), (vec![], vec![1, 2], vec![]));
    assert_eq!(more.explanation.route.unwrap().sharers, []);
    assert_eq!(explain(&*now.engine, None, Mgid(99)), None);
}
