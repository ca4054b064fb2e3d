//! `TopologyService`: topologies are parsed here and decided by the writer. The services of the
//! term are then replaced by ones for the new topology.

use std::sync::Arc;

use fabricast_proto::v1;
use fabricast_rpc::{Caller, Reason};
use fabricast_topology::{Graph, ibnetdiscover};
use tonic::{Request, Response, Status, Streaming};

use crate::api::{fields, status};
use crate::domain::topology::TopologyChange;
use crate::writer::queue::WriterQueue;
use crate::writer::requests::TopologyReply;

/// Most bytes of a topology: enough for some millions of endpoints.
const MAX_BYTES: usize = 256 << 20;
/// Most bytes of the topology in one message of a download.
const CHUNK: usize = 1 << 20;

/// The service; cloning it is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Topologies {
    pub(crate) queue: WriterQueue,
}

#[tonic::async_trait]
impl v1::topology_service_server::TopologyService for Topologies {
    async fn report_topology(
        &self,
        request: Request<Streaming<v1::ReportTopologyRequest>>,
    ) -> Result<Response<v1::ReportTopologyResponse>, Status> {
        let caller = Caller::of(request.extensions());
        let mut messages = request.into_inner();
        let first = messages.message().await?.unwrap_or_default();
        let reporter = fields::label("reporter", &first.reporter)?.to_owned();
        caller.check_reporter(&reporter)?;
        let graph = read(first.chunk, messages, |message| message.chunk).await?;
        let reply = self.queue.write(TopologyChange::Merge(graph)).await?;
        let TopologyReply { summary, changed } = reply;
        if changed {
            tracing::info!(reporter, "topology changed by a report");
        }
        Ok(Response::new(v1::ReportTopologyResponse { topology: Some(summary), changed }))
    }

    async fn replace_topology(
        &self,
        request: Request<Streaming<v1::ReplaceTopologyRequest>>,
    ) -> Result<Response<v1::ReplaceTopologyResponse>, Status> {
        let graph = read(Vec::new(), request.into_inner(), |message| message.chunk).await?;
        let reply = self.queue.write(TopologyChange::Replace(graph)).await?;
        let TopologyReply { summary, changed } = reply;
        Ok(Response::new(v1::ReplaceTopologyResponse { topology: Some(summary), changed }))
    }
}

/// Joins the chunks of a stream and parses them.
///
/// - `bytes`: of messages that were read before.
async fn read<T>(
    mut bytes: Vec<u8>,
    mut messages: Streaming<T>,
    chunk: impl Fn(T) -> Vec<u8>,
) -> Result<Arc<Graph>, Status> {
    let invalid = |why: String| Reason::TopologyInvalid.status(why, &[("field", "chunk")]);
    while let Some(message) = messages.message().await? {
        bytes.extend(chunk(message));
        if bytes.len() > MAX_BYTES {
            return Err(invalid(format!("chunk: more than {MAX_BYTES} bytes in all")));
        }
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        invalid(format!("chunk: not text from byte {}", error.utf8_error().valid_up_to()))
    })?;
    // Parsing a large text takes longer than other calls may wait.
    let parsing = tokio::task::spawn_blocking(move || ibnetdiscover::read(&text));
    let graph = parsing.await.map_err(|_panic| status::panicked("parsing the topology"))?;
    let graph = graph.map_err(|error| invalid(format!("chunk: {error}")))?;
    if graph.switch_count() == 0 {
        return Err(invalid("chunk: there is no switch in it".to_owned()));
    }
    Ok(Arc::new(graph))
}

/// The topology's text, cut into messages as they are read.
#[derive(Debug)]
pub(crate) struct TopologyChunks {
    text: Arc<str>,
    at: usize,
}

impl TopologyChunks {
    pub(crate) fn new(text: Arc<str>) -> Self {
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
