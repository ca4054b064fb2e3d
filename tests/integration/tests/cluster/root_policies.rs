//! Roots that follow the fabric's live counters: chosen once, recorded, and never moved by loads.

use fabricast_integration::{Cluster, Flow, Layout, Traffic, copied, eventually};
use fabricast_proto::v1;
use fabricast_routing::{EngineKind, RootPolicy};
use fabricast_topology::Faults;

/// Two leaves of 8 endpoints under 4 spines: whatever spans both leaves can hang from each spine.
fn four_spines(engine: EngineKind, policy: RootPolicy) -> Layout {
    let layout =
        Layout::of("kind = 'leaf-spine'\nleaves = 2\nspines = 4\nendpoints_per_leaf = 8\n");
    layout.with_engine(engine).with_root_policy(policy)
}

/// Group number `n` has one member on each leaf.
async fn form(cluster: &Cluster, number: u32) -> String {
    let (name, first, last) =
        (format!("g{number}"), format!("n{}", number % 8), format!("n{}", 8 + number % 8));
    cluster.client.join_fixed(&name, number, &[&first, &last]).await;
    cluster.client.settled().await;
    root(cluster, &name).await
}

async fn root(cluster: &Cluster, group: &str) -> String {
    cluster.client.explain(group).await.unwrap().root
}

/// Waits until all that the route service knows of loads was measured from now on.
async fn loads_are_of_now(cluster: &Cluster) {
    let readings = async || Ok::<_, String>(cluster.client.route_status().await?.load_readings);
    let before = readings().await.unwrap();
    // The load before still counts for a thirty-second part then.
    eventually("loads are read", async || {
        let now = readings().await?;
        if now >= before + 6 { Ok(()) } else { Err(format!("{now} after {before}")) }
    })
    .await;
}

/// Sends in all groups but one.
async fn all_busy_but(cluster: &Cluster, traffic: &Traffic, idle: &str) -> Flow {
    let groups = cluster.client.groups().await;
    let mut busy: Vec<v1::Group> = Vec::new();
    for group in groups {
        if root(cluster, &group.name).await != idle {
            busy.push(group);
        }
    }
    let flow = traffic.flow(&busy);
    loads_are_of_now(cluster).await;
    flow
}

async fn follows_the_counters(engine: EngineKind, policy: RootPolicy) {
    let cluster = Cluster::start(four_spines(engine, policy)).await;
    let traffic = Traffic::listen(&cluster.client).await;
    let mut spines = Vec::new();
    for number in 0..4 {
        spines.push(form(&cluster, number).await);
    }
    // While nothing is sent the engine spreads roots by its own count.
    let distinct: std::collections::BTreeSet<&String> = spines.iter().collect();
    assert_eq!(distinct.len(), 4, "{engine}, {policy}: {spines:?}");
    // By its own count it would take the spines in their order, and not backwards.
    for (number, idle) in (4..6).zip(spines.iter().rev()) {
        let flow = all_busy_but(&cluster, &traffic, idle).await;
        assert_eq!(form(&cluster, number).await, *idle, "{engine}, {policy}, group {number}");
        flow.stop().await;
    }
    let status = cluster.client.route_status().await.unwrap();
    assert_eq!((status.root_policy, status.load_problem), (policy.to_string(), String::new()));
    cluster.is_whole(&traffic, &Faults::new()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn new_roots_follow_the_live_counters() {
    for (engine, policy) in [
        (EngineKind::MinHopMc, RootPolicy::Llp),
        (EngineKind::SsspMc, RootPolicy::LlpEcMax),
        (EngineKind::Mr4lms, RootPolicy::LlpEcSum),
    ] {
        follows_the_counters(engine, policy).await;
    }
}

/// Loads that turn round, members that come, and a route service that starts again: every root
/// stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_root_that_was_chosen_stays_whatever_the_loads() {
    for engine in [EngineKind::MinHopMc, EngineKind::SsspMc, EngineKind::Mr4lms] {
        let mut cluster = Cluster::start(four_spines(engine, RootPolicy::Llp)).await;
        let client = cluster.client.clone();
        let traffic = Traffic::listen(&client).await;
        for number in 0..6 {
            form(&cluster, number).await;
        }
        let busiest = root(&cluster, "g0").await;
        let groups = client.groups().await;
        let flow = traffic.flow(&groups);
        loads_are_of_now(&cluster).await;
        let (tables, choices) = (client.tables().await, chosen(&cluster).await);
        cluster.router.kill();
        cluster.router.restart().await;
        client.settled().await;
        assert_eq!(copied(&client.tables().await), copied(&tables), "{engine}");
        assert_eq!(chosen(&cluster).await, choices, "{engine}");
        loads_are_of_now(&cluster).await;
        flow.stop().await;
        traffic.all_arrived(&groups).await;
        client.join("g0", "n7").await.unwrap();
        client.settled().await;
        assert_eq!(root(&cluster, "g0").await, busiest, "{engine}: a member is no reason to move");
        cluster.is_whole(&traffic, &Faults::new()).await;
    }
}

async fn chosen(cluster: &Cluster) -> v1::ListRouteChoicesResponse {
    let request = v1::ListRouteChoicesRequest::default();
    cluster.client.choices().list_route_choices(request).await.unwrap().into_inner()
}
