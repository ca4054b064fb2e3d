//! The same operations with plain gRPC calls between the processes, for comparison.

use std::path::Path;

use fabricast_proto::v1;
use fabricast_proto::v1::collective_values::Kind;
use fabricast_proto::v1::fabric_aggregation_service_client::FabricAggregationServiceClient;
use fabricast_proto::v1::fabric_aggregation_service_server::FabricAggregationService;
use tokio::sync::{Mutex, oneshot};
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

use crate::Outcome;

/// Longest call, in bytes.
pub(crate) const LONGEST: usize = 16 << 20;

/// Client of another process.
pub(crate) type Other = FabricAggregationServiceClient<Channel>;

/// Connects to the process of a rank.
pub(crate) async fn connect(folder: &Path, rank: u32) -> Outcome<Other> {
    let address = format!("unix://{}", folder.join(format!("p2p-{rank}")).display());
    let channel = Endpoint::from_shared(address)?.connect().await?;
    let other = FabricAggregationServiceClient::new(channel);
    Ok(other.max_decoding_message_size(LONGEST).max_encoding_message_size(LONGEST))
}

/// Calls another process and waits for its answer.
pub(crate) async fn contribute(mut to: Other, numbers: usize) -> Outcome<()> {
    let values = v1::SignedValues { values: vec![1 << 40; numbers] };
    let values = Some(v1::CollectiveValues { kind: Some(Kind::SignedValues(values)) });
    to.contribute_values(v1::ContributeValuesRequest { values, ..Default::default() }).await?;
    Ok(())
}

/// Callers that wait for a sum.
type Waiting = Vec<oneshot::Sender<Vec<i64>>>;

/// Meeting point of calls: each is answered with the sum of all once so many have come; one that
/// meets nobody brings a message, and is answered without any.
pub(crate) struct Meeting {
    count: usize,
    here: Mutex<(Vec<i64>, Waiting)>,
}

impl Meeting {
    pub(crate) fn new(count: u32) -> Self {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        Self { count, here: Mutex::default() }
    }
}

#[tonic::async_trait]
impl FabricAggregationService for Meeting {
    type ReadFabricAggregationStream =
        tokio_stream::Pending<Result<v1::ReadFabricAggregationResponse, Status>>;

    async fn read_fabric_aggregation(
        &self,
        _: Request<v1::ReadFabricAggregationRequest>,
    ) -> Result<Response<Self::ReadFabricAggregationStream>, Status> {
        Err(Status::unimplemented("there is no fabric here"))
    }

    async fn write_fabric_aggregation(
        &self,
        _: Request<v1::WriteFabricAggregationRequest>,
    ) -> Result<Response<v1::WriteFabricAggregationResponse>, Status> {
        Err(Status::unimplemented("there is no fabric here"))
    }

    async fn contribute_values(
        &self,
        request: Request<v1::ContributeValuesRequest>,
    ) -> Result<Response<v1::ContributeValuesResponse>, Status> {
        let values = match request.into_inner().values.and_then(|values| values.kind) {
            Some(Kind::SignedValues(v1::SignedValues { values })) => values,
            _ => Vec::new(),
        };
        if self.count == 1 {
            return Ok(Response::new(v1::ContributeValuesResponse::default()));
        }
        let (tell, told) = oneshot::channel();
        let mut here = self.here.lock().await;
        let (sums, waiting) = &mut *here;
        sums.resize(values.len(), 0);
        sums.iter_mut().zip(&values).for_each(|(sum, value)| *sum += value);
        waiting.push(tell);
        if waiting.len() == self.count {
            let (sums, waiting) = std::mem::take(&mut *here);
            // A caller that has gone away needs no answer.
            waiting.into_iter().for_each(|tell| _ = tell.send(sums.clone()));
        }
        drop(here);
        let values = told.await.map_err(|_| Status::aborted("nobody has answered"))?;
        let values = Kind::SignedValues(v1::SignedValues { values });
        let values = Some(v1::CollectiveValues { kind: Some(values) });
        Ok(Response::new(v1::ContributeValuesResponse { values }))
    }
}
