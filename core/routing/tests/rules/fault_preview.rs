//! Laws of previews of faults.

use std::collections::BTreeMap;

use fabricast_routing::{
    EngineOptions, FaultPreview, HomedGroup, KeptOut, Plan, PlannedFabric, RoutingEngine,
    preview_faults,
};
use fabricast_topology::{Faults, Mgid, PortId, SwitchId};
use proptest::prelude::*;

use crate::fabrics::{any_way, fabric, make, steps};

fn now(engine: &dyn RoutingEngine, options: EngineOptions) -> PlannedFabric {
    let homed = |mgid: Mgid| {
        let mut members = engine.members(mgid).expect("it is listed");
        members.sort_unstable();
        HomedGroup { home: mgid, members, exclusive: false }
    };
    PlannedFabric {
        graph: engine.graph().clone(),
        kind: engine.kind(),
        options,
        faults: engine.faults().clone(),
        groups: engine.groups().into_iter().map(homed).collect(),
        choices: engine.choices(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// PREVIEW-1; and a preview is the plan that the engine makes when the faults come.
    #[test]
    fn a_preview_is_what_comes(
        fabric in fabric(), colors in 1u16..5, way in any_way(), history in steps(30),
        switch in any::<prop::sample::Index>(), port in any::<prop::sample::Index>(),
    ) {
        let mut engine = fabric.engine(colors, way);
        for step in &history {
            make(&mut engine, &fabric.graph, step);
        }
        let options = EngineOptions {
            fault_tolerant: engine.plan().is_dual(),
            ..EngineOptions::new(colors, way.0)
        };
        let now = now(&engine, options);
        let same = preview_faults(&now, now.faults.clone()).expect("it is planned already");
        prop_assert_eq!(&same.before, engine.plan());
        prop_assert_eq!(same.changed, vec![]);

        let mut faults: Faults = now.faults.clone();
        let number = |index: prop::sample::Index, of: usize| {
            u32::try_from(index.index(of)).expect("a small fabric")
        };
        faults.fail_switch(SwitchId(number(switch, fabric.graph.switch_count())));
        faults.fail_link(&fabric.graph, PortId(number(port, fabric.graph.port_count())));
        let preview = preview_faults(&now, faults.clone()).expect("faults are never refused");
        let before = engine.plan().clone();
        let root = |mgid: &Mgid| Some((*mgid, engine.group_trees(*mgid).first()?.root));
        let roots: BTreeMap<Mgid, SwitchId> = preview.changed.iter().filter_map(root).collect();
        prop_assert_eq!(&preview.roots_before, &roots);
        engine.set_faults(faults);
        prop_assert_eq!(preview.changed, engine.plan().changed_groups(&before));
        prop_assert_eq!(&preview.after, engine.plan());
    }
}

/// Two groups on a fabric with two trees, each with one of its own.
///
/// - `exclusive`: of both groups.
fn apart(exclusive: [bool; 2]) -> (PlannedFabric, [Mgid; 2]) {
    let spec = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nendpoints_per_leaf = 2";
    let fabric = crate::fabrics::Fabric::new(spec.to_owned(), None).expect("a fat tree");
    let group = |home: u32, exclusive| HomedGroup {
        home: Mgid(home),
        members: [0, 2].map(|at| fabricast_topology::EndpointId(at + home % 2)).to_vec(),
        exclusive,
    };
    let tables = fabricast_topology::TableKind::PerPort;
    let with = |other: u32| PlannedFabric {
        graph: fabric.graph.clone(),
        kind: "c-mr4lms-fixed".parse().expect("an engine"),
        // One color and two spines: two trees, one for each group.
        options: EngineOptions::new(1, tables),
        faults: Faults::new(),
        groups: vec![group(0, exclusive[0]), group(other, exclusive[1])],
        choices: Vec::new(),
    };
    let is_apart = |(now, [one, other]): &(PlannedFabric, [Mgid; 2])| {
        let same = preview_faults(now, Faults::new()).expect("it can be planned");
        root(&same.before, *one) != root(&same.before, *other)
    };
    let all = [1, 3, 5, 7].map(|other| (with(other), [Mgid(0), Mgid(other)]));
    all.into_iter().find(is_apart).expect("there are two trees")
}

fn root(plan: &Plan, mgid: Mgid) -> Option<SwitchId> {
    plan.virtual_group_of(mgid)?.root
}

/// The plan that comes if the root of a group fails.
fn without_root(now: &PlannedFabric, mgid: Mgid) -> FaultPreview {
    let before = preview_faults(now, Faults::new()).expect("it can be planned").before;
    let mut faults = Faults::new();
    faults.fail_switch(root(&before, mgid).expect("it has a tree"));
    preview_faults(now, faults).expect("it can be planned")
}

/// An exclusive group whose own tree fails does not go to the tree of another one.
#[test]
fn an_exclusive_group_without_a_tree_of_its_own_is_kept_out() {
    let (now, [one, other]) = apart([true, false]);
    let preview = without_root(&now, one);
    assert_eq!(preview.kept_out, [KeptOut { mgid: one, others: 1 }]);
    assert_eq!(root(&preview.after, one), None);
    assert_eq!(root(&preview.after, other), root(&preview.before, other));
    assert!(preview.changed.contains(&one));
    assert_eq!(preview.roots_before.get(&one).copied(), root(&preview.before, one));
    assert_eq!(preview.roots_after.get(&one), None);
}

/// Of two exclusive groups on the last tree one stays: the other is alone once the first has left.
#[test]
fn of_two_exclusive_groups_on_one_tree_one_keeps_it() {
    let (now, [one, other]) = apart([true, true]);
    for failing in [one, other] {
        let preview = without_root(&now, failing);
        assert_eq!(preview.kept_out, [KeptOut { mgid: one, others: 1 }]);
        assert_eq!(root(&preview.after, one), None);
        assert!(root(&preview.after, other).is_some());
    }
}
