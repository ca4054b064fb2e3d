//! The rules for the hybrid engine below directors and shared core switches, where groups that
//! cannot be alone at home get trees of MR4LMS.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_routing::{
    Change, DynamicRootEngine, EngineKind, EngineOptions, FixedRootEngine, GroupTree, Metrics,
    Plan, RoutingEngine, build_engine, metrics,
};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{
    EndpointId, FatTree, Faults, Graph, Mgid, Peer, PortId, SplitMix, TableKind,
};
use proptest::prelude::*;

use crate::fabrics::{Fabric, Step, directors, make, steps};
use crate::{check_restored, check_rules};

fn hybrid(fabric: &Fabric, colors: u16, tables: TableKind) -> Box<dyn RoutingEngine> {
    let options = EngineOptions::new(colors, tables);
    let (graph, fat_tree) = (fabric.graph.clone(), Some(fabric.fat_tree.clone()));
    build_engine(EngineKind::CMr4lmsHybrid, graph, fat_tree, options).expect("colors in range")
}

fn tables() -> impl Strategy<Value = TableKind> {
    prop_oneof![Just(TableKind::PerPort), Just(TableKind::PerSwitch)]
}

/// Color and tree of a group.
type Route = (u16, GroupTree);

/// The tree that the engine with the fixed root gives a group if there is no other; none if that is
/// not on the spanning tree of its MGID.
fn at_home(fabric: &Fabric, engine: &dyn RoutingEngine, mgid: Mgid) -> Option<Route> {
    let plan = engine.plan();
    let mut alone: FixedRootEngine = fabric.engine(plan.colors(), (plan.tables(), false));
    alone.set_faults(engine.faults().clone());
    alone.apply(&[Change::Put { mgid, members: engine.members(mgid)? }]).unwrap();
    route(&alone, mgid).filter(|_| alone.plan().moved().is_empty())
}

/// The tree of a group that shares it with no other.
fn route(engine: &dyn RoutingEngine, mgid: Mgid) -> Option<Route> {
    let shared = engine.plan().virtual_group_of(mgid).filter(|one| one.groups == [mgid])?;
    Some((shared.color, engine.group_trees(mgid).pop()?))
}

/// Tells whether no other group has the color of a tree where that would be.
fn has_room(graph: &Graph, plan: &Plan, mgid: Mgid, (color, tree): &Route) -> bool {
    let place = |port: PortId| match plan.tables() {
        TableKind::PerPort => port.0,
        TableKind::PerSwitch => graph.switch_of(port).0,
    };
    let links = tree.links.iter().flat_map(|(a, b)| [*a, *b]);
    let wanted: BTreeSet<u32> = links.chain(tree.member_ports.iter().copied()).map(place).collect();
    let others = plan.virtual_groups().filter(|one| one.color == *color && one.groups != [mgid]);
    !others.flat_map(|one| one.ports).any(|port| wanted.contains(&place(*port)))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// R1, R2, R4, no deadlock, and each member is served or named, after every step.
    #[test]
    fn packets_find_their_way_below_directors(
        fabric in directors(), colors in 1u16..5, tables in tables(), history in steps(40),
    ) {
        let mut engine = hybrid(&fabric, colors, tables);
        prop_assert_eq!(engine.kind(), EngineKind::CMr4lmsHybrid);
        for step in &history {
            make(&mut *engine, &fabric.graph, step);
            let report = check_rules(&fabric.graph, &*engine)?;
            prop_assert_eq!(report.cycle, None);
            let plan = engine.plan();
            for mgid in engine.groups() {
                let members = engine.members(mgid).unwrap().len();
                let planned = plan.group(mgid);
                let told = planned.map(|one| one.live_members as usize + one.cut_off.len());
                let unrouted = plan.unrouted().iter().any(|one| one.mgid == mgid);
                prop_assert!(told == Some(members) || unrouted, "group {}", mgid.0);
            }
        }
    }

    /// R3 for groups that are alone at home: a new group, or one at home that grows, has the tree
    /// of its MGID, whatever was before, if no link of that is dead or has its color.
    #[test]
    fn a_group_with_room_at_home_has_the_tree_of_its_mgid(
        fabric in directors(), colors in 1u16..5, tables in tables(), history in steps(40),
    ) {
        let mut engine = hybrid(&fabric, colors, tables);
        for step in &history {
            let (Step::Put(mgid, _) | Step::Join(mgid, _)) = step else {
                make(&mut *engine, &fabric.graph, step);
                continue;
            };
            let mgid = Mgid(*mgid);
            let was_placed = engine.members(mgid).is_some();
            let was_at_home = at_home(&fabric, &*engine, mgid)
                .is_some_and(|home| route(&*engine, mgid) == Some(home));
            let before = engine.plan().clone();
            make(&mut *engine, &fabric.graph, step);
            let Some(home) = at_home(&fabric, &*engine, mgid) else { continue };
            let serves_all = engine.live_members(mgid).map(|members| members.len())
                == Some(home.1.member_ports.len());
            let is_new = !was_placed || was_at_home && matches!(step, Step::Join(..));
            let all_routed = before.unrouted().is_empty();
            if is_new && all_routed && serves_all && has_room(&fabric.graph, &before, mgid, &home) {
                prop_assert_eq!(route(&*engine, mgid), Some(home), "group {}", mgid.0);
            }
        }
    }

    /// A change of one group moves no other, but those that it, or a group that had no tree, is
    /// merged with.
    #[test]
    fn a_change_below_directors_moves_only_groups_that_are_merged_with_it(
        fabric in directors(), colors in 1u16..5, tables in tables(), history in steps(40),
    ) {
        let mut engine = hybrid(&fabric, colors, tables);
        for step in &history {
            let trees = |engine: &dyn RoutingEngine, mgid| engine.group_trees(mgid);
            let before: Vec<_> =
                engine.groups().into_iter().map(|mgid| (mgid, trees(&*engine, mgid))).collect();
            let mut touched: BTreeSet<Mgid> =
                engine.plan().unrouted().iter().map(|one| one.mgid).collect();
            touched.extend(step.change(&*engine).map(|change| change.mgid()));
            make(&mut *engine, &fabric.graph, step);
            if matches!(step, Step::Faults(_)) {
                continue;
            }
            for (mgid, before) in before.into_iter().filter(|(mgid, _)| !touched.contains(mgid)) {
                let shared = engine.plan().virtual_group_of(mgid);
                let company = shared.map_or(vec![], |shared| shared.groups.to_vec());
                if !company.iter().any(|mgid| touched.contains(mgid)) {
                    prop_assert_eq!(trees(&*engine, mgid), before, "group {}", mgid.0);
                }
            }
        }
    }

    /// Choices can be written down and chosen again, and both engines go on alike.
    #[test]
    fn recorded_choices_bring_the_plan_below_directors_back(
        fabric in directors(), colors in 1u16..5, tables in tables(),
        history in steps(30), future in steps(10),
    ) {
        let mut engine = hybrid(&fabric, colors, tables);
        let mut other = hybrid(&fabric, colors, tables);
        check_restored(&fabric.graph, (&mut *engine, &mut *other), (&history, &future))?;
    }
}

