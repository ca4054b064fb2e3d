//! The one task that changes the records.
//!
//! Callers wait in a bounded queue. The writer decides as many of them as there are against its
//! own directory, which runs ahead of the committed one, writes all changes as one store
//! transaction, and only then publishes them and answers.
//!
//! If that fails, nobody is told yes. What the store refused was not written, and the directory is
//! put back to the committed one; what somebody else wrote is read. After a failure of the storage
//! nobody knows what is durable, and an embedded store takes no more writes until it is opened
//! again, so the writer ends: the TIC with it, for a supervisor to start it anew, or its term of
//! office if there are several TICs.

use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::command::{Answer, Command};
use fabricast_groups::directory::Directory;
use fabricast_groups::ids::{Moment, Revision};
use fabricast_groups::job::{CreateJob, JobRecord};
use fabricast_groups::record::Change;
use fabricast_store::{Expected, StoreError, Txn, TxnOutcome};
use fabricast_telemetry::metrics::{TIC_CHANGES, TIC_STORE_FAILURES, TIC_TRANSACTIONS};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::audit;
use crate::choices::{ChoiceDesk, Puts};
use crate::clock::wall_clock;
use crate::collectives::CollectiveDesk;
use crate::commit::{self, Written};
use crate::election::{LEADER, Tenure};
use crate::hints::Hints;
use crate::jobs::JobDesk;
use crate::liveness::Inbox;
use crate::mgids::MgidChoice;
use crate::orders::{Done, Order, OrderQueue, PlaceJob, Reply, Work, stopping};
use crate::records::Records;
use crate::refusals;
use crate::storage::{self, Loaded, RecordsError, Storage};
use crate::terms::RouteTerms;
use crate::topology::{Site, TopologyChange};
use crate::unwritten::{Ended, Unwritten, chain, no_store};

/// Orders decided before they are written together.
const MAX_BATCH: usize = 512;
/// Records changed at which a batch is written, however few orders it holds.
const MAX_BATCH_CHANGES: usize = 16_384;

/// The writer's state.
#[derive(Debug)]
pub(crate) struct Writer {
    storage: Storage,
    records: Arc<Records>,
    hints: Arc<Hints>,
    liveness: Arc<Inbox>,
    mgids: MgidChoice,
    jobs: JobDesk,
    choices: ChoiceDesk,
    collectives: CollectiveDesk,
    directory: Directory,
    terms: RouteTerms,
    tenure: Tenure,
    site: Site,
    /// The topology that is being written, or is durable: nothing more is decided on the old one.
    next_site: Option<Site>,
    /// What is durable may differ from what is published: look before the next decision.
    in_doubt: bool,
}

/// Decided orders that wait for one commit.
#[derive(Default)]
struct Batch {
    puts: Puts,
    changes: Vec<Change>,
    answers: Vec<(Reply, Result<Done, Status>)>,
    causes: crate::causes::Causes,
}

impl Writer {
    /// Starts from what the store holds.
    ///
    /// - `lease`: how long a route service holds a term without renewing it.
    pub(crate) fn new(
        (storage, tenure): (Storage, Tenure),
        (loaded, lease, site): (Loaded, Duration, Site),
        records: Arc<Records>,
        (hints, liveness): (Arc<Hints>, Arc<Inbox>),
        (mgids, jobs, collectives): (MgidChoice, JobDesk, CollectiveDesk),
    ) -> Self {
        let Loaded { directory, term, choices, .. } = loaded;
        Self {
            storage,
            records,
            hints,
            liveness,
            mgids,
            jobs,
            choices: ChoiceDesk::new(choices),
            collectives,
            directory,
            terms: RouteTerms::new(term, lease),
            tenure,
            site,
            next_site: None,
            in_doubt: false,
        }
    }

    /// Works until told to stop, then finishes what is queued.
    ///
    /// # Errors
    ///
    /// [`Ended`] if it cannot go on, after everybody who waited has been told.
    pub(crate) async fn run(
        mut self,
        queue: OrderQueue,
        stop: CancellationToken,
    ) -> Result<(), Ended> {
        let OrderQueue(mut queue) = queue;
        let mut orders = Vec::with_capacity(MAX_BATCH);
        loop {
            let count = tokio::select! {
                biased;
                count = queue.recv_many(&mut orders, MAX_BATCH) => count,
                () = stop.cancelled(), if !queue.is_closed() => {
                    queue.close();
                    continue;
                }
            };
            if count == 0 {
                return Ok(());
            }
            let worked = self.work_off(&mut orders).await;
            let worked = worked.and_then(|()| {
                let Some(next) = &self.next_site else { return Ok(()) };
                audit::topology(&next.summary());
                Err(Ended::Replaced)
            });
            if let Err(ended) = &worked {
                let refusal = ended.status();
                queue.close();
                while let Some(order) = queue.recv().await {
                    orders.push(order);
                }
                for order in orders {
                    // A caller that is gone is not missed, here and below.
                    let _ = order.reply.send(Err(refusal.clone()));
                }
                return worked;
            }
        }
    }

