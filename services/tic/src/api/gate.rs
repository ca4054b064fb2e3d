//! Leads each call to the services of the present term, or refuses it.
//!
//! ```text
//!   gRPC call ──► LeaderGate ── leads ──► LeaderServices ──► still leads? ──► answer
//!                  │ └── does not ─► DownloadTopology, stale reads: from a copy of the records
//!                  └───────────────► everything else: NOT_LEADER, with the leader's address
//! ```
//!
//! [`LeaderServices`] are made anew for every term, from what the store holds then, and dropped
//! with it. A call that is in progress when the term ends is refused: a TIC that may not lead any
//! more answers nothing, not even what is true.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use fabricast_proto::v1::collective_service_server::CollectiveServiceServer;
use fabricast_proto::v1::group_batch_service_server::GroupBatchServiceServer;
use fabricast_proto::v1::job_service_server::JobServiceServer;
use fabricast_proto::v1::route_choice_service_server::RouteChoiceServiceServer;
use fabricast_proto::v1::tic_service_server::TicServiceServer;
use fabricast_proto::v1::topology_service_server::TopologyServiceServer;
use parking_lot::RwLock;
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tower::Service;

use crate::api::batches::GroupBatches;
use crate::api::choices::RouteChoices;
use crate::api::collectives::Collectives;
use crate::api::jobs::Jobs;
use crate::api::tic::Tic;
use crate::api::topology::Topologies;
use crate::leadership::election::LeaderLease;
use crate::leadership::state::LeaderState;
use crate::writer::queue::WriterQueue;

/// The services of one term.
#[derive(Clone, Debug)]
pub(crate) struct LeaderServices {
    pub(crate) lease: LeaderLease,
    pub(crate) queue: WriterQueue,
    pub(crate) tic: TicServiceServer<Tic>,
    pub(crate) jobs: JobServiceServer<Jobs>,
    pub(crate) choices: RouteChoiceServiceServer<RouteChoices>,
    pub(crate) collectives: CollectiveServiceServer<Collectives>,
    pub(crate) topologies: TopologyServiceServer<Topologies>,
    pub(crate) batches: GroupBatchServiceServer<GroupBatches>,
}

/// The services of the present term, if this TIC leads.
#[derive(Debug, Default)]
pub(crate) struct CurrentServices {
    pub(crate) leader: Arc<LeaderState>,
    services: RwLock<Option<LeaderServices>>,
}

impl CurrentServices {
    /// Takes the services of a new term into use.
    ///
    /// - `address`: told to callers of other TICs; empty if there are none.
    pub(crate) fn begin_term(&self, services: LeaderServices, address: &str) {
        self.leader.lead(services.lease.clone(), address);
        *self.services.write() = Some(services);
    }

    /// Takes them out of use.
    pub(crate) fn end_term(&self) {
        *self.services.write() = None;
        self.leader.end_term();
    }

    /// Returns the services if this TIC leads at this moment.
    fn get(&self) -> Option<LeaderServices> {
        self.services.read().as_ref().filter(|services| services.lease.holds()).cloned()
    }

    /// True if callers get answers: this TIC leads and its writer takes requests, or another leads.
    pub(crate) fn is_ready(&self) -> bool {
        match self.get() {
            Some(services) => services.queue.has_room(),
            None => !self.leader.leadership().address.is_empty(),
        }
    }

    fn refusal(&self) -> Status {
        self.leader.not_leader().into()
    }
}

/// Takes one service out of those of a term.
type Select<S> = fn(&LeaderServices) -> S;

/// Serves one gRPC service with that of the present term.
pub(crate) struct LeaderGate<S> {
    current: Arc<CurrentServices>,
    select: Select<S>,
    /// Answers the calls of [`COPIED`] while this TIC does not lead.
    copy: Option<S>,
}

impl<S> LeaderGate<S> {
    pub(crate) fn new(current: &Arc<CurrentServices>, select: Select<S>, copy: Option<S>) -> Self {
        Self { current: Arc::clone(current), select, copy }
    }
}

impl<S: Clone> Clone for LeaderGate<S> {
    fn clone(&self) -> Self {
        let Self { current, select, copy } = self;
        Self { current: Arc::clone(current), select: *select, copy: copy.clone() }
    }
}

/// Calls that a TIC may answer without leading.
const COPIED: [&str; 4] = ["DownloadTopology", "GetGroup", "ListGroups", "ListNodes"];

impl<S: NamedService> NamedService for LeaderGate<S> {
    const NAME: &'static str = S::NAME;
}

type Answer = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

impl<S> Service<http::Request<Body>> for LeaderGate<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(())) // as generated services do
    }

    fn call(&mut self, request: http::Request<Body>) -> Answer {
        if let Some(services) = self.current.get() {
            let answering = (self.select)(&services).call(request);
            let current = Arc::clone(&self.current);
            return Box::pin(async move {
                let answer = answering.await;
                if services.lease.holds() { answer } else { Ok(current.refusal().into_http()) }
            });
        }
        let name = request.uri().path().rsplit('/').next().unwrap_or_default();
        match &mut self.copy {
            Some(copy) if COPIED.contains(&name) => Box::pin(copy.call(request)),
            Some(_) | None => {
                let refusal = self.current.refusal();
                Box::pin(async move { Ok(refusal.into_http()) })
            }
        }
    }
}
