//! The one task that changes the records, but for the choices of the route service
//! (`records::choices`).
//!
//! Callers wait in a bounded queue, which is fair to their clients by the time that the writer
//! spends on each. The writer decides a batch of requests against its own state, which runs ahead
//! of the committed records, writes all changes as one store transaction, and only then publishes
//! them and replies.
//!
//! If the transaction fails, no caller gets a success. If the store refused it, nothing was
//! written, and the state is rolled back; if another program wrote to the store, the state is read
//! anew. After a failure of the storage nobody knows what is durable, and an embedded store takes
//! no more writes until it is opened again, so the writer ends, and with it the term.

pub(crate) mod directory;
pub(crate) mod error;
pub(crate) mod fair_queue;
pub(crate) mod portions;
pub(crate) mod queue;
pub(crate) mod requests;
pub(crate) mod state;
pub(crate) mod traced;

use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::directory::Directory;
use fabricast_groups::record::Change;
use fabricast_store::{Expected, StoreError, Txn, TxnOutcome};
use fabricast_telemetry::metrics::{
    TIC_CHANGES, TIC_COMMITS, TIC_DECISIONS, TIC_STORE_FAILURES, TIC_TRANSACTIONS,
};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::audit;
use crate::error_text::chain;
use crate::leadership::election::LeaderLease;
use crate::liveness::hints::Hints;
use crate::records::choices::ChoiceStore;
use crate::records::keys::{self, FAILED, LEADER, Puts, RECORDS, ROUTE_TERM, RecordsError};
use crate::records::redo_log::{DECISIONS, Written};
use crate::records::storage::Storage;
use crate::writer::error::{CommitError, TermEnd, WriteError};
use crate::writer::queue::{HeldReply, QueuedWrite, WriteReceiver};
use crate::writer::state::{BatchWrites, WriterState};
use crate::writer::traced::TracedRequests;

/// Most requests that are decided before they are written together.
const MAX_BATCH: usize = 512;
/// Changes at which a batch is written, however few requests it holds.
const MAX_BATCH_CHANGES: usize = 16_384;
/// Processor time of decisions at which a batch is written, so that other requests wait no longer.
const MAX_BATCH_TIME: Duration = Duration::from_millis(10);
/// A decision that keeps the writer for longer is logged at a higher level.
const LONG_DECISION: Duration = Duration::from_millis(20);
/// Bytes of a record of failed parts or of the route term that is written also without space.
const MAX_VITAL_BYTES: usize = 64 << 10;
/// Most bytes beside the directory's records in what is written also without space: far less than
/// the store has in reserve.
const MAX_OTHER_BYTES: usize = 1 << 20;
/// Most bytes of records that replace others and are written also without space.
const MAX_REPLACED_BYTES: usize = 3 << 20;
/// Time after a refusal for lack of space in which each request is written alone.
const SHORT_OF_SPACE: Duration = Duration::from_secs(30);
/// Time after such a refusal in which changes that need space are refused without asking the store.
const NO_SPACE: Duration = Duration::from_secs(1);

/// The writer before it runs.
#[derive(Debug)]
pub(crate) struct Writer {
    pub(crate) state: WriterState,
    pub(crate) storage: Storage,
    pub(crate) lease: LeaderLease,
    pub(crate) hints: Arc<Hints>,
    /// Of the route service; they are written apart.
    pub(crate) choices: Arc<ChoiceStore>,
    /// The state may differ from what is durable: read the store before the next decision.
    pub(crate) in_doubt: bool,
    /// Time when the store last had no space.
    pub(crate) no_space: Option<Instant>,
}

/// Decided requests that wait for one commit.
#[derive(Default)]
struct Batch {
    writes: BatchWrites,
    replies: Vec<HeldReply>,
    traced: TracedRequests,
}

impl Writer {
    /// Works until told to stop, then finishes the queued requests.
    ///
    /// # Errors
    ///
    /// [`TermEnd`] if it cannot go on, after all waiting callers were refused.
    pub(crate) async fn run(
        mut self,
        queue: WriteReceiver,
        stop: CancellationToken,
    ) -> Result<(), TermEnd> {
        loop {
            let has_requests = tokio::select! {
                biased;
                has_requests = queue.wait() => has_requests,
                () = stop.cancelled(), if !queue.is_closed() => {
                    queue.close();
                    continue;
                }
            };
            if !has_requests {
                return Ok(());
            }
            let worked = self.work_off(&queue).await;
            let worked = worked.and_then(|()| {
                let Some(next) = &self.state.next_topology else { return Ok(()) };
                audit::topology(&next.summary());
                Err(TermEnd::NewTopology)
            });
            if let Err(ended) = &worked {
                queue.refuse_all(ended.write_error());
                return worked;
            }
        }
    }

