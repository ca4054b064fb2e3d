//! A bounded sweep of the simulation; `cargo xtask sim` runs longer ones.

use fabricast_simulation::routing::{self, RouteAction, RouteParty, RouteScenario};
use fabricast_simulation::{Action, FaultProfile, Scenario, run, shrink, sweep};

/// G1 to G5 hold at every step and after healing, with every fault profile.
#[test]
fn no_rule_is_broken() {
    let swept = sweep(0, 8, &FaultProfile::GROUPS, None);
    assert_eq!(swept.broken, None);
    assert_eq!(swept.runs, 8 * FaultProfile::GROUPS.len() as u64);
    // The runs are busy enough to mean something.
    assert!(swept.total.delivered > 100_000 && swept.total.decisions > 1_500, "{swept:?}");
}

/// R1 to R5, and G4 down to the switches, with route services and switch agents as they are.
#[test]
fn switches_hold_what_they_ought_to() {
    let swept = sweep(0, 4, &FaultProfile::ROUTES, None);
    assert_eq!(swept.broken, None);
    assert_eq!(swept.runs, 4 * FaultProfile::ROUTES.len() as u64);
    assert!(swept.total.delivered > 40_000 && swept.total.decisions > 600, "{swept:?}");
}

/// R1 to R5 while the TIC moves groups to other spanning trees, with all faults besides.
#[test]
fn groups_that_move_lose_no_packets() {
    for seed in 0..12 {
        for profile in FaultProfile::ROUTES {
            let played = routing::run(&RouteScenario::draw(seed, profile).with_moves());
            assert!(played.is_ok(), "seed {seed}, {}: {played:?}", profile.name());
        }
    }
}

/// Seeds that have found bugs: docs/simulation.md, "Bugs it has found".
#[test]
fn runs_that_once_broke_a_rule_do_no_more() {
    for (seed, profile) in [
        (15, FaultProfile::Routers),
        (53, FaultProfile::Routers),
        (64, FaultProfile::Switches),
        (83, FaultProfile::Links),
        (112, FaultProfile::Links),
        (96, FaultProfile::Switches),
        (204, FaultProfile::Switches),
        (530, FaultProfile::Routers),
        (604, FaultProfile::Links),
        (666, FaultProfile::Links),
        (3418, FaultProfile::Links),
        (5290, FaultProfile::Links),
        (6627, FaultProfile::Routers),
        (1005, FaultProfile::Fabric),
        (4372, FaultProfile::Fabric),
    ] {
        let played = routing::run(&RouteScenario::draw(seed, profile));
        assert!(played.is_ok(), "seed {seed}, {}: {played:?}", profile.name());
    }
}

#[test]
fn the_same_scenario_is_the_same_run() {
    let scenario = Scenario::draw(42, FaultProfile::Everything);
    assert_eq!(run(&scenario), run(&scenario));
    assert_ne!(run(&scenario), run(&Scenario::draw(43, FaultProfile::Everything)));
    let scenario = RouteScenario::draw(42, FaultProfile::Fabric);
    assert_eq!(routing::run(&scenario), routing::run(&scenario));
    assert_ne!(
        routing::run(&scenario),
        routing::run(&RouteScenario::draw(43, FaultProfile::Fabric))
    );
}

/// Of all actions, only the one that surely fails is left.
#[test]
fn a_failing_scenario_becomes_short() {
    let mut scenario = Scenario::draw(7, FaultProfile::Crashes);
    // There is no such node, so the action itself fails.
    let bad = (scenario.actions[20].0, Action::Power { at: 99, on: false });
    scenario.actions.insert(20, bad);
    let broken = run(&scenario).unwrap_err();
    let short = shrink(&scenario, &broken);
    assert_eq!(short.actions, [bad]);
    let mut scenario = RouteScenario::draw(7, FaultProfile::Routers);
    let bad = (scenario.actions[20].0, RouteAction::Kill { who: RouteParty::Agent(99) });
    scenario.actions.insert(20, bad);
    let broken = routing::run(&scenario).unwrap_err();
    assert_eq!(shrink(&scenario, &broken).actions, [bad]);
}
