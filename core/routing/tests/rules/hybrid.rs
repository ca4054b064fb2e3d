//! The rules for the hybrid engine: merged only where nothing else is left, and R3 for groups that
//! are alone on the fixed root of their home.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_routing::{
    Change, DynamicRootEngine, EngineOptions, RecordedChoice, RoutingEngine, metrics,
};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{EndpointId, FatTree, Faults, Mgid, Peer, TableKind};
use proptest::prelude::*;

use crate::fabrics::{Fabric, Step, Way, any_way, fabric, make, steps};
use crate::{check_cover, check_restored, check_rules, note_reasons};

/// Makes an engine; none on fabrics without the second trees that are asked for.
fn hybrid(
    fabric: &Fabric,
    colors: u16,
    (tables, fault_tolerant): Way,
) -> Option<DynamicRootEngine> {
    let options = EngineOptions { fault_tolerant, ..EngineOptions::new(colors, tables) };
    DynamicRootEngine::hybrid(fabric.graph.clone(), fabric.fat_tree.clone(), options).ok()
}

/// The choice for a group that is alone on the fixed root of its home.
fn is_at_fixed_root(engine: &DynamicRootEngine, choice: &RecordedChoice) -> bool {
    let shared = engine.plan().virtual_group_of(choice.mgid);
    choice.root == 0
        && engine.plan().home(choice.mgid) == Some(choice.part)
        && shared.is_some_and(|shared| shared.groups.len() == 1)
}

/// Groups without a tree, and those that a step changes.
fn touched(engine: &DynamicRootEngine, step: &Step) -> BTreeSet<Mgid> {
    let unrouted = engine.plan().unrouted().iter().map(|one| one.mgid);
    let changed = match step {
        Step::Put(mgid, _) | Step::Join(mgid, _) | Step::Leave(mgid, _) | Step::Delete(mgid) => {
            Some(Mgid(*mgid))
        }
        Step::Faults(_) => None,
    };
    unrouted.chain(changed).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// R1, R2, R4: packets through the tables reach whom they must after every step.
    #[test]
    fn packets_find_their_way_in_the_hybrid_engine(
        fabric in fabric(), colors in 1u16..5, way in any_way(), history in steps(40),
    ) {
        let Some(mut engine) = hybrid(&fabric, colors, way) else { return Ok(()) };
        for step in &history {
            make(&mut engine, &fabric.graph, step);
            check_rules(&fabric.graph, &engine)?;
        }
    }

    /// R3 for groups that are alone on the fixed root of their home: the tree of each is what the
    /// engine with the fixed root gives it if there is no other group; the pair of trees is what
    /// the hybrid engine gives it then.
    #[test]
    fn a_group_alone_on_its_fixed_root_has_the_tree_of_its_mgid(
        fabric in fabric(), colors in 1u16..5, way in any_way(), history in steps(40),
    ) {
        let Some(mut engine) = hybrid(&fabric, colors, way) else { return Ok(()) };
        for step in &history {
            make(&mut engine, &fabric.graph, step);
        }
        for choice in engine.choices().iter().filter(|choice| is_at_fixed_root(&engine, choice)) {
            let mut alone: Box<dyn RoutingEngine> = match engine.plan().is_dual() {
                false => Box::new(fabric.engine(colors, way)),
                true => Box::new(hybrid(&fabric, colors, way).expect("the same options")),
            };
            alone.set_faults(engine.faults().clone());
            let members = engine.members(choice.mgid).unwrap();
            alone.apply(&[Change::Put { mgid: choice.mgid, members }]).unwrap();
            if alone.plan().moved().is_empty() {
                prop_assert_eq!(engine.group_trees(choice.mgid), alone.group_trees(choice.mgid));
            }
        }
    }

    /// A change of one group moves no other, but those that it, or a group that had no tree, is
    /// merged with.
    #[test]
    fn a_change_moves_only_groups_that_are_merged_with_it(
        fabric in fabric(), colors in 1u16..5, way in any_way(), history in steps(40),
    ) {
        let Some(mut engine) = hybrid(&fabric, colors, way) else { return Ok(()) };
        for step in &history {
            let (before, touched) = (engine.clone(), touched(&engine, step));
            make(&mut engine, &fabric.graph, step);
            if matches!(step, Step::Faults(_)) {
                continue;
            }
            for mgid in engine.groups().into_iter().filter(|mgid| !touched.contains(mgid)) {
                let shared = engine.plan().virtual_group_of(mgid);
                let company = shared.map_or(vec![], |shared| shared.groups.to_vec());
                if !company.iter().any(|mgid| touched.contains(mgid)) {
                    let trees = before.group_trees(mgid);
                    prop_assert_eq!(engine.group_trees(mgid), trees, "group {}", mgid.0);
                }
            }
        }
    }

    /// A new group is merged only if no root of any spanning tree has room for it alone.
    #[test]
    fn a_group_is_merged_only_where_nothing_else_is_left(
        fabric in fabric(), colors in 1u16..4, per_port in any::<bool>(), history in steps(40),
        members in proptest::collection::vec(any::<u32>(), 2..6),
    ) {
        let tables = if per_port { TableKind::PerPort } else { TableKind::PerSwitch };
        let mut engine = hybrid(&fabric, colors, (tables, false)).expect("one tree can be had");
        for step in &history {
            make(&mut engine, &fabric.graph, step);
        }
        let (mgid, before) = (Mgid(77), engine.plan().clone());
        make(&mut engine, &fabric.graph, &Step::Put(mgid.0, members));
        prop_assume!(before.unrouted().is_empty());
        let shared = engine.plan().virtual_group_of(mgid).map_or(0, |one| one.groups.len());
        if shared < 2 {
            return Ok(());
        }
        let choices = engine.choices();
        let at = choices.iter().position(|choice| choice.mgid == mgid).unwrap();
        for part in 0..engine.layout().space().total() {
            for root in 0.. {
                let mut choices = choices.clone();
                (choices[at].part, choices[at].root) = (part, root);
                let mut other = engine.clone();
                match other.restore(&choices) {
                    Err(error) if error.index == at && root > 0 && is_unknown(&error) => break,
                    Err(_) => {}
                    Ok(()) => {
                        let shared = other.plan().virtual_group_of(mgid).unwrap().groups.len();
                        prop_assert!(shared > 1, "alone on {}, root {}", part, root);
                    }
                }
            }
        }
    }

    /// Choices can be written down and chosen again, and both engines go on alike.
    #[test]
    fn recorded_choices_bring_the_hybrid_plan_back(
        fabric in fabric(), colors in 1u16..5, way in any_way(),
        history in steps(30), future in steps(10),
    ) {
        let Some(mut engine) = hybrid(&fabric, colors, way) else { return Ok(()) };
        let mut other = hybrid(&fabric, colors, way).expect("the same options");
        check_restored(&fabric.graph, (&mut engine, &mut other), (&history, &future))?;
    }
}

