//! Rules R1 to R4 as laws over random fabrics, faults and histories.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

mod better_homes;
mod dynamic_pairs;
mod dynamic_root;
mod fabrics;
mod fault_preview;
mod hybrid;
mod hybrid_directors;
mod incremental;
mod known_cases;
mod oracle;
mod policies;
mod stay;
mod tables;

use std::collections::{BTreeMap, BTreeSet};

use fabricast_routing::verify::{Options, Report, Senders, verify};
use fabricast_routing::{
    Change, GroupTree, PartBuilder, Plan, PlannedTree, RoutingEngine, VirtualGroup, metrics,
    table_entries,
};
use fabricast_topology::{EndpointId, Graph, Mgid};
use proptest::prelude::*;

use fabrics::{Step, any_way, fabric, faults, faults_of, make, steps};
use oracle::{Oracle, answer_of};

/// Groups by MGID with random members.
type Groups = BTreeMap<u32, BTreeSet<u32>>;

fn puts(least: usize, most: usize) -> impl Strategy<Value = Groups> {
    let members = proptest::collection::btree_set(any::<u32>(), 0..6);
    let mgids = 0..u32::try_from(most).expect("a small number") * 2;
    proptest::collection::btree_map(mgids, members, least..=most)
}

fn changes(graph: &Graph, groups: Groups) -> Vec<Change> {
    let endpoints = u32::try_from(graph.endpoint_count()).expect("a small fabric");
    let put = |(mgid, members): (u32, BTreeSet<u32>)| {
        let members: BTreeSet<_> =
            members.into_iter().map(|at| EndpointId(at % endpoints)).collect();
        Change::Put { mgid: Mgid(mgid), members: members.into_iter().collect() }
    };
    groups.into_iter().map(put).collect()
}

/// The same plan with one part for each color.
fn by_color(plan: &Plan) -> Plan {
    let mut listed = Plan::listed(plan.colors(), plan.tables());
    for color in 0..plan.colors() {
        let mut part = PartBuilder::new(u32::from(color), color);
        let planned = |group: &VirtualGroup<'_>| PlannedTree {
            root: group.root,
            ports: group.ports.iter().rev().copied().collect(),
            groups: group
                .groups
                .iter()
                .map(|mgid| (*mgid, plan.group(*mgid).expect("it is in the plan").live_members))
                .collect(),
        };
        for group in plan.virtual_groups().filter(|group| group.color == color) {
            part.add(planned(&group));
            for mgid in group.groups {
                plan.group(*mgid)
                    .expect("it is in the plan")
                    .cut_off
                    .iter()
                    .for_each(|cut| part.cut_off(*cut));
            }
        }
        listed.set_part(u32::from(color), part);
    }
    listed
}

/// Sends a packet from every live member of every routed group.
fn check(graph: &Graph, engine: &dyn RoutingEngine) -> Report {
    let options = Options {
        colors: engine.plan().colors(),
        tables: engine.plan().tables(),
        senders: Senders::All,
        list: 5,
    };
    let entries = table_entries(graph, engine.plan());
    verify(graph, engine.faults(), &engine.delivery_groups(), &entries, options)
}

/// R1, R2, R4: packets through the tables reach whom they must, within the colors there are.
fn check_rules(graph: &Graph, engine: &dyn RoutingEngine) -> Result<Report, TestCaseError> {
    let report = check(graph, engine);
    prop_assert_eq!(&report.violations, &vec![]);
    let figures = metrics(graph, engine.plan());
    prop_assert!(figures.max_entries <= u32::from(engine.plan().colors()));
    prop_assert_eq!(figures.groups as usize, report.groups);
    Ok(report)
}

/// Choices can be written down and chosen again by an engine that knows nothing of the history, and
/// both go on alike.
fn check_restored(
    graph: &Graph,
    (engine, other): (&mut dyn RoutingEngine, &mut dyn RoutingEngine),
    (history, future): (&[Step], &[Step]),
) -> Result<(), TestCaseError> {
    for step in history {
        make(engine, graph, step);
    }
    other.set_faults(engine.faults().clone());
    let groups = engine.groups().into_iter();
    let puts = groups.map(|mgid| Change::Put { mgid, members: engine.members(mgid).unwrap() });
    other.apply(&puts.collect::<Vec<_>>()).unwrap();
    other.restore(&engine.choices()).unwrap();
    prop_assert_eq!(other.plan(), engine.plan());
    prop_assert_eq!(other.choices(), engine.choices());
    for step in future {
        make(engine, graph, step);
        make(other, graph, step);
        prop_assert_eq!(other.plan(), engine.plan(), "after {:?}", step);
    }
    Ok(())
}

/// Checks that random cases meet all that the laws about them are for.
fn check_cover<S: Strategy>(
    cases: &S,
    wanted: &[&str],
    mut look: impl FnMut(S::Value, &mut BTreeSet<String>),
) {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = BTreeSet::new();
    for _ in 0..300 {
        look(cases.new_tree(&mut runner).unwrap().current(), &mut seen);
    }
    for case in wanted {
        assert!(seen.contains(*case), "no case of {case:?}, only {seen:?}");
    }
}

