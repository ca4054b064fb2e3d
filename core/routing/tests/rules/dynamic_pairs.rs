//! The rules for dynamic roots with two trees for each group.

use std::collections::BTreeSet;

use fabricast_routing::{
    DynamicRootEngine, EngineOptions, GroupTree, RootScope, RoutingEngine, table_entries,
};
use fabricast_topology::{Faults, Graph, Mgid, Peer, PortId, SwitchId, TableKind};
use proptest::prelude::*;

use crate::fabrics::{Fabric, Step, fabric, make, steps};
use crate::{check_cover, check_restored, check_rules, note_reasons};

/// Makes an engine that gives every group two trees; none on fabrics that have no second one.
fn pairs(
    fabric: &Fabric,
    colors: u16,
    (tables, root_scope): (TableKind, RootScope),
) -> Option<DynamicRootEngine> {
    let options = EngineOptions {
        root_scope: Some(root_scope),
        fault_tolerant: true,
        ..EngineOptions::new(colors, tables)
    };
    let (graph, fat_tree) = (fabric.graph.clone(), fabric.fat_tree.clone());
    DynamicRootEngine::new(graph, fat_tree, options).ok()
}

/// Tables and scopes that go together.
fn any_scope() -> impl Strategy<Value = (TableKind, RootScope)> {
    prop_oneof![
        1 => Just((TableKind::PerPort, RootScope::Tn)),
        2 => Just((TableKind::PerPort, RootScope::TnGroup)),
        1 => Just((TableKind::PerSwitch, RootScope::Tn)),
    ]
}

/// Gives one link between switches, or one switch without endpoints, as the only fault.
fn one_dead_part(graph: &Graph, is_link: bool, at: usize) -> Option<Faults> {
    let mut faults = Faults::new();
    let ends_at = |port: PortId, is_switch: bool| match graph.peer(port) {
        Peer::Switch(_) => is_switch,
        Peer::Endpoint(_) => !is_switch,
        Peer::None => false,
    };
    if is_link {
        let ports = graph.switches().flat_map(|switch| graph.ports(switch));
        let ports: Vec<PortId> = ports.filter(|port| ends_at(*port, true)).collect();
        faults.fail_link(graph, *ports.get(at % ports.len().max(1))?);
    } else {
        let is_leaf = |switch: &SwitchId| graph.ports(*switch).any(|port| ends_at(port, false));
        let above: Vec<SwitchId> = graph.switches().filter(|switch| !is_leaf(switch)).collect();
        faults.fail_switch(*above.get(at % above.len().max(1))?);
    }
    Some(faults)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// R1, R2, R4: packets through the tables reach whom they must after every step, and the two
    /// trees of a group share nothing above the leaves.
    #[test]
    fn packets_find_their_way_on_pairs(
        fabric in fabric(), colors in 1u16..5, scope in any_scope(), history in steps(40),
    ) {
        let Some(mut engine) = pairs(&fabric, colors, scope) else { return Ok(()) };
        for step in &history {
            make(&mut engine, &fabric.graph, step);
            check_rules(&fabric.graph, &engine)?;
            for mgid in engine.groups() {
                let trees = engine.group_trees(mgid);
                let [first, second] = &trees[..] else { continue };
                let apart = |by: &dyn Fn(PortId) -> u32| {
                    let ends = |tree: &GroupTree| -> BTreeSet<u32> {
                        tree.links.iter().map(|(_, upper)| by(*upper)).collect()
                    };
                    ends(first).is_disjoint(&ends(second))
                };
                prop_assert!(apart(&|port| port.0), "group {}", mgid.0);
                let switches_apart = apart(&|port| fabric.graph.switch_of(port).0);
                prop_assert!(switches_apart || fabric.halves_meet(), "group {}", mgid.0);
            }
        }
    }

    /// A dead link or switch above the leaves changes no table while every group with two trees
    /// keeps one, and the groups that lost one are named.
    #[test]
    fn the_death_of_one_tree_moves_nobody(
        fabric in fabric(), colors in 1u16..5, scope in any_scope(), history in steps(30),
        is_link in any::<bool>(), at in any::<usize>(),
    ) {
        let Some(mut engine) = pairs(&fabric, colors, scope) else { return Ok(()) };
        for step in history.iter().filter(|step| !matches!(step, Step::Faults(_))) {
            make(&mut engine, &fabric.graph, step);
        }
        let Some(faults) = one_dead_part(&fabric.graph, is_link, at) else { return Ok(()) };
        let before = engine.clone();
        let tables = table_entries(&fabric.graph, engine.plan());
        engine.set_faults(faults.clone());
        let is_live = |port: PortId| faults.port_is_live(&fabric.graph, port);
        let trees = |mgid: Mgid| before.group_trees(mgid);
        let is_dead = |mgid: Mgid, tree: usize| {
            trees(mgid).get(tree).is_none_or(|tree| tree.links.iter().any(|link| !is_live(link.0)))
        };
        let lost_one = |mgid: &Mgid| trees(*mgid).len() == 2 && (is_dead(*mgid, 0) || is_dead(*mgid, 1));
        let spared = before.groups().into_iter().all(|mgid| {
            trees(mgid).is_empty() || !is_dead(mgid, 0) || !is_dead(mgid, 1)
        });
        let no_other_change = before.plan().moved().is_empty()
            && before.plan().unrouted().is_empty()
            && engine.plan().cut_off().eq(before.plan().cut_off());
        prop_assume!(spared && no_other_change);
        prop_assert_eq!(table_entries(&fabric.graph, engine.plan()), tables);
        let named: BTreeSet<Mgid> = engine.plan().unprotected().map(|one| one.mgid).collect();
        for mgid in before.groups().iter().filter(|mgid| lost_one(mgid)) {
            prop_assert!(named.contains(mgid), "group {}", mgid.0);
        }
    }

    /// Choices can be written down and chosen again, and both engines go on alike.
    #[test]
    fn recorded_choices_bring_pairs_back(
        fabric in fabric(), colors in 1u16..5, scope in any_scope(),
        history in steps(30), future in steps(10),
    ) {
        let Some(mut engine) = pairs(&fabric, colors, scope) else { return Ok(()) };
        let mut other = pairs(&fabric, colors, scope).expect("the same options");
        check_restored(&fabric.graph, (&mut engine, &mut other), (&history, &future))?;
    }
}

/// The laws above would be empty if the random cases had no pairs, or never merged or lost one.
#[test]
fn the_random_cases_have_pairs_of_every_kind() {
    let wanted = [
        "2 levels",
        "3 levels",
        "4 levels",
        "merged (PerPort, Tn)",
        "merged (PerPort, TnGroup)",
        "merged (PerSwitch, Tn)",
        "moved",
        "another root Tn",
        "another root TnGroup",
        "unprotected Dead",
        "unprotected Missing",
    ];
    let cases = (fabric(), any_scope(), steps(40));
    check_cover(&cases, &wanted, |(fabric, scope, history), seen| {
        let Some(mut engine) = pairs(&fabric, 3, scope) else { return };
        for step in &history {
            make(&mut engine, &fabric.graph, step);
            let plan = engine.plan();
            seen.insert(format!("{} levels", fabric.fat_tree.params().levels));
            let merged = plan.virtual_groups().any(|group| group.groups.len() > 1);
            seen.extend(merged.then(|| format!("merged {scope:?}")));
            seen.extend((!plan.moved().is_empty()).then(|| "moved".to_owned()));
            let chosen = engine.choices().iter().any(|choice| choice.root > 0);
            seen.extend(chosen.then(|| format!("another root {:?}", scope.1)));
            note_reasons(plan, seen);
        }
    });
}
