//! The store that the TICs share, as an etcd cluster seen from outside: whatever it did is durable.
//! Each TIC has a link to it that can be slow, cut, and lose answers.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use fabricast_store::{
    Change, Clock, Expected, KeyValue, LeaseId, Limits, Op, Snapshot, Store, StoreError, Txn,
    TxnOutcome, Watch, WatchBatch,
};
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

/// Time after which a call over a cut link fails, as etcd's client gives up.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Interval at which a watch over a cut link looks again.
const CUT_INTERVAL: Duration = Duration::from_millis(50);
/// Batches that wait for the reader of a watch.
const WATCH_QUEUE: usize = 64;

/// Records, history and leases; clones share them.
#[derive(Clone, Debug)]
pub struct SharedStore {
    state: Arc<Mutex<State>>,
    newest: watch::Sender<u64>,
    clock: Arc<dyn Clock>,
}

#[derive(Debug, Default)]
struct State {
    keys: BTreeMap<Vec<u8>, Entry>,
    revision: u64,
    /// Newest revision that is not in the history any more.
    compacted: u64,
    history: VecDeque<WatchBatch>,
    leases: BTreeMap<LeaseId, Lease>,
    last_lease: u64,
}

#[derive(Clone, Debug)]
struct Entry {
    value: Vec<u8>,
    mod_revision: u64,
    lease: Option<LeaseId>,
}

#[derive(Clone, Copy, Debug)]
struct Lease {
    time: Duration,
    until: Duration,
}

/// The faults of one link.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkFaults {
    /// No call gets through.
    pub cut: bool,
    /// Time of one call.
    pub delay: Duration,
    /// The next calls that fail.
    pub failing: u32,
    /// True if failing calls are carried out, and only their answers are lost.
    pub lose_answers: bool,
}

/// The store as one TIC reaches it.
#[derive(Clone, Debug)]
pub struct StoreLink {
    store: SharedStore,
    faults: Arc<Mutex<LinkFaults>>,
}

impl SharedStore {
    /// An empty store.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        Self { state: Arc::default(), newest: watch::Sender::new(0), clock }
    }

    /// A link without faults.
    #[must_use]
    pub fn link(&self) -> StoreLink {
        StoreLink { store: self.clone(), faults: Arc::default() }
    }

    /// Deletes the keys of leases that have expired.
    pub fn expire(&self) {
        self.with(|_, _| ());
    }

    fn with<T>(&self, work: impl FnOnce(&mut State, Duration) -> T) -> T {
        let now = self.clock.now();
        let mut state = self.state.lock();
        state.expire(now);
        let done = work(&mut state, now);
        let revision = state.revision;
        drop(state);
        self.newest.send_if_modified(|newest| std::mem::replace(newest, revision) != revision);
        done
    }
}

impl State {
    fn expire(&mut self, now: Duration) {
        let expired: Vec<LeaseId> = self
            .leases
            .iter()
            .filter_map(|(id, lease)| (lease.until <= now).then_some(*id))
            .collect();
        for lease in expired {
            self.end(lease);
        }
    }

    fn end(&mut self, lease: LeaseId) {
        self.leases.remove(&lease);
        let of_lease = |(key, entry): (&Vec<u8>, &Entry)| {
            (entry.lease == Some(lease)).then(|| Op::Delete { key: key.clone() })
        };
        let ops: Vec<Op> = self.keys.iter().filter_map(of_lease).collect();
        self.apply(ops);
    }

    fn apply(&mut self, ops: Vec<Op>) {
        let revision = self.revision + 1;
        let mut changes = Vec::new();
        for op in ops {
            match op {
                Op::Put { key, value, lease } => {
                    let entry = Entry { value: value.clone(), mod_revision: revision, lease };
                    self.keys.insert(key.clone(), entry);
                    changes.push(Change { key, value: Some(value) });
                }
                Op::Delete { key } => {
                    if self.keys.remove(&key).is_some() {
                        changes.push(Change { key, value: None });
                    }
                }
                Op::DeletePrefix { prefix } => {
                    let under = self.under(&prefix).map(|(key, _)| key.clone());
                    for key in under.collect::<Vec<_>>() {
                        self.keys.remove(&key);
                        changes.push(Change { key, value: None });
                    }
                }
            }
        }
        if !changes.is_empty() {
            self.revision = revision;
            self.history.push_back(WatchBatch { revision, changes });
        }
    }

