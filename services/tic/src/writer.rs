//! The one task that changes the records.
//!
//! Callers wait in a bounded queue. The writer decides as many of them as there are against its
//! own directory, which runs ahead of the committed one, writes all changes as one store
//! transaction, and only then publishes them and answers. If the store fails, nobody is told yes,
//! and the writer's directory is put back to what is true.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use fabricast_groups::command::{Answer, Command};
use fabricast_groups::directory::Directory;
use fabricast_groups::ids::{Moment, Revision};
use fabricast_groups::record::Change;
use fabricast_rpc::Reason;
use fabricast_store::{Expected, StoreError, Txn, TxnOutcome};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::hints::Hints;
use crate::liveness::Inbox;
use crate::mgids::MgidChoice;
use crate::records::Records;
use crate::refusals;
use crate::storage::{self, Loaded, Storage};

/// Orders decided before they are written together.
const MAX_BATCH: usize = 512;
/// Records changed at which a batch is written, however few orders it holds.
const MAX_BATCH_CHANGES: usize = 16_384;

/// What the writer can be asked to do.
#[derive(Debug)]
pub(crate) enum Work {
    /// Change the directory.
    Decide(Command),
    /// Change the directory on behalf of the route service that has this term.
    DecideInTerm(u64, Command),
    /// Give out the next term.
    AcquireTerm,
    /// Store something that is no record of the directory.
    Keep {
        /// Where.
        key: Vec<u8>,
        /// What.
        value: Vec<u8>,
    },
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
    /// A term was given out.
    Term(u64),
    /// It is stored.
    Kept,
}

#[derive(Debug)]
struct Order {
    work: Work,
    reply: Reply,
}

type Reply = oneshot::Sender<Result<Done, Status>>;

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
        let (reply, answer) = oneshot::channel();
        self.queue.try_send(Order { work, reply }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => {
                let limit = self.queue.max_capacity();
                Reason::LimitReached.status(format!("{limit} changes wait already"), &[])
            }
            mpsc::error::TrySendError::Closed(_) => stopping(),
        })?;
        answer.await.unwrap_or_else(|_dropped| Err(stopping()))
    }
}

fn stopping() -> Status {
    Reason::ShuttingDown.status("the TIC is stopping", &[])
}

/// The writer's end of the queue.
#[derive(Debug)]
pub(crate) struct OrderQueue(mpsc::Receiver<Order>);

/// The writer's state.
#[derive(Debug)]
pub(crate) struct Writer {
    storage: Storage,
    records: Arc<Records>,
    hints: Arc<Hints>,
    liveness: Arc<Inbox>,
    mgids: MgidChoice,
    directory: Directory,
    term: u64,
    durable_term: u64,
    /// What is durable may differ from what is published: look before the next decision.
    in_doubt: bool,
}

/// Decided orders that wait for one commit.
#[derive(Default)]
struct Batch {
    puts: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    changes: Vec<Change>,
    answers: Vec<(Reply, Result<Done, Status>)>,
}

impl Writer {
    /// Starts from what the store holds.
    pub(crate) fn new(
        storage: Storage,
        loaded: Loaded,
        records: Arc<Records>,
        (hints, liveness): (Arc<Hints>, Arc<Inbox>),
        mgids: MgidChoice,
    ) -> Self {
        let Loaded { directory, term, failed: _ } = loaded;
        let (durable_term, in_doubt) = (term, false);
        Self { storage, records, hints, liveness, mgids, directory, term, durable_term, in_doubt }
    }

