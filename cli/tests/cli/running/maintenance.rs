//! Nodes and links that are taken out of service.

use super::{Up, names};

pub(super) fn nodes_are_drained_and_resumed(up: &Up) {
    assert_eq!(up.ok(&["node", "drain", "node010"]), "drained, nothing is on it\n");
    assert_eq!(up.json(&["node", "show", "node010"])["node"]["drained"], true);
    assert!(up.ok(&["node", "list"]).contains("node010     up, drained"), "it is listed so");
    let job = ["job", "allocate", "drained", "--hosts", "node010"];
    up.run(&job).refused(1, "node node010 cannot be had: it is drained");
    let left = up.ok(&["node", "drain", "node001"]);
    assert!(left.starts_with("drained; until their owners end them it keeps "), "{left}");
    assert_eq!(up.ok(&["node", "resume", "node001"]), "not drained\n");
    assert_eq!(up.ok(&["node", "resume", "node010"]), "not drained\n");
    up.ok(&job);
    up.ok(&["job", "release", "drained"]);
    up.run(&["node", "drain", "nope"]).refused(2, "\"nope\" is not registered");
}

/// The group must be routed over several switches.
pub(super) fn links_are_drained_and_resumed(up: &Up, group: &str) {
    let explain = ["route", "explain", "--group", group];
    let before = up.json(&explain);
    let links = before["links"].as_array().expect("a list");
    let between = links.iter().find(|link| link["peerPort"] != 0).expect("two switches");
    let [from, to] = ["switchName", "peer"].map(|end| between[end].as_str().expect("a name"));

    let plan = up.json(&["link", "drain", from, to, "--dry-run"]);
    assert!(names(&plan["groups"], "group").contains(&group.to_owned()), "{plan}");
    assert_eq!(up.ok(&["link", "list"]), "no link is drained\n", "a dry run changes nothing");
    up.run(&["link", "drain", from, "S-0"]).refused(2, "no switch 'S-0' in the topology");
    up.run(&["link", "drain", from, from]).refused(2, "no link leads from");
    let drained = up.json(&["link", "drain", from, to]);
    assert_eq!(drained, up.json(&["link", "drain", from, to]), "drained is drained");
    assert_eq!(drained, up.json(&["link", "list"]));
    up.settled();
    let now = up.json(&explain);
    let leads = |link: &&serde_json::Value| {
        let ends = [&link["switchName"], &link["peer"]];
        ends.contains(&&from.into()) && ends.contains(&&to.into())
    };
    let links = now["links"].as_array().expect("a list");
    assert!(links.len() > 1 && !links.iter().any(|link| leads(&link)), "{now}");
    let resumed = up.ok(&["link", "resume", from, to]);
    assert!(resumed.starts_with("not drained: S-"), "{resumed}");
    assert_eq!(up.ok(&["link", "list"]), "no link is drained\n");
    up.settled();
}
