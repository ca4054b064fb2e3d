//! A bounded sweep of the simulation; `cargo xtask sim` runs longer ones.

use fabricast_simulation::{Deed, Mix, Scenario, run, shrink, sweep};

/// G1 to G5 hold at every step and after healing, with every mix of faults.
#[test]
fn no_rule_is_broken() {
    let swept = sweep(0, 8, &Mix::ALL, None);
    assert_eq!(swept.broken, None);
    assert_eq!(swept.runs, 8 * Mix::ALL.len() as u64);
    // It is a storm, and things come about in it.
    assert!(swept.total.delivered > 100_000 && swept.total.decisions > 1_500, "{swept:?}");
}

#[test]
fn the_same_scenario_is_the_same_run() {
    let scenario = Scenario::draw(42, Mix::Everything);
    assert_eq!(run(&scenario), run(&scenario));
    assert_ne!(run(&scenario), run(&Scenario::draw(43, Mix::Everything)));
}

/// One deed that fails for sure is left of all.
#[test]
fn a_failing_scenario_becomes_short() {
    let mut scenario = Scenario::draw(7, Mix::Crashes);
    // There is no such node: the deed itself is what fails.
    let bad = (scenario.deeds[20].0, Deed::Power { at: 99, on: false });
    scenario.deeds.insert(20, bad);
    let broken = run(&scenario).unwrap_err();
    let short = shrink(&scenario, &broken);
    assert_eq!(short.deeds, [bad]);
}