/// Notes why groups are elsewhere, and why some have no second tree.
fn note_reasons(plan: &Plan, seen: &mut BTreeSet<String>) {
    let mut note = |what: &str, why: String| {
        seen.insert(format!("{what} {}", why.split(' ').next().unwrap()));
    };
    plan.moved().iter().for_each(|one| note("moved", format!("{:?}", one.why)));
    plan.unprotected().for_each(|one| note("unprotected", format!("{:?}", one.link)));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    /// R3: after every step of any history the plan is the one computed from scratch.
    #[test]
    fn incremental_equals_from_scratch(
        fabric in fabric(), colors in 1u16..5, way in any_way(), history in steps(40),
    ) {
        let mut engine = fabric.engine(colors, way);
        for step in &history {
            make(&mut engine, &fabric.graph, step);
            prop_assert_eq!(engine.plan(), &engine.plan_from_scratch(), "after {:?}", step);
        }
    }

    /// The engine does what the rules say, as a second, naive telling of them has it.
    #[test]
    fn the_plan_is_what_the_rules_say(
        fabric in fabric(), colors in 1u16..5, way in any_way(), history in steps(40),
    ) {
        let mut engine = fabric.engine(colors, way);
        for step in &history {
            make(&mut engine, &fabric.graph, step);
        }
        let faults = engine.faults().clone();
        let oracle = Oracle { fabric: &fabric, faults: &faults, engine: &engine };
        prop_assert_eq!(answer_of(&engine), oracle.answer());
    }

    /// R1, R2, R4: packets through the tables reach whom they must, and no row is stale.
    #[test]
    fn packets_reach_exactly_the_members(
        fabric in fabric(), colors in 1u16..5, way in any_way(), history in steps(40),
    ) {
        let mut engine = fabric.engine(colors, way);
        for step in &history {
            make(&mut engine, &fabric.graph, step);
        }
        let report = check_rules(&fabric.graph, &engine)?;
        prop_assert!(report.is_clean());
        // Dead links stay in the trees of a pair.
        prop_assert!(report.unused_entries == 0 || engine.plan().unprotected().next().is_some());
    }

    /// R3: one batch, one at a time, backwards: the same plan. (Purity makes this hold
    /// without the condition on colors too.)
    #[test]
    fn the_order_of_creation_does_not_matter(
        fabric in fabric(), colors in 1u16..5, way in any_way(),
        groups in puts(1, 20),
        broken in faults(),
    ) {
        let puts = changes(&fabric.graph, groups);
        let broken = faults_of(&fabric.graph, &broken);
        let mut at_once = fabric.engine(colors, way);
        at_once.apply(&puts).unwrap();
        at_once.set_faults(broken.clone());
        let mut backwards = fabric.engine(colors, way);
        backwards.set_faults(broken);
        for put in puts.iter().rev() {
            backwards.apply(std::slice::from_ref(put)).unwrap();
        }
        prop_assert_eq!(at_once.plan(), backwards.plan());
    }

    /// Lemma 1 and theorem 2: while the condition of R3 holds, a new or growing group takes no
    /// link from any other.
    #[test]
    fn no_group_loses_a_link_when_another_comes(
        fabric in fabric(), colors in 1u16..5, way in any_way(), history in steps(30),
    ) {
        let mut engine = fabric.engine(colors, way);
        for step in history.iter().filter(|step| matches!(step, Step::Put(..) | Step::Join(..))) {
            let mgid = match step {
                Step::Put(mgid, _) | Step::Join(mgid, _) => Mgid(*mgid),
                Step::Leave(..) | Step::Delete(_) | Step::Faults(_) => continue,
            };
            if matches!(step, Step::Put(..)) && engine.members(mgid).is_some() {
                continue; // it could shrink
            }
            let before = engine.clone();
            make(&mut engine, &fabric.graph, step);
            if !engine.plan().moved().is_empty() || !engine.plan().unrouted().is_empty() {
                break; // the condition is breached from here on
            }
            for other in before.groups().filter(|other| *other != mgid) {
                for tree in before.group_trees(other) {
                    let trees = engine.plan().virtual_group_trees(other);
                    let now = trees.into_iter().find(|one| one.tree == tree.tree).unwrap();
                    let links = tree.links.iter().flat_map(|(a, b)| [a, b]);
                    let mut ports = links.chain(&tree.member_ports);
                    prop_assert!(ports.all(|port| now.ports.contains(port)), "group {}", other.0);
                }
            }
        }
    }

    /// Large batches, which settle whole rounds, do what small steps do: made at once, then changed
    /// at once.
    #[test]
    fn bulk_equals_one_by_one(
        fabric in fabric(), colors in 1u16..5, way in any_way(),
        first in puts(64, 90), second in puts(64, 90), join in any::<bool>(),
    ) {
        let mut engine = fabric.engine(colors, way);
        let mut slow = fabric.engine(colors, way);
        if join {
            // Makes the engine keep its index of members through the batches.
            make(&mut engine, &fabric.graph, &Step::Put(500, vec![0]));
            make(&mut slow, &fabric.graph, &Step::Put(500, vec![0]));
        }
        for groups in [first, second] {
            let puts = changes(&fabric.graph, groups);
            engine.apply(&puts).unwrap();
            for put in &puts {
                slow.apply(std::slice::from_ref(put)).unwrap();
            }
            prop_assert_eq!(engine.plan(), slow.plan());
            prop_assert_eq!(engine.plan(), &engine.plan_from_scratch());
        }
    }

    /// A plan put together color by color, as engines without spanning trees do it, says the same.
    #[test]
    fn a_plan_by_colors_implies_the_same_tables(
        fabric in fabric(), colors in 1u16..5, (tables, _) in any_way(), history in steps(20),
    ) {
        let mut engine = fabric.engine(colors, (tables, false));
        for step in &history {
            make(&mut engine, &fabric.graph, step);
        }
        let listed = by_color(engine.plan());
        let graph = &fabric.graph;
        prop_assert_eq!(table_entries(graph, &listed), table_entries(graph, engine.plan()));
        prop_assert_eq!(metrics(graph, &listed), metrics(graph, engine.plan()));
        for group in engine.plan().groups() {
            let found = listed.group(group.mgid).unwrap();
            prop_assert_eq!((found.color, found.virtual_group), (group.color, group.virtual_group));
            prop_assert_eq!(found.cut_off, group.cut_off);
            let live = engine.live_members(group.mgid).unwrap();
            let ports = live.iter().map(|member| graph.attachment(*member).unwrap()).collect();
            let cut = listed.virtual_group_of(group.mgid).and_then(|shared| GroupTree::cut_out(graph, &shared, ports));
            let cut: Vec<GroupTree> = cut.filter(|_| group.has_tree()).into_iter().collect();
            prop_assert_eq!(cut, engine.group_trees(group.mgid));
        }
    }

    /// A row that is gone never goes unnoticed, nor does an output where nothing is merged. (In a
    /// merged tree some outputs lead from one group's links to another's only, and nobody misses
    /// them.)
    #[test]
    fn the_verifier_sees_damage(
        fabric in fabric(), (tables, _) in any_way(), history in steps(20), at in any::<usize>(),
        whole_row in any::<bool>(),
    ) {
        let mut engine = fabric.engine(3, (tables, false));
        for step in &history {
            make(&mut engine, &fabric.graph, step);
        }
        let mut entries = table_entries(&fabric.graph, engine.plan());
        prop_assume!(!entries.is_empty());
        let at = at % entries.len();
        let broken = entries[at];
        let merged = engine.plan().virtual_groups().any(|group| group.groups.len() > 1);
        if whole_row || merged {
            entries.remove(at);
        } else {
            let output = broken.out.iter().next().unwrap();
            entries[at].out.remove(output);
        }
        let options = Options { colors: 3, tables, senders: Senders::All, list: 5 };
        let groups = engine.delivery_groups();
        let report = verify(&fabric.graph, engine.faults(), &groups, &entries, options);
        prop_assert!(!report.is_clean(), "without {:?}", broken);
    }
}

