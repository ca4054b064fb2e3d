//! The TIC at work: what there is while it leads, and what answers while it does not.
//!
//! ```text
//!   gRPC call ──► Gate ── leads ──► the office's services ──► still leads? ──► answer
//!                  │ └── does not ─► DownloadTopology, stale reads: from a copy of the records
//!                  └───────────────► everything else: NOT_LEADER, with the leader's address
//! ```
//!
//! An [`Office`] is made anew for every term of office, from what the store holds then, and goes with
//! it. Calls that are in it when the term ends are refused: nobody is answered by a TIC that may not
//! lead any more, not even with something that is true.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_proto::v1::collective_service_server::CollectiveServiceServer;
use fabricast_proto::v1::group_batch_service_server::GroupBatchServiceServer;
use fabricast_proto::v1::job_service_server::JobServiceServer;
use fabricast_proto::v1::route_choice_service_server::RouteChoiceServiceServer;
use fabricast_proto::v1::tic_service_server::TicServiceServer;
use fabricast_proto::v1::topology_service_server::TopologyServiceServer;
use fabricast_rpc::Reason;
use fabricast_telemetry::metrics::{TIC_LEADS, TIC_TERM};
use tokio::sync::Mutex;
use tokio::time::Instant;
use tonic::Status;
use tonic::body::Body;
use tonic::server::NamedService;
use tower::Service;

use crate::batch_service::GroupBatches;
use crate::choice_service::RouteChoices;
use crate::collective_service::Collectives;
use crate::election::{Incumbent, Tenure};
use crate::job_service::Jobs;
use crate::records::Records;
use crate::service::Tic;
use crate::storage::Storage;
use crate::topology_service::Topologies;

/// A copy of the records is read anew after this time, when somebody asks.
const COPY_AGE: Duration = Duration::from_secs(1);

/// The services of one term of office.
#[derive(Clone, Debug)]
pub(crate) struct Office {
    pub(crate) tenure: Tenure,
    pub(crate) tic: TicServiceServer<Tic>,
    pub(crate) jobs: JobServiceServer<Jobs>,
    pub(crate) choices: RouteChoiceServiceServer<RouteChoices>,
    pub(crate) collectives: CollectiveServiceServer<Collectives>,
    pub(crate) topologies: TopologyServiceServer<Topologies>,
    pub(crate) batches: GroupBatchServiceServer<GroupBatches>,
}

/// Whether this TIC leads, and if not, who does.
#[derive(Debug, Default)]
pub(crate) struct Seat {
    state: RwLock<State>,
}

#[derive(Debug, Default)]
struct State {
    office: Option<Office>,
    incumbent: Incumbent,
}

impl Seat {
    /// Takes the services of a new term into use.
    pub(crate) fn take(&self, office: Office, address: &str) {
        let term = office.tenure.term();
        TIC_LEADS.set(1);
        TIC_TERM.set(term);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        state.incumbent = Incumbent { address: address.to_owned(), term };
        state.office = Some(office);
    }

    /// Puts them out of use; nobody is known to lead then.
    pub(crate) fn leave(&self) {
        TIC_LEADS.set(0);
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = State::default();
    }

    /// Notes who leads.
    pub(crate) fn follow(&self, incumbent: Incumbent) {
        TIC_LEADS.set(0);
        TIC_TERM.set(incumbent.term);
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        if state.incumbent != incumbent {
            let Incumbent { address, term } = &incumbent;
            tracing::info!(peer = %address, epoch = term, "another TIC leads");
        }
        *state = State { office: None, incumbent };
    }

