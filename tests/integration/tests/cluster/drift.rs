//! Switches whose tables change by themselves, or that take writes slowly or not at all: the route
//! service notices, reports, counts and repairs.

use std::time::Duration;

use fabricast_integration::{Cluster, Layout, Traffic, copied, eventually};
use fabricast_proto::v1;
use fabricast_proto::v1::disturb_switch_request::Disturbance;
use fabricast_topology::Faults;

async fn disturb(cluster: &Cluster, switch: &str, disturbance: Disturbance) -> u32 {
    let request =
        v1::DisturbSwitchRequest { switch_name: switch.to_owned(), disturbance: Some(disturbance) };
    let answer = cluster.client.fabric().disturb_switch(request).await;
    answer.unwrap().into_inner().changed_entries
}

async fn programming(cluster: &Cluster, switch: &str, delay: Duration, fails: bool) {
    let delay = prost_types::Duration::try_from(delay).ok();
    disturb(cluster, switch, Disturbance::Programming(v1::Programming { delay, fails })).await;
}

async fn drifts(cluster: &Cluster) -> v1::ListTableDriftsResponse {
    let request = v1::ListTableDriftsRequest {};
    cluster.client.router().list_table_drifts(request).await.unwrap().into_inner()
}

/// Waits until so many drifts were seen and all are repaired.
async fn all_repaired(cluster: &Cluster, count: u64) -> Vec<v1::TableDrift> {
    eventually("drifts are seen and repaired", async || {
        let listed = drifts(cluster).await;
        let open = listed.drifts.iter().filter(|drift| drift.repaired_ago.is_none()).count();
        let done = listed.drift_count == count && open == 0;
        if done { Ok(listed.drifts) } else { Err(format!("{listed:?}")) }
    })
    .await
}

async fn with_groups() -> (Cluster, Traffic, String) {
    let cluster = Cluster::start(Layout::three_levels()).await;
    let traffic = Traffic::listen(&cluster.client).await;
    cluster.client.join_all("g", &["n0", "n5", "n9", "n14"]).await;
    cluster.client.join_all("h", &["n1", "n6", "n10"]).await;
    cluster.client.settled().await;
    let root = cluster.client.explain("g").await.unwrap().root;
    (cluster, traffic, root)
}

#[tokio::test(flavor = "multi_thread")]
async fn wiped_and_corrupted_tables_are_noticed_and_repaired() {
    let (cluster, traffic, root) = with_groups().await;
    let before = cluster.client.tables().await;
    let gone = disturb(&cluster, &root, Disturbance::Wipe(v1::WipeTable {})).await;
    assert!(gone > 0, "the root has entries");
    let seen = all_repaired(&cluster, 1).await;
    assert_eq!(seen[0].switch_name, root);
    assert_eq!((seen[0].missing_entries, seen[0].extra_entries), (gone, 0));
    assert_eq!(copied(&cluster.client.tables().await), copied(&before));

    let changed =
        disturb(&cluster, &root, Disturbance::Corrupt(v1::CorruptTable { entries: 2 })).await;
    assert_eq!(changed, 2);
    let seen = all_repaired(&cluster, 2).await;
    assert_eq!((seen[1].altered_entries, seen[1].missing_entries), (2, 0));
    cluster.is_whole(&traffic, &Faults::new()).await;
    assert!(drifts(&cluster).await.compared_tables > 0);
}

/// A write that a switch refuses is no drift (DRIFT-1). Groups that need the switch wait, and the
/// others lose nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_switch_that_keeps_nothing_holds_up_only_those_who_need_it() {
    let (cluster, traffic, _) = with_groups().await;
    let (client, graph) = (&cluster.client, &cluster.layout.graph);
    let steady = vec![client.group("h").await];
    let port = graph.attachment(graph.find_endpoint("h1").unwrap()).unwrap();
    let leaf = graph.switch_name(graph.switch_of(port));
    programming(&cluster, leaf, Duration::ZERO, true).await;
    let flow = traffic.flow(&steady);
    client.join("g", "n1").await.unwrap();
    eventually("the refusal is reported", async || {
        let status = client.route_status().await?;
        let told = status.last_error.contains("does not keep") && !status.settled;
        if told { Ok(()) } else { Err(format!("{status:?}")) }
    })
    .await;
    programming(&cluster, leaf, Duration::ZERO, false).await;
    client.settled().await;
    flow.stop().await;
    traffic.all_arrived(&steady).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    assert_eq!(drifts(&cluster).await.drift_count, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_switches_are_programmed_in_the_end_and_nobody_loses_a_packet() {
    let (cluster, traffic, root) = with_groups().await;
    let client = &cluster.client;
    let steady: Vec<v1::Group> = client.groups().await;
    programming(&cluster, &root, Duration::from_millis(300), false).await;
    let flow = traffic.flow(&steady);
    for number in 0..4 {
        client.join_all(&format!("late-{number}"), &["n3", "n12"]).await;
    }
    client.settled().await;
    flow.stop().await;
    traffic.all_arrived(&steady).await;
    cluster.is_whole(&traffic, &Faults::new()).await;
    assert_eq!(drifts(&cluster).await.drift_count, 0);
}
