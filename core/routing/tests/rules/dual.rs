//! What holds for fault tolerance: two trees that nothing above the leaves breaks together.
//! (R1 to R4 are checked with one tree and with two in `main.rs`.)

use std::collections::BTreeSet;

use fabricast_routing::{Engine, EngineOptions, GroupPlan, LayoutError, Mgid, Plan, RoutingEngine};
use fabricast_topology::{Place, SwitchId, TableKind};
use proptest::prelude::*;

use crate::any_tables;
use crate::fabrics::{Fabric, Step, fabric, faults, faults_of, make, steps};

fn dual(fabric: &Fabric, colors: u16, tables: TableKind) -> Option<Engine> {
    let options = EngineOptions { fault_tolerant: true, ..EngineOptions::new(colors, tables) };
    Engine::new(fabric.graph.clone(), fabric.fat_tree.clone(), options).ok()
}

/// The switches above the leaves that a tree uses.
fn above(fabric: &Fabric, engine: &Engine, planned: &GroupPlan<'_>) -> BTreeSet<SwitchId> {
    let tree = engine.tree(planned).into_iter().flat_map(|tree| tree.links);
    let switches = tree.flat_map(|(a, b)| [a, b]).map(|port| fabric.graph.switch_of(port));
    switches.filter(|at| !matches!(fabric.fat_tree.place(*at), Place::Leaf { .. })).collect()
}

/// Where the packets of a group go: its trees alone, with their colors.
fn route(
    engine: &Engine,
    plan: &Plan,
    mgid: Mgid,
) -> Vec<impl PartialEq + std::fmt::Debug + use<>> {
    plan.trees(mgid).map(|tree| (tree.tree, tree.color, engine.tree(&tree))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// Equation (4): whatever happened before, the trees of a group share no switch above the leaves, and
    /// with per-switch tables no color.
    #[test]
    fn two_trees_of_a_group_never_meet_above_the_leaves(
        fabric in fabric(), colors in 1u16..6, tables in any_tables(), history in steps(40),
    ) {
        let Some(mut engine) = dual(&fabric, colors, tables) else { return Ok(()) };
        for step in &history {
            make(&mut engine, &fabric.graph, step);
        }
        for group in engine.plan().groups().filter(GroupPlan::has_tree) {
            let trees: Vec<_> = engine.plan().trees(group.mgid).collect();
            if let [one, other] = &trees[..] {
                let (a, b) = (above(&fabric, &engine, one), above(&fabric, &engine, other));
                prop_assert!(a.is_disjoint(&b), "{:?} {:?}", a, b);
                prop_assert!(tables == TableKind::PerPort || one.color != other.color);
            }
        }
    }

    /// On a whole fabric, every group has both its trees while no member uses a color for two spanning trees;
    /// with per-port tables one packet then goes up both.
    #[test]
    fn a_whole_fabric_gives_two_trees(
        fabric in fabric(), colors in 1u16..6, tables in any_tables(), history in steps(40),
    ) {
        let Some(mut engine) = dual(&fabric, colors, tables) else { return Ok(()) };
        for step in history.iter().filter(|step| !matches!(step, Step::Faults(_))) {
            make(&mut engine, &fabric.graph, step);
        }
        let plan = engine.plan();
        prop_assume!(plan.moved().is_empty());
        prop_assert_eq!(plan.unprotected(), &[]);
        for group in plan.groups() {
            prop_assert_eq!(plan.trees(group.mgid).count(), 2);
            let packets = if tables == TableKind::PerPort { 1 } else { 2 };
            let wanted = if group.has_tree() { packets } else { 0 };
            prop_assert_eq!(plan.sender_colors(group.mgid).len(), wanted);
        }
    }

    /// One fault above the leaves leaves every group a tree that does not touch it, before anything is
    /// rerouted.
    #[test]
    fn one_fault_above_the_leaves_spares_a_tree(
        fabric in fabric(), colors in 1u16..6, tables in any_tables(), history in steps(40),
        at in any::<usize>(),
    ) {
        let Some(mut engine) = dual(&fabric, colors, tables) else { return Ok(()) };
        for step in history.iter().filter(|step| !matches!(step, Step::Faults(_))) {
            make(&mut engine, &fabric.graph, step);
        }
        let is_above = |at: &SwitchId| !matches!(fabric.fat_tree.place(*at), Place::Leaf { .. });
        let upper: Vec<SwitchId> = fabric.graph.switches().filter(is_above).collect();
        let dead = upper[at % upper.len()];
        for group in engine.plan().groups().filter(GroupPlan::has_tree) {
            let mut trees = engine.plan().trees(group.mgid);
            let is_alone = engine.plan().unprotected().iter().any(|one| one.mgid == group.mgid);
            prop_assert!(is_alone || trees.any(|tree| !above(&fabric, &engine, &tree).contains(&dead)));
        }
    }

    /// R3 under failures: a group none of whose links, members or colors are hit keeps both trees to the last
    /// port, and a group that loses one tree keeps the other.
    #[test]
    fn rerouting_one_tree_leaves_the_other_alone(
        fabric in fabric(), colors in 2u16..6, tables in any_tables(), history in steps(30),
        broken in faults(),
    ) {
        let Some(mut engine) = dual(&fabric, colors, tables) else { return Ok(()) };
        for step in history.iter().filter(|step| !matches!(step, Step::Faults(_))) {
            make(&mut engine, &fabric.graph, step);
        }
        prop_assume!(engine.plan().moved().is_empty() && engine.plan().unrouted().is_empty());
        let before = engine.clone();
        let faults = faults_of(&fabric.graph, &broken);
        engine.set_faults(faults.clone());
        let moved = |mgid: Mgid, tree: u32| {
            let mut lost = engine.plan().unprotected().iter().chain(engine.plan().unrouted());
            engine.plan().moved().iter().any(|one| (one.mgid, one.tree) == (mgid, tree))
                || lost.any(|one| one.mgid == mgid)
        };
        for mgid in engine.groups() {
            let live = |engine: &Engine| engine.live_members(mgid);
            if live(&engine) != live(&before) {
                continue;
            }
            let now = route(&engine, engine.plan(), mgid);
            for (tree, was) in (0u32..).zip(route(&before, before.plan(), mgid)) {
                prop_assert!(moved(mgid, tree) || now.contains(&was), "group {} {}", mgid.0, tree);
            }
        }
    }
}

#[test]
fn a_fabric_or_table_without_room_for_two_trees_is_refused() {
    let one_spine = "kind = \"leaf-spine\"\nleaves = 2\nspines = 1\nendpoints_per_leaf = 1";
    let two_spines = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nendpoints_per_leaf = 1";
    for (spec, tables, refusal) in [
        (one_spine, TableKind::PerPort, Some(LayoutError::NoSecondTree)),
        (two_spines, TableKind::PerSwitch, Some(LayoutError::NoSecondEntry)),
        (two_spines, TableKind::PerPort, None),
    ] {
        let fabric = Fabric::new(spec.to_owned()).expect("a fat tree");
        let options = EngineOptions { fault_tolerant: true, ..EngineOptions::new(1, tables) };
        let (graph, fat_tree) = (fabric.graph.clone(), fabric.fat_tree.clone());
        assert_eq!(Engine::new(graph, fat_tree, options).err(), refusal);
    }
}