    async fn work_off(&mut self, orders: &mut Vec<Order>) -> Result<(), Ended> {
        if self.in_doubt {
            self.settle_doubt().await?;
        }
        let mut batch = Batch::default();
        let mut waiting = std::mem::take(orders).into_iter();
        while let Some(order) = waiting.next() {
            self.decide(order, &mut batch);
            if batch.changes.len() >= MAX_BATCH_CHANGES
                && let Err(ended) = self.commit(std::mem::take(&mut batch)).await
            {
                orders.extend(waiting);
                return Err(ended);
            }
        }
        self.commit(batch).await
    }

    fn decide(&mut self, order: Order, batch: &mut Batch) {
        let Order { work, reply, origin } = order;
        batch.causes.add(origin, &work);
        let result = if self.in_doubt {
            Err(no_store())
        } else if self.next_site.is_some() {
            Err(stopping())
        } else {
            match work {
                Work::AcquireTerm { router, take_over } => {
                    self.terms.acquire(&router, take_over).map(|term| {
                        let number = Some(storage::number(term));
                        batch.puts.insert(storage::TERM_KEY.to_vec(), number);
                        Done::Term(term, self.terms.lease())
                    })
                }
                Work::RenewTerm { router, term } => {
                    let renewed = self.terms.renew(&router, term);
                    renewed.map(|()| Done::Term(term, self.terms.lease()))
                }
                Work::ReleaseTerm(term) => {
                    self.terms.release(term);
                    Ok(Done::Kept)
                }
                Work::PlaceJob(wish) => self.place_job(wish, batch),
                Work::ViewJobs => self
                    .jobs
                    .view(&self.directory, &self.records.failed())
                    .map(|view| Done::Jobs(Box::new(view))),
                Work::PlanMgids(groups) => self.mgids.plan(&groups).map(Done::Mgids),
                Work::Keep { key, value } => {
                    batch.puts.insert(key, Some(value));
                    Ok(Done::Kept)
                }
                Work::RecordChoices(report) => self.terms.check(report.term).and_then(|()| {
                    let kept = self.choices.record(&report, &self.directory, &mut batch.puts);
                    kept.map(|groups| Done::ChoicesRecorded { groups })
                }),
                Work::ViewChoices => Ok(Done::Choices(self.choices.view())),
                Work::ChangeTopology(change) => self.change_topology(&change, batch),
                Work::Collectives(work) => {
                    let seen = (&self.directory, &self.records.failed());
                    let done = self.collectives.decide(*work, seen, &mut batch.puts);
                    done.map(|done| Done::Collectives(Box::new(done)))
                }
                Work::DecideInTerm(fence, command) => match self.terms.check_report(fence) {
                    Ok(()) => self.decide_command(&command, batch),
                    Err(stale) => Err(stale),
                },
                Work::Decide(command) => self.decide_command(&command, batch),
            }
        };
        batch.answers.push((reply, result));
    }

    fn decide_command(&mut self, command: &Command, batch: &mut Batch) -> Result<Done, Status> {
        let Self { directory, mgids, jobs, collectives, .. } = self;
        let decision = directory
            .decide(wall_clock(), command, &mut |group| mgids.choose(group))
            .map_err(|refusal| refusals::status(&refusal))?;
        mgids.applied(&decision.changes);
        for change in &decision.changes {
            directory.apply(change);
            jobs.applied(change);
            collectives.applied(change, &mut batch.puts);
            batch.puts.insert(storage::key(change), change.encode());
        }
        batch.changes.extend(decision.changes);
        Ok(Done::Decided { answer: Box::new(decision.answer), revision: decision.revision })
    }

    fn change_topology(
        &mut self,
        change: &TopologyChange,
        batch: &mut Batch,
    ) -> Result<Done, Status> {
        let site = &self.site;
        let Some(next) = site.changed(change, &self.directory)? else {
            return Ok(Done::Topology { summary: site.summary(), changed: false });
        };
        next.store(site, &mut batch.puts);
        let summary = next.summary();
        self.next_site = Some(next);
        Ok(Done::Topology { summary, changed: true })
    }

    /// Chooses nodes for a job and creates it; a repeated request gets the job it created.
    fn place_job(&mut self, asked: PlaceJob, batch: &mut Batch) -> Result<Done, Status> {
        let PlaceJob { request_id, job, wish, validate_only } = asked;
        let before = self.directory.created_job(&request_id, &job);
        if let Some(job) = before.map_err(|refusal| refusals::status(&refusal))? {
            let answer = Box::new(Answer::JobCreated(job.clone()));
            return Ok(Done::Decided { answer, revision: self.directory.revision() });
        }
        let (class, nodes) = self.jobs.place(&self.directory, &self.records.failed(), &wish)?;
        if validate_only {
            let (created, revision) = (Moment(0), Revision(0));
            let thought = JobRecord { name: job, class, nodes, created, revision };
            let answer = Box::new(Answer::JobCreated(thought));
            return Ok(Done::Decided { answer, revision });
        }
        self.decide_command(&Command::CreateJob(CreateJob { request_id, job, class, nodes }), batch)
    }

