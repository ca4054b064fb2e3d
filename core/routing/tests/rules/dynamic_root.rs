//! The rules for dynamic roots: R1, R2 and R4 always, and a history that can be written down.

use std::collections::BTreeSet;

use fabricast_routing::{
    BuildError, Change, DynamicRootEngine, EngineOptions, Plan, RecordedChoice, RestoreProblem,
    RootScope, RoutingEngine, metrics,
};
use fabricast_topology::{EndpointId, Mgid, PortId, TableKind};
use proptest::prelude::*;

use crate::fabrics::{Fabric, Step, fabric, faults, faults_of, make, steps};
use crate::{check_restored, check_rules};

/// Tables and scopes that go together.
fn any_scope() -> impl Strategy<Value = (TableKind, RootScope)> {
    prop_oneof![
        Just((TableKind::PerPort, RootScope::Tn)),
        Just((TableKind::PerPort, RootScope::TnGroup)),
        Just((TableKind::PerSwitch, RootScope::Tn)),
    ]
}

pub(crate) fn dynamic(
    fabric: &Fabric,
    colors: u16,
    (tables, root_scope): (TableKind, RootScope),
) -> DynamicRootEngine {
    let options =
        EngineOptions { root_scope: Some(root_scope), ..EngineOptions::new(colors, tables) };
    let (graph, fat_tree) = (fabric.graph.clone(), fabric.fat_tree.clone());
    DynamicRootEngine::new(graph, fat_tree, options).expect("a scope that goes with the tables")
}

/// Way of a group's packets: color, root and links of its own tree, members left out.
fn route(
    engine: &DynamicRootEngine,
    mgid: Mgid,
) -> Option<impl PartialEq + std::fmt::Debug + use<>> {
    let group = engine.plan().group(mgid)?;
    let cut_off: Vec<EndpointId> = group.cut_off.iter().map(|cut| cut.endpoint).collect();
    Some((group.color, cut_off, engine.group_trees(mgid)))
}

/// Checks that the groups of every virtual group hang together, so that none is merged without
/// need.
fn merged_without_need(engine: &DynamicRootEngine, plan: &Plan) -> Option<u32> {
    let graph = engine.graph();
    for shared in plan.virtual_groups().filter(|shared| shared.groups.len() > 1) {
        let mut waiting: Vec<BTreeSet<u32>> = Vec::new();
        for mgid in shared.groups {
            let trees = engine.group_trees(*mgid);
            let [tree] = &trees[..] else { panic!("merged groups have trees") };
            let links = tree.links.iter().flat_map(|(a, b)| [*a, *b]);
            let ports = links.chain(tree.member_ports.iter().copied());
            let place = |port: PortId| match plan.tables() {
                TableKind::PerPort => port.0,
                TableKind::PerSwitch => graph.switch_of(port).0,
            };
            waiting.push(ports.map(place).collect());
        }
        let mut reached = waiting.swap_remove(0);
        while let Some(at) = waiting.iter().position(|places| !places.is_disjoint(&reached)) {
            reached.extend(waiting.swap_remove(at));
        }
        if !waiting.is_empty() {
            return Some(shared.id.0);
        }
    }
    None
}

