//! Advice against figures that are measured a second time.

use std::collections::BTreeSet;

use fabricast_routing::formats::GroupRecord;
use fabricast_routing::{
    Advice, Change, Comparison, EngineKind, EngineOptions, GroupSource, Metrics, PerSwitchPromise,
    Preference, RootScope, Routed, RoutingEngine, Scenario, advise, build_engine, choose_engine,
    metrics,
};
use fabricast_topology::{EndpointId, Mgid, TableKind};
use proptest::prelude::*;

use crate::fabric::Fabric;

impl Fabric {
    /// The figures of an engine, without a scenario.
    fn measure(
        &self,
        kind: EngineKind,
        options: EngineOptions,
        groups: &[GroupRecord],
    ) -> (Metrics, usize) {
        let built = build_engine(kind, self.graph.clone(), self.fat_tree.clone(), options);
        let mut engine = built.expect("the colors fit");
        let put = |group: &GroupRecord| Change::Put {
            mgid: group.mgid.expect("all have one"),
            members: group.members.clone(),
        };
        engine.apply(&groups.iter().map(put).collect::<Vec<_>>()).expect("the groups fit");
        (metrics(&self.graph, engine.plan()), engine.plan().unrouted().len())
    }
}

fn records(groups: &[BTreeSet<u32>]) -> Vec<GroupRecord> {
    let record = |(mgid, members): (u32, &BTreeSet<u32>)| GroupRecord {
        mgid: Some(Mgid(mgid)),
        name: None,
        members: members.iter().copied().map(EndpointId).collect(),
    };
    (0..).zip(groups).map(record).collect()
}

fn route(scenario: &Scenario<'_>, colors: u16) -> Routed {
    scenario.route(colors).expect("it can be routed")
}

fn advice(
    scenario: &Scenario<'_>,
    colors: u16,
    routed: &dyn RoutingEngine,
    budget: u64,
) -> Vec<Advice> {
    advise(scenario, colors, routed, budget).expect("the groups can be made")
}

const FABRICS: [&str; 3] = [
    "kind = 'leaf-spine'\nleaves = 4\nspines = 2\nendpoints_per_leaf = 3\nlanes0 = 2",
    "kind = 'k-ary-3-level'\nk = 4",
    "kind = 'torus'\nx = 3\ny = 4\nz = 1\nendpoints_per_switch = 1",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    /// "Better" is said where no maximum is higher and something lower, and nowhere else; the other
    /// way round it is the opposite.
    #[test]
    fn the_verdict_is_what_measuring_both_engines_says(
        fabric in 0..FABRICS.len(),
        colors in 1u16..8,
        per_port in any::<bool>(),
        groups in proptest::collection::vec(proptest::collection::btree_set(0u32..12, 0..6), 0..14),
    ) {
        let fabric = Fabric::new(FABRICS[fabric]);
        let records = records(&groups);
        let tables = if per_port { TableKind::PerPort } else { TableKind::PerSwitch };
        let options = EngineOptions::new(colors, tables);
        let (fixed, hybrid, free) =
            (EngineKind::CMr4lmsFixed, EngineKind::CMr4lmsHybrid, EngineKind::Mr4lms);
        for (kind, others) in [
            (fixed, [hybrid, free]),
            (hybrid, [fixed, free]),
            (free, [fixed, hybrid]),
        ] {
            if fabric.fat_tree.is_none() {
                // There is nothing to compare MR4LMS with, and no C-MR4LMS.
                let scenario = fabric.scenario(free, options, GroupSource::Listed(&records));
                let routed = route(&scenario, colors);
                prop_assert_eq!(advice(&scenario, colors, &*routed.engine, u64::MAX), []);
                continue;
            }
            let scenario = fabric.scenario(kind, options, GroupSource::Listed(&records));
            let routed = route(&scenario, colors);
            let found = advice(&scenario, colors, &*routed.engine, u64::MAX);
            prop_assert_eq!(matches!(found[0], Advice::PerSwitch(_)), !per_port && kind != free);
            let measured: Vec<_> = found.iter().filter_map(measured).collect();
            let compared: Vec<_> = measured.iter().map(|one| (one.engine, one.other)).collect();
            prop_assert_eq!(compared, others.map(|other| (kind, other)), "{:?}", found);
            let figures = |kind| fabric.measure(kind, options, &records);
            for comparison in &measured {
                let (ours, theirs) = (figures(kind), figures(comparison.other));
                prop_assert_eq!(comparison.cost.metrics, ours.0);
                prop_assert_eq!(comparison.other_cost.metrics, theirs.0);
                prop_assert_eq!(comparison.verdict, verdict(&ours, &theirs));
            }
            // The best is the first of those with the least cost.
            let Some(Advice::Best(best)) = found.last() else { panic!("{found:?}") };
            let engines = [kind, others[0], others[1]];
            prop_assert_eq!(&best.tried[..], &engines[..]);
            let cost = |kind: &EngineKind| worst(&figures(*kind));
            let least = engines.iter().min_by_key(|kind| cost(kind)).unwrap();
            prop_assert_eq!(best.engine, *least);
        }
    }
}

