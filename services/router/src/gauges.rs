//! Copies the status of the control loop into the metrics.

use std::convert::Infallible;
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_proto::v1::route_service_server::RouteService;
use fabricast_telemetry::metrics;
use tonic::Request;

use crate::api::RouteServer;

/// Shorter than the usual interval between two readings of metrics.
const INTERVAL: Duration = Duration::from_secs(2);

/// Updates the metrics for as long as it is polled.
pub(crate) async fn update_periodically(server: RouteServer) -> Infallible {
    let (mut drifts, mut comparisons) = (0, 0);
    loop {
        let request = Request::new(v1::GetRouteStatusRequest {});
        // Between two terms there is no answer.
        if let Ok(status) = server.get_route_status(request).await {
            set(&status.into_inner());
        }
        let request = Request::new(v1::ListTableDriftsRequest {});
        if let Ok(answer) = server.list_table_drifts(request).await {
            let answer = answer.into_inner();
            metrics::ROUTER_DRIFTS.inc_by(increase(&mut drifts, answer.drift_count));
            metrics::ROUTER_COMPARISONS.inc_by(increase(&mut comparisons, answer.compared_tables));
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Increase of a count since the last call. Counts start again at 0 with each term.
fn increase(known: &mut u64, now: u64) -> u64 {
    let before = std::mem::replace(known, now);
    if now < before { now } else { now - before }
}

fn set(status: &v1::GetRouteStatusResponse) {
    metrics::ROUTER_ACTIVE.set(u64::from(status.active));
    metrics::ROUTER_SETTLED.set(u64::from(status.settled));
    metrics::ROUTER_SEEN_REVISION.set(status.seen_revision);
    metrics::ROUTER_ROUTED_REVISION.set(status.routed_revision);
    metrics::ROUTER_ROUTED_GROUPS.set(u64::from(status.routed_groups));
    metrics::ROUTER_UNICAST_GROUPS.set(u64::from(status.unicast_only_groups));
    metrics::ROUTER_USED_ENTRIES.set(u64::from(status.used_entries));
    metrics::ROUTER_TABLE_ENTRIES.set(u64::from(status.colors));
    metrics::ROUTER_MISSING_GROUPS.set(u64::from(status.missing_groups));
    metrics::ROUTER_MAX_TFI.set(u64::from(status.max_tfi));
    metrics::ROUTER_COMPUTE.set(Duration::from_micros(status.last_compute_us).as_secs_f64());
    metrics::ROUTER_PROGRAM.set(Duration::from_micros(status.last_program_us).as_secs_f64());
}
