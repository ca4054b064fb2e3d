//! The administration service, which describes the server at this address.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use fabricast_proto::v1;
use tonic::{Request, Response, Status};

/// Returns the leader that the part knows at the moment.
pub type AskLeadership = Arc<dyn Fn() -> v1::Leadership + Send + Sync>;

/// Returns the address of a part that may change; empty if it is not known at the moment.
pub type AskAddress = Arc<dyn Fn() -> String + Send + Sync>;

/// The service of one server.
#[derive(Clone)]
pub(crate) struct Administration {
    pub(crate) roles: Vec<String>,
    pub(crate) peers: Vec<v1::PeerAddress>,
    /// Parts by role whose addresses may change.
    pub(crate) known_peers: Vec<(&'static str, AskAddress)>,
    pub(crate) started: Instant,
    pub(crate) leadership: Option<AskLeadership>,
}

impl fmt::Debug for Administration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Administration").field("roles", &self.roles).finish_non_exhaustive()
    }
}

/// The version of this program, with the commit that `FABRICAST_COMMIT` named when it was built.
fn version() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match option_env!("FABRICAST_COMMIT") {
        Some(commit) if !commit.is_empty() => format!("{version}+{commit}"),
        Some(_) | None => version.to_owned(),
    }
}

#[tonic::async_trait]
impl v1::administration_service_server::AdministrationService for Administration {
    async fn get_server_info(
        &self,
        _request: Request<v1::GetServerInfoRequest>,
    ) -> Result<Response<v1::GetServerInfoResponse>, Status> {
        let known = self
            .known_peers
            .iter()
            .map(|(role, ask)| v1::PeerAddress { role: (*role).to_owned(), address: ask() });
        let known = known.filter(|peer| !peer.address.is_empty());
        Ok(Response::new(v1::GetServerInfoResponse {
            roles: self.roles.clone(),
            version: version(),
            uptime: prost_types::Duration::try_from(self.started.elapsed()).ok(),
            peers: self.peers.iter().cloned().chain(known).collect(),
            leadership: self.leadership.as_ref().map(|ask| ask()),
        }))
    }

    async fn get_metrics(
        &self,
        _request: Request<v1::GetMetricsRequest>,
    ) -> Result<Response<v1::GetMetricsResponse>, Status> {
        let text = fabricast_telemetry::metrics::text();
        Ok(Response::new(v1::GetMetricsResponse { text }))
    }

    async fn list_audit(
        &self,
        _request: Request<v1::ListAuditRequest>,
    ) -> Result<Response<v1::ListAuditResponse>, Status> {
        let lines = fabricast_telemetry::latest_audit().into_iter().map(|line| v1::AuditLine {
            time: Some(line.time.into()),
            caller: line.caller,
            call: line.call,
            code: line.code,
            request: line.request,
        });
        Ok(Response::new(v1::ListAuditResponse { lines: lines.collect() }))
    }
}
