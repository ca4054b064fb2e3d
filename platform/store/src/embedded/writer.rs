//! The one thread that writes, many transactions per commit.
//!
//! ```text
//!   callers ──try_send──► bounded queue ──► drain ─► apply all ─► one commit ─► reply to all
//!                                                                     └─► revision ─► watches
//! ```
//!
//! No reply is sent before the commit that holds its change. After a failed commit the state of the
//! disk is unknown: the writer ends, and every call fails until the store is opened again.

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use redb::Database;
use tokio::sync::{oneshot, watch};

use crate::clock::Clock;
use crate::embedded::Options;
use crate::embedded::apply::{apply_lease_end, apply_txn};
use crate::embedded::leases::LeaseTimer;
use crate::embedded::open::Opened;
use crate::embedded::reserve::Reserve;
use crate::embedded::tables::{META_COMPACTED, META_LEASE, META_REVISION, Tables};
use crate::error::StoreError;
use crate::lease::LeaseId;
use crate::txn::{Txn, TxnOutcome};

/// One command on its way to the writer.
pub(crate) struct Command {
    /// Time of the call: time in the queue must not shorten a lease.
    pub(crate) sent_at: Duration,
    pub(crate) body: Body,
}

/// Commands of the writer, each with its reply channel.
pub(crate) enum Body {
    Txn(Txn, Reply<TxnOutcome>),
    Grant(Duration, Reply<LeaseId>),
    KeepAlive(LeaseId, Reply<()>),
    Revoke(LeaseId, Reply<()>),
    Compact(u64, Reply<()>),
    Sweep(Reply<()>),
}

/// The reply channel to a caller, who may be gone.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// A reply that waits for the commit. If it is dropped uncalled, the caller gets an error.
type Answer = Box<dyn FnOnce() + Send>;

/// State of the writer. The counters are copies of those in the tables.
pub(crate) struct Writer {
    db: Arc<Database>,
    reserve: Reserve,
    commands: Receiver<Command>,
    committed: watch::Sender<u64>,
    failed: Arc<OnceLock<StoreError>>,
    clock: Arc<dyn Clock>,
    options: Options,
    timer: LeaseTimer,
    revision: u64,
    compacted: u64,
    last_lease: u64,
}

/// State that the callers share with the writer.
pub(crate) struct Shared {
    pub(crate) db: Arc<Database>,
    /// The newest durable revision.
    pub(crate) newest: watch::Receiver<u64>,
    /// Reason why the writer ended, set before any caller is left without a reply.
    pub(crate) failed: Arc<OnceLock<StoreError>>,
}

impl Writer {
    /// Creates the writer of an opened store; the time of every lease restarts.
    pub(crate) fn new(
        opened: Opened,
        commands: Receiver<Command>,
        clock: Arc<dyn Clock>,
        options: Options,
    ) -> (Self, Shared) {
        let Opened { db, reserve, revision, compacted, last_lease, leases } = opened;
        let db = Arc::new(db);
        let failed = Arc::new(OnceLock::new());
        let (committed, newest) = watch::channel(revision);
        let mut timer = LeaseTimer::default();
        for (lease, millis) in leases {
            timer.start(LeaseId(lease), Duration::from_millis(millis), clock.now());
        }
        let shared = Shared { db: Arc::clone(&db), newest, failed: Arc::clone(&failed) };
        let writer = Self {
            db,
            reserve,
            commands,
            committed,
            failed,
            clock,
            options,
            timer,
            revision,
            compacted,
            last_lease,
        };
        (writer, shared)
    }