    /// Decides a batch of requests, and commits it.
    async fn work_off(&mut self, queue: &WriteReceiver) -> Result<(), TermEnd> {
        if self.in_doubt {
            self.settle_doubt().await?;
        }
        self.look_for_space().await;
        let (mut batch, mut busy) = (Batch::default(), Duration::ZERO);
        while batch.replies.len() < MAX_BATCH && busy < MAX_BATCH_TIME {
            let mut request = "";
            let spent = queue.decide_next(|queued| {
                request = queued.request.kind();
                self.decide(queued, &mut batch);
            });
            let Some(spent) = spent else { break };
            TIC_DECISIONS.observe(spent);
            log_decision(request, spent);
            busy += spent;
            if batch.writes.changes.len() >= MAX_BATCH_CHANGES || self.is_short_of_space() {
                break;
            }
        }
        self.commit(batch).await
    }

    fn decide(&mut self, queued: QueuedWrite, batch: &mut Batch) {
        let QueuedWrite { request, origin, cost: _ } = queued;
        batch.traced.add(origin, request.is_route_report());
        batch.replies.push(if self.in_doubt {
            request.refuse(WriteError::StoreSilent)
        } else if self.state.next_topology.is_some() {
            request.refuse(WriteError::Stopping)
        } else {
            request.decide(&mut self.state, &mut batch.writes)
        });
    }

    /// Makes a batch durable, then publishes it, then replies.
    async fn commit(&mut self, batch: Batch) -> Result<(), TermEnd> {
        let Batch { writes: BatchWrites { puts, changes }, replies, traced } = batch;
        let spans = traced.commit(replies.len(), changes.len());
        let is_essential =
            self.state.records.read(|before| goes_on_without_space(&changes, &puts, before));
        let is_logged = match self.write(&puts, is_essential).await {
            Ok(is_logged) => is_logged,
            Err(error) => {
                TIC_STORE_FAILURES.inc();
                let refusal = error.write_error();
                for reply in replies {
                    reply(Err(refusal.clone()));
                }
                return self.recover(error);
            }
        };
        if !changes.is_empty() {
            TIC_CHANGES.inc_by(changes.len() as u64);
            let records = &self.state.records;
            records.read(|before| audit::appointed(before, &changes));
            let affected = records.publish(&changes, &spans.watch_origins());
            self.hints.add(affected.hints, spans.origins());
            if !affected.incarnations.is_empty() {
                self.state.liveness.changed(affected.incarnations);
            }
            if !affected.nodes.is_empty() {
                self.state.liveness.registered(affected.nodes);
            }
        }
        for reply in replies {
            reply(Ok(()));
        }
        if !is_logged {
            return Ok(());
        }
        match DECISIONS.finish(&self.storage.store, &self.lease, &puts).await {
            Ok(TxnOutcome::Committed { .. }) => Ok(()),
            Ok(TxnOutcome::Conflict { .. }) => Err(TermEnd::Deposed),
            Err(error) => Err(TermEnd::Store(error)),
        }
    }

    /// Finds out if the store has space again, and once at the start: writes a record as it is, so
    /// that no decision has to be made and undone for that.
    async fn look_for_space(&mut self) {
        let is_due = self.no_space.is_none_or(|at| at.elapsed() >= NO_SPACE);
        if self.state.has_space || !is_due {
            return;
        }
        let same = Txn::new().put(keys::SCHEMA, keys::number(keys::NEWEST_LAYOUT));
        match self.storage.store.txn(self.lease.fence(same)).await {
            Err(StoreError::NoSpace) => {
                TIC_STORE_FAILURES.inc();
                if !self.is_short_of_space() {
                    tracing::warn!("store has no space");
                }
                self.no_space = Some(Instant::now());
            }
            // Other errors are those of the next decision, too.
            Ok(_) | Err(_) => self.state.has_space = true,
        }
    }

    /// True if each request is written alone, so that those that free space are not refused with
    /// those that need some.
    fn is_short_of_space(&self) -> bool {
        self.no_space.is_some_and(|at| at.elapsed() < SHORT_OF_SPACE)
    }

    /// Makes changes durable; returns whether they are still to be carried out.
    ///
    /// - `is_essential`: also if the store has no space.
    async fn write(&mut self, puts: &Puts, is_essential: bool) -> Result<bool, CommitError> {
        if puts.is_empty() {
            // Trees that groups have tried stay noted.
            self.state.mgids.committed();
            return Ok(false);
        }
        // Any other writer has moved the revision or the term.
        let committed = self.state.records.read(Directory::revision);
        let revision = Change::RevisionPut(committed);
        let route_term = self.state.route_terms.durable();
        let unchanged = Txn { essential: is_essential, ..Txn::new() }
            .when(keys::record(&revision), expected(committed.0, revision.encode()))
            .when(ROUTE_TERM, expected(route_term, Some(keys::number(route_term))));
        let begun = Instant::now();
        match DECISIONS.write(&self.storage.store, &self.lease, unchanged, puts).await? {
            written @ (Written::Whole | Written::Logged) => {
                TIC_COMMITS.observe(begun.elapsed());
                self.state.committed();
                TIC_TRANSACTIONS.inc();
                Ok(written == Written::Logged)
            }
            Written::Conflict { key } if key == LEADER => Err(CommitError::Deposed),
            Written::Conflict { key } => {
                Err(CommitError::Conflict { key: String::from_utf8_lossy(&key).into_owned() })
            }
        }
    }