/// Takes every twentieth link between switches away, by chance.
fn without_some_links(graph: &Graph, seed: u64) -> Graph {
    let mut chance = SplitMix::new(seed);
    let between = |port: &PortId| matches!(graph.peer(*port), Peer::Switch(far) if *port < far);
    let all = graph.switches().flat_map(|switch| graph.ports(switch)).filter(between);
    let mut all: Vec<PortId> = all.collect();
    chance.shuffle(&mut all);
    let mut absent = Faults::new();
    for port in &all[..all.len() / 20] {
        absent.fail_link(graph, *port);
    }
    graph.without(&absent)
}

/// 64 groups across all midplanes of a fabric like BlueLight, and one in each midplane.
fn planned(graph: &Graph, engine: &mut dyn RoutingEngine) -> (Metrics, usize) {
    let across = (0..64).map(|at| (0..20).map(|midplane| midplane * 64 + at).collect());
    let within = (0..20).map(|midplane| (midplane * 64..(midplane + 1) * 64).collect());
    let groups: Vec<Vec<u32>> = across.chain(within).collect();
    let put = |(mgid, members): (u32, Vec<u32>)| Change::Put {
        mgid: Mgid(mgid),
        members: members.into_iter().map(EndpointId).collect(),
    };
    engine.apply(&(0..).zip(groups).map(put).collect::<Vec<_>>()).unwrap();
    (metrics(graph, engine.plan()), engine.plan().unrouted().len())
}

/// Spanning trees through level-1 switches of one number serve few of these groups.
#[test]
fn without_links_below_directors_maxima_are_within_twice_of_mr4lms() {
    let spec = "kind = 'pruned-fat-tree'\nmidplanes = 20\nleaves = 8\nendpoints_per_leaf = 8\n\
                spines = 8\nuplinks_per_spine = 4\ncores = 4\nline_ports = 10\ncore_spines = 5\n\
                core_lanes = 2";
    let whole = TopologySpec::parse(spec).unwrap().generate().unwrap();
    let mut before_was_worse = false;
    for seed in 1..4 {
        let graph = Arc::new(without_some_links(&whole, seed));
        let fat_tree = Arc::new(FatTree::detect(&graph).unwrap());
        let options = EngineOptions::new(16, TableKind::PerPort);
        let [(hybrid, unrouted), (free, _)] =
            [EngineKind::CMr4lmsHybrid, EngineKind::Mr4lms].map(|kind| {
                let view = Some(fat_tree.clone());
                let mut engine = build_engine(kind, graph.clone(), view, options).unwrap();
                planned(&graph, &mut *engine)
            });
        assert_eq!(unrouted, 0);
        assert!(hybrid.switch_links.max_efi <= 2 * free.switch_links.max_efi, "{hybrid:?}");
        assert!(hybrid.max_tfi <= 2 * free.max_tfi, "{hybrid:?}");
        let mut numbered = DynamicRootEngine::hybrid(graph.clone(), fat_tree, options).unwrap();
        let (numbered, lost) = planned(&graph, &mut numbered);
        let is_worse = numbered.switch_links.max_efi > 2 * free.switch_links.max_efi;
        before_was_worse |= is_worse || lost > 0;
    }
    assert!(before_was_worse, "the fabric shows nothing");
}
