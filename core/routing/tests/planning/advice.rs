//! Advice against figures that are measured a second time.

use std::collections::BTreeSet;

use fabricast_routing::formats::GroupRecord;
use fabricast_routing::{
    Advice, Change, EngineKind, EngineOptions, GroupSource, Metrics, PerSwitchPromise, Preference,
    Routed, RoutingEngine, Scenario, advise, build_engine, metrics,
};
use fabricast_topology::{EndpointId, Mgid, TableKind};
use proptest::prelude::*;

use crate::fabric::Fabric;

impl Fabric {
    /// The figures of an engine, without a scenario.
    fn measure(&self, kind: EngineKind, colors: u16, groups: &[GroupRecord]) -> (Metrics, usize) {
        let options = EngineOptions::new(colors, TableKind::PerSwitch);
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
        groups in proptest::collection::vec(proptest::collection::btree_set(0u32..12, 0..6), 0..14),
    ) {
        let fabric = Fabric::new(FABRICS[fabric]);
        let records = records(&groups);
        for (kind, other) in [
            (EngineKind::CMr4lmsFixed, EngineKind::Mr4lms),
            (EngineKind::CMr4lmsDynamic, EngineKind::Mr4lms),
            (EngineKind::Mr4lms, EngineKind::CMr4lmsFixed),
        ] {
            if fabric.fat_tree.is_none() {
                // There is nothing to compare MR4LMS with, and no C-MR4LMS.
                let scenario = fabric.scenario(EngineKind::Mr4lms, EngineOptions::new(1, TableKind::PerSwitch), GroupSource::Listed(&records));
                let routed = route(&scenario, colors);
                prop_assert_eq!(advice(&scenario, colors, &*routed.engine, u64::MAX), []);
                continue;
            }
            let scenario = fabric.scenario(kind, EngineOptions::new(1, TableKind::PerSwitch), GroupSource::Listed(&records));
            let routed = route(&scenario, colors);
            let found = advice(&scenario, colors, &*routed.engine, u64::MAX);
            let measured: Vec<_> = found
                .iter()
                .filter_map(|one| match one {
                    Advice::Measured(comparison) => Some(*comparison),
                    Advice::PerSwitch(_) | Advice::Estimated(_) | Advice::Impossible { .. } => None,
                })
                .collect();
            prop_assert_eq!(measured.len(), 1, "{:?}", found);
            let comparison = measured[0];
            prop_assert_eq!((comparison.engine, comparison.other), (kind, other));
            let (ours, theirs) =
                (fabric.measure(kind, colors, &records), fabric.measure(other, colors, &records));
            prop_assert_eq!(comparison.cost.metrics, ours.0);
            prop_assert_eq!(comparison.other_cost.metrics, theirs.0);
            let worst = |(metrics, unrouted): &(Metrics, usize)| {
                (*unrouted, metrics.switch_links.max_efi, metrics.max_tfi)
            };
            let (a, b) = (worst(&theirs), worst(&ours));
            let no_worse = a.0 <= b.0 && a.1 <= b.1 && a.2 <= b.2;
            let no_better = a.0 >= b.0 && a.1 >= b.1 && a.2 >= b.2;
            match (no_worse, no_better, comparison.verdict) {
                (true, false, verdict) => prop_assert_eq!(verdict, Preference::Better),
                (false, true, verdict) => prop_assert_eq!(verdict, Preference::Worse),
                (false, false, verdict) => prop_assert_eq!(verdict, Preference::Mixed),
                (true, true, verdict) => {
                    let means = |(metrics, _): &(Metrics, usize)| {
                        (metrics.switch_links.mean_efi, metrics.mean_tfi)
                    };
                    let (a, b) = (means(&theirs), means(&ours));
                    let lower = a.0 < b.0 || a.1 < b.1;
                    let higher = a.0 > b.0 || a.1 > b.1;
                    let expected = match (lower, higher) {
                        (true, false) => Preference::Better,
                        (false, true) => Preference::Worse,
                        (false, false) => Preference::Same,
                        (true, true) => Preference::Mixed,
                    };
                    prop_assert_eq!(verdict, expected);
                }
            }
        }
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
    let text = found[1].to_string();
    assert!(text.starts_with("mr4lms does better here: "), "{text}");
    assert!(text.contains("max TFI 1 instead of 2"), "{text}");
    assert_eq!(found.len(), 2);
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
    assert!(impossible(&found[1]), "{found:?}");
    let per_port = fabric.scenario(
        EngineKind::CMr4lmsFixed,
        EngineOptions::new(1, TableKind::PerPort),
        GroupSource::Listed(&groups),
    );
    assert_eq!(advice(&per_port, 2, &*route(&per_port, 2).engine, u64::MAX), []);
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
        let [Advice::PerSwitch(_), Advice::Estimated(estimate)] = &found[..] else {
            panic!("{found:?}");
        };
        assert_eq!((estimate.bound, estimate.guess), (4, guess));
        assert!(found[1].to_string().starts_with("mr4lms was not tried"), "{}", found[1]);
    }
    // C-MR4LMS is cheap, so it is tried however small the budget.
    let scenario = scenario.with_engine(EngineKind::Mr4lms);
    let found = advice(&scenario, 8, &*route(&scenario, 8).engine, 0);
    assert!(matches!(&found[..], [Advice::Measured(_)]), "{found:?}");
}