    /// Runs until every sender is gone and the queue is empty, or the storage fails.
    pub(crate) fn run(mut self) {
        loop {
            let first = match self.timer.next_deadline() {
                None => self.commands.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(deadline) => {
                    self.commands.recv_timeout(deadline.saturating_sub(self.clock.now()))
                }
            };
            let (mut commands, sweep_until) = match first {
                Ok(first) => self.drain(first),
                Err(RecvTimeoutError::Timeout) => (VecDeque::new(), self.clock.now()),
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let mut answers = Vec::with_capacity(commands.len());
            if let Err(error) = self.write(&mut commands, sweep_until, &mut answers) {
                // It cannot be set already: this ends the thread.
                let _ = self.failed.set(StoreError::Storage { source: Arc::new(error) });
                return;
            }
            self.committed.send_replace(self.revision);
            for answer in answers {
                answer();
            }
        }
    }

    /// Takes queued commands up to the size of one batch; also returns the time up to which leases
    /// may be expired with it.
    fn drain(&self, first: Command) -> (VecDeque<Command>, Duration) {
        let now = self.clock.now();
        let mut commands = VecDeque::new();
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(command) = next {
            let sent_at = command.sent_at;
            bytes += if let Body::Txn(txn, _) = &command.body { txn.bytes() } else { 0 };
            commands.push_back(command);
            if commands.len() >= self.options.max_batch || bytes >= self.options.max_txn_bytes {
                // Keep-alives sent after this command may still be queued.
                return (commands, sent_at.min(now));
            }
            next = self.commands.try_recv().ok();
        }
        (commands, now)
    }

    /// Applies all commands in one write transaction and makes it durable.
    fn write(
        &mut self,
        commands: &mut VecDeque<Command>,
        sweep_until: Duration,
        answers: &mut Vec<Answer>,
    ) -> Result<(), redb::Error> {
        self.extend_leases(commands, answers);
        self.refuse_without_space(commands, answers);
        let due = self.timer.due(sweep_until);
        if commands.is_empty() && due.is_empty() {
            return Ok(());
        }
        let before = (self.revision, self.compacted, self.last_lease);
        let mut changed = !due.is_empty();
        let txn = self.db.begin_write()?;
        {
            let mut tables = Tables::open(&txn)?;
            for lease in due {
                self.end_lease(&mut tables, lease)?;
            }
            while let Some(command) = commands.pop_front() {
                changed |= matches!(command.body, Body::Revoke(..));
                self.apply(&mut tables, command, answers)?;
            }
            self.trim(&mut tables)?;
            tables.meta.insert(META_REVISION, self.revision)?;
            tables.meta.insert(META_COMPACTED, self.compacted)?;
            tables.meta.insert(META_LEASE, self.last_lease)?;
        }
        if changed || before != (self.revision, self.compacted, self.last_lease) {
            txn.commit()?;
        } else {
            txn.abort()?;
        }
        Ok(())
    }

    /// Handles keep-alives first: they touch no table, and one that was sent in time must prevent
    /// the expiry.
    fn extend_leases(&mut self, commands: &mut VecDeque<Command>, answers: &mut Vec<Answer>) {
        for command in std::mem::take(commands) {
            match command.body {
                Body::KeepAlive(lease, reply) => {
                    let alive = self.timer.extend(lease, command.sent_at);
                    let answer =
                        if alive { Ok(()) } else { Err(StoreError::LeaseNotFound { lease }) };
                    answers.push(Box::new(move || drop(reply.send(answer))));
                }
                Body::Txn(..)
                | Body::Grant(..)
                | Body::Revoke(..)
                | Body::Compact(..)
                | Body::Sweep(_) => {
                    commands.push_back(command);
                }
            }
        }
    }

    /// Refuses the transactions that need space if the disk has none.
    fn refuse_without_space(&self, commands: &mut VecDeque<Command>, answers: &mut Vec<Answer>) {
        let bytes = |command: &Command| match &command.body {
            Body::Txn(txn, _) => txn.bytes(),
            _ => 0,
        };
        if commands.is_empty() || self.reserve.refill(commands.iter().map(bytes).sum()) {
            return;
        }
        for command in std::mem::take(commands) {
            match command.body {
                Body::Txn(txn, reply) if txn.needs_space() => {
                    answers.push(Box::new(move || drop(reply.send(Err(StoreError::NoSpace)))));
                }
                _ => commands.push_back(command),
            }
        }
    }

    fn apply(
        &mut self,
        tables: &mut Tables<'_>,
        command: Command,
        answers: &mut Vec<Answer>,
    ) -> Result<(), redb::Error> {
        match command.body {
            Body::Txn(txn, reply) => {
                let outcome = apply_txn(tables, &self.timer, self.revision, &txn);
                if let Ok(Ok(TxnOutcome::Committed { revision })) = outcome {
                    self.revision = revision;
                }
                settle(answers, reply, outcome)
            }
            Body::Grant(ttl, reply) => {
                let outcome = self.grant(tables, ttl, command.sent_at);
                settle(answers, reply, outcome.map(Ok))
            }
            Body::Revoke(lease, reply) => {
                let outcome = if self.timer.contains(lease) {
                    self.end_lease(tables, lease).map(Ok)
                } else {
                    Ok(Err(StoreError::LeaseNotFound { lease }))
                };
                settle(answers, reply, outcome)
            }
            Body::Compact(asked, reply) if asked > self.revision => {
                let current = self.revision;
                settle(answers, reply, Ok(Err(StoreError::FutureRevision { asked, current })))
            }
            Body::Compact(asked, reply) => {
                let outcome = self.forget(tables, asked);
                settle(answers, reply, outcome.map(Ok))
            }
            Body::KeepAlive(_, reply) | Body::Sweep(reply) => settle(answers, reply, Ok(Ok(()))),
        }
    }

    fn grant(
        &mut self,
        tables: &mut Tables<'_>,
        ttl: Duration,
        now: Duration,
    ) -> Result<LeaseId, redb::Error> {
        self.last_lease += 1;
        let lease = LeaseId(self.last_lease);
        tables.leases.insert(lease.0, u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX))?;
        self.timer.start(lease, ttl, now);
        Ok(lease)
    }

    fn end_lease(&mut self, tables: &mut Tables<'_>, lease: LeaseId) -> Result<(), redb::Error> {
        self.timer.end(lease);
        self.revision = apply_lease_end(tables, self.revision, lease)?;
        Ok(())
    }

    /// Keeps the change log within its bound.
    fn trim(&mut self, tables: &mut Tables<'_>) -> Result<(), redb::Error> {
        let until = self.revision.saturating_sub(self.options.keep_revisions);
        self.forget(tables, until)
    }

    fn forget(&mut self, tables: &mut Tables<'_>, until: u64) -> Result<(), redb::Error> {
        if until > self.compacted {
            tables.log.retain_in::<(u64, u32), _>(..(until + 1, 0), |_, _| false)?;
            self.compacted = until;
        }
        Ok(())
    }
}

/// Queues a reply for after the commit; if the storage failed, the caller reads the error from
/// [`Shared::failed`].
fn settle<T: Send + 'static>(
    answers: &mut Vec<Answer>,
    reply: Reply<T>,
    outcome: Result<Result<T, StoreError>, redb::Error>,
) -> Result<(), redb::Error> {
    match outcome {
        Ok(answer) => {
            answers.push(Box::new(move || drop(reply.send(answer))));
            Ok(())
        }
        Err(error) => {
            answers.push(Box::new(move || drop(reply)));
            Err(error)
        }
    }
}