fn measured(advice: &Advice) -> Option<Comparison> {
    match advice {
        Advice::Measured(comparison) => Some(*comparison),
        Advice::PerSwitch(_)
        | Advice::Estimated(_)
        | Advice::NotTried { .. }
        | Advice::Best(_)
        | Advice::Impossible { .. } => None,
    }
}

/// The cost by which engines are compared: groups without a tree, maximum EFI, maximum TFI.
fn worst((metrics, unrouted): &(Metrics, usize)) -> (usize, u32, u32) {
    (*unrouted, metrics.switch_links.max_efi, metrics.max_tfi)
}

/// The verdict on the second of two engines.
fn verdict(ours: &(Metrics, usize), theirs: &(Metrics, usize)) -> Preference {
    let (a, b) = (worst(theirs), worst(ours));
    let no_worse = a.0 <= b.0 && a.1 <= b.1 && a.2 <= b.2;
    let no_better = a.0 >= b.0 && a.1 >= b.1 && a.2 >= b.2;
    if (no_worse, no_better) != (true, true) {
        return match (no_worse, no_better) {
            (true, _) => Preference::Better,
            (_, true) => Preference::Worse,
            _ => Preference::Mixed,
        };
    }
    let means = |(metrics, _): &(Metrics, usize)| (metrics.switch_links.mean_efi, metrics.mean_tfi);
    let (a, b) = (means(theirs), means(ours));
    match (a.0 < b.0 || a.1 < b.1, a.0 > b.0 || a.1 > b.1) {
        (true, false) => Preference::Better,
        (false, true) => Preference::Worse,
        (false, false) => Preference::Same,
        (true, true) => Preference::Mixed,
    }
}

fn sets(groups: &[&[u32]]) -> Vec<GroupRecord> {
    records(&groups.iter().map(|members| members.iter().copied().collect()).collect::<Vec<_>>())
}

/// Four leaves of three endpoints, two spines with two lanes: four trees of a color per port, one
/// per switch.
#[test]
fn per_switch_tables_turn_entries_into_trees_and_switches_into_reasons_to_merge() {
    let fabric = Fabric::new(FABRICS[0]);
    // MGIDs 0 and 2 have one of two trees and meet in a switch, not on a link; 1 and 3 do not meet.
    let groups = sets(&[&[0, 1], &[3, 4], &[2, 5], &[6, 7], &[9]]);
    let scenario = fabric.scenario(
        EngineKind::CMr4lmsFixed,
        EngineOptions::new(1, TableKind::PerSwitch),
        GroupSource::Listed(&groups),
    );
    let routed = route(&scenario, 2);
    let found = advice(&scenario, 2, &*routed.engine, u64::MAX);
    let promise = PerSwitchPromise {
        entries: 2,
        trees: 2,
        trees_per_port: 8,
        groups: 4,
        merged: 2,
        stable: true,
    };
    assert_eq!(found[0], Advice::PerSwitch(promise));
    let text = found[0].to_string();
    assert!(text.contains("2 entries are 2 spanning trees (per-port tables: 8)"), "{text}");
    assert!(text.contains("merged as soon as they share a switch, here 2 of 4; "), "{text}");
    assert!(text.ends_with("from fabric, faults and groups alone (R3)"), "{text}");
    // MR4LMS uses both entries again where nobody meets.
    let text = found[2].to_string();
    assert!(text.starts_with("mr4lms does better here: "), "{text}");
    assert!(text.contains("max TFI 1 instead of 2"), "{text}");
    let text = found[3].to_string();
    assert!(
        text.contains("has the least cost of c-mr4lms-fixed, c-mr4lms-hybrid, mr4lms"),
        "{text}"
    );
    assert_eq!(found.len(), 4);
    // With fault tolerance two entries are one pair, and MR4LMS has no second trees.
    let options = EngineOptions { fault_tolerant: true, ..scenario.options };
    let dual = Scenario { options, ..scenario };
    let found = advice(&dual, 2, &*route(&dual, 2).engine, u64::MAX);
    let text = found[0].to_string();
    assert!(
        text.contains("2 entries are 1 pairs of spanning trees (per-port tables: 4)"),
        "{text}"
    );
    let impossible = |one: &Advice| matches!(one, Advice::Impossible { engine, .. } if *engine == EngineKind::Mr4lms);
    assert!(impossible(&found[2]), "{found:?}");
    let hybrid =
        |one: &Advice| measured(one).is_some_and(|one| one.other == EngineKind::CMr4lmsHybrid);
    assert!(hybrid(&found[1]), "{found:?}");
}