fn is_unknown(error: &fabricast_routing::RestoreError) -> bool {
    error.problem == fabricast_routing::RestoreProblem::UnknownTree
}

/// The laws above would be empty if the random cases never left a home, or never merged.
#[test]
fn the_random_cases_leave_their_homes_and_merge() {
    let wanted = [
        "merged (PerPort, false)",
        "merged (PerPort, true)",
        "merged (PerSwitch, false)",
        "merged (PerSwitch, true)",
        "moved TreeBroken",
        "moved WouldMerge",
        "root",
        "fixed root",
    ];
    let cases = (fabric(), any_way(), steps(40));
    check_cover(&cases, &wanted, |(fabric, way, history), seen| {
        let Some(mut engine) = hybrid(&fabric, 3, way) else { return };
        for step in &history {
            make(&mut engine, &fabric.graph, step);
            let plan = engine.plan();
            let merged = plan.virtual_groups().any(|group| group.groups.len() > 1);
            seen.extend(merged.then(|| format!("merged {way:?}")));
            note_reasons(plan, seen);
            let choices = engine.choices();
            seen.extend(choices.iter().any(|choice| choice.root > 0).then(|| "root".to_owned()));
            let alone = choices.iter().any(|choice| is_at_fixed_root(&engine, choice));
            seen.extend(alone.then(|| "fixed root".to_owned()));
        }
    });
}

/// Leaf i of the first CN has links to the level-1 switches 0 and 1 + i mod 3 only, and 32 groups
/// with one home go to another CN. By the links of leaves alone half of them would go over switch
/// 0, and 8 would cross each of its two up-links.
#[test]
fn groups_spread_over_the_links_of_midplanes_where_leaves_lack_links() {
    let spec = "kind = 'cn-tn-fat-tree'\nq = 8\nm = 4\np = 2\nk = 4\nw = 2\nl3_per_tn = 2\n\
                endpoints_per_leaf = 4";
    let whole = TopologySpec::parse(spec).unwrap().generate().unwrap();
    let mut absent = Faults::new();
    for leaf in 0..8 {
        let kept = ["spine0".to_owned(), format!("spine{}", 1 + leaf % 3)];
        let switch = whole.find_switch(&format!("cn0-leaf{leaf}")).unwrap();
        for port in whole.ports(switch) {
            let Peer::Switch(far) = whole.peer(port) else { continue };
            let name = whole.switch_description(whole.switch_of(far));
            if !kept.iter().any(|kept| name.ends_with(kept.as_str())) {
                absent.fail_link(&whole, port);
            }
        }
    }
    let graph = Arc::new(whole.without(&absent));
    let fat_tree = Arc::new(FatTree::detect(&graph).unwrap());
    let options = EngineOptions::new(12, TableKind::PerPort);
    let mut engine = DynamicRootEngine::hybrid(graph.clone(), fat_tree, options).unwrap();
    let total = engine.layout().space().total();
    let put = |at| Change::Put {
        mgid: Mgid(at * total),
        members: vec![EndpointId(at), EndpointId(64 + at)],
    };
    engine.apply(&(0..32).map(put).collect::<Vec<_>>()).unwrap();
    let figures = metrics(&graph, engine.plan());
    assert_eq!((figures.groups, figures.max_tfi), (32, 1));
    assert!(figures.switch_links.max_efi <= 6, "{figures:?}");
}
