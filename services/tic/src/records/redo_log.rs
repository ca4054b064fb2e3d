//! Makes each decision durable as a whole, however large it is.
//!
//! Changes that fit into one transaction are written with one. Others are written as a *redo log*
//! first: etcd takes about a hundred changes at once, and the end of one node may be ten thousand.
//!
//! ```text
//!   tic/redo/00000000 ...   all changes, encoded, in parts
//!   tic/redo/commit         the number of parts; once this is written, all changes are durable
//!   tic/choice_redo/...     the same for choices of the route service
//! ```
//!
//! Then the changes are carried out in parts, and the log is deleted, before anything else is
//! written that uses the log. A reader of the records applies a committed log to what it reads; a
//! new leader finishes it. Every transaction requires that its writer still leads.
//!
//! A TIC that does not know the log of choices refuses the records until it is carried out.

use std::sync::Arc;

use fabricast_rpc::joined;
use fabricast_store::{KeyValue, Limits, Store, StoreError, Txn, TxnOutcome};
use tokio::task::JoinSet;

use crate::leadership::election::LeaderLease;
use crate::records::keys::{CHOICE_REDO, Puts, REDO, RecordsError, number};

/// Operations of a transaction that are left free for its conditions.
const SPARE_OPS: usize = 4;
/// Bytes of a transaction that are left free for its conditions.
const SPARE_BYTES: usize = 4_096;

/// Most transactions of one log that run at once.
const MAX_RUNNING: usize = 8;

/// Place of one log, and the part of it that is written at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RedoLog {
    /// Prefix of its keys.
    keys: &'static str,
    /// Greatest size of a transaction, beside the limits of the store.
    limits: Limits,
    /// Most transactions of it that run at once, where they are of this size.
    running: usize,
    /// It is carried out also if the store has no space: what it needs was in reserve.
    is_essential: bool,
}

/// The log of the writer's decisions.
pub(crate) const DECISIONS: RedoLog = RedoLog {
    keys: REDO,
    limits: Limits { txn_ops: usize::MAX, txn_bytes: usize::MAX },
    running: MAX_RUNNING,
    is_essential: true,
};
/// The log of the route service's choices: in short transactions, as others wait meanwhile.
pub(crate) const CHOICES: RedoLog = RedoLog {
    keys: CHOICE_REDO,
    limits: Limits { txn_ops: 1_024, txn_bytes: 256 << 10 },
    running: 1,
    is_essential: false,
};

/// Outcome of [`RedoLog::write`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// All changes are in the store.
    Whole,
    /// All changes are durable in the log; carry them out with [`RedoLog::finish`].
    Logged,
    /// A condition did not hold, and nothing took effect.
    Conflict {
        /// The key of the first condition that failed.
        key: Vec<u8>,
    },
}

impl Written {
    fn of(outcome: TxnOutcome, done: Self) -> Self {
        match outcome {
            TxnOutcome::Committed { .. } => done,
            TxnOutcome::Conflict { key } => Self::Conflict { key },
        }
    }
}

impl RedoLog {
    /// Makes changes durable, all or none.
    ///
    /// - `conditions`: required beside the leader's term.
    ///
    /// # Errors
    ///
    /// Those of [`Store::txn`]; either all changes are durable or none is.
    pub(crate) async fn write(
        self,
        store: &Arc<dyn Store>,
        lease: &LeaderLease,
        conditions: Txn,
        puts: &Puts,
    ) -> Result<Written, StoreError> {
        let limits = self.limits(store);
        let txn = lease.fence(conditions);
        if puts.len() <= limits.txn_ops {
            let whole = add_changes(txn.clone(), puts.iter());
            if limits.check(&whole).is_ok() {
                return Ok(Written::of(store.txn(whole).await?, Written::Whole));
            }
        }
        let log = encode(puts);
        let parts: Vec<&[u8]> =
            log.chunks(limits.txn_bytes.saturating_sub(SPARE_BYTES).max(1)).collect();
        let (last, first) = parts.split_last().expect("too large a transaction is not empty");
        for (index, part) in first.iter().enumerate() {
            let part =
                Txn { essential: txn.essential, ..Txn::new() }.put(self.part_key(index), *part);
            let written = store.txn(lease.fence(part)).await?;
            if matches!(written, TxnOutcome::Conflict { .. }) {
                return Ok(Written::of(written, Written::Whole));
            }
        }
        let commit = txn
            .put(self.part_key(first.len()), *last)
            .put(self.commit_key(), number(parts.len() as u64));
        Ok(Written::of(store.txn(commit).await?, Written::Logged))
    }

