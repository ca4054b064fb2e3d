//! The records are put back to an earlier copy while nodes and agents live on.

use std::sync::Arc;

use fabricast_integration::{Cluster, Layout, Traffic, eventually};
use fabricast_proto::v1;
use fabricast_store::Store;
use fabricast_tic::{StoreLocation, backup};
use fabricast_topology::Faults;

const KEPT: [&str; 4] = ["n0", "n5", "n9", "n15"];

/// The names of the groups that nodes hold memberships in.
async fn held(cluster: &Cluster) -> Vec<String> {
    let mut held = Vec::new();
    for mut host in cluster.client.hosts() {
        let listed = host.list_memberships(v1::ListMembershipsRequest::default()).await.unwrap();
        held.extend(listed.into_inner().memberships.into_iter().map(|one| one.group));
    }
    held.sort();
    held
}

/// The store, once the TIC that was killed has let go of it.
async fn opened(store: &StoreLocation) -> Arc<dyn Store> {
    eventually("the store can be opened", async || {
        backup::open(store).await.map_err(|error| format!("{error:?}"))
    })
    .await
}

#[tokio::test]
async fn nodes_believe_records_that_are_older_than_what_they_have_seen() {
    let mut cluster = Cluster::start(Layout::leaf_spine()).await;
    let traffic = Traffic::listen(&cluster.client).await;
    cluster.client.join_all("kept", &KEPT).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    cluster.tic.kill();
    let store = StoreLocation::File(cluster.store());
    let mut copy = Vec::new();
    backup::export(opened(&store).await, &mut copy).await.unwrap();
    cluster.tic.restart().await;

    for node in KEPT {
        cluster.client.leave("kept", node).await.unwrap();
    }
    for number in 0..8 {
        cluster.client.join_all(&format!("late {number}"), &["n1", "n5", "n12"]).await;
    }
    cluster.is_whole(&traffic, &Faults::new()).await;
    let seen = cluster.client.revision().await;

    cluster.tic.kill();
    std::fs::remove_file(cluster.store()).unwrap();
    backup::import(opened(&store).await, &mut copy.as_slice()).await.unwrap();
    cluster.tic.restart().await;
    assert!(cluster.client.revision().await > seen, "nobody has seen anything newer");
    eventually("the nodes hold what was restored, and nothing else", async || {
        let held = held(&cluster).await;
        (held == ["kept"; 4]).then_some(()).ok_or(format!("{held:?}"))
    })
    .await;
    cluster.is_whole(&traffic, &Faults::new()).await;

    // Numbers are given again, to nodes that knew other groups by them.
    for number in 0..8 {
        cluster.client.join_all(&format!("later {number}"), &["n1", "n5", "n12"]).await;
    }
    cluster.client.leave("kept", "n0").await.unwrap();
    cluster.client.join_all("kept", &["n2", "n0"]).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
}