    /// Works until told to stop, then finishes what is queued.
    pub(crate) async fn run(mut self, queue: OrderQueue, stop: CancellationToken) {
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
                return;
            }
            self.work_off(&mut orders).await;
        }
    }

    async fn work_off(&mut self, orders: &mut Vec<Order>) {
        let mut batch = Batch::default();
        for order in orders.drain(..) {
            if self.in_doubt {
                self.settle_doubt().await;
            }
            self.decide(order, &mut batch);
            if batch.changes.len() >= MAX_BATCH_CHANGES {
                self.commit(std::mem::take(&mut batch)).await;
            }
        }
        self.commit(batch).await;
    }

    fn decide(&mut self, order: Order, batch: &mut Batch) {
        let Order { work, reply } = order;
        let result = if self.in_doubt {
            Err(Reason::StoreFailed.status("the store does not answer", &[]))
        } else {
            match work {
                Work::AcquireTerm => {
                    self.term += 1;
                    batch.puts.insert(storage::TERM_KEY.to_vec(), Some(storage::number(self.term)));
                    Ok(Done::Term(self.term))
                }
                Work::Keep { key, value } => {
                    batch.puts.insert(key, Some(value));
                    Ok(Done::Kept)
                }
                Work::DecideInTerm(term, _) if term != self.term => {
                    Err(stale_term(term, self.term))
                }
                Work::DecideInTerm(_, command) | Work::Decide(command) => {
                    self.decide_command(&command, batch)
                }
            }
        };
        batch.answers.push((reply, result));
    }

    fn decide_command(&mut self, command: &Command, batch: &mut Batch) -> Result<Done, Status> {
        let Self { directory, mgids, .. } = self;
        let decision = directory
            .decide(wall_clock(), command, &mut |group| mgids.choose(group))
            .map_err(|refusal| refusals::status(&refusal))?;
        for change in &decision.changes {
            directory.apply(change);
            mgids.applied(change);
            batch.puts.insert(storage::key(change), change.encode());
        }
        batch.changes.extend(decision.changes);
        Ok(Done::Decided { answer: Box::new(decision.answer), revision: decision.revision })
    }

    /// Makes a batch durable, then public, then answers.
    async fn commit(&mut self, batch: Batch) {
        let Batch { puts, changes, answers } = batch;
        if !puts.is_empty()
            && let Err(status) = self.write(puts).await
        {
            for (reply, _undone) in answers {
                // A caller that is gone is not missed, here and below.
                let _ = reply.send(Err(status.clone()));
            }
            return;
        }
        if !changes.is_empty() {
            let concerned = self.records.publish(&changes);
            self.hints.leave(concerned.hints);
            if concerned.hosts {
                self.liveness.hosts_changed();
            }
        }
        for (reply, result) in answers {
            let _ = reply.send(result);
        }
    }

    async fn write(&mut self, puts: BTreeMap<Vec<u8>, Option<Vec<u8>>>) -> Result<(), Status> {
        // Whoever else wrote to the store has moved the revision or the term.
        let committed = self.records.read(Directory::revision);
        let revision = Change::RevisionPut(committed);
        let mut txn = Txn::new()
            .when(storage::key(&revision), expected(committed.0, revision.encode()))
            .when(storage::TERM_KEY, {
                expected(self.durable_term, Some(storage::number(self.durable_term)))
            });
        for (key, value) in puts {
            txn = match value {
                Some(value) => txn.put(key, value),
                None => txn.delete(key),
            };
        }
        let error = match self.storage.store.txn(txn).await {
            Ok(TxnOutcome::Committed { .. }) => {
                self.durable_term = self.term;
                return Ok(());
            }
            Ok(TxnOutcome::Conflict { key }) => {
                let key = String::from_utf8_lossy(&key).into_owned();
                tracing::error!(reason = key, "store was written by somebody else");
                self.in_doubt = true;
                let text = "the store was written by somebody else";
                return Err(Reason::StoreFailed.status(text, &[]));
            }
            Err(error) => error,
        };
        self.in_doubt = true;
        Err(match &error {
            StoreError::Overloaded { .. } | StoreError::TooLarge { .. } => {
                tracing::warn!(error = %error, "store refused a transaction");
                Reason::LimitReached.status(error.to_string(), &[])
            }
            StoreError::Compacted { .. }
            | StoreError::FutureRevision { .. }
            | StoreError::LeaseNotFound { .. }
            | StoreError::LeaseTooShort
            | StoreError::OverlappingOps { .. }
            | StoreError::Storage { .. }
            | StoreError::Closed => {
                tracing::error!(error = chain(&error), "store failed, nothing was acknowledged");
                Reason::StoreFailed.status(format!("the change was not stored: {error}"), &[])
            }
        })
    }

    /// Puts this directory and the published one back to what the store holds.
    async fn settle_doubt(&mut self) {
        match self.storage.load().await {
            Ok(Loaded { directory, term, failed: _ }) => {
                if directory.revision() != self.records.read(Directory::revision) {
                    self.records.replace(directory.clone());
                    self.liveness.hosts_changed();
                }
                self.mgids.start_over(&directory);
                (self.directory, self.term, self.durable_term) = (directory, term, term);
                self.in_doubt = false;
                tracing::warn!("records read anew from the store");
            }
            Err(error) => tracing::error!(error = chain(&error), "records cannot be read"),
        }
    }
}

/// What a counter must be in the store; it is not there before its first change.
fn expected(counter: u64, value: Option<Vec<u8>>) -> Expected {
    value.filter(|_| counter > 0).map_or(Expected::Absent, Expected::Value)
}

fn stale_term(given: u64, known: u64) -> Status {
    let message = format!("term {given} is not the newest, {known}");
    Reason::StaleTerm.status(message, &[("term", &known.to_string())])
}

/// Nanoseconds since 1970.
fn wall_clock() -> Moment {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Moment(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}

/// An error with its causes in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
