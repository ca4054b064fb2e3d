//! Links that an administrator takes out of service.

use fabricast_integration::{Client, Cluster, Layout, Traffic, eventually};
use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_rpc::reason_of;
use fabricast_topology::{Faults, Graph, Peer, PortId};

/// The links between a leaf and a switch above it.
struct Links {
    between: [String; 2],
    faults: Faults,
    /// Ports of the leaf.
    ports: Vec<PortId>,
}

/// The links between the switches of a link that carries a group.
async fn links_of(client: &Client, graph: &Graph, group: &str) -> Links {
    let Kind::Link(end) = client.tree_link(group).await else { panic!("a link") };
    let switch = graph.find_switch(&end.switch_name).unwrap();
    let port = graph.port(switch, u8::try_from(end.port).unwrap()).unwrap();
    let Peer::Switch(peer) = graph.peer(port) else { panic!("between switches") };
    let peer = graph.switch_of(peer);
    let is_leaf = |at| graph.ports(at).any(|port| matches!(graph.peer(port), Peer::Endpoint(_)));
    let (switch, peer) = if is_leaf(switch) { (switch, peer) } else { (peer, switch) };
    let leads = |port: &PortId| match graph.peer(*port) {
        Peer::Switch(other) => graph.switch_of(other) == peer,
        Peer::Endpoint(_) | Peer::None => false,
    };
    let mut faults = Faults::new();
    let ports: Vec<PortId> = graph.ports(switch).filter(leads).collect();
    for port in &ports {
        faults.fail_link(graph, *port);
    }
    let between = [switch, peer].map(|switch| graph.switch_name(switch).to_owned());
    Links { between, faults, ports }
}

async fn drain(client: &Client, [from, to]: [&str; 2], validate_only: bool) -> Result<(), String> {
    let request = v1::DrainLinkRequest {
        switch_name: from.to_owned(),
        peer_switch_name: to.to_owned(),
        port: 0,
        validate_only,
    };
    let answer = client.topologies().drain_link(request).await;
    let links = answer.map_err(|status| reason_of(&status).unwrap_or_default())?.into_inner().links;
    assert!(!links.is_empty() && links.iter().all(|link| link.end.is_some() && !link.needed));
    Ok(())
}

/// Numbers of the drained links, and of those that are needed.
async fn drained(client: &Client) -> (usize, usize) {
    let request = v1::ListDrainedLinksRequest {};
    let links = client.topologies().list_drained_links(request).await.unwrap().into_inner().links;
    (links.len(), links.iter().filter(|link| link.needed).count())
}

#[tokio::test]
async fn trees_move_off_drained_links_without_losing_packets_and_keep_off_them() {
    let mut cluster = Cluster::start(Layout::leaf_spine()).await;
    let client = cluster.client.clone();
    let graph = std::sync::Arc::clone(&cluster.layout.graph);
    let traffic = Traffic::listen(&client).await;
    for (group, nodes) in [("a", ["n0", "n5", "n10"]), ("b", ["n1", "n5", "n11"])] {
        client.join_all(group, &nodes).await;
    }
    cluster.is_whole(&traffic, &Faults::new()).await;
    let links = links_of(&client, &graph, "a").await;
    let [from, to] = &links.between;
    drain(&client, [from, to], true).await.unwrap();
    assert_eq!(drained(&client).await, (0, 0), "it was only asked for");
    assert_eq!(drain(&client, [from, from], false).await, Err("UNKNOWN_ELEMENT".to_owned()));
    assert_eq!(drain(&client, [from, "none"], false).await, Err("UNKNOWN_ELEMENT".to_owned()));

    let flow = traffic.flow(&client.groups().await);
    drain(&client, [from, to], false).await.unwrap();
    drain(&client, [to, from], false).await.unwrap();
    client.moved("a", true).await;
    client.settled().await;
    flow.stop().await;
    // No table needs the links, nor has an entry for them.
    cluster.is_whole(&traffic, &links.faults).await;
    client.join_all("later", &["n0", "n5", "n10", "n15"]).await;
    cluster.is_whole(&traffic, &links.faults).await;
    cluster.tic.kill();
    cluster.tic.restart().await;
    eventually("the links are drained after a restart", async || {
        let count = drained(&client).await;
        (count == (links.ports.len(), 0)).then_some(()).ok_or_else(|| format!("{count:?}"))
    })
    .await;
    cluster.is_whole(&traffic, &links.faults).await;

    // The other way out of the leaf may not be drained; if it fails, the drained one is used.
    let leaf = graph.switch_of(links.ports[0]);
    let others: Vec<PortId> = graph
        .ports(leaf)
        .filter(|port| matches!(graph.peer(*port), Peer::Switch(_)) && !links.ports.contains(port))
        .collect();
    let Peer::Switch(other) = graph.peer(others[0]) else { panic!("listed as such") };
    let other = graph.switch_name(graph.switch_of(other)).to_owned();
    let leaf = graph.switch_name(leaf).to_owned();
    assert_eq!(drain(&client, [&leaf, &other], true).await, Err("LINK_NEEDED".to_owned()));
    let mut faults = Faults::new();
    for port in others {
        faults.fail_link(&graph, port);
        let port = u32::from(graph.port_number(port));
        client.fail(Kind::Link(v1::PortName { switch_name: leaf.clone(), port })).await;
    }
    cluster.is_whole(&traffic, &faults).await;
    assert_ne!(drained(&client).await.1, 0);
    for group in client.groups().await {
        let route = group.route.unwrap();
        assert!(route.cut_off_endpoints.is_empty(), "{}: {route:?}", group.name);
    }
    let resume =
        v1::ResumeLinkRequest { switch_name: from.clone(), peer_switch_name: to.clone(), port: 0 };
    client.topologies().resume_link(resume).await.unwrap();
    assert_eq!(drained(&client).await, (0, 0));
    cluster.is_whole(&traffic, &faults).await;
}
