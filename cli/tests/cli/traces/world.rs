//! A cluster of processes on one network, with a folder for their settings and logs.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use fabricast_proto::v1;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_rpc::Peer;
use tonic::Response;

use super::SOON;
use crate::support::{Sandbox, data, free_address};

/// Processes that are killed when the test is over.
pub(crate) struct Parts(pub(crate) Vec<Child>);

impl Drop for Parts {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // One that has ended already is as good.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A cluster of processes on one network, and how to reach it.
pub(crate) struct World {
    pub(crate) sandbox: Sandbox,
    pub(crate) parts: Parts,
    tic: String,
    router: String,
    pub(crate) founder: String,
    pub(crate) joiner: String,
}

impl World {
    /// Starts all parts.
    ///
    /// - `telemetry`: the settings that all of them have.
    pub(crate) fn start(telemetry: &str) -> Self {
        let (sandbox, net) = (Sandbox::new(), data("cluster-edr-96.ibnetdiscover"));
        let [fabric, switches, founder, joiner, tic, router] =
            std::array::from_fn(|_| free_address());
        let text = format!(
            "[telemetry]\n{telemetry}\n\
             [fabric]\nlisten = '{fabric}'\ntopology = '{net}'\nmanagement_key = 'k'\n\
             [tic]\nlisten = '{tic}'\ntopology = '{net}'\nstore = 'memory'\nreport_timeout = '1h'\n\
             [switch_agent]\nlisten = '{switches}'\nname = 'a'\nmanagement_key = 'k'\n\
             tic = ['{tic}']\nfabric = '{fabric}'\n\
             [router]\nlisten = '{router}'\ntic = ['{tic}']\nswitch_agents = ['{switches}']\n\
             [operating_agent]\nfabric = '{fabric}'\nreport_timeout = '1h'\ntic = ['{tic}']\n"
        );
        sandbox.write("f.toml", &text);
        let mut parts = Parts(Vec::new());
        for role in ["fabric", "tic", "switch-agent", "router"] {
            parts.0.push(spawn(&sandbox, role, &[]));
        }
        for (node, at) in [("node001", &founder), ("gpu042", &joiner)] {
            let nodes = format!("[{{ name = '{node}', endpoints = ['{node} HCA-1'] }}]");
            let variables = [
                ("FABRICAST_OPERATING_AGENT__LISTEN", at.as_str()),
                ("FABRICAST_OPERATING_AGENT__NODES", nodes.as_str()),
            ];
            parts.0.push(spawn(&sandbox, "operating-agent", &variables));
        }
        Self { sandbox, parts, tic, router, founder, joiner }
    }

    /// Joins a process to a group, as an administrator does, and answers what was said.
    pub(crate) fn join(&self, group: &str, node: &str, server: &str, more: &[&str]) -> String {
        let words = ["group", "join", group, "--node", node, "--process", "p", "--server", server];
        let started = Instant::now();
        loop {
            let run = self.sandbox.run(&[&words, more].concat());
            if run.code == 0 {
                return run.stderr;
            }
            assert!(started.elapsed() < SOON, "{}", run.stderr);
        }
    }

    /// Waits until the route service has its term and knows the switches: what it plans before is
    /// written in a later turn, which is of no trace.
    pub(crate) fn settled(&self) {
        let words = ["route", "status", "--server", &self.router, "--format", "json"];
        let started = Instant::now();
        loop {
            let run = self.sandbox.run(&words);
            let status: serde_json::Value = serde_json::from_str(&run.stdout).unwrap_or_default();
            if status["active"] == true && status["settled"] == true {
                return;
            }
            assert!(started.elapsed() < SOON, "{run:?}");
        }
    }

    /// Waits until the switches carry a group of two.
    pub(crate) async fn routed(&self, group: &str) {
        let started = Instant::now();
        loop {
            let mut tic = TicServiceClient::new(Peer::new(&self.tic).unwrap().channel());
            let request = v1::GetGroupRequest { group: group.to_owned(), ..Default::default() };
            let answer = tic.get_group(request).await.map(Response::into_inner);
            let group = answer.ok().and_then(|answer| answer.group).unwrap_or_default();
            let route = group.route.unwrap_or_default();
            if route.state() == v1::RouteState::Routed
                && route.routed_revision >= group.members_revision
                && group.member_count == 2
            {
                return;
            }
            assert!(started.elapsed() < SOON, "no route");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Starts a part; its log is in a file of its name, the last one's if there are several.
fn spawn(sandbox: &Sandbox, role: &str, variables: &[(&str, &str)]) -> Child {
    let mut command = sandbox.command(&[role, "--config", "f.toml"]);
    command.envs(variables.iter().copied());
    let log = std::fs::File::create(sandbox.path(&format!("{role}.log"))).unwrap();
    command.stdout(Stdio::null()).stderr(log).spawn().unwrap()
}