    /// Undoes a batch that was not written, if that is known.
    fn recover(&mut self, error: CommitError) -> Result<(), TermEnd> {
        self.state.next_topology = None;
        match error {
            CommitError::Deposed => Err(TermEnd::Deposed),
            CommitError::Conflict { key } => {
                tracing::error!(key, "another program wrote to the store");
                self.in_doubt = true;
                Ok(())
            }
            CommitError::Refused(error) => {
                let is_known = self.is_short_of_space();
                if matches!(error, StoreError::NoSpace) {
                    self.no_space = Some(Instant::now());
                    self.state.has_space = false;
                }
                if is_known {
                    tracing::debug!(error = chain(&error), "store refused a transaction");
                } else {
                    tracing::warn!(error = chain(&error), "store refused a transaction");
                }
                self.state.roll_back();
                Ok(())
            }
            CommitError::Failed(error) => Err(TermEnd::Store(error)),
        }
    }

    /// Reads the store and puts its records in place of the state and of the published records. If
    /// the store is overloaded, the doubt remains.
    async fn settle_doubt(&mut self) -> Result<(), TermEnd> {
        match self.storage.load().await {
            Ok(loaded) => {
                let records = &self.state.records;
                if loaded.directory.revision() != records.read(Directory::revision) {
                    records.replace(loaded.directory.clone());
                    self.state.liveness.all_changed();
                }
                self.state.start_over(loaded);
                self.choices.doubt();
                self.in_doubt = false;
                tracing::warn!("records read anew from the store");
                Ok(())
            }
            Err(RecordsError::Store(error @ StoreError::Overloaded { .. })) => {
                tracing::warn!(error = chain(&error), "records cannot be read yet");
                Ok(())
            }
            Err(error) => Err(TermEnd::Records(error)),
        }
    }
}

/// Logs a decision with the type of its request.
fn log_decision(request: &'static str, spent: Duration) {
    let elapsed_us = u64::try_from(spent.as_micros()).unwrap_or(u64::MAX);
    if spent > LONG_DECISION {
        tracing::debug!(elapsed_us, request, "a request kept the writer");
    } else {
        tracing::trace!(elapsed_us, request, "a request was decided");
    }
}

/// True if a decision is made durable also if the store has no space: it ends something and adds
/// nothing of the kind, or it is a small record that others wait for.
///
/// - `before`: the records without the decision.
pub(crate) fn goes_on_without_space(changes: &[Change], puts: &Puts, before: &Directory) -> bool {
    let ends = |change: &Change| match change {
        Change::MemberDeleted(_)
        | Change::GroupDeleted(_)
        | Change::JobDeleted(_)
        | Change::NodeRemoved(_)
        | Change::MgidReleased(_) => true,
        // Its record is replaced by one of about the same size.
        Change::NodePut(node) => before.node(&node.name).is_some(),
        _ => false,
    };
    // As new routes of groups, which senders wait for, and extended leases, without which jobs end.
    // A group that moves leaves an MGID, which is noted until no table holds it.
    let replaces = |change: &Change| match change {
        Change::GroupPut(group) => before.group(group.gn).is_some(),
        Change::JobPut(job) => before.job(&job.name).is_some_and(|known| known.share.is_some()),
        Change::MgidRetired(..) | Change::MgidReleased(_) | Change::RevisionPut(_) => true,
        _ => false,
    };
    let adds = |change: &Change| match change {
        Change::MemberPut(_) => true,
        Change::JobPut(job) => job.share.as_ref().is_none_or(|share| !share.ending),
        _ => false,
    };
    let is_other = |key: &[u8]| !key.starts_with(RECORDS.as_bytes());
    let others = puts.iter().filter(|(key, _)| is_other(key));
    let bytes: usize = others.filter_map(|(_, value)| value.as_ref()).map(Vec::len).sum();
    let all_bytes: usize = puts.values().flatten().map(Vec::len).sum();
    // New trees of all groups and collectives follow a topology.
    let is_topology = puts.keys().any(|key| key.starts_with(keys::TOPOLOGY.as_bytes()));
    let is_vital = |(key, value): (&Vec<u8>, &Option<Vec<u8>>)| {
        let is_short = value.as_ref().is_none_or(|value| value.len() <= MAX_VITAL_BYTES);
        is_short && (key == ROUTE_TERM || key.starts_with(FAILED.as_bytes()))
    };
    bytes <= MAX_OTHER_BYTES
        && !is_topology
        && match changes {
            [] => puts.values().any(Option::is_none) || puts.iter().all(is_vital),
            _ => {
                changes.iter().all(replaces) && all_bytes <= MAX_REPLACED_BYTES
                    || changes.iter().any(ends) && !changes.iter().any(adds)
            }
        }
}

/// The condition that a counter in the store has this value; it is absent before its first change.
fn expected(counter: u64, value: Option<Vec<u8>>) -> Expected {
    value.filter(|_| counter > 0).map_or(Expected::Absent, Expected::Value)
}
