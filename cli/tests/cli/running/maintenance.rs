//! Nodes and links that are taken out of service.

use super::{Up, names};

/// Titles of the list of drained links.
const LINKS: &str = "LINK  PEER  STATE\n";

pub(super) fn nodes_are_drained_and_resumed(up: &Up) {
    assert_eq!(up.ok(&["node", "drain", "node010"]), "node node010 drained, nothing is on it\n");
    assert_eq!(up.json(&["node", "show", "node010"])["node"]["drained"], true);
    assert!(up.ok(&["node", "list"]).contains("node010     up, drained"), "it is listed so");
    let job = ["job", "allocate", "drained", "--hosts", "node010"];
    up.run(&job).refused(1, "node node010 cannot be had: it is drained");
    let left = up.ok(&["node", "drain", "node001"]);
    assert!(
        left.starts_with("node node001 drained; until their owners end them it keeps "),
        "{left}"
    );
    assert_eq!(up.ok(&["node", "resume", "node001"]), "node node001 not drained\n");
    assert_eq!(up.ok(&["node", "resume", "node010"]), "node node010 not drained\n");
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
    assert_eq!(up.ok(&["link", "list"]), LINKS, "a dry run changes nothing");
    up.run(&["link", "drain", from, "S-0"]).refused(2, "no switch 'S-0' in the topology");
    up.run(&["link", "drain", from, from]).refused(2, "no link leads from");
    let drained = up.json(&["link", "drain", from, to]);
    assert_eq!(drained, up.json(&["link", "drain", from, to]), "drained is drained");
    assert_eq!(drained, up.json(&["link", "list"]));
    let status = up.run(&["status"]);
    let first = &drained["links"][0]["end"];
    let end =
        format!(" drained: {}:{}", first["switchName"].as_str().unwrap_or("?"), first["port"]);
    assert!(
        status.stdout.lines().any(|line| line.starts_with("links ") && line.contains(&end)),
        "{status:?}"
    );
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
    assert_eq!(up.ok(&["link", "list"]), LINKS);
    up.settled();
}

/// Two groups are given MGIDs of one tree, and share it; then one of them moves.
pub(super) fn groups_are_rebalanced(up: &Up) {
    let rebalance = ["route", "rebalance"];
    let dry_run = [&rebalance[..], &["--dry-run"]].concat();
    up.run(&[&rebalance[..], &["--most", "0"]].concat()).refused(2, "0 is not in 1..=1000");
    up.ok(&rebalance); // what the groups so far can gain
    up.settled();
    let nothing = "no group would be better off on another spanning tree\n";
    assert_eq!(up.ok(&rebalance), nothing);

    let colors = up.json(&["route", "status"])["colors"].as_u64().expect("a number");
    let nodes = names(&up.json(&["node", "list"])["nodes"], "name");
    let join = |group: &str, mgid: u64| {
        // Groups of the same members lose nothing by sharing a tree.
        let first = usize::from(group != "near/0");
        for node in [&nodes[first], &nodes[nodes.len() - 1]] {
            up.ok(&["group", "join", group, "--node", node, "--mgid", &mgid.to_string()]);
        }
        up.routed(group, 2);
        up.json(&["route", "explain", "--group", group])
    };
    let first = join("near/0", 1_000_000);
    let home = |explained: &serde_json::Value| explained["homeSpanningTree"].as_u64();
    let second = (1..).find_map(|turn: u64| {
        let group = format!("near/{turn}");
        let is_found = home(&join(&group, 1_000_000 + turn * colors)) == home(&first);
        if !is_found {
            up.ok(&["group", "delete", &group]);
        }
        is_found.then_some(group)
    });
    let second = second.expect("MGIDs of one tree come again");
    up.settled();
    let sharers = |group: &str| {
        let explained = up.json(&["route", "explain", "--group", group]);
        explained["sharesWith"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(sharers(&second), 1);
    let planned = up.ok(&dry_run);
    assert!(planned.ends_with("1 groups would move\n"), "{planned}");
    assert_eq!(sharers(&second), 1, "a dry run changes nothing");
    let moved = up.json(&rebalance);
    let group = moved["moves"][0]["group"].clone();
    assert_eq!(moved["movedGroups"], serde_json::json!([group]));
    assert!(moved["before"]["crossedLinks"].as_u64() > moved["after"]["crossedLinks"].as_u64());
    up.settled();
    assert_eq!(sharers(&second), 0);
    assert_eq!(up.ok(&rebalance), nothing);
    for group in ["near/0", &second] {
        up.ok(&["group", "delete", group]);
    }
}
