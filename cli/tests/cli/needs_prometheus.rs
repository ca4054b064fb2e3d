//! Faults of three clusters, which a real Prometheus and Alertmanager see and tell of.
//!
//! `west` is a `fabricast up` that stays; `east` is another one, and a fabric with certificates.
//! `north` is a cluster of single parts on etcd.

#[path = "needs_prometheus/needs_etcd.rs"]
mod needs_etcd;
#[path = "needs_prometheus/watchers.rs"]
mod watchers;

use std::process::{Child, Stdio};

use serde_json::Value;

use self::watchers::{Watchers, pause, serve_file, write_targets};
use crate::metrics::get;
use crate::support::{Sandbox, free_address, own_host};

/// The network of each cluster.
const TOPOLOGY: &str =
    "kind = 'leaf-spine'\nleaves = 4\nspines = 2\nendpoints_per_leaf = 4\nlanes0 = 2\n";

/// A process, its addresses for calls and for metrics; killed when dropped.
struct Part {
    child: Child,
    address: String,
    metrics: String,
}

impl Drop for Part {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Part {
    /// Starts a part and waits until it tells its metrics.
    fn start(sandbox: &Sandbox, arguments: &[&str], address: &str, metrics: &str) -> Self {
        let mut command = sandbox.command(&[arguments, &["--metrics", metrics]].concat());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("the binary starts");
        let part = Self { child, address: address.to_owned(), metrics: metrics.to_owned() };
        while get(metrics).is_none() {
            pause();
        }
        part
    }

    fn up(sandbox: &Sandbox, store: &str) -> Self {
        let (address, metrics) = (free_address(), free_address());
        Self::up_at(sandbox, store, &address, &metrics)
    }

    fn up_at(sandbox: &Sandbox, store: &str, address: &str, metrics: &str) -> Self {
        let arguments = ["up", "--topology", "t.toml", "--colors", "4", "--store", store];
        let part = Self::start(
            sandbox,
            &[&arguments[..], &["--listen", address]].concat(),
            address,
            metrics,
        );
        while !get(metrics).unwrap_or_default().contains("\nfabricast_router_settled 1\n") {
            pause();
        }
        part
    }

    fn ok(&self, sandbox: &Sandbox, arguments: &[&str]) {
        sandbox.ok(&[arguments, &["--server", &self.address]].concat());
    }