    fn under<'a>(&'a self, prefix: &'a [u8]) -> impl Iterator<Item = (&'a Vec<u8>, &'a Entry)> {
        let from = self.keys.range(prefix.to_vec()..);
        from.take_while(move |(key, _)| key.starts_with(prefix))
    }

    fn failed_compare(&self, txn: &Txn) -> Option<Vec<u8>> {
        let fails = |key: &Vec<u8>, expected: &Expected| match (self.keys.get(key), expected) {
            (found, Expected::Absent) => found.is_some(),
            (None, _) => true,
            (Some(found), Expected::ModRevision(revision)) => found.mod_revision != *revision,
            (Some(found), Expected::Value(value)) => found.value != *value,
        };
        let failed = txn.compares.iter().find(|one| fails(&one.key, &one.expected));
        failed.map(|one| one.key.clone())
    }

    fn txn(&mut self, txn: Txn) -> Result<TxnOutcome, StoreError> {
        if let Some(key) = self.failed_compare(&txn) {
            return Ok(TxnOutcome::Conflict { key });
        }
        let named = txn.ops.iter().filter_map(|op| match op {
            Op::Put { lease, .. } => *lease,
            Op::Delete { .. } | Op::DeletePrefix { .. } => None,
        });
        if let Some(lease) = named.into_iter().find(|lease| !self.leases.contains_key(lease)) {
            return Err(StoreError::LeaseNotFound { lease });
        }
        self.apply(txn.ops);
        Ok(TxnOutcome::Committed { revision: self.revision })
    }

    /// Next batch of a watch: everything up to its revision has been looked at.
    fn next_batch(&self, prefix: &[u8], from: u64) -> Result<Option<WatchBatch>, StoreError> {
        if from <= self.compacted {
            return Err(StoreError::Compacted { asked: from, oldest: self.compacted + 1 });
        }
        let later = self.history.iter().filter(|batch| batch.revision >= from);
        let mut relevant = later.map(|batch| WatchBatch {
            revision: batch.revision,
            changes: batch
                .changes
                .iter()
                .filter(|change| change.key.starts_with(prefix))
                .cloned()
                .collect(),
        });
        Ok(relevant.find(|batch| !batch.changes.is_empty()))
    }
}

fn entry(key: &[u8], entry: &Entry) -> KeyValue {
    KeyValue {
        key: key.to_vec(),
        value: entry.value.clone(),
        mod_revision: entry.mod_revision,
        lease: entry.lease,
    }
}

fn unavailable(why: &'static str) -> StoreError {
    StoreError::Unavailable { source: Arc::new(io::Error::other(why)) }
}

impl StoreLink {
    /// Changes the faults of the link.
    pub fn set(&self, change: impl FnOnce(&mut LinkFaults)) {
        change(&mut self.faults.lock());
    }

    /// Carries out a call with the faults of the link.
    async fn call<T>(
        &self,
        work: impl FnOnce(&mut State, Duration) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let LinkFaults { cut, delay, .. } = *self.faults.lock();
        if cut {
            sleep(TIMEOUT).await;
            return Err(unavailable("the link is cut"));
        }
        sleep(delay / 2).await;
        let (fails, lose_answers) = {
            let mut faults = self.faults.lock();
            let fails = faults.failing > 0;
            faults.failing = faults.failing.saturating_sub(1);
            (fails, faults.lose_answers)
        };
        if fails && !lose_answers {
            return Err(unavailable("the request was lost"));
        }
        let done = self.store.with(work);
        sleep(delay / 2).await;
        if fails || self.faults.lock().cut {
            return Err(unavailable("the answer was lost"));
        }
        done
    }

