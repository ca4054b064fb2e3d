//! An engine that makes recorded choices again is from then on the same engine.

use std::sync::Arc;

use fabricast_routing::{
    Change, MergePartner, MergePolicy, Mr4lms, Mr4lmsOptions, RecordedChoice, RestoreProblem,
    RoutingEngine,
};
use fabricast_topology::spec::TopologySpec;
use fabricast_topology::{EndpointId, Faults, Graph, Mgid, PortId, TableKind};
use proptest::prelude::*;

use crate::fabrics::{Step, act, all_options, dragonfly, fabric, steps, wire};
use crate::{check, engine};

/// Makes an engine that knows the groups and faults of another one, but nothing of its past.
fn successor(old: &Mr4lms) -> Mr4lms {
    let mut new = engine(old.graph(), *old.options());
    new.set_faults(old.faults().clone());
    let put = |mgid| Change::Put { mgid, members: old.members(mgid).expect("it is listed") };
    let puts: Vec<Change> = old.groups().into_iter().map(put).collect();
    new.apply(&puts).expect("groups that another engine has");
    new
}

/// Lets an engine go through a past, and it and its successor through a future.
fn same_again(
    fabric: &Arc<Graph>,
    options: Mr4lmsOptions,
    past: &[Step],
    future: &[Step],
) -> Result<(), TestCaseError> {
    let mut old = engine(fabric, options);
    for step in past {
        if let Some(act) = act(&old, step) {
            act.make(&mut old);
        }
    }
    let mut new = successor(&old);
    let choices = old.choices();
    new.restore(&choices).expect("choices of the same groups");
    prop_assert_eq!(new.plan(), old.plan());
    prop_assert_eq!(new.choices(), choices);
    for step in future {
        let Some(act) = act(&old, step) else { continue };
        act.make(&mut old);
        act.make(&mut new);
        prop_assert_eq!(new.plan(), old.plan(), "after {:?}", act);
    }
    Ok(())
}

/// Ten endpoints of a switch whose one cable leads back to it, and two groups with a color for one.
#[test]
fn one_color_goes_to_the_same_group_again() {
    let fabric = wire((2, vec![(0, 0)], vec![0; 11]));
    let options = Mr4lmsOptions {
        merge_policy: MergePolicy::Keep,
        merge_partner: MergePartner::Nearest,
        successes_in_a_row: 1,
        ..Mr4lmsOptions::new(1, TableKind::PerPort)
    };
    let past = [
        Step::Put(0, vec![3_760_646_281, 3_952_586]),
        Step::Put(1, vec![3_027_640_705, 5_147_702]),
    ];
    same_again(&fabric, options, &past, &[Step::Put(0, vec![])]).unwrap();
}

/// A group in the way of another one is led aside when they are merged: the two have one tree then,
/// and meet nowhere in it but at a switch.
#[test]
fn groups_that_need_not_be_together_stay_together() {
    let fabric = wire((5, vec![(0, 2), (0, 3), (0, 4), (0, 1), (1, 3)], vec![1, 2, 3, 4]));
    let options = Mr4lmsOptions {
        merge_policy: MergePolicy::Rebuild,
        ..Mr4lmsOptions::new(1, TableKind::PerPort)
    };
    let [detour, healed] = [Step::Faults(vec![(2, 3)]), Step::Faults(vec![])];
    let past = [detour, Step::Put(0, vec![0, 1]), healed, Step::Put(1, vec![2, 3])];
    let mut old = engine(&fabric, options);
    for step in &past {
        act(&old, step).expect("it makes sense").make(&mut old);
    }
    assert_eq!(old.plan().virtual_groups().count(), 1);
    for mgid in [0, 1] {
        assert_eq!(old.group_trees(Mgid(mgid))[0].links.len(), 2);
    }
    same_again(&fabric, options, &past, &[Step::Put(0, vec![])]).unwrap();
}

