//! Fault tolerance with two trees for every group, in the running system: links and switches die
//! while packets flow, and every process gets every packet once.

use fabricast_integration::{Cluster, Layout, Traffic, copied, eventually};
use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_topology::{Faults, Peer, SwitchId, TableKind};

/// Packets that are sent while a part is dead.
const PACKETS: usize = 20;

/// Links between switches and switches above the leaves, each alone.
fn parts(layout: &Layout) -> Vec<Kind> {
    let graph = &layout.graph;
    let is_leaf = |switch: SwitchId| {
        graph.ports(switch).any(|port| matches!(graph.peer(port), Peer::Endpoint(_)))
    };
    let mut parts = Vec::new();
    for switch in graph.switches() {
        let name = graph.switch_name(switch).to_owned();
        let up = graph
            .ports(switch)
            .find(|port| matches!(graph.peer(*port), Peer::Switch(far) if *port < far));
        parts.extend(up.map(|port| {
            let port = u32::from(graph.port_number(port));
            Kind::Link(v1::PortName { switch_name: name.clone(), port })
        }));
        if !is_leaf(switch) {
            parts.push(Kind::SwitchName(name));
        }
    }
    parts
}

/// Kills one part after the other under traffic, each healed and the tables whole again before the
/// next.
async fn loses_nothing(layout: Layout) {
    let cluster = Cluster::start(layout.with_fault_tolerance()).await;
    let client = &cluster.client;
    let traffic = Traffic::listen(client).await;
    for (group, nodes) in [("all", &["n0", "n3", "n6", "n9", "n12"][..]), ("near", &["n0", "n1"])] {
        client.join_all(group, nodes).await;
    }
    client.join_all("far", &["n0", "n15"]).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    let tables = copied(&client.read_tables().await.unwrap());
    let groups = client.groups().await;
    let flow = traffic.flow(&groups);
    let mut hit = 0;
    for part in parts(&cluster.layout) {
        client.fail(part.clone()).await;
        let is_link = matches!(part, Kind::Link(_));
        let enough = flow.sent() + PACKETS;
        eventually("packets flow on", async || {
            if flow.sent() < enough { Err(format!("{} sent", flow.sent())) } else { Ok(()) }
        })
        .await;
        if is_link {
            // Nothing is written for a dead link; a dead switch has no tables.
            assert_eq!(copied(&client.read_tables().await.unwrap()), tables);
        }
        hit += client.route_status().await.unwrap().unprotected_groups;
        client.heal(part).await;
        eventually("the tables are as before", async || {
            client.is_settled().await?;
            let now = copied(&client.read_tables().await?);
            if now == tables { Ok(()) } else { Err("other tables".to_owned()) }
        })
        .await;
    }
    assert!(hit > 0, "some part was in use");
    flow.stop().await;
    traffic.all_arrived(&groups).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_when_a_link_or_switch_dies() {
    loses_nothing(Layout::four_levels()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_lost_with_per_switch_tables() {
    loses_nothing(Layout::three_levels().with_tables(TableKind::PerSwitch)).await;
}

/// A group that was moved from a dead link stays when that is back, and a route service that starts
/// anew leaves it there, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_group_that_is_told_to_stay_stays() {
    let mut cluster = Cluster::start(Layout::four_levels().with_staying_groups()).await;
    let client = cluster.client.clone();
    let traffic = Traffic::listen(&client).await;
    client.join_all("far", &["n0", "n7", "n15"]).await;
    client.settled().await;
    let at_home = copied(&client.tables().await);
    let link = client.tree_link("far").await;
    client.fail(link.clone()).await;
    eventually("the group has moved", async || {
        client.is_settled().await?;
        let reason = client.explain("far").await?.reason;
        if reason.starts_with("moved") { Ok(()) } else { Err(reason) }
    })
    .await;
    client.settled().await;
    let moved = copied(&client.tables().await);
    assert_ne!(moved, at_home);
    client.heal(link).await;
    let revision = client.revision().await;
    eventually("the healing is known", async || {
        let seen = client.route_status().await?.seen_revision;
        if seen >= revision { client.is_settled().await } else { Err(format!("{seen}")) }
    })
    .await;
    assert_eq!(copied(&client.tables().await), moved);
    cluster.router.kill();
    cluster.router.restart().await;
    client.settled().await;
    assert_eq!(copied(&client.tables().await), moved, "the next route service knows of it");
    let explained = client.explain("far").await.unwrap();
    assert!(explained.reason.contains("it stays where it went"), "{}", explained.reason);
    cluster.is_whole(&traffic, &Faults::new()).await;
}
