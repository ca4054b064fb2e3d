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
        // Joined as they come: the allocator hands the memory of a list that has grown to whoever
        // parses the text, but keeps that of many small ones.
        let mut text = Vec::new();
        while let Some(part) = stream.message().await? {
            text.extend(part.chunk);
        }
        String::from_utf8(text)
            .map_err(|error| Status::internal(format!("topology of the TIC: {error}")))
    }
}
