//! `TopologyService`: texts are read here and decided on by the writer; the term of office then ends, and the next
//! one works with the new topology.

use std::sync::Arc;

use fabricast_proto::v1;
use fabricast_rpc::Reason;
use fabricast_topology::{Graph, ibnetdiscover};
use tonic::{Request, Response, Status, Streaming};

use crate::orders::{Done, Orders, Work};
use crate::service::mismatch;
use crate::topology::TopologyChange;

/// Most bytes of a topology: some millions of endpoints.
const MOST: usize = 256 << 20;

/// The service; cloning it is cheap.
#[derive(Clone, Debug)]
pub(crate) struct Topologies {
    pub(crate) orders: Orders,
}

impl Topologies {
    async fn change(
        &self,
        change: TopologyChange,
    ) -> Result<(Option<v1::TopologySummary>, bool), Status> {
        let work = Work::ChangeTopology(change);
        let Done::Topology { summary, changed } = self.orders.place(work).await? else {
            return Err(mismatch());
        };
        Ok((Some(summary), changed))
    }
}

#[tonic::async_trait]
impl v1::topology_service_server::TopologyService for Topologies {
    async fn report_topology(
        &self,
        request: Request<Streaming<v1::ReportTopologyRequest>>,
    ) -> Result<Response<v1::ReportTopologyResponse>, Status> {
        let graph = read(request.into_inner(), |message| message.chunk).await?;
        let (topology, changed) = self.change(TopologyChange::Merge(graph)).await?;
        Ok(Response::new(v1::ReportTopologyResponse { topology, changed }))
    }

    async fn replace_topology(
        &self,
        request: Request<Streaming<v1::ReplaceTopologyRequest>>,
    ) -> Result<Response<v1::ReplaceTopologyResponse>, Status> {
        let graph = read(request.into_inner(), |message| message.chunk).await?;
        let (topology, changed) = self.change(TopologyChange::Replace(graph)).await?;
        Ok(Response::new(v1::ReplaceTopologyResponse { topology, changed }))
    }
}

/// Puts the pieces together and reads them.
async fn read<T>(
    mut pieces: Streaming<T>,
    chunk: impl Fn(T) -> Vec<u8>,
) -> Result<Arc<Graph>, Status> {
    let invalid = |why: String| Reason::TopologyInvalid.status(why, &[("field", "chunk")]);
    let mut bytes = Vec::new();
    while let Some(piece) = pieces.message().await? {
        bytes.extend(chunk(piece));
        if bytes.len() > MOST {
            return Err(invalid(format!("chunk: more than {MOST} bytes in all")));
        }
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        invalid(format!("chunk: not text from byte {}", error.utf8_error().valid_up_to()))
    })?;
    // A large text takes longer than others may be kept waiting.
    let reading = tokio::task::spawn_blocking(move || ibnetdiscover::read(&text));
    let graph = reading.await.map_err(|_panicked| mismatch())?;
    let graph = graph.map_err(|error| invalid(format!("chunk: {error}")))?;
    if graph.switch_count() == 0 {
        return Err(invalid("chunk: there is no switch in it".to_owned()));
    }
    Ok(Arc::new(graph))
}