    /// Carries a committed log out and deletes it.
    pub(crate) async fn finish(
        self,
        store: &Arc<dyn Store>,
        lease: &LeaderLease,
        puts: &Puts,
    ) -> Result<TxnOutcome, StoreError> {
        let limits = self.limits(store);
        // Small transactions take no longer together.
        let is_small = limits.txn_ops < self.limits.txn_ops;
        let most = if is_small { MAX_RUNNING } else { self.running };
        let mut running = JoinSet::new();
        let mut all = puts.iter().peekable();
        let mut ended = TxnOutcome::Committed { revision: 0 };
        while all.peek().is_some() || !running.is_empty() {
            while running.len() < most && all.peek().is_some() {
                let mut txn = next_part(limits, &mut all);
                txn.essential = self.is_essential;
                let txn = lease.fence(txn);
                let store = Arc::clone(store);
                running.spawn(async move { store.txn(txn).await });
            }
            let Some(done) = running.join_next().await else { break };
            let done = joined(done).await?;
            if matches!(done, TxnOutcome::Conflict { .. }) {
                ended = done;
            }
        }
        if matches!(ended, TxnOutcome::Conflict { .. }) {
            return Ok(ended);
        }
        self.clear(store, lease).await
    }

    /// Deletes a log that is carried out, or was never committed.
    pub(crate) async fn clear(
        self,
        store: &Arc<dyn Store>,
        lease: &LeaderLease,
    ) -> Result<TxnOutcome, StoreError> {
        // Their numbers begin with it.
        let parts = format!("{}0", self.keys);
        let txn = Txn::new().delete_prefix(parts).delete(self.commit_key());
        store.txn(lease.fence(txn)).await
    }

    /// Finishes what was left half done; returns whether this TIC still leads.
    ///
    /// - `committed`: the log as [`RedoLog::read`] found it.
    pub(crate) async fn settle(
        self,
        store: &Arc<dyn Store>,
        lease: &LeaderLease,
        committed: Option<&Puts>,
    ) -> Result<bool, StoreError> {
        let outcome = match committed {
            Some(puts) => self.finish(store, lease, puts).await?,
            None => self.clear(store, lease).await?,
        };
        Ok(matches!(outcome, TxnOutcome::Committed { .. }))
    }

    /// Decodes the log among some keys; `None` if it was never committed.
    ///
    /// # Errors
    ///
    /// [`RecordsError::Foreign`] if it is damaged.
    pub(crate) fn read(self, entries: &[KeyValue]) -> Result<Option<Puts>, RecordsError> {
        let foreign = || RecordsError::Foreign { key: self.keys.to_owned() };
        let find = |key: &[u8]| {
            entries.iter().find(|entry| entry.key == key).map(|entry| entry.value.as_slice())
        };
        let Some(commit) = find(&self.commit_key()) else { return Ok(None) };
        let count: Option<usize> =
            std::str::from_utf8(commit).ok().and_then(|text| text.parse().ok());
        let parts = (0..count.ok_or_else(foreign)?)
            .map(|index| find(&self.part_key(index)).ok_or_else(foreign));
        let log = parts.collect::<Result<Vec<_>, _>>()?.concat();
        decode(&log).map(Some).ok_or_else(foreign)
    }

    /// The same log, carried out with nobody waiting meanwhile.
    pub(crate) fn at_once(self) -> Self {
        let limits = Limits { txn_ops: 1 << 16, txn_bytes: 2 << 20 };
        Self { limits, running: MAX_RUNNING, ..self }
    }

    /// The same log, carried out also if the store has no space.
    pub(crate) fn essential(self, is_essential: bool) -> Self {
        Self { is_essential, ..self }
    }

    fn limits(self, store: &Arc<dyn Store>) -> Limits {
        let limits = store.limits();
        Limits {
            txn_ops: limits.txn_ops.min(self.limits.txn_ops),
            txn_bytes: limits.txn_bytes.min(self.limits.txn_bytes),
        }
    }

    fn part_key(self, index: usize) -> Vec<u8> {
        format!("{}{index:08}", self.keys).into_bytes()
    }

    fn commit_key(self) -> Vec<u8> {
        format!("{}commit", self.keys).into_bytes()
    }
}

/// Takes as many changes as fit into one transaction.
fn next_part<'a>(
    limits: Limits,
    all: &mut std::iter::Peekable<impl Iterator<Item = (&'a Vec<u8>, &'a Option<Vec<u8>>)>>,
) -> Txn {
    let (mut txn, mut bytes) = (Txn::new(), 0);
    while let Some((key, value)) = all.peek() {
        bytes += key.len() + value.as_ref().map_or(0, Vec::len);
        let full =
            txn.ops.len() + SPARE_OPS > limits.txn_ops || bytes + SPARE_BYTES > limits.txn_bytes;
        if full && !txn.ops.is_empty() {
            break;
        }
        txn = add_changes(txn, all.next().into_iter());
    }
    txn
}

fn add_changes<'a>(
    txn: Txn,
    puts: impl Iterator<Item = (&'a Vec<u8>, &'a Option<Vec<u8>>)>,
) -> Txn {
    puts.fold(txn, |txn, (key, value)| match value {
        Some(value) => txn.put(key.clone(), value.clone()),
        None => txn.delete(key.clone()),
    })
}

/// Encodes key, presence of a value, and value, each after its length.
fn encode(puts: &Puts) -> Vec<u8> {
    let mut log = Vec::new();
    let mut put = |bytes: &[u8]| {
        log.extend((bytes.len() as u64).to_le_bytes());
        log.extend(bytes);
    };
    for (key, value) in puts {
        put(key);
        put(&[u8::from(value.is_some())]);
        put(value.as_deref().unwrap_or_default());
    }
    log
}

