//! One run with each fault profile; `cargo xtask cluster-sim` has many.

use std::time::Duration;

use fabricast_cluster_simulation::{AGENTS, Cut, FaultProfile, Scenario, Summary, run};

fn keeps_its_promises(profile: FaultProfile) {
    keeps_its_promises_with(0, profile);
}

fn keeps_its_promises_with(seed: u64, profile: FaultProfile) {
    let scenario = Scenario::draw(seed, profile);
    let summary: Summary = run(&scenario).unwrap_or_else(|error| {
        panic!("{error}\n{scenario:#?}");
    });
    // It is busy enough to mean something.
    assert!(summary.acknowledged > 200, "{summary:?}");
    assert!(summary.faults >= 6, "{summary:?}");
}

#[test]
fn services_that_crash_lose_nothing() {
    keeps_its_promises(FaultProfile::Crashes);
}

#[test]
fn services_that_are_cut_off_lose_nothing() {
    keeps_its_promises(FaultProfile::Cuts);
}

/// The TICs are cut off, not the nodes.
#[test]
fn tics_that_are_cut_off_from_all_nodes_expel_none() {
    for (seconds, cut) in [(3, Cut::Held), (20, Cut::Lost)] {
        let scenario = Scenario::cut_off(0..AGENTS, Duration::from_secs(seconds), cut);
        run(&scenario).unwrap_or_else(|error| panic!("{seconds} s, {cut:?}: {error}"));
    }
}

/// The longest cut that is tried; no node may be lost. The table of shares of the nodes and of
/// times is in `core/groups/src/watch/disruption/tests.rs`.
#[test]
fn tics_that_are_cut_off_from_all_nodes_for_a_minute_expel_none() {
    let scenario = Scenario::cut_off(0..AGENTS, Duration::from_secs(60), Cut::Lost);
    assert!(scenario.keeps_nodes);
    run(&scenario).unwrap_or_else(|error| panic!("{error}"));
}

/// docs/simulation.md, "Bugs it has found".
#[test]
fn nodes_are_kept_when_their_connections_recover_one_by_one() {
    keeps_its_promises_with(7, FaultProfile::Cuts);
}

#[test]
fn services_with_a_failing_store_lose_nothing() {
    keeps_its_promises(FaultProfile::Store);
}

#[test]
fn services_with_all_faults_lose_nothing() {
    keeps_its_promises(FaultProfile::Everything);
}