    async fn follow(
        self,
        prefix: Vec<u8>,
        mut from: u64,
        sender: mpsc::Sender<Result<WatchBatch, StoreError>>,
    ) {
        let mut newest = self.store.newest.subscribe();
        while let ControlFlow::Continue(next) = self.pass_on(&prefix, from, &sender).await {
            from = next;
            tokio::select! {
                changed = newest.changed() => if changed.is_err() { return },
                () = sender.closed() => return,
            }
            let LinkFaults { delay, .. } = *self.faults.lock();
            sleep(delay / 2).await;
            while self.faults.lock().cut {
                sleep(CUT_INTERVAL).await;
            }
        }
    }

    /// Sends all batches from a revision on; returns the revision that comes next.
    async fn pass_on(
        &self,
        prefix: &[u8],
        mut from: u64,
        sender: &mpsc::Sender<Result<WatchBatch, StoreError>>,
    ) -> ControlFlow<(), u64> {
        loop {
            let next = self.store.with(|state, _| state.next_batch(prefix, from));
            let batch = match next {
                Ok(None) => return ControlFlow::Continue(from),
                Ok(Some(batch)) => {
                    from = batch.revision + 1;
                    Ok(batch)
                }
                Err(error) => Err(error),
            };
            let is_last = batch.is_err();
            if sender.send(batch).await.is_err() || is_last {
                return ControlFlow::Break(());
            }
        }
    }
}

#[async_trait]
impl Store for StoreLink {
    fn limits(&self) -> Limits {
        // Those of an etcd with its usual settings.
        Limits { txn_ops: 120, txn_bytes: 1 << 20 }
    }

    async fn get(&self, key: &[u8]) -> Result<Option<KeyValue>, StoreError> {
        self.call(|state, _| Ok(state.keys.get(key).map(|found| entry(key, found)))).await
    }

    async fn range(&self, prefix: &[u8]) -> Result<Snapshot, StoreError> {
        self.call(|state, _| {
            let entries = state.under(prefix).map(|(key, found)| entry(key, found)).collect();
            Ok(Snapshot { revision: state.revision, entries })
        })
        .await
    }

    async fn revision(&self) -> Result<u64, StoreError> {
        self.call(|state, _| Ok(state.revision)).await
    }

    async fn txn(&self, txn: Txn) -> Result<TxnOutcome, StoreError> {
        self.limits().check(&txn)?;
        txn.check_overlaps()?;
        self.call(|state, _| state.txn(txn)).await
    }

    async fn watch(&self, prefix: &[u8], from_revision: u64) -> Result<Watch, StoreError> {
        let from = from_revision.max(1);
        self.call(|state, _| state.next_batch(prefix, from).map(drop)).await?;
        let (sender, receiver) = mpsc::channel(WATCH_QUEUE);
        tokio::spawn(self.clone().follow(prefix.to_vec(), from, sender));
        Ok(Watch::new(receiver))
    }

    async fn grant_lease(&self, ttl: Duration) -> Result<LeaseId, StoreError> {
        if ttl.as_millis() == 0 {
            return Err(StoreError::LeaseTooShort);
        }
        self.call(|state, now| {
            state.last_lease += 1;
            let id = LeaseId(state.last_lease);
            state.leases.insert(id, Lease { time: ttl, until: now + ttl });
            Ok(id)
        })
        .await
    }

    async fn keep_alive(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.call(|state, now| {
            let kept = state.leases.get_mut(&lease);
            let kept = kept.ok_or(StoreError::LeaseNotFound { lease })?;
            kept.until = now + kept.time;
            Ok(())
        })
        .await
    }

    async fn revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.call(|state, _| {
            if !state.leases.contains_key(&lease) {
                return Err(StoreError::LeaseNotFound { lease });
            }
            state.end(lease);
            Ok(())
        })
        .await
    }

    async fn compact(&self, revision: u64) -> Result<(), StoreError> {
        self.call(|state, _| {
            if revision > state.revision {
                let current = state.revision;
                return Err(StoreError::FutureRevision { asked: revision, current });
            }
            state.compacted = state.compacted.max(revision);
            state.history.retain(|batch| batch.revision > revision);
            Ok(())
        })
        .await
    }
}