    /// Makes a batch durable, then public, then answers.
    async fn commit(&mut self, batch: Batch) -> Result<(), Ended> {
        let Batch { puts, changes, answers, causes } = batch;
        let commit = causes.commit((answers.len(), changes.len()));
        let is_logged = match self.write(&puts).await {
            Ok(is_logged) => is_logged,
            Err(unwritten) => {
                TIC_STORE_FAILURES.add(1);
                let status = unwritten.status();
                for (reply, _undone) in answers {
                    let _ = reply.send(Err(status.clone()));
                }
                return self.recover(unwritten);
            }
        };
        if !changes.is_empty() {
            TIC_CHANGES.add(changes.len() as u64);
            self.records.read(|before| audit::appointed(before, &changes));
            let concerned = self.records.publish(&changes, &commit.told());
            self.hints.leave(concerned.hints, commit.origins());
            if concerned.hosts {
                self.liveness.hosts_changed();
            }
        }
        for (reply, result) in answers {
            let _ = reply.send(result);
        }
        if !is_logged {
            return Ok(());
        }
        match commit::finish(&self.storage.store, &self.tenure, &puts).await {
            Ok(TxnOutcome::Committed { .. }) => Ok(()),
            Ok(TxnOutcome::Conflict { .. }) => Err(Ended::Deposed),
            Err(error) => Err(Ended::Store(error)),
        }
    }

    /// Makes changes durable; answers whether they are still to be carried out.
    async fn write(&mut self, puts: &Puts) -> Result<bool, Unwritten> {
        if puts.is_empty() {
            return Ok(false);
        }
        // Whoever else wrote to the store has moved the revision or the term.
        let committed = self.records.read(Directory::revision);
        let revision = Change::RevisionPut(committed);
        let unchanged = Txn::new()
            .when(storage::key(&revision), expected(committed.0, revision.encode()))
            .when(storage::TERM_KEY, {
                let term = self.terms.durable();
                expected(term, Some(storage::number(term)))
            });
        match commit::write(&self.storage.store, &self.tenure, unchanged, puts).await? {
            written @ (Written::Whole | Written::Logged) => {
                self.terms.committed();
                self.choices.committed();
                self.collectives.committed();
                TIC_TRANSACTIONS.add(1);
                Ok(written == Written::Logged)
            }
            Written::Conflict { key } if key == LEADER => Err(Unwritten::Deposed),
            Written::Conflict { key } => {
                Err(Unwritten::Conflict { key: String::from_utf8_lossy(&key).into_owned() })
            }
        }
    }

    /// Puts the directory back after a batch that was not written, if it is known to what.
    fn recover(&mut self, unwritten: Unwritten) -> Result<(), Ended> {
        self.next_site = None;
        match unwritten {
            Unwritten::Deposed => Err(Ended::Deposed),
            Unwritten::Conflict { key } => {
                tracing::error!(reason = key, "store was written by somebody else");
                self.in_doubt = true;
                Ok(())
            }
            Unwritten::Refused(error) => {
                tracing::warn!(error = chain(&error), "store refused a transaction");
                self.directory = self.records.read(Directory::clone);
                self.mgids.start_over(&self.directory);
                self.jobs.start_over();
                self.choices.roll_back();
                self.collectives.roll_back();
                self.terms.roll_back();
                Ok(())
            }
            Unwritten::Failed(error) => Err(Ended::Store(error)),
        }
    }

    /// Puts this directory and the published one back to what the store holds; if the store is
    /// busy, later.
    async fn settle_doubt(&mut self) -> Result<(), Ended> {
        match self.storage.load().await {
            Ok(Loaded { directory, term, choices, collectives, .. }) => {
                if directory.revision() != self.records.read(Directory::revision) {
                    self.records.replace(directory.clone());
                    self.liveness.hosts_changed();
                }
                self.mgids.start_over(&directory);
                self.jobs.start_over();
                self.choices.start_over(choices);
                self.collectives.start_over(collectives);
                self.terms.start_over(term);
                self.directory = directory;
                self.in_doubt = false;
                tracing::warn!("records read anew from the store");
                Ok(())
            }
            Err(RecordsError::Store(error @ StoreError::Overloaded { .. })) => {
                tracing::warn!(error = chain(&error), "records cannot be read yet");
                Ok(())
            }
            Err(error) => Err(Ended::Records(error)),
        }
    }
}

/// What a counter must be in the store; it is not there before its first change.
fn expected(counter: u64, value: Option<Vec<u8>>) -> Expected {
    value.filter(|_| counter > 0).map_or(Expected::Absent, Expected::Value)
}
