//! The way to the writer: a bounded queue of orders, each with its way back.

use std::time::Duration;

use fabricast_groups::command::{Answer, Command};
use fabricast_groups::ids::Revision;
use fabricast_groups::names::{JobName, RequestId};
use fabricast_proto::v1;
use fabricast_routing::Choice;
use fabricast_rpc::Reason;
use fabricast_telemetry::traces::Origin;
use tokio::sync::{mpsc, oneshot};
use tonic::Status;

use crate::choices::Texts;
use crate::choices::report::ChoiceReport;
use crate::collectives::wish::{CollectiveDone, CollectiveWork};
use crate::jobs::{JobView, Wish};
use crate::terms::Router;
use crate::topology::TopologyChange;

/// Term of a route service, and the number of its report.
pub(crate) type Fence = (u64, u64);

/// What the writer can be asked to do.
#[derive(Debug)]
pub(crate) enum Work {
    /// Change the directory.
    Decide(Command),
    /// Change the directory on behalf of the route service that has this term.
    DecideInTerm(Fence, Command),
    /// Choose nodes for a job and create it.
    PlaceJob(PlaceJob),
    /// Show nodes and jobs.
    ViewJobs,
    /// Choose MGIDs for groups of these endpoints; nothing changes.
    PlanMgids(Vec<Vec<u32>>),
    /// Give out the next term, unless another route service holds the newest.
    AcquireTerm {
        /// Who asks.
        router: Router,
        /// Take it even so.
        take_over: bool,
    },
    /// Hold a term for another lease.
    RenewTerm {
        /// Who asks.
        router: Router,
        /// The term.
        term: u64,
    },
    /// Let go of a term.
    ReleaseTerm(u64),
    /// Store something that is no record of the directory.
    Keep {
        /// Where.
        key: Vec<u8>,
        /// What.
        value: Vec<u8>,
    },
    /// Keep what an engine chose, on behalf of the route service of the report's term.
    RecordChoices(Box<ChoiceReport>),
    /// Show what was chosen.
    ViewChoices,
    /// Work with another topology from now on.
    ChangeTopology(TopologyChange),
    /// Give, take or show trees of collectives.
    Collectives(Box<CollectiveWork>),
}

impl Work {
    /// Has collectives follow what has failed or been mended.
    pub(crate) fn follow_fabric() -> Self {
        Self::Collectives(Box::new(CollectiveWork::Sync))
    }
}

/// A job that asks for nodes.
#[derive(Debug)]
pub(crate) struct PlaceJob {
    pub(crate) request_id: RequestId,
    pub(crate) job: JobName,
    pub(crate) wish: Wish,
    /// Only say what it would get.
    pub(crate) validate_only: bool,
}

/// What came of it, durable.
#[derive(Debug)]
pub(crate) enum Done {
    /// The directory answered.
    Decided {
        /// What it answered.
        answer: Box<Answer>,
        /// The revision after the decision.
        revision: Revision,
    },
    /// A term was given out or renewed, and is held for so long.
    Term(u64, Duration),
    /// It is stored.
    Kept,
    /// Nodes and jobs as they are.
    Jobs(Box<JobView>),
    /// One for each group.
    Mgids(Vec<Choice>),
    /// Choices are kept.
    ChoicesRecorded {
        /// Of so many groups.
        groups: usize,
    },
    /// What was chosen.
    Choices(Texts),
    /// The topology, and whether it is another one than before.
    Topology {
        /// In short.
        summary: v1::TopologySummary,
        /// Whether it changed.
        changed: bool,
    },
    /// What came of a question about collectives.
    Collectives(Box<CollectiveDone>),
}

/// Work on its way to the writer.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) work: Work,
    pub(crate) reply: Reply,
    /// The traced request that it comes of.
    pub(crate) origin: Origin,
}

/// The way back to a caller.
pub(crate) type Reply = oneshot::Sender<Result<Done, Status>>;

/// The way to the writer.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    queue: mpsc::Sender<Order>,
}

impl Orders {
    /// Opens the queue.
    ///
    /// - `limit`: orders that may wait.
    pub(crate) fn open(limit: usize) -> (Self, OrderQueue) {
        let (queue, orders) = mpsc::channel(limit);
        (Self { queue }, OrderQueue(orders))
    }

    /// Has work done. Once this is called it may be done even if the answer is not waited for.
    pub(crate) async fn place(&self, work: Work) -> Result<Done, Status> {
        self.send(work)?.done().await
    }

    /// Has work done, and leaves it to the caller when to wait for it.
    pub(crate) fn send(&self, work: Work) -> Result<Placed, Status> {
        let (reply, answer) = oneshot::channel();
        let origin = Origin::kept();
        self.queue.try_send(Order { work, reply, origin }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                let limit = self.queue.max_capacity();
                Reason::LimitReached.status(format!("{limit} changes wait already"), &[])
            }
            mpsc::error::TrySendError::Closed(_) => stopping(),
        })?;
        Ok(Placed(answer))
    }
}

/// An order on its way.
pub(crate) struct Placed(oneshot::Receiver<Result<Done, Status>>);

impl Placed {
    /// Waits for what comes of it.
    pub(crate) async fn done(self) -> Result<Done, Status> {
        self.0.await.unwrap_or_else(|_dropped| Err(stopping()))
    }
}

pub(crate) fn stopping() -> Status {
    Reason::ShuttingDown.status("the TIC is stopping", &[])
}

/// The writer's end of the queue.
#[derive(Debug)]
pub(crate) struct OrderQueue(pub(crate) mpsc::Receiver<Order>);
