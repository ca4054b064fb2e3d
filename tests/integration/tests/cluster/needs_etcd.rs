//! Everything twice or more on a real etcd: the leading TIC and the route service at work die while
//! members come and packets flow.

use std::collections::BTreeSet;

use fabricast_integration::{Cluster, Layout, Part, Traffic, eventually, soon};
use fabricast_proto::v1;
use fabricast_rpc::Peer;
use fabricast_testing::Etcd;
use fabricast_topology::Faults;
use tokio::task::JoinSet;
use v1::administration_service_client::AdministrationServiceClient;

async fn leads(part: &Part) -> bool {
    let peer = Peer::new(&part.address().to_string()).unwrap();
    let mut client = AdministrationServiceClient::new(peer.channel());
    let said = client.get_server_info(v1::GetServerInfoRequest {}).await;
    said.is_ok_and(|said| said.into_inner().leadership.is_some_and(|said| said.leads))
}

/// Kills whichever of some parts leads; answers its number.
pub(crate) async fn kill_leader<'a>(parts: impl IntoIterator<Item = &'a mut Part>) -> usize {
    let mut parts: Vec<&mut Part> = parts.into_iter().collect();
    let found = eventually("one leads", async || {
        for (number, part) in parts.iter().enumerate() {
            if leads(part).await {
                return Ok(number);
            }
        }
        Err("none".to_owned())
    })
    .await;
    parts[found].kill();
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn leader_and_route_service_die_and_no_member_and_no_node_is_lost() {
    let etcd = Etcd::start(3).await;
    let tics = Some((3, etcd.url("integration")));
    let layout = Layout { tics, routers: 2, ..Layout::leaf_spine() };
    let mut cluster = Cluster::start(layout).await;
    let client = cluster.client.clone();
    client.join_all("all", &["n0", "n3", "n5", "n8", "n11", "n14"]).await;
    let traffic = Traffic::listen(&client).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    let groups = client.groups().await;
    let flow = traffic.flow(&groups);

    let mut joins = JoinSet::new();
    for index in 0..64 {
        let client = client.clone();
        let (node, process) = (format!("n{}", index % 16), format!("q{}", index / 16));
        joins.spawn(async move {
            let member = client.join_as("crowd", &node, &process).await;
            (format!("{node}/{process}"), member.expect("joins in the end").pn)
        });
    }
    let mut acknowledged = BTreeSet::new();
    while acknowledged.len() < 8 {
        acknowledged.insert(soon(joins.join_next()).await.unwrap().unwrap());
    }
    let tics = std::iter::once(&mut cluster.tic).chain(&mut cluster.other_tics);
    let tic = kill_leader(tics).await;
    let routers = std::iter::once(&mut cluster.router).chain(&mut cluster.other_routers);
    kill_leader(routers).await;
    while let Some(joined) = soon(joins.join_next()).await {
        acknowledged.insert(joined.unwrap());
    }
    let crowd = client.group("crowd").await;
    let recorded: BTreeSet<(String, u32)> = crowd
        .members
        .iter()
        .map(|member| (format!("{}/{}", member.node, member.process), member.pn))
        .collect();
    assert_eq!(recorded, acknowledged);
    assert!(flow.stop().await > 0);
    traffic.all_arrived(&groups).await;
    match tic {
        0 => cluster.tic.restart().await,
        other => cluster.other_tics[other - 1].restart().await,
    }
    cluster.is_whole(&traffic, &Faults::new()).await;
    for node in client.nodes().await.unwrap() {
        assert_eq!((node.state(), node.incarnation), (v1::NodeState::Up, 1), "{}", node.name);
    }
}