/// With per-switch tables, too, groups can share a tree and no switch: the temporary tree of a
/// merge met one that the final tree goes round.
#[test]
fn groups_that_share_no_switch_stay_together() {
    let fabric = wire(dragonfly(3, 2, 2));
    let options = Mr4lmsOptions {
        merge_partner: MergePartner::RarestColor,
        successes_in_a_row: 1,
        ..Mr4lmsOptions::new(2, TableKind::PerSwitch)
    };
    let past = [
        Step::Put(0, vec![1_206_069_985, 2_775_918_530, 511_738_196]),
        Step::Put(1, vec![1_198_185_202, 1_844_822_568]),
        Step::Put(2, vec![2_746_510_155, 24_142_483]),
        Step::Put(3, vec![465_245_257, 53_358_165]),
        Step::Join(1, 1_320_095_577),
        Step::Put(4, vec![2_643_347_110, 909_588_812]),
        Step::Faults(vec![(0, 3_456_001_558)]),
    ];
    same_again(&fabric, options, &past, &[Step::Put(0, vec![])]).unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The plan is the same at once and after everything that comes later.
    #[test]
    fn recorded_choices_make_the_same_engine_again(
        fabric in fabric(), options in all_options(), past in steps(40), future in steps(20),
    ) {
        same_again(&fabric, options, &past, &future)?;
    }

    /// One batch that many groups leave: the order in which trees were once made must not matter.
    #[test]
    fn batches_are_the_same_on_the_same_engine(
        fabric in fabric(), options in all_options(), past in steps(40), keep in any::<u64>(),
    ) {
        let mut old = engine(&fabric, options);
        for step in &past {
            if let Some(act) = act(&old, step) {
                act.make(&mut old);
            }
        }
        let mut new = successor(&old);
        new.restore(&old.choices()).unwrap();
        let shrink = |mgid: Mgid| {
            let members = old.members(mgid).unwrap().into_iter();
            let stays = |member: &EndpointId| keep.rotate_left(7 * mgid.0) >> (member.0 % 64) & 1 == 1;
            Change::Put { mgid, members: members.filter(stays).collect() }
        };
        let batch: Vec<Change> = old.groups().into_iter().map(shrink).collect();
        old.apply(&batch).unwrap();
        new.apply(&batch).unwrap();
        prop_assert_eq!(new.plan(), old.plan());
    }

    /// Choices of another time, even spoiled ones, make a sound plan or change nothing.
    #[test]
    fn choices_of_another_time_fit_or_change_nothing(
        fabric in fabric(), options in all_options(), past in steps(30), since in steps(10),
        spoil in proptest::collection::vec((any::<usize>(), 0u8..6, any::<u32>()), 0..3),
    ) {
        let mut old = engine(&fabric, options);
        for step in &past {
            if let Some(act) = act(&old, step) {
                act.make(&mut old);
            }
        }
        let mut choices = old.choices();
        for step in &since {
            if let Some(act) = act(&old, step) {
                act.make(&mut old);
            }
        }
        for (at, what, to) in spoil {
            let count = choices.len().max(1);
            if let Some(choice) = choices.get_mut(at % count) {
                spoil_choice(choice, what, to);
            }
        }
        let mut new = successor(&old);
        let (plan, before) = (new.plan().clone(), new.choices());
        if new.restore(&choices).is_err() {
            prop_assert_eq!(new.plan(), &plan);
            prop_assert_eq!(new.choices(), before);
            return Ok(());
        }
        let report = check(&new);
        prop_assert_eq!(&report.violations, &vec![]);
        prop_assert!(report.is_clean());
        let mut again = successor(&new);
        again.restore(&new.choices()).unwrap();
        prop_assert_eq!(again.plan(), new.plan());
    }
}

fn spoil_choice(choice: &mut RecordedChoice, what: u8, to: u32) {
    match what {
        0 => choice.mgid = Mgid(to % 30),
        1 => choice.part = to % 5,
        2 => choice.root = to % 20,
        3 => choice.tree = (to % 3) as u8,
        4 => drop(choice.ports.pop()),
        _ => choice.ports.push(PortId(to % 200)),
    }
}

/// A line of four switches, two endpoints each.
fn line() -> Arc<Graph> {
    let spec = "kind = 'torus'\nx = 4\ny = 1\nz = 1\nendpoints_per_switch = 2";
    let spec = TopologySpec::parse(spec).expect("a valid description");
    Arc::new(spec.generate().expect("a valid fabric"))
}

