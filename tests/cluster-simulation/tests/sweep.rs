//! One run with each fault profile; `cargo xtask cluster-sim` has many.

use fabricast_cluster_simulation::{FaultProfile, Scenario, Summary, run};

fn keeps_its_promises(profile: FaultProfile) {
    let scenario = Scenario::draw(0, profile);
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

#[test]
fn services_with_a_failing_store_lose_nothing() {
    keeps_its_promises(FaultProfile::Store);
}

#[test]
fn services_with_all_faults_lose_nothing() {
    keeps_its_promises(FaultProfile::Everything);
}
