//! The contract of every store.

use std::time::Duration;

use async_trait::async_trait;

use crate::error::StoreError;
use crate::lease::LeaseId;
use crate::txn::{Txn, TxnOutcome};
use crate::watch::Watch;

/// Durable keys and values with one history.
///
/// Every transaction that changes something gets the next revision. Reads see everything
/// acknowledged before they began.
///
/// Dropping the future of a write does not cancel the write: it may still be carried out.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Returns the greatest size of a transaction.
    fn limits(&self) -> Limits;

    /// Reads one key.
    ///
    /// # Errors
    ///
    /// [`StoreError::Overloaded`] (retry), [`StoreError::Storage`], [`StoreError::Closed`].
    async fn get(&self, key: &[u8]) -> Result<Option<KeyValue>, StoreError>;

    /// Reads all keys that begin with `prefix`, in key order, as of one revision. An empty prefix
    /// reads everything.
    ///
    /// # Errors
    ///
    /// As [`Store::get`].
    async fn range(&self, prefix: &[u8]) -> Result<Snapshot, StoreError>;

    /// Returns the newest revision.
    ///
    /// # Errors
    ///
    /// As [`Store::get`].
    async fn revision(&self) -> Result<u64, StoreError>;

    /// Carries out all operations under one revision if every comparison holds, and returns when
    /// that is durable.
    ///
    /// # Errors
    ///
    /// Besides those of [`Store::get`]: [`StoreError::LeaseNotFound`] if a put names a lease that
    /// has ended, [`StoreError::OverlappingOps`] and [`StoreError::TooLarge`] for a transaction
    /// that is never acceptable. A comparison that does not hold is no error but
    /// [`TxnOutcome::Conflict`].
    async fn txn(&self, txn: Txn) -> Result<TxnOutcome, StoreError>;

    /// Delivers every change under `prefix` from `from_revision` (inclusive) on, past ones first.
    ///
    /// After a [`Store::range`] at revision `r`, watch from `r + 1` and nothing is missed. A
    /// revision in the future is waited for.
    ///
    /// # Errors
    ///
    /// [`StoreError::Compacted`] if the history no longer reaches back to `from_revision`. The
    /// watch itself ends with the same error when its reader falls behind the history.
    async fn watch(&self, prefix: &[u8], from_revision: u64) -> Result<Watch, StoreError>;

    /// Creates a lease. Unless kept alive it expires after `ttl`; some time later all its keys are
    /// deleted under one revision.
    ///
    /// # Errors
    ///
    /// [`StoreError::LeaseTooShort`], and those of [`Store::get`].
    async fn grant_lease(&self, ttl: Duration) -> Result<LeaseId, StoreError>;

    /// Restarts the time of a lease at this call.
    ///
    /// # Errors
    ///
    /// [`StoreError::LeaseNotFound`] if it has expired: its keys are or will be deleted; start
    /// over.
    async fn keep_alive(&self, lease: LeaseId) -> Result<(), StoreError>;

    /// Ends a lease now and deletes its keys under one revision.
    ///
    /// # Errors
    ///
    /// [`StoreError::LeaseNotFound`], and those of [`Store::get`].
    async fn revoke(&self, lease: LeaseId) -> Result<(), StoreError>;

    /// Deletes the history up to and including `revision`; present values stay. Idempotent.
    ///
    /// # Errors
    ///
    /// [`StoreError::FutureRevision`], and those of [`Store::get`].
    async fn compact(&self, revision: u64) -> Result<(), StoreError>;
}

/// Greatest size of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most operations, and most comparisons.
    pub txn_ops: usize,
    /// Most bytes of all keys and values.
    pub txn_bytes: usize,
}

impl Limits {
    /// Checks the size of a transaction.
    ///
    /// # Errors
    ///
    /// [`StoreError::TooLarge`] names the unit that exceeds its limit.
    pub fn check(&self, txn: &Txn) -> Result<(), StoreError> {
        let checks = [
            ("operations", txn.ops.len().max(txn.compares.len()), self.txn_ops),
            ("bytes", txn.bytes(), self.txn_bytes),
        ];
        match checks.into_iter().find(|(_, actual, limit)| actual > limit) {
            Some((unit, actual, limit)) => Err(StoreError::TooLarge { unit, actual, limit }),
            None => Ok(()),
        }
    }
}

/// One key with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    /// Key without the store's own prefix.
    pub key: Vec<u8>,
    /// Value of the key.
    pub value: Vec<u8>,
    /// Revision that wrote this value.
    pub mod_revision: u64,
    /// Lease that the key is attached to.
    pub lease: Option<LeaseId>,
}

/// All keys under one prefix, as of one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Revision of the snapshot.
    pub revision: u64,
    /// Keys and values, in key order.
    pub entries: Vec<KeyValue>,
}
