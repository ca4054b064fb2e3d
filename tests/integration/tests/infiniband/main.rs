//! The control plane over InfiniBand switches: ibsim answers the management packets, and the
//! InfiniBand diagnostics, which are not ours, read the tables back.
//!
//! The switch agent runs in a process of its own, this very program once more, because ibsim is
//! reached through a library that must be loaded before anything else.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod agent;
mod judge;
mod needs_ibsim;

use std::collections::BTreeMap;
use std::sync::Arc;

use fabricast_config::{NodeConfig, RoutingName};
use fabricast_integration::{Cluster, Layout, eventually};
use fabricast_testing::Ibsim;
use fabricast_topology::{TableKind, ibnetdiscover};

use agent::Agent;
use judge::Judge;

/// A control plane, the simulated switches under it, and who looks after both.
struct World {
    cluster: Cluster,
    agent: Agent,
    judge: Judge,
}

impl World {
    async fn start(layout: Layout) -> Self {
        Self::start_by(RoutingName::Directed, layout, None).await
    }

    /// The same with an agent that asks switches so, and a cable unplugged at the start: by one of
    /// its switch ports.
    async fn start_by(routing: RoutingName, layout: Layout, cable: Option<(&str, u8)>) -> Self {
        let text = ibnetdiscover::write(&layout.graph);
        let is_discovered = layout.discovered;
        let mut ibsim = Ibsim::start(&text);
        if let Some((switch, port)) = cable {
            ibsim.unlink(switch, port);
        }
        let judge = Judge::new(ibsim, &layout.graph);
        let (command, file) = judge.agent(&text);
        let mut agent = None;
        let cluster = Cluster::start_over(layout, async |tic| {
            let file = (!is_discovered).then_some(&*file);
            let started = Agent::start(command, file, routing, tic).await;
            let address = started.address();
            agent = Some(started);
            vec![address]
        })
        .await;
        Self { cluster, agent: agent.expect("started above"), judge }
    }

    /// Waits until the diagnostics see the very tables that the route service wants.
    async fn agrees(&mut self) {
        let Self { cluster, judge, .. } = self;
        eventually("the diagnostics agree", async || {
            cluster.client.is_settled().await?;
            let ours = cluster.client.read_tables().await?;
            judge.compare(&ours)
        })
        .await;
    }

    fn nodes(&self) -> Vec<String> {
        let nodes = self.cluster.layout.hosts.iter().flatten();
        nodes.map(|node| node.name.clone()).collect()
    }

    /// Forms groups of every so many nodes: strides 1 (everybody), 2, 3 and 5.
    async fn form_groups(&self) {
        let nodes = self.nodes();
        for stride in [1, 2, 3, 5] {
            let members: Vec<&str> = nodes.iter().step_by(stride).map(|node| &**node).collect();
            self.cluster.client.join_all(&format!("every-{stride}"), &members).await;
        }
    }
}

/// The real cluster of 96 hosts with so many of them as nodes.
fn real_cluster(nodes: usize) -> Layout {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../data/cluster-edr-96.ibnetdiscover");
    let graph = ibnetdiscover::read(&std::fs::read_to_string(file).unwrap()).unwrap();
    let spread = graph.endpoint_count() / nodes;
    let endpoints = graph.endpoints().step_by(spread).take(nodes);
    let names = endpoints.map(|endpoint| graph.endpoint_name(endpoint).to_owned());
    let node = |name: String| NodeConfig {
        name: name.replace(' ', "-"),
        endpoints: vec![name],
        interfaces: BTreeMap::new(),
    };
    let hosts = vec![names.map(node).collect()];
    let graph = Arc::new(graph);
    Layout { graph, hosts, ..Layout::leaf_spine() }.with_tables(TableKind::PerSwitch)
}
