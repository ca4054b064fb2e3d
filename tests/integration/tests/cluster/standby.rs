//! Two route services: one is at work, the other takes over and moves nothing that is right.

use fabricast_integration::{Cluster, Layout, Traffic, copied, eventually};
use fabricast_proto::v1;
use fabricast_rpc::{Leader, Peer, Reason, RpcError};
use fabricast_topology::Faults;
use v1::route_service_client::RouteServiceClient;

fn two_routers(layout: Layout) -> Layout {
    Layout { routers: 2, ..layout }
}

/// Status of one route service.
pub(crate) async fn status(router: &fabricast_integration::Part) -> v1::GetRouteStatusResponse {
    let leader = Leader::new(&[router.address().to_string()]).unwrap();
    let mut client = RouteServiceClient::new(leader.channel());
    client.get_route_status(v1::GetRouteStatusRequest {}).await.unwrap().into_inner()
}

async fn with_groups(layout: Layout) -> (Cluster, Traffic) {
    let cluster = Cluster::start(layout).await;
    cluster.client.join_all("all", &["n0", "n3", "n5", "n8", "n11", "n14"]).await;
    cluster.client.join_all("left", &["n0", "n1", "n4", "n6"]).await;
    let traffic = Traffic::listen(&cluster.client).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    (cluster, traffic)
}

#[tokio::test]
async fn a_takeover_with_nothing_changed_writes_nothing() {
    let (mut cluster, traffic) = with_groups(two_routers(Layout::leaf_spine())).await;
    let client = cluster.client.clone();
    let (first, second) = (status(&cluster.router).await, status(&cluster.other_routers[0]).await);
    assert_ne!(first.active, second.active, "one is at work: {first:?} {second:?}");
    let (works, waits) =
        if first.active { (&cluster.router, &second) } else { (&cluster.other_routers[0], &first) };
    assert_eq!(waits.active_address, works.address().to_string(), "it is told where to ask");
    let groups = client.groups().await;
    let (tables, revision) = (client.tables().await, client.revision().await);
    let flow = traffic.flow(&groups);
    let one = &mut cluster.router;
    let dies = if first.active { one } else { &mut cluster.other_routers[0] };
    dies.kill();
    client.settled().await;
    let now = client.route_status().await.unwrap();
    let term = first.fence.or(second.fence).unwrap().term;
    assert!(now.active && now.fence.unwrap().term > term);
    let after = client.tables().await;
    assert_eq!(copied(&after), copied(&tables), "byte for byte");
    for table in &after {
        // It has shown its term to every switch, and nothing else.
        let fence = table.fence.unwrap();
        assert_eq!((fence.term, fence.generation), (now.fence.unwrap().term, 0));
    }
    assert_eq!(client.revision().await, revision, "nothing was reported anew");
    assert!(flow.stop().await > 0);
    traffic.all_arrived(&groups).await;
}

/// A standby has compared no table: its answer would say that all is well.
#[tokio::test]
async fn a_standby_lists_no_drifts_and_names_the_one_that_does() {
    let cluster = Cluster::start(two_routers(Layout::leaf_spine())).await;
    cluster.client.join_all("all", &["n0", "n5"]).await;
    cluster.client.settled().await;
    let first = status(&cluster.router).await.active;
    let (one, other) = (&cluster.router, &cluster.other_routers[0]);
    let (works, waits) = if first { (one, other) } else { (other, one) };
    let channel = Peer::new(&waits.address().to_string()).unwrap().channel();
    let request = v1::ListTableDriftsRequest {};
    let refused = RouteServiceClient::new(channel).list_table_drifts(request).await.unwrap_err();
    let refused = RpcError::from(refused);
    assert_eq!(refused.reason(), Some(Reason::NotLeader), "{refused:?}");
    assert_eq!(refused.fact("leader"), Some(works.address().to_string()));
    // A client that knows only the standby is led to it.
    let leader = Leader::new(&[waits.address().to_string()]).unwrap();
    let mut client = RouteServiceClient::new(leader.channel());
    eventually("the active one has compared tables", async || {
        let listed = client.list_table_drifts(request).await.map_err(|error| error.to_string())?;
        let listed = listed.into_inner();
        if listed.compared_tables > 0 { Ok(()) } else { Err(format!("{listed:?}")) }
    })
    .await;
}

#[tokio::test]
async fn what_one_has_half_programmed_when_it_dies_the_other_brings_to_its_end() {
    let (mut cluster, traffic) = with_groups(two_routers(Layout::leaf_spine())).await;
    let client = cluster.client.clone();
    for round in 0..3 {
        let before = client.route_status().await.unwrap();
        // Writes begin while the joins are still coming in.
        let (joining, names) = (client.clone(), ["n2", "n7", "n9", "n10", "n13", "n15"]);
        let joins = tokio::spawn(async move {
            for group in 0..6 {
                joining.join_all(&format!("late-{round}-{group}"), &names).await;
            }
        });
        eventually("programming has begun", async || {
            let now = client.route_status().await?;
            let begun = now.fence != before.fence || !now.active;
            if begun { Ok(()) } else { Err(format!("{now:?}")) }
        })
        .await;
        let first = status(&cluster.router).await.active;
        let dies = if first { &mut cluster.router } else { &mut cluster.other_routers[0] };
        dies.kill();
        joins.await.unwrap();
        client.settled().await;
        let dies = if first { &mut cluster.router } else { &mut cluster.other_routers[0] };
        dies.restart().await;
    }
    cluster.is_whole(&traffic, &Faults::new()).await;
}

#[tokio::test]
async fn one_that_is_stopped_gives_its_term_to_the_other_at_once() {
    // Nobody gets it by waiting.
    let route_lease = std::time::Duration::from_secs(3_600);
    let layout = Layout { route_lease, ..two_routers(Layout::leaf_spine()) };
    let (mut cluster, traffic) = with_groups(layout).await;
    let first = status(&cluster.router).await.active;
    let stops = if first { &mut cluster.router } else { &mut cluster.other_routers[0] };
    stops.stop().await;
    cluster.client.join_all("later", &["n2", "n7"]).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
}
