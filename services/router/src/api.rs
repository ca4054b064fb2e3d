//! The gRPC API of the route service.

mod computations;
mod recordings;

use std::path::PathBuf;
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_proto::v1::route_service_server::RouteService;
use fabricast_proto::v1::tic_service_client::TicServiceClient;
use fabricast_routing::HomeError;
use fabricast_rpc::{CallCost, Leader, Reason};
use fabricast_topology::ibnetdiscover;
use tokio::sync::{mpsc, oneshot};
use tonic::{Request, Response, Status};

use crate::control_loop::Query;
use crate::faults::FaultsError;
use crate::standby::ActiveRouter;

pub(crate) use computations::Computations;

/// Longest wait for the TIC when it is asked for its revision.
const TIC_TIMEOUT: Duration = Duration::from_secs(1);

/// Moves of groups that are planned unless the request says otherwise, and at most.
const USUAL_MOVES: u32 = 100;
const MOST_MOVES: u32 = 1000;

/// Most parts of the fabric that a request names.
const MOST_ELEMENTS: usize = 1000;

/// Hands queries to the control loop and its answers back.
#[derive(Clone, Debug)]
pub(crate) struct RouteServer {
    pub(crate) queries: mpsc::Sender<Query>,
    pub(crate) active: ActiveRouter,
    pub(crate) tic: Leader,
    /// Permits for plans that nothing is programmed by, which take up to some seconds.
    pub(crate) plans: Computations,
    /// Permits for figures of the plan at work.
    pub(crate) figures: Computations,
    /// Folder with files of recordings, if there is one.
    pub(crate) recording_folder: Option<PathBuf>,
}

impl RouteServer {
    async fn query<T>(&self, query: impl FnOnce(oneshot::Sender<T>) -> Query) -> Result<T, Status> {
        let stopping = || Reason::ShuttingDown.status("the route service is not running", &[]);
        let (reply, answer) = oneshot::channel();
        self.queries.send(query(reply)).await.map_err(|_| stopping())?;
        answer.await.map_err(|_| stopping())
    }

    /// Newest revision of the TIC's records; 0 if the TIC does not answer in time.
    async fn newest_revision(&self) -> u64 {
        let request = v1::ListGroupsRequest { page_size: 1, ..v1::ListGroupsRequest::default() };
        let mut client = TicServiceClient::new(self.tic.channel());
        match tokio::time::timeout(TIC_TIMEOUT, client.list_groups(request)).await {
            Ok(Ok(answer)) => answer.into_inner().revision,
            Ok(Err(_)) | Err(_) => 0,
        }
    }

    /// Refuses a call that only the active route service can answer, and names that one.
    fn not_active(&self) -> Status {
        let v1::Leadership { address, term, .. } = self.active.leadership();
        let text = match address.as_str() {
            "" => "this route service is not active, and no other is known to be yet".to_owned(),
            address => format!("this route service is not active, the one at {address} is"),
        };
        let facts = [("leader", address.as_str()), ("term", &term.to_string())];
        Reason::NotLeader.status(text, &facts)
    }
}

#[tonic::async_trait]
impl RouteService for RouteServer {
    type DownloadRecordingStream = recordings::Parts;

    async fn get_route_status(
        &self,
        _request: Request<v1::GetRouteStatusRequest>,
    ) -> Result<Response<v1::GetRouteStatusResponse>, Status> {
        if self.active.own_term() == 0 {
            let active_address = self.active.leadership().address;
            let standby = v1::GetRouteStatusResponse { active_address, ..Default::default() };
            return Ok(Response::new(standby));
        }
        // Asked first: what is seen later than this is not older.
        let newest = self.newest_revision().await;
        let status = self.query(Query::Status).await?;
        let figures = CallCost::current().at_once().run(move || status.complete());
        let stopping = |_| Reason::ShuttingDown.status("the route service is stopping", &[]);
        let mut status = figures.await.map_err(stopping)?;
        status.newest_revision = newest;
        status.settled &= newest > 0 && status.seen_revision >= newest;
        Ok(Response::new(status))
    }

    async fn list_table_drifts(
        &self,
        _request: Request<v1::ListTableDriftsRequest>,
    ) -> Result<Response<v1::ListTableDriftsResponse>, Status> {
        if self.active.own_term() == 0 {
            return Err(self.not_active());
        }
        self.query(Query::Drifts).await.map(Response::new)
    }

