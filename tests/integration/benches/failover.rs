//! Measures the failover of route services: the time from the death of the active one until a join
//! that came after it is in the switches, the longest of three.

#![expect(clippy::print_stdout, reason = "a bench prints what it measured")]

use std::time::{Duration, Instant};

use fabricast_integration::{Cluster, Layout, eventually};
use fabricast_proto::v1;

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        for (lease, name) in [(500, "500_ms"), (2_000, "2_s")] {
            let mut longest = Duration::ZERO;
            for _ in 0..3 {
                longest = longest.max(failover(Duration::from_millis(lease)).await);
            }
            println!("figure failover/route_service/lease_of_{name} {} ms", longest.as_millis());
        }
    });
}

async fn failover(route_lease: Duration) -> Duration {
    let layout = Layout { routers: 2, route_lease, ..Layout::leaf_spine() };
    let mut cluster = Cluster::start(layout).await;
    let client = cluster.client.clone();
    client.join_all("before", &["n0", "n5", "n9"]).await;
    client.settled().await;
    let first = is_active(&cluster.router.address().to_string()).await;
    let died = Instant::now();
    let dies = if first { &mut cluster.router } else { &mut cluster.other_routers[0] };
    dies.kill();
    client.join_all("after", &["n1", "n6"]).await;
    eventually("the join is in the switches", async || {
        match client.group("after").await.route.map(|route| route.state()) {
            Some(v1::RouteState::Routed) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    died.elapsed()
}

async fn is_active(address: &str) -> bool {
    let peer = fabricast_rpc::Peer::new(address).expect("an address");
    let mut client = v1::route_service_client::RouteServiceClient::new(peer.channel());
    let status = client.get_route_status(v1::GetRouteStatusRequest {}).await;
    status.expect("it answers").into_inner().active
}
