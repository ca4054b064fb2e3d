//! Endpoints by GUID, on the command line and in files.

use super::{Up, names};

pub(super) fn endpoints_are_named_by_guid(up: &Up) {
    // node018 HCA-1 and node046 HCA-1.
    let (one, other) = ("0x506B4B03003FA9B6", "8c0eb0300ddc0f6");
    let joined = up.json(&["group", "join", "guids", "--node", "node018", "--endpoint", one]);
    assert_eq!(joined["endpoint"], "node018 HCA-1", "{joined}");
    let line = format!("{{\"name\":\"guids\",\"members\":[\"node018 HCA-1\",\"{other}\"]}}\n");
    up.sandbox.write("guids", line);
    assert_eq!(up.json(&["group", "form", "--groups", "guids"])["joined"], 2);
    let group = up.routed("guids", 2);
    assert_eq!(names(&group["members"], "endpoint"), ["node018 HCA-1", "node046 HCA-1"]);
    assert_eq!(up.reached(&group, one), ["node046 HCA-1"]);

    let text = up.ok(&["fabric", "fail", "--endpoint", other, "--dry-run"]);
    assert!(text.contains("node046 HCA-1 cut off"), "{text}");
    let down = up.ok(&["fabric", "fail", "--endpoint", other]);
    assert_eq!(down, format!("endpoint {other} is down now\n"));
    let named = ["fabric", "fail", "--endpoint", "node046 HCA-1"];
    assert_eq!(up.ok(&named), "endpoint node046 HCA-1 was down already\n");
    let again = up.ok(&["fabric", "heal", "--endpoint", other]);
    assert_eq!(again, format!("endpoint {other} is up again\n"));
    up.run(&["fabric", "fail", "--endpoint", "0x506b4b"]).refused(2, "no endpoint '0x506b4b'");

    let list = up.json(&["node", "show", one, "--memberships"]);
    assert_eq!(list, up.json(&["node", "show", "node018", "--memberships"]));
    up.run(&["node", "show", "0x506b4b", "--memberships"])
        .refused(2, "node: no endpoint '0x506b4b'");
    up.ok(&["group", "delete", "guids"]);
}
