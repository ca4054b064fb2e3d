//! Download of the topology from the leading TIC.

use fabricast_proto::v1;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use tonic::{Status, Streaming};

use crate::Leader;

impl Leader {
    /// Downloads the topology of the leading TIC part by part, in the format of `ibnetdiscover`.
    ///
    /// # Errors
    ///
    /// The error of the call.
    pub async fn topology_parts(&self) -> Result<Streaming<v1::DownloadTopologyResponse>, Status> {
        let mut tic = TicServiceClient::new(self.channel());
        Ok(tic.download_topology(v1::DownloadTopologyRequest {}).await?.into_inner())
    }

    /// Downloads the text of the topology of the leading TIC, in the format of `ibnetdiscover`.
    ///
    /// # Errors
    ///
    /// The error of the call; `INTERNAL` if the topology is not UTF-8.
    pub async fn download_topology(&self) -> Result<String, Status> {
        let mut parts = self.topology_parts().await?;
        let mut text = Vec::new();
        while let Some(part) = parts.message().await? {
            text.extend(part.chunk);
        }
        String::from_utf8(text)
            .map_err(|error| Status::internal(format!("topology of the TIC: {error}")))
    }
}
