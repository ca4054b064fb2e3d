//! Tells the metrics what the control loop tells whoever asks for its status.

use std::convert::Infallible;
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_proto::v1::route_service_server::RouteService;
use fabricast_telemetry::metrics;
use tonic::Request;

use crate::service::RouteServer;

/// Metrics are read less often.
const INTERVAL: Duration = Duration::from_secs(2);

/// Asks again and again, for as long as it is polled.
pub(crate) async fn keep(server: RouteServer) -> Infallible {
    let mut drifts = 0;
    loop {
        let request = Request::new(v1::GetRouteStatusRequest {});
        // One that is between two terms says nothing.
        if let Ok(status) = server.get_route_status(request).await {
            set(&status.into_inner());
        }
        let request = Request::new(v1::ListTableDriftsRequest {});
        if let Ok(answer) = server.list_table_drifts(request).await {
            let count = answer.into_inner().drift_count;
            // With a new term it begins anew.
            metrics::ROUTER_DRIFTS.add(if count < drifts { count } else { count - drifts });
            drifts = count;
        }
        tokio::time::sleep(INTERVAL).await;
    }
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
    metrics::ROUTER_MAX_TFI.set(u64::from(status.max_tfi));
    metrics::ROUTER_COMPUTE_US.set(status.last_compute_us);
    metrics::ROUTER_PROGRAM_US.set(status.last_program_us);
}
