//! The classic deadlock inside a switch (Dawning figure 1 b), and who is free of it.

use fabricast_simulator::{Model, MulticastPolicy, RunError, Simulator, WaitFor};

use crate::support::{Fixture, POLICIES, Script, mixed_load, model, multicast, unicast};

/// Hosts 0 and 1 both multicast to hosts 2 and 3, at ports P3 and P4 of their leaf. P4 is busy when
/// A comes from host 0, so that A can take P3 only; when P4 is idle again it is the turn of B from
/// host 1, since host 0 has been served before.
fn crossing(policy: MulticastPolicy) -> Result<usize, RunError> {
    let mut fixture = Fixture::m_port(8, 2);
    let a = fixture.rooted(0, &[2, 3], 0);
    let b = fixture.rooted(1, &[2, 3], 0);
    let mut script = Script::default();
    script.add(0, 3, 0, unicast(3, 900, 0, 0));
    script.add(0, 0, 0, unicast(20, 64, 0, 1));
    script.add(100_000, 0, 0, multicast(a, 700, 0, 2));
    script.add(200_000, 1, 0, multicast(b, 700, 0, 3));
    let model = Model { multicast: policy, ..model() };
    let mut simulator = Simulator::new(fixture.network(), model, script).expect("a valid model");
    simulator.run_until(u64::MAX)?;
    Ok(simulator.workload().deliveries.len())
}

#[test]
fn hold_and_wait_runs_into_the_classic_deadlock_and_names_it() {
    let Err(RunError::Deadlock(deadlock)) = crossing(MulticastPolicy::HoldAndWait) else {
        panic!("no deadlock");
    };
    // P4's packet is at the switch at 60 ns and sent by 960 ns.
    assert_eq!(
        deadlock.to_string(),
        "deadlock at 960 ns: \
         SW<0,1>: the packet at P2 holds P4 and wants P3; \
         SW<0,1>: the packet at P1 holds P3 and wants P4"
    );
    assert!(deadlock.circle.iter().all(|wait| wait.why == WaitFor::Output));
}

#[test]
fn all_other_policies_deliver_what_deadlocks_hold_and_wait() {
    for policy in POLICIES {
        if policy != MulticastPolicy::HoldAndWait {
            assert_eq!(crossing(policy), Ok(2 + 2 + 2), "{policy:?}");
        }
    }
}

/// Chance finds deadlocks too: the construction above is no curiosity.
#[test]
fn hold_and_wait_deadlocks_under_random_load() {
    let deadlocks = (0..20).filter(|seed| {
        let mut fixture = Fixture::m_port(4, 3);
        let (script, _) = mixed_load(&mut fixture, 300, 1, *seed);
        let model = Model { multicast: MulticastPolicy::HoldAndWait, ..model() };
        let mut simulator =
            Simulator::new(fixture.network(), model, script).expect("a valid model");
        match simulator.run_until(u64::MAX) {
            Err(RunError::Deadlock(deadlock)) => {
                assert!(deadlock.circle.len() >= 2);
                true
            }
            Err(other) => panic!("{other}"),
            Ok(_) => false,
        }
    });
    assert!(deadlocks.count() > 10);
}
