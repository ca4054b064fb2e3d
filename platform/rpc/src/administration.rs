//! The administration service: what runs at this address.

use std::time::Instant;

use fabricast_proto::v1;
use tonic::{Request, Response, Status};

/// Answers for one server.
#[derive(Clone, Debug)]
pub(crate) struct Administration {
    pub(crate) roles: Vec<String>,
    pub(crate) peers: Vec<v1::PeerAddress>,
    pub(crate) started: Instant,
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
        }))
    }
}