#[test]
fn an_engine_that_cannot_route_the_groups_is_replaced_and_that_is_told() {
    let fabric = Fabric::new(FABRICS[0]);
    let groups = sets(&[&[0, 1], &[3, 4], &[2, 5], &[6, 7], &[9]]);
    let usual = EngineOptions::new(1, TableKind::PerSwitch);
    let scenario = |kind, options| fabric.scenario(kind, options, GroupSource::Listed(&groups));
    let fixed = scenario(EngineKind::CMr4lmsFixed, usual);
    let whole = EngineOptions { root_scope: Some(RootScope::TnGroup), ..usual };
    let twice = EngineOptions { fault_tolerant: true, ..usual };
    for (kind, options) in [(EngineKind::CMr4lmsDynamic, whole), (EngineKind::Mr4lms, twice)] {
        let asked = scenario(kind, options);
        let why = asked.route(2).expect_err("it cannot be built");
        let chosen = choose_engine(&asked, 2, u64::MAX).expect("others can");
        let impossible: Vec<_> =
            chosen.advice.iter().filter(|one| matches!(one, Advice::Impossible { .. })).collect();
        assert_eq!(impossible, [&Advice::Impossible { engine: kind, why }]);
        let other = choose_engine(&asked.with_engine(EngineKind::CMr4lmsFixed), 2, u64::MAX);
        assert_eq!(chosen.engine, other.expect("it can").engine);
    }
    // Where none can, the error is that of the engine that was asked for.
    let none = Scenario { options: twice, ..fixed };
    let why = none.route(1).expect_err("a pair of trees needs two entries");
    assert_eq!(choose_engine(&none, 1, u64::MAX), Err(why));
}

/// Engines that only serve as a comparison get no advice.
#[test]
fn there_is_no_advice_on_the_global_tree() {
    let fabric = Fabric::new(FABRICS[0]);
    let groups = sets(&[&[0, 1], &[3, 4]]);
    let options = EngineOptions::new(1, TableKind::PerPort);
    let scenario = fabric.scenario(EngineKind::GlobalTree, options, GroupSource::Listed(&groups));
    assert_eq!(advice(&scenario, 2, &*route(&scenario, 2).engine, u64::MAX), []);
}

#[test]
fn without_a_budget_a_rule_of_thumb_is_told_as_such() {
    let fabric = Fabric::new(FABRICS[0]);
    let groups = sets(&[&[0, 3], &[0, 4], &[1, 5], &[2, 6]]); // four groups on the first leaf
    let scenario = fabric.scenario(
        EngineKind::CMr4lmsFixed,
        EngineOptions::new(1, TableKind::PerSwitch),
        GroupSource::Listed(&groups),
    );
    for (colors, guess) in [
        (3, Preference::Worse),
        (4, Preference::Mixed),
        (7, Preference::Mixed),
        (8, Preference::Better),
    ] {
        let routed = route(&scenario, colors);
        let found = advice(&scenario, colors, &*routed.engine, 0);
        let [Advice::PerSwitch(_), Advice::NotTried { engine }, Advice::Estimated(estimate)] =
            &found[..]
        else {
            panic!("{found:?}");
        };
        assert_eq!(*engine, EngineKind::CMr4lmsHybrid);
        assert_eq!((estimate.bound, estimate.guess), (4, guess));
        assert!(found[2].to_string().starts_with("mr4lms was not tried"), "{}", found[2]);
    }
    // With the fixed root C-MR4LMS is cheap, so it is tried however small the budget.
    let scenario = scenario.with_engine(EngineKind::Mr4lms);
    let found = advice(&scenario, 8, &*route(&scenario, 8).engine, 0);
    let [Advice::Measured(fixed), Advice::NotTried { engine }, Advice::Best(_)] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!((fixed.other, *engine), (EngineKind::CMr4lmsFixed, EngineKind::CMr4lmsHybrid));
}
