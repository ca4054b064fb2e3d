//! Measures the time until a join is acknowledged, at several rates, on the embedded store and on
//! an etcd of three members on this machine; and the time without answers when a leading TIC dies.
//!
//! Joins begin at fixed times, whether or not earlier ones were answered, and each is timed from
//! its planned beginning, so that a TIC that falls behind cannot hide it. Client and TIC share the
//! machine, and so does etcd with its three logs.

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::sync::Arc;
use std::time::Duration;

use fabricast_config::{RawTicConfig, TicConfig, checked};
use fabricast_proto::v1;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_rpc::{Leader, LeaderChannel};
use fabricast_testing::Etcd;
use fabricast_tic::{App, Setup, StoreLocation, TopologySource};
use fabricast_topology::spec::TopologySpec;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// Joins per second, and their number in the names of figures.
const RATES: [(u32, &str); 3] = [(100, "100"), (1_000, "1_000"), (5_000, "5_000")];
/// Duration of the measurement at each rate.
const TIME: Duration = Duration::from_secs(3);
const NODES: u32 = 64;
/// Groups that the joins are spread over.
const GROUPS: u32 = 256;
const FABRIC: &str = "kind = 'leaf-spine'\nleaves = 4\nspines = 2\nendpoints_per_leaf = 16\n";

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let folder = tempfile::tempdir().expect("a folder");
        for (rate, name) in RATES {
            let store = StoreLocation::File(folder.path().join(format!("{rate}.redb")));
            measure("embedded", &[start(store, None).await], rate, name).await;
        }
        let etcd = Etcd::start(3).await;
        for (rate, name) in RATES {
            let store = etcd.url(&format!("joins-{rate}")).parse().expect("a URL");
            measure("etcd", &[start(store, None).await], rate, name).await;
        }
        for seconds in [2, 5] {
            failover(&etcd, Duration::from_secs(seconds)).await;
        }
    });
}

/// A running TIC; dropped, it ends as in a crash.
struct Tic {
    address: String,
    task: JoinHandle<()>,
}

impl Drop for Tic {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn start(store: StoreLocation, lease: Option<Duration>) -> Tic {
    let graph = TopologySpec::parse(FABRIC).expect("a spec").generate().expect("a fabric");
    let usual = RawTicConfig::default();
    let config: TicConfig = checked(RawTicConfig {
        listen: "127.0.0.1:0".parse().expect("an address"),
        store: Some(store.to_string()),
        topology: Some("made here".into()),
        report_timeout: Duration::from_secs(3_600),
        leader_lease: lease.unwrap_or(usual.leader_lease),
        ..usual
    })
    .expect("the settings are good");
    let setup = Setup::new(config, TopologySource::File("none\n".into(), Arc::new(graph)));
    let app = App::bind(setup).await.expect("the TIC starts");
    let address = app.address().to_string();
    let task = tokio::spawn(async move {
        app.run(CancellationToken::new()).await.expect("the TIC runs");
    });
    Tic { address, task }
}

type Client = TicServiceClient<LeaderChannel>;

/// A client that finds the leader, and all nodes registered through it.
async fn client(tics: &[Tic]) -> Client {
    let mut addresses: Vec<String> = tics.iter().map(|tic| tic.address.clone()).collect();
    if addresses.len() == 1 {
        addresses.push(addresses[0].clone()); // wait for it to lead
    }
    let client = TicServiceClient::new(Leader::new(&addresses).expect("addresses").channel());
    for number in 0..NODES {
        let node = v1::Node {
            name: format!("n{number}"),
            address: "127.0.0.1:1".to_owned(),
            endpoints: vec![format!("h{number}")],
            ..Default::default()
        };
        let node = Some(node);
        let request = v1::RegisterNodeRequest { node, start_id: 1, ..Default::default() };
        client.clone().register_node(request).await.expect("it is registered");
    }
    client
}

fn join(number: u32) -> v1::JoinGroupRequest {
    let node = number % NODES;
    v1::JoinGroupRequest {
        request_id: format!("join {number}"),
        group: format!("g{}", number % GROUPS),
        node: format!("n{node}"),
        incarnation: 1,
        endpoint: format!("h{node}"),
        process: format!("p{number}"),
        ..Default::default()
    }
}

async fn measure(store: &str, tics: &[Tic], rate: u32, name: &str) {
    let client = client(tics).await;
    let warm_up = rate / 10;
    let started = Instant::now() + Duration::from_millis(10);
    let mut joins = JoinSet::new();
    for number in 0..rate * u32::try_from(TIME.as_secs()).expect("a few") + warm_up {
        let due = started + Duration::from_secs(1) * number / rate;
        sleep_until(due).await;
        let mut client = client.clone();
        joins.spawn(async move {
            client.join_group(join(number)).await.expect("it is acknowledged");
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
    println!("figure joins/{store}/{name}_per_second/median {} us", at(50));
    println!("figure joins/{store}/{name}_per_second/99th_percentile {} us", at(99));
}

/// Time from the death of a leading TIC to the next join that is acknowledged, longest of three.
async fn failover(etcd: &Etcd, lease: Duration) {
    let store: StoreLocation = etcd.url("failover").parse().expect("a URL");
    let mut longest = Duration::ZERO;
    for round in 0..3 {
        let first = start(store.clone(), Some(lease)).await;
        let mut pair = vec![first];
        let begun = client(&pair).await;
        begun.clone().join_group(join(round * 10)).await.expect("it is acknowledged");
        pair.push(start(store.clone(), Some(lease)).await);
        let mut client = client(&pair).await;
        client.join_group(join(round * 10 + 1)).await.expect("it is acknowledged");
        let died = Instant::now();
        drop(pair.remove(0));
        client.join_group(join(round * 10 + 2)).await.expect("it is acknowledged");
        longest = longest.max(died.elapsed());
        drop(pair);
        // So that the next round begins with a leader that is not this one.
        tokio::time::sleep(lease * 2).await;
    }
    let seconds = lease.as_secs();
    println!("figure joins/failover/lease_of_{seconds}_s {} ms", longest.as_millis());
}