    async fn plan_rebalance(
        &self,
        request: Request<v1::PlanRebalanceRequest>,
    ) -> Result<Response<v1::PlanRebalanceResponse>, Status> {
        let most = match request.into_inner().most_moves {
            0 => USUAL_MOVES,
            asked @ 1..=MOST_MOVES => asked,
            asked => {
                let text = format!("most_moves: {asked} exceeds the limit of {MOST_MOVES}");
                return Err(Reason::LimitReached.status(text, &[("field", "most_moves")]));
            }
        };
        if self.active.own_term() == 0 {
            return Err(self.not_active());
        }
        let stopping = || Reason::ShuttingDown.status("the route service is stopping", &[]);
        let turn = CallCost::current().turn().await;
        let permit = self.plans.permit().await?;
        let query = self.query(Query::Homes).await?;
        let answer = turn.run(move || {
            let _permit = permit; // held to the end, also if the caller goes away
            query.answer(most as usize)
        });
        let refused = |error: HomeError| Reason::NoHomes.status(error.to_string(), &[]);
        answer.await.map_err(|_| stopping())?.map(Response::new).map_err(refused)
    }

    async fn plan_faults(
        &self,
        request: Request<v1::PlanFaultsRequest>,
    ) -> Result<Response<v1::PlanFaultsResponse>, Status> {
        let request = request.into_inner();
        if request.failed.is_empty() && request.healed.is_empty() {
            let text = "failed, healed: at least one part has to be named";
            return Err(Reason::FieldMissing.status(text, &[("field", "failed")]));
        }
        let named = request.failed.len() + request.healed.len();
        if named > MOST_ELEMENTS {
            let text = format!("failed, healed: {named} parts exceed the limit of {MOST_ELEMENTS}");
            return Err(Reason::LimitReached.status(text, &[("field", "failed")]));
        }
        let term = self.active.own_term();
        if term == 0 {
            return Err(self.not_active());
        }
        let stopping = || Reason::ShuttingDown.status("the route service is stopping", &[]);
        let turn = CallCost::current().turn().await;
        let permit = self.plans.permit().await?;
        let query = self.query(Query::Faults).await?;
        let answer = turn.run(move || {
            let _permit = permit; // held to the end, also if the caller goes away
            query.answer(&request)
        });
        let refused = |error: FaultsError| match error {
            FaultsError::UnknownPart { .. } | FaultsError::Endpoint(_) => {
                Reason::UnknownElement.status(error.to_string(), &[])
            }
            FaultsError::Preview(error) => Reason::NotPredictable.status(error.to_string(), &[]),
        };
        let answer = answer.await.map_err(|_| stopping())?;
        // Another one may be at work by now, and plan for other faults and groups.
        if self.active.own_term() != term {
            return Err(self.not_active());
        }
        answer.map(Response::new).map_err(refused)
    }

    async fn list_link_loads(
        &self,
        _request: Request<v1::ListLinkLoadsRequest>,
    ) -> Result<Response<v1::ListLinkLoadsResponse>, Status> {
        if self.active.own_term() == 0 {
            return Err(self.not_active());
        }
        let turn = CallCost::current().turn().await;
        let permit = self.figures.permit().await?;
        let status = self.query(Query::Status).await?;
        let loads = turn.run(move || {
            let _permit = permit; // held to the end, also if the caller goes away
            status.link_loads()
        });
        let stopping = |_| Reason::ShuttingDown.status("the route service is stopping", &[]);
        loads.await.map_err(stopping).map(Response::new)
    }

    async fn download_recording(
        &self,
        request: Request<v1::DownloadRecordingRequest>,
    ) -> Result<Response<recordings::Parts>, Status> {
        if request.into_inner().files {
            return Ok(Response::new(recordings::of_folder(self.recording_folder.clone())));
        }
        if self.active.own_term() == 0 {
            return Err(self.not_active());
        }
        let turn = CallCost::current().turn().await;
        let Some((mut recording, graph)) = self.query(Query::Recording).await? else {
            let why = "nothing is recorded, or the records take more than `recording_bytes` allows";
            return Err(Reason::NothingRecorded.status(why, &[]));
        };
        let file = turn.run(move || {
            recording.topology = ibnetdiscover::write(&graph);
            recording.to_bytes()
        });
        let stopping = |_| Reason::ShuttingDown.status("the route service is stopping", &[]);
        Ok(Response::new(recordings::of_bytes(&file.await.map_err(stopping)?)))
    }

    async fn explain_route(
        &self,
        request: Request<v1::ExplainRouteRequest>,
    ) -> Result<Response<v1::ExplainRouteResponse>, Status> {
        let group = request.into_inner().group;
        if self.active.own_term() == 0 {
            return Err(self.not_active());
        }
        let explain = |reply| Query::Explain { group: group.clone(), reply };
        let explanation = self.query(explain).await?;
        if explanation.is_none() {
            let text = format!("group: no live group is named '{group}'");
            return Err(Reason::UnknownGroup.status(text, &[("group", &group)]));
        }
        Ok(Response::new(v1::ExplainRouteResponse { explanation }))
    }
}
