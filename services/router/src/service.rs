//! The gRPC face of the route service.

use fabricast_proto::v1;
use fabricast_proto::v1::route_service_server::RouteService;
use fabricast_rpc::Reason;
use tokio::sync::{mpsc, oneshot};
use tonic::{Request, Response, Status};

use crate::control::Question;
use crate::standby::Held;

/// Hands questions to the control loop.
#[derive(Clone, Debug)]
pub(crate) struct RouteServer {
    pub(crate) questions: mpsc::Sender<Question>,
    pub(crate) held: Held,
}

impl RouteServer {
    async fn ask<T>(
        &self,
        question: impl FnOnce(oneshot::Sender<T>) -> Question,
    ) -> Result<T, Status> {
        let stopping = || Reason::ShuttingDown.status("the route service is not running", &[]);
        let (answer, answered) = oneshot::channel();
        self.questions.send(question(answer)).await.map_err(|_| stopping())?;
        answered.await.map_err(|_| stopping())
    }
}

#[tonic::async_trait]
impl RouteService for RouteServer {
    async fn get_route_status(
        &self,
        _request: Request<v1::GetRouteStatusRequest>,
    ) -> Result<Response<v1::GetRouteStatusResponse>, Status> {
        if self.held.term() == 0 {
            let active_address = self.held.leadership().address;
            let waits = v1::GetRouteStatusResponse { active_address, ..Default::default() };
            return Ok(Response::new(waits));
        }
        self.ask(Question::Status).await.map(Response::new)
    }

    async fn list_table_drifts(
        &self,
        _request: Request<v1::ListTableDriftsRequest>,
    ) -> Result<Response<v1::ListTableDriftsResponse>, Status> {
        if self.held.term() == 0 {
            return Ok(Response::new(v1::ListTableDriftsResponse::default()));
        }
        self.ask(Question::Drifts).await.map(Response::new)
    }

    async fn explain_route(
        &self,
        request: Request<v1::ExplainRouteRequest>,
    ) -> Result<Response<v1::ExplainRouteResponse>, Status> {
        let name = request.into_inner().group;
        if self.held.term() == 0 {
            return Err(self.held.refusal());
        }
        let explanation = self.ask(|answer| Question::Explain(name.clone(), answer)).await?;
        if explanation.is_none() {
            let text = format!("group: no live group is named '{name}'");
            return Err(Reason::UnknownGroup.status(text, &[("group", &name)]));
        }
        Ok(Response::new(v1::ExplainRouteResponse { explanation }))
    }
}
