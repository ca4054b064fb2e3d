//! A bounded sweep of the simulation; `cargo xtask sim` runs longer ones.

use fabricast_simulation::routing::{self, RouteDeed, RouteParty, RouteScenario};
use fabricast_simulation::{Deed, Mix, Scenario, run, shrink, sweep};

/// G1 to G5 hold at every step and after healing, with every mix of faults.
#[test]
fn no_rule_is_broken() {
    let swept = sweep(0, 8, &Mix::GROUPS, None);
    assert_eq!(swept.broken, None);
    assert_eq!(swept.runs, 8 * Mix::GROUPS.len() as u64);
    // It is a storm, and things come about in it.
    assert!(swept.total.delivered > 100_000 && swept.total.decisions > 1_500, "{swept:?}");
}

/// R1 to R5, and G4 down to the switches, with route services and switch agents as they are.
#[test]
fn switches_hold_what_they_ought_to() {
    let swept = sweep(0, 4, &Mix::ROUTES, None);
    assert_eq!(swept.broken, None);
    assert_eq!(swept.runs, 4 * Mix::ROUTES.len() as u64);
    assert!(swept.total.delivered > 40_000 && swept.total.decisions > 600, "{swept:?}");
}

/// What came of them: docs/simulation.md, "Bugs it has found".
#[test]
fn runs_that_once_broke_a_rule_do_no_more() {
    for (seed, mix) in [
        (15, Mix::Routers),
        (53, Mix::Routers),
        (64, Mix::Switches),
        (83, Mix::Links),
        (112, Mix::Links),
        (96, Mix::Switches),
        (204, Mix::Switches),
        (530, Mix::Routers),
        (604, Mix::Links),
        (666, Mix::Links),
        (3418, Mix::Links),
        (5290, Mix::Links),
        (6627, Mix::Routers),
        (1005, Mix::Fabric),
        (4372, Mix::Fabric),
    ] {
        let played = routing::run(&RouteScenario::draw(seed, mix));
        assert!(played.is_ok(), "seed {seed}, {}: {played:?}", mix.name());
    }
}

#[test]
fn the_same_scenario_is_the_same_run() {
    let scenario = Scenario::draw(42, Mix::Everything);
    assert_eq!(run(&scenario), run(&scenario));
    assert_ne!(run(&scenario), run(&Scenario::draw(43, Mix::Everything)));
    let scenario = RouteScenario::draw(42, Mix::Fabric);
    assert_eq!(routing::run(&scenario), routing::run(&scenario));
    assert_ne!(routing::run(&scenario), routing::run(&RouteScenario::draw(43, Mix::Fabric)));
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
    let mut scenario = RouteScenario::draw(7, Mix::Routers);
    let bad = (scenario.deeds[20].0, RouteDeed::Kill { who: RouteParty::Agent(99) });
    scenario.deeds.insert(20, bad);
    let broken = routing::run(&scenario).unwrap_err();
    assert_eq!(shrink(&scenario, &broken).deeds, [bad]);
}
