//! Tables, failed links and killed agents, as the InfiniBand diagnostics see them.

mod discovered;
mod needs_opensm;

use std::collections::BTreeSet;

use fabricast_integration::{Conformance, Layout, eventually};
use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_proto::v1::switch_agent_service_client::SwitchAgentServiceClient;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_rpc::Peer;
use fabricast_topology::{Graph, TableKind};

use crate::{World, real_cluster};

fn switches_used(graph: &Graph, links: &[v1::TreeLink]) -> BTreeSet<String> {
    let names = links.iter().map(|link| link.switch_name.clone());
    names.filter(|name| graph.find_switch(name).is_some()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_diagnostics_read_the_tables_of_a_real_cluster_as_we_meant_them() {
    let mut world = World::start(real_cluster(24)).await;
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
    let mut world = World::start(layout).await;
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
    let mut world = World::start(layout).await;
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
    let mut world = World::start(layout).await;
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