    /// The services, if this TIC leads at this moment.
    fn office(&self) -> Option<Office> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        state.office.as_ref().filter(|office| office.tenure.holds()).cloned()
    }

    /// Who leads, as others are told.
    pub(crate) fn leadership(&self) -> v1::Leadership {
        let leads = self.office().is_some();
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        // One whose term is over knows of nobody else yet.
        let unknown = !leads && state.office.is_some();
        let Incumbent { address, term } =
            if unknown { Incumbent::default() } else { state.incumbent.clone() };
        v1::Leadership { leads, address, term }
    }

    /// What callers are told who want the leader.
    fn refusal(&self) -> Status {
        let v1::Leadership { address, term, .. } = self.leadership();
        let text = match address.as_str() {
            "" => "this TIC does not lead, and no other is known to yet".to_owned(),
            address => format!("this TIC does not lead, {address} does"),
        };
        let facts = [("leader", address.as_str()), ("term", &term.to_string())];
        Reason::NotLeader.status(text, &facts)
    }
}

/// The records as a TIC that does not lead has them.
#[derive(Debug)]
pub(crate) struct RecordsCopy {
    pub(crate) seat: Arc<Seat>,
    pub(crate) storage: Storage,
    pub(crate) records: Arc<Records>,
    /// When they were read last.
    pub(crate) read: Mutex<Option<Instant>>,
}

impl RecordsCopy {
    /// Sees to it that the copy is not too old.
    ///
    /// # Errors
    ///
    /// `NOT_LEADER` if the caller did not allow it to be old at all, `STORE_FAILED`.
    pub(crate) async fn refresh(&self, allow_stale: bool) -> Result<(), Status> {
        if !allow_stale {
            return Err(self.seat.refusal());
        }
        let mut read = self.read.lock().await;
        if read.is_some_and(|at| at.elapsed() < COPY_AGE) {
            return Ok(());
        }
        let asked = Instant::now();
        let loaded = self.storage.load().await.map_err(|error| {
            Reason::StoreFailed.status(format!("the records cannot be read: {error}"), &[])
        })?;
        self.records.replace(loaded.directory);
        *read = Some(asked);
        Ok(())
    }
}

/// Which of an office's services a gate leads to.
type Pick<S> = fn(&Office) -> S;

/// The way to one service: through the office while this TIC leads.
pub(crate) struct Gate<S> {
    seat: Arc<Seat>,
    pick: Pick<S>,
    /// What answers the calls of [`COPIED`] while it does not.
    copy: Option<S>,
}

impl<S> Gate<S> {
    pub(crate) fn new(seat: &Arc<Seat>, pick: Pick<S>, copy: Option<S>) -> Self {
        Self { seat: Arc::clone(seat), pick, copy }
    }
}

impl<S: Clone> Clone for Gate<S> {
    fn clone(&self) -> Self {
        let Self { seat, pick, copy } = self;
        Self { seat: Arc::clone(seat), pick: *pick, copy: copy.clone() }
    }
}

/// Calls that a TIC may answer without leading.
const COPIED: [&str; 4] = ["DownloadTopology", "GetGroup", "ListGroups", "ListNodes"];

impl<S: NamedService> NamedService for Gate<S> {
    const NAME: &'static str = S::NAME;
}

type Answer = Pin<Box<dyn Future<Output = Result<http::Response<Body>, Infallible>> + Send>>;

impl<S> Service<http::Request<Body>> for Gate<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>, Error = Infallible>,
    S: Clone + Send + 'static,
    S::Future: Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(())) // as generated services are
    }

    fn call(&mut self, request: http::Request<Body>) -> Answer {
        if let Some(office) = self.seat.office() {
            let answering = (self.pick)(&office).call(request);
            let seat = Arc::clone(&self.seat);
            return Box::pin(async move {
                let answer = answering.await;
                if office.tenure.holds() { answer } else { Ok(seat.refusal().into_http()) }
            });
        }
        let name = request.uri().path().rsplit('/').next().unwrap_or_default();
        match &mut self.copy {
            Some(copy) if COPIED.contains(&name) => Box::pin(copy.call(request)),
            Some(_) | None => {
                let refusal = self.seat.refusal();
                Box::pin(async move { Ok(refusal.into_http()) })
            }
        }
    }
}
