//! Whole jobs: groups formed together, waited for, and ended together.

use super::{Up, names};

pub(super) fn a_job_comes_and_goes_with_all_its_groups(up: &Up) {
    let line = |name: &str, one: u32, other: u32| {
        format!(
            "{{\"name\":\"{name}\",\"members\":[\"node{one:03} HCA-1\",\"node{other:03} HCA-1\"]}}\n"
        )
    };
    up.sandbox.write("job", line("j/1", 4, 5) + &line("j/2", 5, 6));
    let form = ["group", "form", "--groups", "job", "--job", "j", "--request-id", "start j"];
    assert_eq!(
        up.json(&form),
        serde_json::json!({ "file": "job", "job": "j", "groups": 2, "joined": 4 })
    );
    assert!(up.ok(&["group", "show", "j/1"]).contains("\nof job 'j'\n"));
    up.routed("j/2", 2);
    // The operating agents hear of memberships that others made for them.
    let there =
        |list: &serde_json::Value| names(&list["memberships"], "group") == ["f/1", "j/1", "j/2"];
    up.wait(&["node", "show", "node005", "--memberships"], there);
    up.ok(&["group", "leave", "j/1", "--node", "node004"]);
    assert_eq!(up.json(&form)["joined"], 4, "a repetition has the same answer");
    assert_eq!(up.json(&["group", "show", "j/1"])["memberCount"], 1, "and brings nobody back");
    up.sandbox.write("job", line("j/1", 4, 6));
    up.run(&form).refused(2, "REQUEST_ID_REUSED");
    up.sandbox.write("job", line("j/3", 4, 5) + "{\"name\":\"f/1\",\"mgid\":3,\"members\":[]}\n");
    up.run(&["group", "form", "--groups", "job"]).refused(2, "mgid: 3, but the live group has");

    let waiting = ["group", "join", "late", "--job", "j", "--complete-at", "2"];
    up.ok(&[&waiting[..], &["--node", "node004"]].concat());
    assert!(up.ok(&["group", "show", "late"]).contains("waiting for members: 1 of 2"));
    up.settled();
    let late = up.json(&["group", "show", "late"]);
    assert_eq!(late["route"]["reason"], "waits for its members", "{late}");
    up.ok(&["group", "join", "late", "--node", "node006"]);
    up.routed("late", 2);
    assert!(up.ok(&["group", "show", "late"]).contains("complete, it waited for 2 members"));

    let plan = up.json(&["group", "end-job", "j", "--dry-run"]);
    assert_eq!(names(&plan["groups"], "group"), ["j/1", "j/2", "late"]);
    assert_eq!(up.ok(&["group", "end-job", "j"]), "job j: 3 groups with 5 memberships ended\n");
    up.run(&["group", "end-job", "j"]).refused(2, "UNKNOWN_JOB");
    up.run(&["group", "end-job", "j", "--dry-run"]).refused(2, "no group belongs to job 'j'");
}
