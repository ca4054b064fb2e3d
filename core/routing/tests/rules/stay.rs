//! Groups that stay where a dead link has sent them, when it is back.

use std::collections::BTreeMap;

use fabricast_routing::{
    Change, Displacement, FixedRootEngine, RecordedChoice, RestoreProblem, RoutingEngine,
};
use fabricast_topology::{Faults, Mgid, TableKind};
use proptest::prelude::*;

use crate::check;
use crate::fabrics::{Step, any_way, fabric, make, steps};

/// Places of all routed groups with a tree.
fn places(engine: &FixedRootEngine) -> BTreeMap<Mgid, u32> {
    let routed = engine.plan().groups().filter(|group| group.has_tree());
    routed.map(|group| (group.mgid, group.part)).collect()
}

fn refill(from: &FixedRootEngine, to: &mut FixedRootEngine) {
    let put = |mgid| Change::Put { mgid, members: from.members(mgid).expect("it is listed") };
    let puts: Vec<Change> = from.groups().map(put).collect();
    to.apply(&puts).expect("the same groups");
    to.set_faults(from.faults().clone());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// The plan is a function of faults, groups and homes; packets arrive; and the record brings it
    /// back.
    #[test]
    fn the_record_says_all_there_is_to_say(
        fabric in fabric(), colors in 1u16..5, way in any_way(), history in steps(40),
    ) {
        let mut engine = fabric.staying(colors, way);
        for step in &history {
            make(&mut engine, &fabric.graph, step);
            prop_assert_eq!(engine.plan(), &engine.plan_from_scratch(), "after {:?}", step);
        }
        let report = check(&fabric.graph, &engine);
        prop_assert_eq!(&report.violations, &vec![]);
        let mut other = fabric.staying(colors, way);
        refill(&engine, &mut other);
        other.restore(&engine.choices()).unwrap();
        prop_assert_eq!(other.plan(), engine.plan());
        prop_assert_eq!(other.choices(), engine.choices());
        make(&mut other, &fabric.graph, &Step::Put(7, vec![0, 5, 9]));
        make(&mut engine, &fabric.graph, &Step::Put(7, vec![0, 5, 9]));
        prop_assert_eq!(other.plan(), engine.plan());
    }

    /// Healing moves no group but those that had no room or no tree.
    #[test]
    fn healing_moves_nobody(
        fabric in fabric(), colors in 1u16..5, way in any_way(), history in steps(30),
    ) {
        let mut engine = fabric.staying(colors, way);
        for step in &history {
            make(&mut engine, &fabric.graph, step);
        }
        let before = places(&engine);
        let unsettled = |moved: &&fabricast_routing::Moved| moved.why != Displacement::Stayed;
        let elsewhere: Vec<Mgid> =
            engine.plan().moved().iter().filter(unsettled).map(|moved| moved.mgid).collect();
        let broken = engine.clone();
        engine.set_faults(Faults::new());
        let after = places(&engine);
        for (mgid, part) in before.iter().filter(|(mgid, _)| !elsewhere.contains(mgid)) {
            // A group that got members back may need a link that has never been there, or find its
            // color in use by them.
            let has_others = engine.live_members(*mgid) != broken.live_members(*mgid);
            let is_held = engine.plan().moved().iter().any(|moved| {
                moved.mgid == *mgid && matches!(moved.why, Displacement::ColorHeld { .. })
            });
            let is_unrouted = engine.plan().unrouted().iter().any(|one| one.mgid == *mgid);
            let may_move = has_others || is_held || is_unrouted;
            prop_assert!(after.get(mgid) == Some(part) || may_move, "group {}", mgid.0);
        }
    }
}

/// Two spines: a dead link sends the group to the other one, where it stays; without the option it
/// returns.
#[test]
fn a_group_stays_if_it_is_told_to() {
    let spec = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nendpoints_per_leaf = 2\n";
    let fabric = crate::fabrics::Fabric::new(spec.to_owned(), None).unwrap();
    for stays in [true, false] {
        let way = (TableKind::PerPort, false);
        let mut engine = if stays { fabric.staying(1, way) } else { fabric.engine(1, way) };
        make(&mut engine, &fabric.graph, &Step::Put(0, vec![0, 2]));
        let home = engine.plan().clone();
        let link = engine.group_trees(Mgid(0))[0].links[0].0;
        let mut faults = Faults::new();
        faults.fail_link(&fabric.graph, link);
        engine.set_faults(faults);
        let moved = engine.plan().clone();
        assert_eq!((moved.group(Mgid(0)).unwrap().part, moved.moved().len()), (1, 1));
        engine.set_faults(Faults::new());
        let part = engine.plan().group(Mgid(0)).unwrap().part;
        assert_eq!(part, if stays { 1 } else { 0 });
        assert_eq!(engine.plan() == &home, !stays);
        assert_eq!(engine.choices().len(), usize::from(stays));
        // A group created anew starts at home.
        engine.apply(&[Change::Delete { mgid: Mgid(0) }]).unwrap();
        make(&mut engine, &fabric.graph, &Step::Put(0, vec![0, 2]));
        assert_eq!(engine.plan(), &home);
    }
}

#[test]
fn a_record_that_does_not_fit_is_refused() {
    let spec = "kind = \"leaf-spine\"\nleaves = 2\nspines = 2\nendpoints_per_leaf = 2\n";
    let fabric = crate::fabrics::Fabric::new(spec.to_owned(), None).unwrap();
    let mut engine = fabric.staying(1, (TableKind::PerPort, false));
    make(&mut engine, &fabric.graph, &Step::Put(0, vec![0, 2]));
    let before = engine.plan().clone();
    let good = RecordedChoice { mgid: Mgid(0), tree: 0, part: 1, root: 0, ports: Vec::new() };
    let cases = [
        (vec![RecordedChoice { mgid: Mgid(9), ..good.clone() }], RestoreProblem::UnknownGroup),
        (vec![good.clone(), good.clone()], RestoreProblem::Twice),
        (vec![RecordedChoice { part: 2, ..good.clone() }], RestoreProblem::UnknownTree),
        (vec![RecordedChoice { root: 1, ..good.clone() }], RestoreProblem::UnknownTree),
    ];
    for (choices, problem) in cases {
        assert_eq!(engine.restore(&choices).unwrap_err().problem, problem);
        assert_eq!(engine.plan(), &before);
    }
    engine.restore(std::slice::from_ref(&good)).unwrap();
    assert_eq!(engine.plan().group(Mgid(0)).unwrap().part, 1);
    engine.restore(&[]).unwrap();
    assert_eq!(engine.plan(), &before);
    let mut other = fabric.engine(1, (TableKind::PerPort, false));
    make(&mut other, &fabric.graph, &Step::Put(0, vec![0, 2]));
    let refused = other.restore(&[good]).unwrap_err().problem;
    assert!(matches!(refused, RestoreProblem::NothingToChoose { .. }));
}