/// The laws above would be empty if the random cases never met what they are about.
#[test]
fn the_random_cases_cover_what_they_should() {
    let wanted = [
        "1 levels",
        "2 levels, lanes false",
        "2 levels, lanes true",
        "3 levels, lanes false",
        "3 levels, lanes true",
        "4 levels, lanes false",
        "4 levels, lanes true",
        "3 levels, shared",
        "4 levels, shared",
        "LinkDown",
        "LeafCutOff",
        "moved TreeBroken",
        "moved ColorHeld",
        "unrouted",
        "merged PerPort single",
        "merged PerPort dual",
        "merged PerSwitch single",
        "merged PerSwitch dual",
        "unprotected Dead",
        "unprotected Missing",
    ];
    let cases = (fabric(), any_way(), steps(40));
    check_cover(&cases, &wanted, |(fabric, way, history), seen| {
        let params = *fabric.fat_tree.params();
        let mut engine = fabric.engine(3, way);
        seen.insert(format!("{} levels", params.levels));
        seen.insert(format!("{} levels, lanes {}", params.levels, engine.layout().lanes() > 1));
        if fabric.fat_tree.shares_tops() {
            seen.insert(format!("{} levels, shared", params.levels));
        }
        for step in &history {
            make(&mut engine, &fabric.graph, step);
            let plan = engine.plan();
            seen.extend(plan.cut_off().map(|cut| format!("{:?}", cut.why)));
            note_reasons(plan, seen);
            seen.extend(plan.unrouted().first().map(|_| "unrouted".to_owned()));
            let merged = plan.virtual_groups().any(|group| group.groups.len() > 1);
            let kind = if plan.is_dual() { "dual" } else { "single" };
            seen.extend(merged.then(|| format!("merged {:?} {kind}", way.0)));
        }
    });
}
