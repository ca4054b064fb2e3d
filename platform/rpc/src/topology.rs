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
        let mut bytes = Vec::new();
        while let Some(part) = stream.message().await? {
            bytes.extend(part.chunk);
        }
        String::from_utf8(bytes)
            .map_err(|error| Status::internal(format!("topology of the TIC: {error}")))
    }
}