fn put(mgid: u32, members: &[u32]) -> Change {
    let members = members.iter().copied().map(EndpointId).collect();
    Change::Put { mgid: Mgid(mgid), members }
}

/// The engine takes the lowest colors, 64 at a time; a record can begin with a higher one.
#[test]
fn the_first_choice_can_have_any_color() {
    let graph = line();
    let mut old = engine(&graph, Mr4lmsOptions::new(200, TableKind::PerPort));
    let groups: Vec<Change> = (2..150).map(|mgid| put(mgid, &[0, 2])).collect();
    old.apply(&groups).unwrap();
    old.apply(&[put(1, &[0, 2])]).unwrap();
    assert_eq!(old.plan().group(Mgid(1)).unwrap().color, 148);
    let mut new = successor(&old);
    new.restore(&old.choices()).unwrap();
    assert_eq!(new.plan(), old.plan());
}

/// Each refusal names the choice and leaves everything as it was.
#[test]
fn choices_that_do_not_fit_are_refused_by_name() {
    let graph = line();
    let mut old = engine(&graph, Mr4lmsOptions::new(2, TableKind::PerSwitch));
    // Two trees of their own; the third group has to share one.
    old.apply(&[put(1, &[0, 2]), put(2, &[1, 3]), put(3, &[0, 3]), put(4, &[5])]).unwrap();
    let good = old.choices();
    let what: Vec<(u32, u8, u32, bool)> = good
        .iter()
        .map(|choice| (choice.mgid.0, choice.tree, choice.part, choice.ports.is_empty()))
        .collect();
    assert_eq!(what, [(1, 0, 0, false), (1, 1, 0, true), (2, 0, 1, false), (3, 0, 0, true)]);
    let spoiled = |at: usize, spoil: fn(&mut RecordedChoice)| {
        let mut bad = good.clone();
        spoil(&mut bad[at]);
        bad
    };
    use RestoreProblem::{Conflict, FewerThanTwoMembers, Twice, UnknownGroup, UnknownTree};
    for (at, problem, spoil) in [
        (0, UnknownGroup, (|one| one.mgid = Mgid(9)) as fn(&mut RecordedChoice)),
        (0, FewerThanTwoMembers, |one| one.mgid = Mgid(4)),
        (0, UnknownTree, |one| one.part = 2),
        (0, UnknownTree, |one| one.root = 3),
        (0, UnknownTree, |one| one.root = 99),
        (0, UnknownTree, |one| one.tree = 2),
        (0, UnknownTree, |one| one.ports.truncate(2)),
        (0, UnknownTree, |one| one.ports.reverse()),
        (0, UnknownTree, |one| one.ports.push(PortId(9_999))),
        (1, UnknownTree, |one| one.part = 20),
        (1, UnknownTree, |one| one.root = 1),
        (2, Twice, |one| one.mgid = Mgid(1)),
        (2, Conflict, |one| one.part = 0),
        (3, UnknownTree, |one| one.root = 3),
    ] {
        let mut new = successor(&old);
        let before = (new.plan().clone(), new.choices());
        let refused = new.restore(&spoiled(at, spoil)).unwrap_err();
        assert_eq!((refused.index, refused.problem), (at, problem), "choice {at}");
        assert_eq!((new.plan().clone(), new.choices()), before);
    }
    let mut twice = good.clone();
    twice.push(good[1].clone());
    assert_eq!(successor(&old).restore(&twice).unwrap_err().problem, Twice);
}

#[test]
fn a_tree_with_a_dead_link_is_refused() {
    let graph = line();
    let mut old = engine(&graph, Mr4lmsOptions::new(2, TableKind::PerPort));
    old.apply(&[put(1, &[0, 2])]).unwrap();
    let choices = old.choices();
    let link = old.group_trees(Mgid(1))[0].links[0].0;
    let mut faults = Faults::new();
    faults.fail_link(&graph, link);
    old.set_faults(faults);
    let before = old.plan().clone();
    let refused = old.restore(&choices).unwrap_err();
    assert!(matches!(refused.problem, RestoreProblem::TreeBroken { .. }));
    assert_eq!(old.plan(), &before);
}
