//! Groups move to better homes while their packets flow.

use fabricast_integration::{Cluster, Layout, Traffic};
use fabricast_proto::v1;
use fabricast_rpc::Reason;
use fabricast_topology::{Faults, Mgid, TableKind};
use tonic::Code;

async fn plan(cluster: &Cluster, most_moves: u32) -> v1::PlanRebalanceResponse {
    let request = v1::PlanRebalanceRequest { most_moves };
    cluster.client.router().plan_rebalance(request).await.unwrap().into_inner()
}

/// Three groups whose creators gave MGIDs of one tree are merged, though other trees are free.
async fn merged_groups_spread(layout: Layout) {
    let space = layout.space();
    let on_first = |mgid: &u32| space.spt(Mgid(*mgid)) == space.spt(Mgid(0));
    let mgids: Vec<u32> = (0..).filter(on_first).take(3).collect();
    let cluster = Cluster::start(layout).await;
    let client = &cluster.client;
    let traffic = Traffic::listen(client).await;
    let members: [&[&str]; 3] = [&["n0", "n5", "n10"], &["n1", "n5", "n11"], &["n0", "n6", "n10"]];
    for (at, (mgid, members)) in mgids.iter().zip(members).enumerate() {
        client.join_fixed(&format!("g{at}"), *mgid, members).await;
    }
    cluster.is_whole(&traffic, &Faults::new()).await;
    assert_eq!(client.route_status().await.unwrap().max_tfi, 3);
    let revision = client.revision().await;

    let planned = plan(&cluster, 0).await;
    assert_eq!(planned, plan(&cluster, 0).await);
    assert_eq!(client.revision().await, revision, "it only plans");
    let (before, after) = (planned.before.unwrap(), planned.after.unwrap());
    assert_eq!((before.max_tfi, after.max_tfi), (3, 1));
    let saved: i64 = planned.moves.iter().map(|one| one.saved_links).sum();
    assert_eq!(before.crossed_links, after.crossed_links + saved.cast_unsigned());
    let one = plan(&cluster, 1).await;
    assert_eq!(one.moves, planned.moves[..1]);
    assert!(one.partial && !planned.partial);

    let flow = traffic.flow(&client.groups().await);
    let moves: Vec<_> = planned.moves.into_iter().filter_map(|one| one.r#move).collect();
    let moved = client.tic().move_groups(v1::MoveGroupsRequest { moves: moves.clone() }).await;
    assert_eq!(moved.unwrap().into_inner().moved_groups.len(), moves.len());
    client.settled().await;
    flow.stop().await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    let status = client.route_status().await.unwrap();
    assert_eq!((status.max_tfi, status.max_efi), (1, after.max_efi));
    assert_eq!(plan(&cluster, 0).await.moves, []);
    let again = client.tic().move_groups(v1::MoveGroupsRequest { moves }).await;
    assert_eq!(again.unwrap().into_inner().moved_groups, [""; 0], "they are elsewhere by now");
}

#[tokio::test]
async fn merged_groups_spread_over_free_trees_without_losing_packets() {
    merged_groups_spread(Layout::leaf_spine()).await;
}

#[tokio::test]
async fn merged_groups_spread_with_one_table_per_switch() {
    merged_groups_spread(Layout::leaf_spine().with_tables(TableKind::PerSwitch)).await;
}

#[tokio::test]
async fn plans_that_cannot_be_made_are_refused() {
    let cluster = Cluster::start(Layout::leaf_spine()).await;
    let mut router = cluster.client.router();
    let request = v1::PlanRebalanceRequest { most_moves: 1001 };
    let refused = router.plan_rebalance(request).await.unwrap_err();
    assert_eq!(refused.message(), "most_moves: 1001 exceeds the limit of 1000");
    let cluster = cluster.with_engine("mr4lms".parse().unwrap()).await;
    cluster.client.settled().await; // the other route service is at work
    let mut router = cluster.client.router();
    let refused = router.plan_rebalance(v1::PlanRebalanceRequest::default()).await.unwrap_err();
    assert!(Reason::NoHomes.is_of(&refused), "{refused}");
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert_eq!(refused.message(), "mr4lms chooses trees itself, whatever home a group has");
}
