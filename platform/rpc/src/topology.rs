//! Download of the topology from the leading TIC.

use fabricast_proto::v1;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use tonic::Status;

use crate::Leader;

impl Leader {
    /// Downloads the topology of the leading TIC, in the format of `ibnetdiscover`.
    ///
    /// # Errors
    ///
    /// The error of the call; `INTERNAL` if the topology is not UTF-8.
    pub async fn download_topology(&self) -> Result<String, Status> {
        let mut tic = TicServiceClient::new(self.channel());
        let mut stream = tic.download_topology(v1::DownloadTopologyRequest {}).await?.into_inner();
        // Joined at the end: a list that grows would take twice the memory of a large topology.
        let mut parts = Vec::new();
        while let Some(part) = stream.message().await? {
            parts.push(part.chunk);
        }
        String::from_utf8(parts.concat())
            .map_err(|error| Status::internal(format!("topology of the TIC: {error}")))
    }
}
