//! The route service records its run, and the recording is played again offline.

use super::Up;

pub(super) fn the_run_is_recorded_and_played_again(up: &Up) {
    up.ok(&["group", "create", "recorded", "--node", "node001"]);
    up.ok(&["group", "join", "recorded", "--node", "gpu042"]);
    up.routed("recorded", 2);
    up.settled();
    up.ok(&["debug", "bundle", "--out", "bundle"]);
    let folder = format!("bundle/{}", up.address.replace(':', "_"));
    let file = format!("{folder}/route-service.recording");

    let sandbox = &up.sandbox;
    let all = sandbox.ok(&["debug", "replay", &file]);
    assert!(all.ends_with(" written entries: all as recorded\n"), "{all}");
    let lines = sandbox.ok(&["debug", "replay", &file, "--group", "recorded"]);
    for wanted in [
        "rank 1 joins recorded at gpu042 HCA-1",
        "added for new or changed trees (groups recorded)",
        "report route of recorded: color ",
    ] {
        assert!(lines.contains(wanted), "{wanted}: {lines}");
    }
    assert!(!lines.contains("drifting"), "{lines}");
    let root = up.json(&["route", "explain", "--group", "recorded"])["root"].clone();
    let root = root.as_str().expect("a name");
    let lines = sandbox.ok(&["debug", "replay", &file, "--switch", root, "--format", "json"]);
    let first: serde_json::Value =
        serde_json::from_str(lines.lines().next().expect("a line")).expect("JSON");
    assert!(first["switch"].as_str().is_some_and(|name| name.contains(root)), "{first}");

    sandbox
        .run(&["debug", "replay", &file, "--group", "nobody"])
        .refused(2, "no group is named 'nobody'");
    sandbox
        .run(&["debug", "replay", &file, "--switch", "S-0"])
        .refused(2, "no switch is named 'S-0'");
    let about = format!("{folder}/route-status.json");
    sandbox.run(&["debug", "replay", &about]).refused(2, "this is no recording");
    sandbox.run(&["debug", "replay", "absent"]).refused(2, "read 'absent'");
    let mut bytes = std::fs::read(sandbox.path(&file)).expect("the file is there");
    bytes.truncate(bytes.len() / 2);
    std::fs::write(sandbox.path("half"), bytes).expect("a file can be written");
    sandbox.run(&["debug", "replay", "half"]).refused(2, "the recording is damaged");
    up.ok(&["group", "delete", "recorded"]);
}
