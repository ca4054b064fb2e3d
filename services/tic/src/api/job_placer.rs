//! Places jobs outside of the writer, for which everybody waits: with many nodes and jobs that
//! takes long. The writer only makes sure that the nodes are free.

use std::sync::Arc;

use fabricast_groups::command::Refusal;
use fabricast_groups::ids::{Moment, Revision};
use fabricast_groups::job::{CreateJob, JobRecord};
use fabricast_groups::names::{JobName, RequestId};
use fabricast_rpc::{CallCost, joined};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::api::tic::Tic;
use crate::domain::jobs::{Down, JobAllocations, JobView, PlacementError, PlacementRequest};
use crate::liveness::inbox::LivenessInbox;
use crate::records::Records;
use crate::writer::error::WriteError;
use crate::writer::queue::WriterQueue;

/// Request for a job on nodes that are chosen here.
#[derive(Debug)]
pub(crate) struct PlaceJob {
    pub(crate) request_id: RequestId,
    pub(crate) job: JobName,
    pub(crate) placement: PlacementRequest,
    /// Replies with the nodes that the job would get, and creates nothing.
    pub(crate) validate_only: bool,
}

/// Choices of nodes for one job, each of which one of its nodes did not outlive.
const ATTEMPTS: u32 = 3;

/// Places the jobs of one term, one after the other.
#[derive(Debug)]
pub(crate) struct JobPlacer {
    queue: WriterQueue,
    records: Arc<Records>,
    liveness: Arc<LivenessInbox>,
    allocations: Arc<Mutex<JobAllocations>>,
}

impl JobPlacer {
    pub(crate) fn new(tic: &Tic) -> Self {
        let allocations = JobAllocations::new(Arc::clone(&tic.topology.graph));
        Self {
            queue: tic.queue.clone(),
            records: Arc::clone(&tic.records),
            liveness: Arc::clone(&tic.liveness),
            allocations: Arc::new(Mutex::new(allocations)),
        }
    }

    /// Chooses nodes for a job and creates it, also if the caller goes away; a repeated request
    /// gets the job that it created.
    ///
    /// # Errors
    ///
    /// [`WriteError`]; then no job was created, unless the store failed.
    pub(crate) async fn place(self: &Arc<Self>, asked: PlaceJob) -> Result<JobRecord, WriteError> {
        let allocations = self.turn().await;
        let this = Arc::clone(self);
        let placing = async move { this.choose_and_create(allocations, asked).await };
        joined(tokio::spawn(CallCost::current().cover(placing)).await).await
    }

    /// Copies nodes and jobs.
    ///
    /// # Errors
    ///
    /// [`PlacementError::NotAFatTree`].
    pub(crate) async fn view(&self) -> Result<JobView, PlacementError> {
        let allocations = self.turn().await;
        self.compute(allocations, |allocations| allocations.view()).await.1
    }

    /// Waits until the client has paid for what it did, and until those before it have their nodes.
    async fn turn(&self) -> OwnedMutexGuard<JobAllocations> {
        drop(CallCost::current().turn().await);
        Arc::clone(&self.allocations).lock_owned().await
    }

    async fn choose_and_create(
        &self,
        mut allocations: OwnedMutexGuard<JobAllocations>,
        asked: PlaceJob,
    ) -> Result<JobRecord, WriteError> {
        let PlaceJob { request_id, job, placement, validate_only } = asked;
        for attempt in 1.. {
            let created = self.records.read(|directory| {
                let created = directory.created_job(&request_id, &job);
                created.map(|created| created.cloned())
            });
            if let Some(job) = created? {
                return Ok(job);
            }
            let asked = placement.clone();
            let (guard, chosen) =
                self.compute(allocations, move |allocations| allocations.place(&asked)).await;
            allocations = guard; // until it is written, nobody else gets these nodes
            let (class, nodes) = chosen?;
            if validate_only {
                let (class, created, revision) = (Some(class), Moment(0), Revision(0));
                return Ok(JobRecord { name: job, class, nodes, created, revision, share: None });
            }
            let create =
                CreateJob { request_id: request_id.clone(), job: job.clone(), class, nodes };
            // Not behind all else that the client has asked for, while others wait for their nodes.
            match CallCost::default().cover(self.queue.write(create)).await {
                Err(WriteError::Directory(Refusal::NodeFailed { .. })) if attempt < ATTEMPTS => {}
                created => return Ok(created?.answer),
            }
        }
        unreachable!("the last attempt returns")
    }

    /// Computes with all that has happened, on a thread of its own for the client of this call.
    async fn compute<T: Send + 'static>(
        &self,
        mut allocations: OwnedMutexGuard<JobAllocations>,
        work: impl FnOnce(&mut JobAllocations) -> Result<T, PlacementError> + Send + 'static,
    ) -> (OwnedMutexGuard<JobAllocations>, Result<T, PlacementError>) {
        let (records, liveness) = (Arc::clone(&self.records), Arc::clone(&self.liveness));
        let computed = CallCost::current().at_once().run(move || {
            let down = Down { elements: records.failed(), nodes: liveness.contacts.silent() };
            let news = records.job_news(allocations.is_outdated(&down));
            let done = allocations.follow(news, &down).and_then(|()| work(&mut allocations));
            (allocations, done)
        });
        joined(computed.await).await
    }
}
