//! Latency of a join, from the request to the operating agent to its acknowledgement, with all
//! parts in one process, as `fabricast up` runs them; until then the TIC has made it durable, and
//! the group's agent has found it a place.
//!
//! Joins are begun at fixed times, whether or not earlier ones have been answered, and each is
//! timed from the moment at which it ought to have begun: a part that falls behind cannot hide it.

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::time::Duration;

use fabricast_cli::Topology;
use fabricast_cli::cluster::{Cluster, Layout};
use fabricast_proto::v1;
use fabricast_proto::v1::operating_agent_service_client::OperatingAgentServiceClient;
use fabricast_routing::{EngineKind, EngineOptions};
use fabricast_rpc::Peer;
use fabricast_tic::StoreLocation;
use fabricast_topology::TableKind;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Joins in a second, and for how long.
const RATES: [(u32, &str); 2] = [(100, "100"), (1_000, "1_000")];
const TIME: Duration = Duration::from_secs(3);
/// Groups that the joins are spread over.
const GROUPS: u32 = 256;

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        for (rate, name) in RATES {
            let folder = tempfile::tempdir().expect("a folder");
            let store = StoreLocation::File(folder.path().join("tic.redb"));
            measure(store, rate, name).await;
        }
    });
}

async fn measure(store: StoreLocation, rate: u32, name: &str) {
    let layout = Layout {
        topology: Topology::read("cluster").expect("it is built in"),
        engine: EngineKind::CMr4lmsFixed,
        options: EngineOptions::new(32, TableKind::PerPort),
        store,
        agent_hosts: 1,
        switch_agents: 1,
        socket: None,
        strict: true,
    };
    let cluster = Cluster::start(layout).await.expect("all parts start");
    let nodes: Vec<String> = cluster.owners().into_values().collect();
    let peer = Peer::new(&cluster.operating[0].to_string()).expect("an address");
    let client = OperatingAgentServiceClient::new(peer.channel());
    let join = |number: u32| v1::OperatingAgentServiceJoinGroupRequest {
        node: nodes[number as usize % nodes.len()].clone(),
        group: format!("g{}", number % GROUPS),
        process: format!("p{number}"),
        ..Default::default()
    };
    let warm_up = rate / 2;
    let started = Instant::now() + Duration::from_millis(500);
    let mut joins = JoinSet::new();
    for number in 0..rate * u32::try_from(TIME.as_secs()).expect("a few") + warm_up {
        let due = started + Duration::from_secs(1) * number / rate;
        sleep_until(due).await;
        let (mut client, request) = (client.clone(), join(number));
        joins.spawn(async move {
            client.join_group(request).await.expect("it is acknowledged");
            (number, due.elapsed())
        });
    }
    let mut times: Vec<Duration> = Vec::new();
    while let Some(joined) = joins.join_next().await {
        let (number, time) = joined.expect("no panic");
        if number >= warm_up {
            times.push(time);
        }
    }
    times.sort_unstable();
    let at = |share: usize| times[times.len() * share / 100].as_micros();
    println!("figure one_process/joins/{name}_per_second/median {} us", at(50));
    println!("figure one_process/joins/{name}_per_second/99th_percentile {} us", at(99));
    cluster.stop().await;
}