/// Breaks something and looks whether anybody's route has changed without need.
pub(crate) fn left_alone(
    fabric: &Fabric,
    mut engine: DynamicRootEngine,
    broken: &[(u8, u32)],
) -> Result<(), TestCaseError> {
    let before = engine.clone();
    let faults = faults_of(&fabric.graph, broken);
    engine.set_faults(faults.clone());
    let displaced: BTreeSet<Mgid> = before
        .plan()
        .moved()
        .iter()
        .map(|moved| moved.mgid)
        .chain(before.plan().unrouted().iter().map(|unrouted| unrouted.mgid))
        .collect();
    let is_hit = |mgid: &Mgid| {
        let trees = before.group_trees(*mgid);
        let Some(tree) = trees.first() else { return true };
        let is_live = |port: &PortId| faults.port_is_live(&fabric.graph, *port);
        displaced.contains(mgid)
            || !tree.links.iter().all(|(lower, _)| is_live(lower))
            || !tree.member_ports.iter().all(is_live)
    };
    for mgid in engine.groups() {
        let shared = engine.plan().virtual_group_of(mgid);
        let company = shared.map_or(vec![mgid], |shared| shared.groups.to_vec());
        if !is_hit(&mgid) && !company.iter().any(is_hit) {
            prop_assert_eq!(route(&engine, mgid), route(&before, mgid), "group {}", mgid.0);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// R1, R2, R4: packets through the tables reach whom they must after every step, no row is
    /// stale, and groups share a tree only where they share a link (a switch, with per-switch
    /// tables).
    #[test]
    fn packets_find_their_way_under_any_root(
        fabric in fabric(), colors in 1u16..5, scope in any_scope(), history in steps(40),
    ) {
        let mut engine = dynamic(&fabric, colors, scope);
        for step in &history {
            make(&mut engine, &fabric.graph, step);
            let report = check_rules(&fabric.graph, &engine)?;
            prop_assert_eq!(report.unused_entries, 0);
            prop_assert_eq!(merged_without_need(&engine, engine.plan()), None);
        }
    }

    /// Choices can be written down and chosen again, by an engine that knows nothing of the
    /// history; and both go on alike.
    #[test]
    fn recorded_choices_bring_the_plan_back(
        fabric in fabric(), colors in 1u16..5, scope in any_scope(),
        history in steps(30), future in steps(10),
    ) {
        let mut engine = dynamic(&fabric, colors, scope);
        let mut other = dynamic(&fabric, colors, scope);
        check_restored(&fabric.graph, (&mut engine, &mut other), (&history, &future))?;
    }

    /// A failure or its end changes the routes of groups that it hits, that it let go home, or that
    /// these are merged with; all others keep theirs to the last port.
    #[test]
    fn failures_leave_others_alone(
        fabric in fabric(), colors in 1u16..5, scope in any_scope(), history in steps(30),
        broken in faults(),
    ) {
        let mut engine = dynamic(&fabric, colors, scope);
        for step in history.iter().filter(|step| !matches!(step, Step::Faults(_))) {
            make(&mut engine, &fabric.graph, step);
        }
        left_alone(&fabric, engine, &broken)?;
    }

    /// One batch at once gives the same as the same batch again: order and chance play no part
    /// beyond it.
    #[test]
    fn the_same_history_gives_the_same_plan(
        fabric in fabric(), colors in 1u16..5, scope in any_scope(), history in steps(30),
    ) {
        let (mut one, mut other) = (dynamic(&fabric, colors, scope), dynamic(&fabric, colors, scope));
        for step in &history {
            make(&mut one, &fabric.graph, step);
            make(&mut other, &fabric.graph, step);
        }
        prop_assert_eq!(one.plan(), other.plan());
    }
}

fn small(text: &str) -> Fabric {
    Fabric::new(text.to_owned(), None).expect("a valid description")
}

#[test]
fn a_whole_tn_group_needs_per_port_tables() {
    let fabric = small("kind = \"leaf-spine\"\nleaves = 2\nspines = 1\nendpoints_per_leaf = 1");
    let options = EngineOptions {
        root_scope: Some(RootScope::TnGroup),
        ..EngineOptions::new(2, TableKind::PerSwitch)
    };
    let refused = DynamicRootEngine::new(fabric.graph.clone(), fabric.fat_tree, options).err();
    assert_eq!(refused, Some(BuildError::ScopeNeedsPerPortTables));
}

/// Two CNs of two leaves with an endpoint each, one level-1 switch each, two TNs above it.
fn two_midplanes() -> Fabric {
    small(
        "kind = \"cn-tn-fat-tree\"\nq = 2\nm = 1\np = 2\nk = 1\nw = 2\nl3_per_tn = 2\n\
         endpoints_per_leaf = 1",
    )
}

fn put(mgid: u32, members: &[u32]) -> Change {
    let members = members.iter().map(|at| EndpointId(*at)).collect();
    Change::Put { mgid: Mgid(mgid), members }
}

/// Two groups that meet in the links between level 1 and 2 only need not share a tree, if there is
/// another top midplane to go through.
#[test]
fn another_midplane_makes_a_merge_needless() {
    let fabric = two_midplanes();
    for (scope, trees) in [(RootScope::Tn, 1), (RootScope::TnGroup, 2)] {
        let mut engine = dynamic(&fabric, 1, (TableKind::PerPort, scope));
        engine.apply(&[put(0, &[0, 2]), put(1, &[1, 3])]).unwrap();
        let figures = metrics(&fabric.graph, engine.plan());
        assert_eq!((figures.trees, figures.groups), (trees, 2), "{scope:?}");
    }
}

/// Three groups of the same two endpoints: 18 and 19 are at home in color 2, 10 in color 3. While
/// 19 is there, 18 is in color 3 and 10 elsewhere; when 19 goes, 18 comes home, and so 10 can, too.
#[test]
fn a_group_that_comes_home_makes_room_for_another() {
    let fabric = small("kind = \"leaf-spine\"\nleaves = 2\nspines = 3\nendpoints_per_leaf = 1");
    let mut engine = dynamic(&fabric, 4, (TableKind::PerPort, RootScope::Tn));
    for mgid in [19, 18, 10] {
        engine.apply(&[put(mgid, &[0, 1])]).unwrap();
    }
    let moved: Vec<u32> = engine.plan().moved().iter().map(|moved| moved.mgid.0).collect();
    assert_eq!(moved, [10, 18]);
    engine.apply(&[put(19, &[])]).unwrap();
    assert_eq!(engine.plan().moved(), []);
    let home = |mgid| engine.plan().group(Mgid(mgid)).unwrap().part;
    assert_eq!([18, 10].map(home), [6, 10]);
}

#[test]
fn a_wrong_choice_is_named_and_changes_nothing() {
    let fabric = two_midplanes();
    let mut engine = dynamic(&fabric, 1, (TableKind::PerPort, RootScope::TnGroup));
    engine.apply(&[put(0, &[0, 2]), put(1, &[1, 3]), put(2, &[0])]).unwrap();
    let before = engine.plan().clone();
    let choice = |mgid, part, root| RecordedChoice {
        mgid: Mgid(mgid),
        tree: 0,
        part,
        root,
        ports: Vec::new(),
    };
    for (wrong, problem) in [
        (choice(9, 0, 0), RestoreProblem::UnknownGroup),
        (choice(0, 0, 0), RestoreProblem::Twice),
        (choice(1, 1, 0), RestoreProblem::UnknownTree),
        (choice(1, 0, 99), RestoreProblem::UnknownTree),
        (choice(2, 0, 0), RestoreProblem::FewerThanTwoMembers),
    ] {
        let refused = engine.restore(&[choice(0, 0, 0), wrong]).unwrap_err();
        assert_eq!((refused.index, refused.problem), (1, problem));
        assert_eq!(engine.plan(), &before);
    }
}
