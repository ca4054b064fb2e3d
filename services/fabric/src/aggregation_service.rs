//! The API of the aggregation engines.

use std::sync::Arc;
use std::time::Duration;

use fabricast_emulator::Fence;
use fabricast_proto::v1;
use fabricast_proto::v1::fabric_aggregation_service_server::FabricAggregationService;
use fabricast_rpc::Reason;
use tokio_util::sync::CancellationToken;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use crate::aggregation;
use crate::fabric::Fabric;
use crate::key::ManagementKey;
use crate::wire::Refusal;

/// How long a process waits if it does not say.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
/// The longest that a process waits: its call has a deadline of 10 s, and is to end with the reason.
const MAX_TIMEOUT: Duration = Duration::from_secs(9);

/// Serves the engines of one fabric.
#[derive(Clone, Debug)]
pub(crate) struct AggregationService {
    pub(crate) fabric: Arc<Fabric>,
    pub(crate) key: ManagementKey,
    /// Ends those who wait.
    pub(crate) stop: CancellationToken,
}

#[tonic::async_trait]
impl FabricAggregationService for AggregationService {
    type ReadFabricAggregationStream = BoxStream<v1::ReadFabricAggregationResponse>;

    async fn read_fabric_aggregation(
        &self,
        request: Request<v1::ReadFabricAggregationRequest>,
    ) -> Result<Response<Self::ReadFabricAggregationStream>, Status> {
        let request = request.into_inner();
        self.key.check(&request.management_key)?;
        let tables = aggregation::read(&self.fabric, &request.switch_names)?;
        let answers = tables
            .into_iter()
            .map(|table| Ok(v1::ReadFabricAggregationResponse { table: Some(table) }));
        Ok(Response::new(Box::pin(tokio_stream::iter(answers))))
    }

    async fn write_fabric_aggregation(
        &self,
        request: Request<v1::WriteFabricAggregationRequest>,
    ) -> Result<Response<v1::WriteFabricAggregationResponse>, Status> {
        let request = request.into_inner();
        self.key.check(&request.management_key)?;
        let v1::Fence { term, generation } =
            request.fence.ok_or(Refusal::Missing { field: "fence" })?;
        let written = aggregation::write(&self.fabric, Fence { term, generation }, request.writes);
        let refusals = written.map_err(|stale| {
            Reason::StaleFence.status(stale.to_string(), &[("switch", &stale.switch)])
        })?;
        Ok(Response::new(v1::WriteFabricAggregationResponse { refusals }))
    }

    async fn contribute_values(
        &self,
        request: Request<v1::ContributeValuesRequest>,
    ) -> Result<Response<v1::ContributeValuesResponse>, Status> {
        let request = request.into_inner();
        let timeout = timeout(request.timeout)?;
        let (tree, sequence) = (request.tree, request.sequence);
        let graph = &self.fabric.graph;
        let contribution = aggregation::read_contribution(graph, request)?;
        let begun = self.fabric.core().contribute(contribution);
        let mut told = begun.map_err(|error| aggregation::not_sent(graph, error))?;
        let waiting = Waiting { fabric: &self.fabric, tree, sequence };
        let ended = tokio::select! {
            ended = &mut told => ended,
            () = self.stop.cancelled() => {
                return Err(Reason::ShuttingDown.status("the fabric is stopping", &[]));
            }
            () = tokio::time::sleep(timeout) => {
                drop(waiting);
                told.await
            }
        };
        match ended {
            Ok(Ok(values)) => {
                let values = values.map(aggregation::values_to_wire);
                Ok(Response::new(v1::ContributeValuesResponse { values }))
            }
            Ok(Err(failure)) => Err(aggregation::failed(graph, failure)),
            Err(_gone) => Err(Reason::ShuttingDown.status("the fabric is stopping", &[])),
        }
    }
}

/// A process that waits. When it goes away, its run is given up for all: they would wait for ever for
/// what it does next.
struct Waiting<'a> {
    fabric: &'a Fabric,
    tree: u32,
    sequence: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.fabric.core().abandon(self.tree, self.sequence);
    }
}

fn timeout(timeout: Option<prost_types::Duration>) -> Result<Duration, Status> {
    let Some(timeout) = timeout else { return Ok(DEFAULT_TIMEOUT) };
    // Not by the conversion of prost-types, which panics at the least numbers there are.
    let seconds = u64::try_from(timeout.seconds).ok();
    let nanos = u32::try_from(timeout.nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
    let timeout = seconds.zip(nanos).map(|(seconds, nanos)| Duration::new(seconds, nanos));
    match timeout {
        Some(timeout) if !timeout.is_zero() && timeout <= MAX_TIMEOUT => Ok(timeout),
        _ => {
            let text = "timeout: must be more than 0 and at most 9 s";
            Err(Reason::ContributionInvalid.status(text, &[("field", "timeout")]))
        }
    }
}
