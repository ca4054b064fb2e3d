//! One join is one trace, through every part that had to do with it, each a process of its own.

#![expect(clippy::unwrap_used, reason = "a step that fails fails the test")]

#[path = "traces/collector.rs"]
pub(crate) mod collector;
#[path = "traces/world.rs"]
mod world;

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::process::Stdio;
use std::time::{Duration, Instant};

use collector::{Collector, hex};
use world::{Parts, World};

use crate::support::{Sandbox, data, free_address};

/// A bound for whatever must come about.
const SOON: Duration = Duration::from_secs(90);

/// Parts and calls of theirs that a join goes through.
const WAY: [(&str, &str); 9] = [
    ("fabricast-operating-agent", "fabricast.v1.OperatingAgentService/JoinGroup"),
    ("fabricast-tic", "fabricast.v1.TicService/JoinGroup"),
    // The group's agent, which gives the member its place.
    ("fabricast-operating-agent", "fabricast.v1.GroupAgentService/RegisterMembers"),
    // Through the watch, and down to the hardware.
    ("fabricast-switch-agent", "fabricast.v1.SwitchAgentService/WriteTables"),
    ("fabricast-fabric", "fabricast.v1.FabricService/WriteSwitchTables"),
    // And the way back.
    ("fabricast-tic", "fabricast.v1.TicService/ReportRoutes"),
    ("fabricast-operating-agent", "fabricast.v1.GroupAgentService/NotifyGroups"),
    ("fabricast-tic", "fabricast.v1.GroupBatchService/GetMany"),
    ("fabricast-operating-agent", "fabricast.v1.OperatingAgentService/UpdatePositions"),
];

