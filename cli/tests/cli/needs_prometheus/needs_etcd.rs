//! Faults that need parts as processes of their own: of many nodes, of the store, and of the
//! collector of traces.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use fabricast_testing::{Etcd, Proxy};

use super::watchers::{Watchers, pause, serve_file, write_targets};
use super::{Part, TOPOLOGY};
use crate::support::{Sandbox, free_address};
use crate::traces::collector::Collector;

/// The parts of one cluster, on one etcd, with traces.
struct Cluster {
    parts: Vec<Part>,
    /// Serves all nodes.
    agent: Part,
}

impl Cluster {
    fn start(sandbox: &Sandbox, store: &str, traces: &str) -> Self {
        let [fabric, tic, switches, router, agents] = std::array::from_fn(|_| free_address());
        let node = |i| format!("{{ name = 'h{i}', endpoints = ['h{i}'] }}");
        let nodes: Vec<String> = (0..16).map(node).collect();
        let text = format!(
            "[telemetry]\ntraces = 'http://{traces}'\n\
             [fabric]\nlisten = '{fabric}'\ntopology = 't.toml'\nmanagement_key = 'k'\n\
             [tic]\nlisten = '{tic}'\ntopology = 't.toml'\nstore = '{store}'\nleader_lease = '2s'\n\
             [switch_agent]\nlisten = '{switches}'\nname = 'a'\nmanagement_key = 'k'\n\
             tic = '{tic}'\nfabric = '{fabric}'\n\
             [router]\nlisten = '{router}'\ntic = '{tic}'\nswitch_agents = ['{switches}']\n\
             [operating_agent]\nlisten = '{agents}'\ntic = '{tic}'\nfabric = '{fabric}'\n\
             nodes = [{}]\n",
            nodes.join(", ")
        );
        sandbox.write("north.toml", text);
        let start = |role: &str, address: &str| {
            let arguments = [role, "--config", "north.toml"];
            Part::start(sandbox, &arguments, address, &free_address())
        };
        let roles = ["fabric", "tic", "switch-agent", "router"];
        let addresses = [&fabric, &tic, &switches, &router];
        let parts = roles.into_iter().zip(addresses).map(|(role, address)| start(role, address));
        let parts = parts.collect();
        Self { parts, agent: start("operating-agent", &agents) }
    }

    /// Does something while a process joins and leaves: a cluster at rest has no spans.
    fn while_joining(&self, sandbox: &Sandbox, act: impl FnOnce()) {
        // With members that stay, the group has a route all the time.
        for node in ["h1", "h2"] {
            self.agent.ok(sandbox, &["group", "join", "g", "--node", node]);
        }
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    for verb in ["join", "leave"] {
                        self.agent.ok(sandbox, &["group", verb, "g", "--node", "h0"]);
                    }
                    pause();
                }
            });
            let _end = OnDrop(&is_over);
            act();
        });
        for node in ["h1", "h2"] {
            self.agent.ok(sandbox, &["group", "leave", "g", "--node", node]);
        }
    }

    fn signal_agent(&self, signal: &str) {
        let pid = self.agent.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.expect("kill is everywhere").success());
    }
}

/// Is set when it is dropped, also by a panic.
struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
#[ignore = "takes a minute: cargo xtask alerts"]
fn faults_of_nodes_the_store_and_the_collector_are_told_and_mended_ones_no_more() {
    let sandbox = Sandbox::new();
    sandbox.write("t.toml", TOPOLOGY);
    std::fs::create_dir(sandbox.path("targets")).expect("room");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (etcd, collector) = runtime.block_on(async {
        let (_, url) = Collector::start().await;
        let collector = Proxy::start(url.trim_start_matches("http://")).await;
        (Etcd::start(1).await, collector)
    });
    let north = Cluster::start(&sandbox, &etcd.url("north"), &collector.address());
    // The agent is left out: what is frozen gives no metrics, which is an alert of its own.
    let metrics: Vec<&str> = north.parts.iter().map(|part| part.metrics.as_str()).collect();
    write_targets(&sandbox, "north", &metrics, "north");
    let mut watchers = Watchers::start(&sandbox, &serve_file(sandbox.path("copy.prom")));
    watchers.wait_until_clear();

    collector.cut();
    north.while_joining(&sandbox, || watchers.wait_until_fired(&[("TracesLost", "north")]));
    collector.mend();
    watchers.wait_until_clear();

    north.signal_agent("-STOP");
    watchers.wait_until_fired(&[("NodesHeld", "north")]);
    north.signal_agent("-CONT");
    watchers.wait_until_clear();

    etcd.pause(0);
    watchers.wait_until_fired(&[("StoreFails", "north"), ("NoTicLeads", "north")]);
    etcd.resume(0);
    watchers.wait_until_clear();
    assert_eq!(watchers.bad_rules(), Vec::<String>::new());
}
