//! The topology on its way to those who download it.

use std::sync::Arc;

use fabricast_proto::v1;
use tonic::Status;

/// Most bytes of the topology in one message.
const CHUNK: usize = 1 << 20;

/// The topology's text, cut into messages as they are read.
#[derive(Debug)]
pub(crate) struct TopologyChunks {
    text: Arc<str>,
    at: usize,
}

impl TopologyChunks {
    pub(crate) fn of(text: Arc<str>) -> Self {
        Self { text, at: 0 }
    }
}

impl Iterator for TopologyChunks {
    type Item = Result<v1::DownloadTopologyResponse, Status>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.text.as_bytes().get(self.at..).filter(|rest| !rest.is_empty())?;
        let chunk = rest[..rest.len().min(CHUNK)].to_vec();
        self.at += chunk.len();
        Some(Ok(v1::DownloadTopologyResponse { chunk }))
    }
}
