//! The administration service, which describes the server at this address.

use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use fabricast_proto::v1;
use tonic::{Request, Response, Status};

/// Returns the leader that the part knows at the moment.
pub type AskLeadership = Arc<dyn Fn() -> v1::Leadership + Send + Sync>;

/// The service of one server.
#[derive(Clone)]
pub(crate) struct Administration {
    pub(crate) roles: Vec<String>,
    pub(crate) peers: Vec<v1::PeerAddress>,
    pub(crate) started: Instant,
    pub(crate) leadership: Option<AskLeadership>,
}

impl fmt::Debug for Administration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Administration").field("roles", &self.roles).finish_non_exhaustive()
    }
}

#[tonic::async_trait]
impl v1::administration_service_server::AdministrationService for Administration {
    async fn get_server_info(
        &self,
        _request: Request<v1::GetServerInfoRequest>,
    ) -> Result<Response<v1::GetServerInfoResponse>, Status> {
        Ok(Response::new(v1::GetServerInfoResponse {
            roles: self.roles.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime: prost_types::Duration::try_from(self.started.elapsed()).ok(),
            peers: self.peers.clone(),
            leadership: self.leadership.as_ref().map(|ask| ask()),
        }))
    }
}
