//! Keeps the choices of the route service, apart from the writer of the other records.
//!
//! Only all choices of a plan together are useful, and that may be a million. Everybody waits for
//! the writer, but nobody else for choices. So a report becomes durable through a redo log of its
//! own, whose short transactions stand between those of the writer. One report is taken at a time.
//!
//! Invariants
//! - CHOICE-1: the choices kept are those that the newest acknowledged report left, whole.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};
use std::sync::{Arc, Weak};

use fabricast_groups::ids::Gn;
use fabricast_rpc::{CallCost, joined};
use fabricast_store::{Expected, Store, StoreError, Txn, TxnOutcome};
use fabricast_telemetry::metrics::TIC_STORE_FAILURES;
use tokio::sync::{Mutex, RwLock, RwLockReadGuard};

use crate::domain::choices::text;
use crate::domain::choices::{ChoiceError, ChoiceRecords, ChoiceReport, Edits, FindGone};
use crate::domain::route_terms::{GrantedTerm, RouteTermError};
use crate::error_text::chain;
use crate::leadership::election::LeaderLease;
use crate::records::Records;
use crate::records::keys::{self, LEADER, Puts};
use crate::records::redo_log::{CHOICES, Written};
use crate::records::storage::{MAX_ESSENTIAL_BYTES, StoredChoices, settle_choices};
use crate::writer::error::{CommitError, WriteError};

/// Bytes that a report which is written also without space may add to what is kept.
const MAX_ESSENTIAL_GROWTH: usize = 16 << 10;

/// The choices of one term of a TIC.
#[derive(Debug)]
pub(crate) struct ChoiceStore {
    /// Weak: a call in progress does not keep the file of a TIC open that has ended.
    store: Weak<dyn Store>,
    lease: LeaderLease,
    records: Arc<Records>,
    route_term: GrantedTerm,
    choices: RwLock<ChoiceRecords>,
    /// They may differ from what is durable.
    in_doubt: AtomicBool,
    /// They are durable in a log that there was no room to carry out.
    is_unfinished: AtomicBool,
    /// Route term of the report that is being taken; 0 if there is none.
    taking: AtomicU64,
    /// No more reports are taken.
    is_closed: AtomicBool,
    /// Held while a report is taken.
    reports: Arc<Mutex<Reports>>,
}

/// The reports taken so far.
#[derive(Debug, Default)]
struct Reports {
    /// Term and number of the newest.
    newest: (u64, u64),
}

impl ChoiceStore {
    pub(crate) fn new(
        store: &Arc<dyn Store>,
        lease: LeaderLease,
        records: Arc<Records>,
        route_term: GrantedTerm,
        stored: StoredChoices,
    ) -> Self {
        let choices = RwLock::new(ChoiceRecords::new(stored.texts));
        Self {
            store: Arc::downgrade(store),
            lease,
            records,
            route_term,
            choices,
            in_doubt: AtomicBool::new(false),
            is_unfinished: AtomicBool::new(stored.is_unfinished),
            taking: AtomicU64::new(0),
            is_closed: AtomicBool::new(false),
            reports: Arc::default(),
        }
    }

