//! Trees that keep to an order of the switches: no channels wait for each other in a cycle.

use std::sync::Arc;

use fabricast_routing::{
    Change, CutOffReason, EngineKind, EngineOptions, Mr4lms, Mr4lmsOptions, RoutingEngine, UpDown,
    build_engine,
};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{EndpointId, Faults, Graph, Mgid, PortId, SplitMix, SwitchId, TableKind};
use proptest::prelude::*;

use crate::fabrics::{act, fabric, fat_tree, options, steps};
use crate::{check, engine};

fn generated(spec: &str) -> Arc<Graph> {
    Arc::new(TopologySpec::parse(spec).expect("sound").generate().expect("sound"))
}

/// Groups of eight, drawn by chance, more than the entries have room for.
fn many_groups(graph: &Graph, count: u32) -> Vec<Change> {
    let mut chance = SplitMix::new(7);
    let endpoints = u32::try_from(graph.endpoint_count()).expect("a small fabric");
    let mut group = |mgid| {
        let mut members: Vec<EndpointId> =
            (0..8).map(|_| EndpointId(chance.below(endpoints))).collect();
        members.sort_unstable();
        members.dedup();
        Change::Put { mgid: Mgid(mgid), members }
    };
    (0..count).map(&mut group).collect()
}

/// Found by `fabricast eval broadcast`: merged trees that go down to a leaf switch and up again
/// made the lossless fabric of the simulator deadlock.
#[test]
fn merged_trees_on_fat_trees_close_no_cycle_unless_asked_for() {
    let leaf_spine = "kind = 'leaf-spine'\nleaves = 8\nspines = 4\nendpoints_per_leaf = 4";
    let three_levels = "kind = 'k-ary-3-level'\nk = 6";
    for (spec, tables, colors) in [
        (leaf_spine, TableKind::PerPort, 8),
        (three_levels, TableKind::PerPort, 16),
        (three_levels, TableKind::PerSwitch, 16),
    ] {
        let graph = generated(spec);
        let cycle = |deadlock_free| {
            let options = EngineOptions { deadlock_free, ..EngineOptions::new(colors, tables) };
            let made = build_engine(EngineKind::Mr4lms, graph.clone(), None, options);
            let mut engine = made.expect("valid options");
            engine.apply(&many_groups(&graph, 60)).expect("valid groups");
            let report = check(&*engine);
            assert_eq!(report.violations, []);
            assert_eq!(engine.plan().unrouted(), []);
            report.cycle
        };
        assert_eq!(cycle(None), None, "{spec}, {tables:?}");
        let found = cycle(Some(false)).expect("merged trees go down and up again");
        assert!(found.is_of_multicast(), "{spec}, {tables:?}");
    }
}

/// The chain leaf, spine, leaf, spine, leaf: the outer leaves are connected only by a valley.
#[test]
fn members_that_only_a_valley_connects_are_named() {
    let graph = generated("kind = 'leaf-spine'\nleaves = 3\nspines = 2\nendpoints_per_leaf = 2");
    let mut faults = Faults::new();
    let up = |leaf: u32, spine: u32| -> PortId {
        let links = fabricast_routing::SwitchLinks::new(&graph, &Faults::new());
        let link = links.of(SwitchId(leaf)).find(|link| link.to == SwitchId(3 + spine));
        link.expect("they are linked").port
    };
    faults.fail_link(&graph, up(0, 1));
    faults.fail_link(&graph, up(2, 0));
    let ordered =
        Mr4lmsOptions { deadlock_free: true, ..Mr4lmsOptions::new(4, TableKind::PerPort) };
    let mut engine = engine(&graph, ordered);
    let members = vec![EndpointId(0), EndpointId(1), EndpointId(4)];
    engine.apply(&[Change::Put { mgid: Mgid(1), members: members.clone() }]).unwrap();
    assert_eq!(engine.live_members(Mgid(1)), Some(members.clone()));
    engine.set_faults(faults);
    let group = engine.plan().group(Mgid(1)).unwrap();
    let cut_off: Vec<_> = group.cut_off.iter().map(|cut| (cut.endpoint, cut.why)).collect();
    assert_eq!(cut_off, [(EndpointId(4), CutOffReason::OnlyThroughValley)]);
    engine.set_faults(Faults::new());
    assert_eq!(engine.live_members(Mgid(1)), Some(members));
}

/// R1, R2, R4, no cycle, and all members served or named.
fn is_sound(engine: &Mr4lms) -> Result<(), TestCaseError> {
    let report = check(engine);
    prop_assert_eq!(&report.violations, &vec![]);
    prop_assert_eq!(&report.cycle, &None);
    for mgid in engine.groups() {
        let members = engine.members(mgid).expect("it is listed").len();
        match engine.plan().group(mgid) {
            Some(group) => {
                prop_assert_eq!(group.live_members as usize + group.cut_off.len(), members);
                let has_trees = !engine.group_trees(mgid).is_empty();
                prop_assert_eq!(has_trees, group.has_tree());
            }
            None => {
                prop_assert!(engine.plan().unrouted().iter().any(|one| one.mgid == mgid));
            }
        }
    }
    Ok(())
}

fn ordered() -> impl Strategy<Value = Mr4lmsOptions> {
    options().prop_map(|options| Mr4lmsOptions { deadlock_free: true, ..options })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// On fabrics of all shapes, whatever comes and goes and fails.
    #[test]
    fn no_history_closes_a_cycle(
        fabric in fabric(), options in ordered(), history in steps(30),
    ) {
        let mut engine = engine(&fabric, options);
        for step in &history {
            let Some(act) = act(&engine, step) else { continue };
            act.make(&mut engine);
            is_sound(&engine)?;
        }
    }

    /// On whole fat trees every group has a tree, and nobody is left out.
    #[test]
    fn whole_fat_trees_serve_all(
        fabric in fat_tree(), options in ordered(), history in steps(30),
    ) {
        prop_assume!(UpDown::of_levels(&fabric).is_some());
        let mut engine = engine(&fabric, options);
        for step in &history {
            let Some(change) = step.change(&engine) else { continue };
            engine.apply(&[change]).unwrap();
            is_sound(&engine)?;
            prop_assert_eq!(engine.plan().unrouted(), &[]);
            prop_assert_eq!(engine.plan().cut_off().count(), 0);
        }
    }

    /// Trees of an engine that kept to no order are replaced where they do not.
    #[test]
    fn recorded_trees_with_a_valley_are_replaced(
        fabric in fabric(), options in options(), history in steps(30),
    ) {
        let mut old = engine(&fabric, options);
        for step in &history {
            if let Some(act) = act(&old, step) {
                act.make(&mut old);
            }
        }
        let mut new = engine(&fabric, Mr4lmsOptions { deadlock_free: true, ..options });
        new.set_faults(old.faults().clone());
        let put = |mgid| Change::Put { mgid, members: old.members(mgid).expect("it is listed") };
        let puts: Vec<Change> = old.groups().into_iter().map(put).collect();
        new.apply(&puts).expect("groups that another engine has");
        if new.restore(&old.choices()).is_ok() {
            is_sound(&new)?;
        }
    }
}
