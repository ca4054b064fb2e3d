//! Why a store could not be opened, or could not do what it was asked.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use crate::store::LeaseId;

/// Why a store refused or failed. Nothing was changed, except where a variant says that it may have
/// been.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    /// A bounded queue is full; try again after a pause.
    #[error("store is overloaded: {queue} holds its limit of {limit}")]
    Overloaded {
        /// Which queue.
        queue: &'static str,
        /// Its bound.
        limit: usize,
    },
    /// The history asked for is no longer kept; read a snapshot and watch from there.
    #[error("revision {asked} has been compacted, history starts at {oldest}")]
    Compacted {
        /// The revision asked for.
        asked: u64,
        /// The oldest revision that can still be had.
        oldest: u64,
    },
    /// The caller asked to compact what has not happened yet.
    #[error("revision {asked} lies in the future, the store is at {current}")]
    FutureRevision {
        /// The revision asked for.
        asked: u64,
        /// The newest revision.
        current: u64,
    },
    /// The lease never existed, was revoked, or has expired.
    #[error("lease {lease} does not exist or has expired")]
    LeaseNotFound {
        /// The lease named by the caller.
        lease: LeaseId,
    },
    /// A lease must live for at least a millisecond.
    #[error("a lease of zero duration was asked for")]
    LeaseTooShort,
    /// Two operations of one transaction touch the same key.
    #[error("two operations of one transaction touch key {:?}", String::from_utf8_lossy(key))]
    OverlappingOps {
        /// The key (or prefix) touched twice.
        key: Vec<u8>,
    },
    /// The transaction is larger than the store takes.
    #[error("transaction has {actual} {unit}, the limit is {limit}")]
    TooLarge {
        /// What is counted: `operations` or `bytes`.
        unit: &'static str,
        /// How many the transaction has.
        actual: usize,
        /// How many are allowed.
        limit: usize,
    },
    /// The store's disk is full; nothing was changed.
    #[error("store has no space left")]
    NoSpace,
    /// The store did not answer in time, or cannot be reached. A write may or may not have been
    /// done; try again, with a comparison that tells.
    #[error("store does not answer")]
    Unavailable {
        /// What the last attempt came to.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The storage failed. A write may or may not have become durable; an embedded store takes no
    /// more writes until it is opened again.
    #[error("storage failed")]
    Storage {
        /// What the storage said.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The store is shutting down, or its writer is gone. A write may or may not have become
    /// durable.
    #[error("store is closed")]
    Closed,
}

/// Why a store could not be opened. What is there is left as it was.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process (or another part of this one) has the file open.
    #[error("{} is in use by another process", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The file is something else: no store of any kind, or another program's database.
    #[error("{} is not a fabricast store", path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
    },
    /// The file was written by a version with another layout.
    #[error("{} has store layout {found}, this program reads layout {expected}", path.display())]
    SchemaVersion {
        /// The file.
        path: PathBuf,
        /// The layout in the file.
        found: u64,
        /// The layout this program reads.
        expected: u64,
    },
    /// The file is a store, but its content is damaged; restore it from a copy.
    #[error("{} is damaged: {detail}", path.display())]
    Corrupted {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        detail: String,
    },
    /// The file could not be created, opened, read or written.
    #[error("cannot open store {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The certificates for an etcd cannot be used.
    #[error("certificates for etcd cannot be used")]
    Certificates {
        /// Which file, and what is wrong with it.
        source: fabricast_rpc::SecurityError,
    },
    /// No member of an etcd answers.
    #[error("etcd at {endpoints} does not answer {how}")]
    Unreachable {
        /// Its members, as given.
        endpoints: String,
        /// In plain text, or over TLS.
        how: &'static str,
        /// What the last attempt came to.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// What lies under the prefix in etcd was written by a version with another layout.
    #[error("etcd has store layout {found} at '{prefix}', this program reads layout {expected}")]
    EtcdLayout {
        /// The prefix.
        prefix: String,
        /// The layout that was found.
        found: String,
        /// The layout this program reads.
        expected: &'static str,
    },
}