    /// Reads the choices that are durable. A route service reads what the last report of another
    /// has left, once it has a term of its own.
    ///
    /// # Errors
    ///
    /// [`WriteError`] if that is not known, and the store cannot be read.
    pub(crate) async fn read(&self) -> Result<RwLockReadGuard<'_, ChoiceRecords>, WriteError> {
        fence(Ordering::SeqCst); // the term, which the caller may hold by now, is read first
        let taking = self.taking.load(Ordering::SeqCst);
        let is_of_another = taking != 0 && taking != self.route_term.get();
        if is_of_another || self.in_doubt.load(Ordering::Acquire) {
            let _reports = self.reports.lock().await;
            self.settle_doubt().await?;
        }
        Ok(self.choices.read().await)
    }

    /// Has the choices read anew from the store, which somebody else has written to.
    pub(crate) fn doubt(&self) {
        self.in_doubt.store(true, Ordering::Release);
    }

    /// Takes a report to its end, also if the caller goes away; returns the number of groups that
    /// have choices then.
    ///
    /// # Errors
    ///
    /// [`WriteError`]; unless the store failed, the report has changed nothing.
    pub(crate) async fn record(
        self: &Arc<Self>,
        report: ChoiceReport,
    ) -> Result<usize, WriteError> {
        let (this, mut reports) = (Arc::clone(self), Arc::clone(&self.reports).lock_owned().await);
        let taking = async move {
            this.taking.store(report.term, Ordering::SeqCst);
            let taken = this.take(&mut reports, report).await;
            this.taking.store(0, Ordering::SeqCst);
            taken
        };
        joined(tokio::spawn(CallCost::current().cover(taking)).await).await
    }

    /// Ends the report that is being taken, and takes no more.
    pub(crate) async fn close(&self) {
        self.is_closed.store(true, Ordering::SeqCst);
        drop(self.reports.lock().await);
    }

    async fn take(
        self: &Arc<Self>,
        reports: &mut Reports,
        report: ChoiceReport,
    ) -> Result<usize, WriteError> {
        if self.is_unfinished.load(Ordering::Acquire) {
            self.doubt(); // its log goes first
        }
        self.settle_doubt().await?;
        if self.is_unfinished.load(Ordering::Acquire) {
            return Err(WriteError::StoreLimit(StoreError::NoSpace));
        }
        fence(Ordering::SeqCst); // who has a newer term sees that this report is being taken
        let (term, newest) = (report.term, self.route_term.get());
        if term != newest {
            return Err(RouteTermError::Stale { term, newest }.into());
        }
        let fence = (term, report.number);
        if fence < reports.newest {
            let (term, number) = reports.newest;
            return Err(ChoiceError::Stale { term, number }.into());
        }
        reports.newest = fence;
        let (edits, writes) = self.compute(move |this| this.edits(&report)).await?;
        if let Err(error) = self.write(term, writes).await {
            TIC_STORE_FAILURES.inc();
            if matches!(error, CommitError::Failed(_)) {
                self.doubt();
            }
            tracing::warn!(?error, "choices of the route service not stored");
            return Err(match error {
                CommitError::Conflict { .. } => {
                    let newest = self.route_term.get();
                    RouteTermError::Stale { term, newest }.into()
                }
                error => error.write_error(),
            });
        }
        Ok(self.compute(move |this| this.choices.blocking_write().apply(edits)).await)
    }

    /// Computes on a thread of its own, for the client of this call.
    async fn compute<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> T {
        let this = Arc::clone(self);
        let turn = CallCost::current().turn().await;
        joined(turn.run(move || work(&this)).await).await
    }

    /// Returns the changes that a report makes, and the writes of them.
    fn edits(&self, report: &ChoiceReport) -> Result<(Edits, Writes), ChoiceError> {
        let choices = self.choices.blocking_read();
        let gone: &FindGone<'_> = &|groups| {
            self.records.read(|directory| {
                if directory.revision() > report.seen {
                    return Vec::new(); // the next report knows of them
                }
                let is_gone = |gn: &Gn| directory.group(*gn).is_none();
                groups.iter().copied().filter(is_gone).collect()
            })
        };
        let has_seen_all = self.records.read(|directory| report.seen >= directory.revision());
        let edits = choices.edits(report, has_seen_all.then_some(gone))?;
        let (mut puts, mut bytes, mut freed) = (Puts::new(), 0, 0);
        for (topic, text) in &edits {
            let key = text::key(*topic);
            let before = choices.texts().get(topic);
            freed += before.map_or(0, |text| key.len() + text.len());
            bytes += text.as_ref().map_or(0, |text| key.len() + text.len());
            puts.insert(key, text.as_ref().map(|text| text.as_bytes().to_vec()));
        }
        let is_essential =
            bytes <= MAX_ESSENTIAL_BYTES && bytes <= freed.saturating_add(MAX_ESSENTIAL_GROWTH);
        Ok((edits, Writes { puts, is_essential }))
    }

    /// Makes changes durable, as long as a route service holds its term.
    async fn write(&self, term: u64, writes: Writes) -> Result<(), CommitError> {
        let Writes { puts, is_essential } = writes;
        if puts.is_empty() {
            return Ok(());
        }
        let store = &self.store.upgrade().ok_or(CommitError::Refused(StoreError::Closed))?;
        let lease = &self.lease;
        let held = Expected::Value(keys::number(term));
        let held = Txn { essential: is_essential, ..Txn::new() }.when(keys::ROUTE_TERM, held);
        let log = CHOICES.essential(is_essential);
        let outcome = match log.write(store, lease, held, &puts).await {
            Ok(Written::Whole) => return Ok(()),
            // It is durable: until it is carried out, nobody can say that it was refused.
            Ok(Written::Logged) => {
                let finished = log.finish(store, lease, &puts).await;
                finished.map_err(CommitError::Failed)?
            }
            Ok(Written::Conflict { key }) => {
                self.clear(store).await;
                TxnOutcome::Conflict { key }
            }
            Err(error) => {
                let error = CommitError::from(error);
                if matches!(error, CommitError::Refused(_)) {
                    self.clear(store).await;
                }
                return Err(error);
            }
        };
        match outcome {
            TxnOutcome::Committed { .. } => Ok(()),
            TxnOutcome::Conflict { key } if key == LEADER => Err(CommitError::Deposed),
            TxnOutcome::Conflict { key } => {
                Err(CommitError::Conflict { key: String::from_utf8_lossy(&key).into_owned() })
            }
        }
    }

    /// Deletes the first parts of a report that was refused. If that fails, the next log is written
    /// over them.
    async fn clear(&self, store: &Arc<dyn Store>) {
        let _ = CHOICES.clear(store, &self.lease).await;
    }

    /// Reads the choices again if the store failed in the middle of a report.
    async fn settle_doubt(&self) -> Result<(), WriteError> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(WriteError::Stopping); // the store is that of the next term
        }
        let store = self.store.upgrade().ok_or(WriteError::Stopping)?;
        if !self.in_doubt.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        match settle_choices(&store, &self.lease).await {
            Ok(Some(StoredChoices { texts, is_unfinished })) => {
                *self.choices.write().await = ChoiceRecords::new(texts);
                self.is_unfinished.store(is_unfinished, Ordering::Release);
                Ok(())
            }
            Ok(None) => {
                self.doubt();
                Err(WriteError::Deposed)
            }
            Err(error) => {
                self.doubt();
                tracing::debug!(error = chain(&error), "choices cannot be read");
                Err(WriteError::StoreSilent)
            }
        }
    }
}

/// The writes of a report.
#[derive(Debug)]
struct Writes {
    puts: Puts,
    /// They are made also if the store has no space.
    is_essential: bool,
}