#[tokio::test(flavor = "multi_thread")]
async fn one_join_is_one_trace_across_all_parts() {
    let (collector, url) = Collector::start().await;
    let world = World::start(&format!(
        "traces = '{url}'\nlog_format = 'json'\nlog = 'info,fabricast_switch=debug'"
    ));
    world.join("g", "node001", &world.founder, &[]);
    world.settled();
    let said = world.join("g", "gpu042", &world.joiner, &["--traces", &url, "--trace-id"]);
    let id = said.lines().last().unwrap().strip_prefix("fabricast: trace ").unwrap().to_owned();
    world.routed("g").await;

    let started = Instant::now();
    let (spans, missing) = loop {
        let spans = collector.trace(&id);
        let there: BTreeSet<_> = spans
            .iter()
            .filter(|span| span.is_server)
            .map(|span| (span.service.as_str(), span.name.as_str()))
            .collect();
        let missing: Vec<_> = WAY.iter().filter(|step| !there.contains(*step)).collect();
        let known: BTreeSet<_> = spans.iter().map(|span| span.id.clone()).collect();
        let orphans = spans.iter().filter(|span| !known.contains(&span.parent)).count();
        // The root has no parent; every other one's has arrived.
        if missing.is_empty() && orphans == 1 {
            break (spans, Vec::new());
        }
        if started.elapsed() > SOON {
            break (spans.clone(), missing);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    let names: Vec<_> = spans.iter().map(|span| (&span.service, &span.name)).collect();
    assert!(missing.is_empty(), "{missing:?} of {names:#?}");
    let of = |service: &str, name: &str| {
        spans.iter().find(|span| (span.service.as_str(), span.name.as_str()) == (service, name))
    };
    let root = of("fabricast-cli", "fabricast group join").unwrap();
    assert!(root.parent.is_empty());
    for (service, name) in [
        ("fabricast-tic", "commit"),
        ("fabricast-router", "route_groups"),
        ("fabricast-router", "plan"),
    ] {
        assert!(of(service, name).is_some(), "{service} {name} of {names:#?}");
    }
    let routing = of("fabricast-router", "route_groups").unwrap();
    let commit = spans.iter().find(|span| span.id == routing.parent).unwrap();
    assert_eq!((commit.service.as_str(), commit.name.as_str()), ("fabricast-tic", "commit"));
    let asked = of("fabricast-tic", "fabricast.v1.TicService/JoinGroup").unwrap();
    assert_eq!(asked.texts["rpc.system"], "grpc");
    assert_eq!(asked.texts["rpc.method"], "JoinGroup");
    assert_eq!(asked.texts["rpc.grpc.status_code"], "0");
    assert!(!asked.texts["fabricast.request_id"].is_empty());
    // The log of the part that wrote the tables says for which trace.
    let log = world.sandbox.read("switch-agent.log");
    let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let mut written = lines.filter(|line| line["message"] == "tables written");
    assert!(written.any(|line| line["trace_id"] == id.as_str()), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_not_there_keeps_nobody_from_joining() {
    let nowhere = format!("http://{}", free_address());
    let world = World::start(&format!("traces = '{nowhere}'"));
    world.join("g", "node001", &world.founder, &[]);
    let said = world.join("g", "gpu042", &world.joiner, &["--traces", &nowhere]);
    let why = format!("fabricast: the collector at {nowhere} does not take traces");
    assert_eq!(said.lines().last(), Some(why.as_str()));
    world.routed("g").await;
    let started = Instant::now();
    loop {
        let log = world.sandbox.read("tic.log");
        let said = log.matches("the collector does not take traces").count();
        assert!(said <= 1, "{log}");
        if said == 1 {
            return;
        }
        assert!(started.elapsed() < SOON, "{log}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// The number of the only trace that a collector knows a span of that name of; waits for it.
async fn only_trace_with(collector: &Collector, name: &str) -> String {
    let started = Instant::now();
    loop {
        let found: BTreeSet<Vec<u8>> = {
            let seen = collector.0.lock();
            let named = seen.iter().filter(|span| span.name == name);
            named.map(|span| span.trace.clone()).collect()
        };
        assert!(found.len() <= 1, "{found:?}");
        if let Some(trace) = found.first() {
            return hex(trace);
        }
        assert!(started.elapsed() < SOON, "no {name}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn all_parts_in_one_process_are_traced_too_and_their_users_begin_it() {
    let (collector, url) = Collector::start().await;
    let (sandbox, address) = (Sandbox::new(), free_address());
    let mut up = sandbox.command(&["up", "--listen", &address, "--traces", &url]);
    let up = up.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let _up = Parts(vec![up]);
    let words = ["group", "join", "g", "--node", "node001", "--server", &address];
    let started = Instant::now();
    while sandbox.run(&words).code != 0 {
        assert!(started.elapsed() < SOON, "nobody serves");
    }
    let written = "fabricast.v1.SwitchAgentService/WriteTables";
    let joined = "fabricast.v1.OperatingAgentService/JoinGroup";
    let words = ["group", "join", "g", "--node", "gpu042", "--server", &address];
    sandbox.ok(&words);
    let started = Instant::now();
    loop {
        // One of the two joins is the first that has anything to write.
        let traces: BTreeSet<String> = {
            let seen = collector.0.lock();
            seen.iter().filter(|span| span.name == written).map(|span| hex(&span.trace)).collect()
        };
        let root = |trace: &String| {
            let spans = collector.trace(trace);
            spans.iter().any(|span| span.name == joined && span.parent.is_empty())
                && spans.iter().all(|span| span.service == "fabricast")
        };
        if traces.iter().any(root) {
            return;
        }
        assert!(started.elapsed() < SOON, "{traces:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_share_of_traces_may_change_while_parts_run() {
    let (collector, url) = Collector::start().await;
    let none = format!("traces = '{url}'\ntrace_share = 0.0");
    let world = World::start(&none);
    world.join("g", "node001", &world.founder, &[]);
    world.join("g", "gpu042", &world.joiner, &[]);
    world.routed("g").await;
    assert!(collector.0.lock().is_empty(), "a share of nothing");
    let all = world.sandbox.read("f.toml").replace("trace_share = 0.0", "trace_share = 1.0");
    world.sandbox.write("f.toml", all);
    for part in &world.parts.0 {
        let line = format!("kill -HUP {}", part.id());
        assert!(std::process::Command::new("sh").args(["-c", &line]).status().unwrap().success());
    }
    let started = Instant::now();
    while !world.sandbox.read("operating-agent.log").contains("settings read again") {
        assert!(started.elapsed() < SOON, "no settings");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    world.join("h", "gpu042", &world.joiner, &[]);
    let id = only_trace_with(&collector, "fabricast.v1.OperatingAgentService/JoinGroup").await;
    assert_eq!(only_trace_with(&collector, "fabricast.v1.TicService/JoinGroup").await, id);
}

#[test]
fn a_collector_that_never_answers_is_not_waited_for() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", silent.local_addr().unwrap());
    let server = free_address();
    let run = Sandbox::new().run(&["group", "list", "--server", &server, "--traces", &url]);
    assert_eq!(run.code, 3, "nobody serves: {run:?}");
    assert!(
        run.stderr.contains(&format!("the collector at {url} does not take traces")),
        "{run:?}"
    );
}

#[test]
fn settings_of_traces_that_are_none_are_all_said_at_once() {
    let sandbox = Sandbox::new();
    let net = data("cluster-edr-96.ibnetdiscover");
    let text = format!(
        "[tic]\ncolors = 0\ntopology = '{net}'\nstore = 'memory'\n\
         [telemetry]\ntraces = 'https://collector:4317'\ntrace_share = 1.5\nlog = 'tic=loud'\nsample = 1\n"
    );
    sandbox.write("f.toml", text);
    let run = sandbox.run(&["tic", "--config", "f.toml", "--check-config"]);
    assert_eq!(run.code, 78);
    for line in [
        "f.toml:2: tic.colors: a switch has at least 1 table entry",
        "f.toml:6: telemetry.traces: 'https://collector:4317' is not an address of the form http://host:port",
        "f.toml:7: telemetry.trace_share: 1.5 is not from 0 to 1",
        "f.toml:8: telemetry.log: cannot read log filter 'tic=loud'",
        "f.toml:9: telemetry.sample: unknown field `sample`",
    ] {
        assert!(run.stderr.contains(line), "{line} of {}", run.stderr);
    }
    let server = free_address();
    let run = sandbox.run(&["group", "list", "--server", &server, "--traces", "collector"]);
    assert_eq!(run.code, 78);
    assert!(
        run.stderr.contains("--traces: telemetry.traces: 'collector' is not"),
        "{}",
        run.stderr
    );
}