    /// Waits until so many groups have their routes in the tables.
    fn wait_until_routed(&self, sandbox: &Sandbox, groups: u64) {
        let is_routed = || {
            let status = sandbox.json(&["route", "status", "--server", &self.address]);
            status["settled"] == true && status["routedGroups"] == groups
        };
        let found = (0..300).any(|_| {
            pause();
            is_routed()
        });
        assert!(found, "the groups get no routes");
    }
}

fn certificate(sandbox: &Sandbox, days: &str) {
    let issue =
        ["certs", "issue", "--authority", "ca", "--identity", "fabric/f", "--out", "fabric"];
    sandbox.ok(&[&issue[..], &["--host", &own_host().to_string(), "--days", days]].concat());
}

fn export(sandbox: &Sandbox) {
    let export = ["store", "export", "--store", "east.redb", "--out", "copy"];
    sandbox.ok(&[&export[..], &["--metrics-file", "copy.prom"]].concat());
}

/// The part with certificates, and what its settings are.
fn start_fabric(sandbox: &Sandbox) -> (Part, String) {
    let (address, metrics) = (free_address(), free_address());
    let settings = format!(
        "[fabric]\nlisten = '{address}'\ntopology = 't.toml'\ncertificates = 'fabric'\n\
         management_key = 'k'\n"
    );
    sandbox.write("fabric.toml", &settings);
    let part = Part::start(sandbox, &["fabric", "--config", "fabric.toml"], &address, &metrics);
    (part, settings)
}

/// All queries of the board, for both clusters, with the intervals that Grafana would set.
fn board_queries() -> Vec<String> {
    let board = include_str!("../../../deploy/grafana/fabricast.json");
    let board: Value = serde_json::from_str(board).expect("JSON");
    let panels = board["panels"].as_array().expect("a list").iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let queries = targets.map(|target| target["expr"].as_str().expect("a text"));
    let queries = queries.map(|query| query.replace("$__rate_interval", "10s"));
    queries.map(|query| query.replace("$cluster", "west|east")).collect()
}

/// A switch of `west`, of which something is broken.
const SWITCH: &str = "S-02fab00000000000";
const LINK: &str = "S-02fab00000000003:1";

/// Breaks what a running cluster can survive.
fn break_parts_of(west: &Part, sandbox: &Sandbox, watchers: &mut Watchers) {
    let member = |i: usize| format!("\"h{}\", \"h{}\"", i % 4, 4 + i % 12);
    let group = |i| format!("{{\"name\": \"bulk/{i}\", \"members\": [{}]}}\n", member(i));
    sandbox.write("bulk.jsonl", (0..40).map(group).collect::<String>());
    west.ok(sandbox, &["group", "form", "--groups", "bulk.jsonl", "--job", "bulk"]);
    west.wait_until_routed(sandbox, 40);
    // As long as nothing else is to be written to the tables.
    west.ok(sandbox, &["fabric", "wipe", "--switch", SWITCH]);
    watchers.wait_until_fired(&[("TablesNearlyFull", "west"), ("TableDrift", "west")]);
    for node in ["h0", "h4"] {
        west.ok(sandbox, &["group", "join", "alone/0", "--exclusive", "--node", node]);
    }
    west.ok(sandbox, &["fabric", "fail", "--link", LINK]);
    west.ok(sandbox, &["node", "stop", "h15"]);
    west.ok(sandbox, &["fabric", "disturb", "--switch", SWITCH, "--fails"]);
    west.ok(sandbox, &["fabric", "wipe", "--switch", SWITCH]);
}

fn mend_parts_of(west: &Part, sandbox: &Sandbox) {
    west.ok(sandbox, &["fabric", "disturb", "--switch", SWITCH]);
    west.ok(sandbox, &["fabric", "heal", "--link", LINK]);
    west.ok(sandbox, &["node", "start", "h15"]);
    west.ok(sandbox, &["group", "end-job", "bulk"]);
    west.ok(sandbox, &["group", "delete", "alone/0"]);
}

/// Makes a copy of the records that seems to be old.
fn export_long_ago(sandbox: &Sandbox) {
    export(sandbox);
    let text = sandbox.read("copy.prom");
    let (name, _) = text.trim_end().rsplit_once(' ').expect("a value");
    sandbox.write("copy.prom", format!("{name} 1700000000\n"));
}

/// Gives the fabric a certificate for so many days, and settings.
fn change_fabric(fabric: &Part, sandbox: &Sandbox, days: &str, settings: &str) {
    certificate(sandbox, days);
    // Files are looked at when a connection is made.
    sandbox.ok(&["health", "--certificates", "admin", "--server", &fabric.address]);
    sandbox.write("fabric.toml", settings);
    let pid = fabric.child.id().to_string();
    let sent = std::process::Command::new("kill").args(["-HUP", &pid]).status();
    assert!(sent.expect("kill is everywhere").success());
}

#[test]
#[ignore = "takes 45 seconds: cargo xtask alerts"]
fn faults_are_told_and_mended_ones_no_more() {
    let sandbox = Sandbox::new();
    sandbox.write("t.toml", TOPOLOGY);
    std::fs::create_dir(sandbox.path("targets")).expect("room");
    sandbox.ok(&["certs", "authority", "--out", "ca"]);
    let admin = ["certs", "issue", "--authority", "ca", "--identity", "admin/a", "--out", "admin"];
    sandbox.ok(&admin);
    certificate(&sandbox, "365");
    let west = Part::up(&sandbox, "memory");
    let mut east = Part::up(&sandbox, "east.redb");
    let (fabric, settings) = start_fabric(&sandbox);
    write_targets(&sandbox, "west", &[&west.metrics], "west");
    write_targets(&sandbox, "east", &[&east.metrics, &fabric.metrics], "east");
    let mut watchers = Watchers::start(&sandbox, &serve_file(sandbox.path("copy.prom")));
    // Neither has routed anything yet, and no alert is even pending.
    watchers.wait_until_clear();

    break_parts_of(&west, &sandbox, &mut watchers);
    let (address, metrics) = (east.address.clone(), east.metrics.clone());
    drop(east);
    export_long_ago(&sandbox);
    change_fabric(&fabric, &sandbox, "7", &settings.replace("management_key", "unknown"));
    watchers.wait_until_fired(&[
        ("GroupsWithoutRoute", "west"),
        ("ElementFailed", "west"),
        ("NodeExpelled", "west"),
        ("NotSettled", "west"),
        ("TargetDown", "east"),
        ("NoTicLeads", "east"),
        ("NoRouteService", "east"),
        ("BackupOld", "east"),
        ("CertificateExpires", "east"),
        ("SettingsRefused", "east"),
    ]);

    mend_parts_of(&west, &sandbox);
    export(&sandbox);
    east = Part::up_at(&sandbox, "east.redb", &address, &metrics);
    change_fabric(&fabric, &sandbox, "365", &settings);
    watchers.wait_until_clear();

    // Two clusters under one name are what two leaders look like.
    write_targets(&sandbox, "east", &[&east.metrics, &fabric.metrics], "west");
    watchers.wait_until_fired(&[("TwoTicsLead", "west")]);
    write_targets(&sandbox, "east", &[&east.metrics, &fabric.metrics], "east");
    watchers.wait_until_clear();

    // A cluster that says of one part that it is old, and of whose records there is no copy.
    sandbox.write("old.prom", "fabricast_build_info 1\nprocess_start_time_seconds 1700000000\n");
    let old = serve_file(sandbox.path("old.prom"));
    write_targets(&sandbox, "west", &[&west.metrics, &old], "west");
    watchers.wait_until_fired(&[("NoBackup", "west")]);
    west.ok(&sandbox, &["store", "export", "--out", "copy-of-west"]);
    watchers.wait_until_clear();

    assert_eq!(watchers.bad_rules(), Vec::<String>::new());
    let queries = board_queries();
    assert!(queries.len() > 30, "{queries:?}");
    let empty = |query: &String| watchers.query(query).is_none_or(|found| found.is_empty());
    let empty: Vec<&String> = queries.iter().filter(|query| empty(query)).collect();
    assert_eq!(empty, Vec::<&String>::new());
}
