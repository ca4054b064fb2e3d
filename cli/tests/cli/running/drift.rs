//! Tables that change behind everybody's back: seen, shown, repaired.

use std::time::Instant;

use serde_json::Value;

use super::{LIMIT, Run, Up};

impl Up {
    /// Runs a command until it ends as wanted.
    fn wait_for(&self, arguments: &[&str], wanted: impl Fn(&Run) -> bool) -> Run {
        let started = Instant::now();
        loop {
            let run = self.run(arguments);
            if wanted(&run) {
                return run;
            }
            assert!(started.elapsed() < LIMIT, "{run:?}");
        }
    }
}

pub(super) fn tables_drift_and_are_repaired(up: &Up) {
    up.ok(&["group", "create", "drifting", "--node", "node001"]);
    up.ok(&["group", "join", "drifting", "--node", "gpu042"]);
    // At the same switch as the first: without --all-senders nothing is sent from there.
    up.ok(&["group", "join", "drifting", "--node", "node002"]);
    up.routed("drifting", 3);
    up.settled();
    up.wait_for(&["switch", "audit"], |run| run.code == 0);
    let verdict = up.json(&["route", "verify", "--live"]);
    assert_eq!(verdict["violationCount"], 0, "{verdict}");
    assert!(verdict["unusedEntries"].as_u64().expect("a number") > 0, "{verdict}");
    let verdict = up.json(&["route", "verify", "--live", "--all-senders"]);
    assert_eq!((&verdict["violationCount"], &verdict["unusedEntries"]), (&0.into(), &0.into()));
    assert!(verdict["packets"].as_u64().expect("a number") >= 2, "{verdict}");
    let send = ["group", "send", "drifting", "--node", "node001"];
    assert_eq!(up.ok(&send), "group drifting: sent; reached 2 of 2 members\n");
    let root = up.json(&["route", "explain", "--group", "drifting"])["root"].clone();
    let switch = root.as_str().expect("a name");

    up.ok(&["fabric", "disturb", "--switch", switch, "--fails"]);
    let wiped = up.json(&["fabric", "wipe", "--switch", switch]);
    assert!(wiped["changedEntries"].as_u64().expect("a number") > 0, "{wiped}");
    let broken = up.run(&["route", "verify", "--live", "--all-senders"]);
    assert_eq!(broken.code, 1, "{broken:?}");
    assert!(
        broken.stdout.contains("R2: ") && broken.stdout.contains("does not reach"),
        "{broken:?}"
    );
    let sent = up.run(&send);
    assert_eq!((sent.code, sent.stdout.lines().count()), (1, 2), "{sent:?}");
    assert!(sent.stdout.contains("not reached: gpu042/") && sent.stderr.contains("did not get"));
    let seen = |text: &str| text.contains("1 drifts") && text.contains(switch);
    let drifted = up.wait_for(&["switch", "audit"], |run| seen(&run.stdout));
    assert_eq!(drifted.code, 1, "{drifted:?}");
    assert!(drifted.stderr.contains("1 table is not what it ought to be"), "{drifted:?}");

    up.ok(&["fabric", "disturb", "--switch", switch]);
    let repaired = up.wait_for(&["switch", "audit"], |run| run.code == 0);
    assert!(seen(&repaired.stdout), "{repaired:?}");
    up.settled();
    up.ok(&["route", "verify", "--live", "--all-senders"]);
    let counters: Value = up.json(&["switch", "show", switch, "--counters"]);
    assert_eq!(counters["switchName"], switch);
    up.run(&["switch", "show", "nowhere", "--counters"]).refused(2, "no switch 'nowhere'");
    up.run(&["fabric", "corrupt", "--switch", "nowhere"]).refused(2, "nowhere");
    up.ok(&["group", "delete", "drifting"]);
    up.settled();
}
