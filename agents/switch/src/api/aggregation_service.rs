//! `SwitchAggregationService`: checks the term of a write, then forwards it to the driver.

use std::sync::Arc;

use fabricast_proto::v1;
use fabricast_proto::v1::switch_aggregation_service_server::SwitchAggregationService;
use fabricast_rpc::Reason;
use tokio_stream::StreamExt;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status};

use crate::inventory::Inventory;

/// The service of one agent.
#[derive(Clone, Debug)]
pub(crate) struct AggregationAgent {
    pub(crate) inventory: Arc<Inventory>,
}

#[tonic::async_trait]
impl SwitchAggregationService for AggregationAgent {
    type ReadAggregationStream = BoxStream<v1::ReadAggregationResponse>;

    async fn read_aggregation(
        &self,
        _request: Request<v1::ReadAggregationRequest>,
    ) -> Result<Response<Self::ReadAggregationStream>, Status> {
        let switches = self.inventory.switches(std::iter::empty()).await?;
        let names = switches.keys().cloned().collect();
        let tables = self.inventory.driver().read_aggregation(names).await?;
        let answers = tables.map(|table| {
            table
                .map(|table| v1::ReadAggregationResponse { table: Some(table) })
                .map_err(Status::from)
        });
        Ok(Response::new(Box::pin(answers)))
    }

    async fn write_aggregation(
        &self,
        request: Request<v1::WriteAggregationRequest>,
    ) -> Result<Response<v1::WriteAggregationResponse>, Status> {
        let v1::WriteAggregationRequest { fence, writes } = request.into_inner();
        let Some(fence) = fence else {
            return Err(Reason::FieldMissing.status("fence is missing", &[("field", "fence")]));
        };
        let v1::Fence { term, generation } = fence;
        self.inventory.check_fence(&fence).await?;
        let places = writes.len();
        let refusals = self.inventory.driver().write_aggregation(fence, writes).await?;
        let refused = refusals.len();
        if refused < places {
            // A request without an acceptable part does not count: it must not shut out the real
            // writer.
            self.inventory.note_term(term);
        }
        tracing::debug!(term, generation, places, refused, "aggregation entries written");
        Ok(Response::new(v1::WriteAggregationResponse { refusals }))
    }
}