fn decode(mut log: &[u8]) -> Option<Puts> {
    let mut take = || -> Option<Option<Vec<u8>>> {
        if log.is_empty() {
            return Some(None);
        }
        let (length, rest) = log.split_first_chunk::<8>()?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
        let bytes = rest.get(..length)?.to_vec();
        log = &rest[length..];
        Some(Some(bytes))
    };
    let mut puts = Puts::new();
    while let Some(key) = take()? {
        let (is_put, value) = (take()??, take()??);
        puts.insert(key, (is_put == [1]).then_some(value));
    }
    Some(puts)
}

#[cfg(test)]
mod tests {
    use fabricast_store::{EmbeddedStore, Expected, Options, SystemClock};

    use super::*;

    fn small() -> Arc<dyn Store> {
        let options = Options { max_txn_ops: 6, max_txn_bytes: 8_192, ..Options::default() };
        let clock = Arc::new(SystemClock::new());
        Arc::new(EmbeddedStore::in_memory_with(options, clock).unwrap())
    }

    fn puts(count: usize, bytes: usize) -> Puts {
        let value = |index: usize| (!index.is_multiple_of(3)).then(|| vec![b'v'; bytes]);
        (0..count).map(|index| (format!("tic/x/{index:03}").into_bytes(), value(index))).collect()
    }

    async fn keys(store: &Arc<dyn Store>) -> Vec<KeyValue> {
        store.range(b"tic/").await.unwrap().entries
    }

    #[tokio::test]
    async fn a_change_too_large_for_one_transaction_is_written_through_a_log_that_is_deleted() {
        for (count, bytes) in [(2, 10), (40, 10), (40, 600)] {
            let store = small();
            let puts = puts(count, bytes);
            let done =
                DECISIONS.write(&store, &LeaderLease::sole(), Txn::new(), &puts).await.unwrap();
            assert_eq!(done, if count > 6 { Written::Logged } else { Written::Whole });
            if done == Written::Logged {
                let read = DECISIONS.read(&keys(&store).await).unwrap();
                assert_eq!(read.as_ref(), Some(&puts), "durable before it is carried out");
                DECISIONS.finish(&store, &LeaderLease::sole(), &puts).await.unwrap();
            }
            let found = keys(&store).await;
            let found: Puts =
                found.into_iter().map(|entry| (entry.key, Some(entry.value))).collect();
            let wanted: Puts = puts.into_iter().filter(|(_, value)| value.is_some()).collect();
            assert_eq!(found, wanted);
        }
    }

    #[tokio::test]
    async fn a_failed_condition_leaves_no_committed_log() {
        let store = small();
        let never = Txn::new().when("absent", Expected::Value(b"1".to_vec()));
        let puts = puts(40, 600);
        let done = DECISIONS.write(&store, &LeaderLease::sole(), never, &puts).await.unwrap();
        assert_eq!(done, Written::Conflict { key: b"absent".to_vec() });
        let found = keys(&store).await;
        assert!(found.iter().all(|entry| entry.key.starts_with(REDO.as_bytes())));
        assert_eq!(DECISIONS.read(&found).unwrap(), None);
    }

    #[tokio::test]
    async fn two_logs_do_not_touch_each_other() {
        let (store, lease) = (small(), LeaderLease::sole());
        let (one, two) = (puts(20, 600), puts(30, 500));
        CHOICES.write(&store, &lease, Txn::new(), &one).await.unwrap();
        DECISIONS.write(&store, &lease, Txn::new(), &two).await.unwrap();
        let found = keys(&store).await;
        assert_eq!(CHOICES.read(&found).unwrap().as_ref(), Some(&one));
        assert_eq!(DECISIONS.read(&found).unwrap().as_ref(), Some(&two));
        DECISIONS.finish(&store, &lease, &two).await.unwrap();
        let found = keys(&store).await;
        assert_eq!(CHOICES.read(&found).unwrap().as_ref(), Some(&one));
        assert_eq!(DECISIONS.read(&found).unwrap(), None);
        CHOICES.clear(&store, &lease).await.unwrap();
        let found = keys(&store).await;
        assert!(found.iter().all(|entry| entry.key.starts_with(b"tic/x/")), "{found:?}");
    }

    #[test]
    fn a_log_is_read_back_and_a_torn_one_is_detected() {
        let puts = puts(10, 5);
        let log = encode(&puts);
        assert_eq!(decode(&log), Some(puts));
        for length in 1..log.len() {
            let torn = decode(&log[..length]);
            assert!(torn.is_none_or(|puts| puts.len() < 10), "{length}");
        }
        let entry = |key: &[u8], value: Vec<u8>| KeyValue {
            key: key.to_vec(),
            value,
            mod_revision: 1,
            lease: None,
        };
        let missing =
            [entry(&DECISIONS.commit_key(), number(2)), entry(&DECISIONS.part_key(0), log)];
        assert!(matches!(DECISIONS.read(&missing), Err(RecordsError::Foreign { .. })));
    }
}
