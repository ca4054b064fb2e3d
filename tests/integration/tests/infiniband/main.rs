//! The control plane over InfiniBand switches: ibsim answers the management packets, and the
//! InfiniBand diagnostics, which are not ours, read the tables back.
//!
//! The switch agent runs in a process of its own, this very program once more, because ibsim is
//! reached through a library that must be loaded before anything else.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail the test")]

mod agent;
mod discovered;
mod judge;
mod opensm;

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_config::{NodeConfig, RoutingName};
use fabricast_integration::{Cluster, Conformance, Layout, eventually};
use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_proto::v1::switch_agent_service_client::SwitchAgentServiceClient;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_rpc::Peer;
use fabricast_testing::Ibsim;
use fabricast_topology::{Graph, TableKind, ibnetdiscover};

use agent::Agent;
use judge::Judge;

/// A control plane, the simulated switches under it, and who looks after both.
struct World {
    cluster: Cluster,
    agent: Agent,
    judge: Judge,
}

impl World {
    /// Starts everything; `None` where there is no ibsim.
    async fn start(layout: Layout) -> Option<Self> {
        Self::start_by(RoutingName::Directed, layout, None).await
    }

    /// The same with an agent that asks switches so, and a cable unplugged at the start: by one of
    /// its switch ports.
    async fn start_by(
        routing: RoutingName,
        layout: Layout,
        cable: Option<(&str, u8)>,
    ) -> Option<Self> {
        let text = ibnetdiscover::write(&layout.graph);
        let is_discovered = layout.discovered;
        let mut ibsim = Ibsim::start(&text)?;
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
        Some(Self { cluster, agent: agent?, judge })
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
    let node = |name: String| NodeConfig { name: name.replace(' ', "-"), endpoints: vec![name] };
    let hosts = vec![names.map(node).collect()];
    let graph = Arc::new(graph);
    Layout { graph, hosts, ..Layout::leaf_spine() }.with_tables(TableKind::PerSwitch)
}

fn switches_used(graph: &Graph, links: &[v1::TreeLink]) -> BTreeSet<String> {
    let names = links.iter().map(|link| link.switch_name.clone());
    names.filter(|name| graph.find_switch(name).is_some()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_diagnostics_read_the_tables_of_a_real_cluster_as_we_meant_them() {
    let Some(mut world) = World::start(real_cluster(24)).await else { return };
    world.form_groups().await;
    world.agrees().await;
    assert!(world.judge.entries_seen() > 0);
    let nodes = world.nodes();
    for node in nodes.iter().step_by(4) {
        world.cluster.client.leave("every-1", node).await.unwrap();
    }
    world.agrees().await;
}

/// The same suite that the driver of the emulated fabric passes.
#[tokio::test(flavor = "multi_thread")]
async fn the_driver_of_infiniband_switches_conforms() {
    let layout = Layout::three_levels().with_tables(TableKind::PerSwitch);
    let Some(mut world) = World::start(layout).await else { return };
    world.cluster.router.kill(); // it would take away what it has not written
    let peer = Peer::new(&world.agent.address().to_string()).unwrap();
    let tic = Peer::new(&world.cluster.tic.address().to_string()).unwrap();
    let request = v1::AcquireRouteTermRequest {
        router: "conformance".to_owned(),
        take_over: true,
        ..Default::default()
    };
    let granted = TicServiceClient::new(tic.channel()).acquire_route_term(request).await;
    let term = granted.unwrap().into_inner().term;
    let suite = Conformance::new(SwitchAgentServiceClient::new(peer.channel()), term);
    let link = suite.check().await;
    let number = u8::try_from(link.1).unwrap();
    world.judge.ibsim.unlink(&link.0, number);
    suite.link_is(&link, false).await;
    world.judge.ibsim.relink(&link.0, number);
    suite.link_is(&link, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_link_is_gone_round_and_its_return_brings_the_old_tables_back() {
    let layout = Layout::three_levels().with_tables(TableKind::PerSwitch);
    let Some(mut world) = World::start(layout).await else { return };
    world.form_groups().await;
    world.agrees().await;
    let before = world.cluster.client.tables().await;
    let link = world.cluster.client.tree_link("every-1").await;
    let Kind::Link(port) = link else { panic!("a tree of several switches has links") };
    let number = u8::try_from(port.port).unwrap();
    world.judge.ibsim.unlink(&port.switch_name, number);
    let client = &world.cluster.client;
    eventually("the tree goes round the link", async || {
        let tree = client.explain("every-1").await?;
        let uses = tree.links.iter().any(|link| {
            (&link.switch_name, link.port) == (&port.switch_name, port.port)
                || (&link.peer, link.peer_port) == (&port.switch_name, port.port)
        });
        let used = switches_used(&world.cluster.layout.graph, &tree.links);
        if uses || used.is_empty() { Err(format!("{tree:?}")) } else { Ok(()) }
    })
    .await;
    world.agrees().await;
    world.judge.ibsim.relink(&port.switch_name, number);
    let client = &world.cluster.client;
    eventually("the old tables are back", async || {
        client.is_settled().await?;
        let entries = |tables: &[v1::SwitchTable]| -> Vec<_> {
            tables.iter().map(|table| (table.switch_name.clone(), table.entries.clone())).collect()
        };
        let now = client.read_tables().await?;
        if entries(&now) == entries(&before) { Ok(()) } else { Err("not yet".to_owned()) }
    })
    .await;
    world.agrees().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_killed_while_it_programs_leaves_nothing_wrong_behind() {
    let layout = Layout::leaf_spine().with_tables(TableKind::PerSwitch);
    let Some(mut world) = World::start(layout).await else { return };
    let nodes = world.nodes();
    for round in 0..4 {
        let members: Vec<&str> = nodes.iter().skip(round).map(|node| &**node).collect();
        let client = &world.cluster.client;
        let group = format!("round-{round}");
        tokio::join!(client.join_all(&group, &members), async {
            world.agent.kill().await;
            world.agent.restart().await;
        });
    }
    world.agrees().await;
}
