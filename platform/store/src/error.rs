//! Errors of stores.

use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use crate::lease::LeaseId;

/// Error of a call to a store. Nothing was changed, unless the variant says that it may have been.
#[derive(Clone, Debug, Error)]
pub enum StoreError {
    /// A bounded queue is full; try again after a pause.
    #[error("store is overloaded: {queue} holds its limit of {limit}")]
    Overloaded {
        /// Name of the queue.
        queue: &'static str,
        /// Bound of the queue.
        limit: usize,
    },
    /// The history no longer reaches back so far; read a snapshot and watch from its revision.
    #[error("revision {asked} has been compacted, history starts at {oldest}")]
    Compacted {
        /// Revision asked for.
        asked: u64,
        /// The oldest revision that is still kept.
        oldest: u64,
    },
    /// The caller asked to compact a revision in the future.
    #[error("revision {asked} lies in the future, the store is at {current}")]
    FutureRevision {
        /// Revision asked for.
        asked: u64,
        /// The newest revision.
        current: u64,
    },
    /// The lease never existed, was revoked, or has expired.
    #[error("lease {lease} does not exist or has expired")]
    LeaseNotFound {
        /// Lease named by the caller.
        lease: LeaseId,
    },
    /// A lease must live for at least a millisecond.
    #[error("a lease of zero duration was asked for")]
    LeaseTooShort,
    /// Two operations of one transaction touch the same key.
    #[error("two operations of one transaction touch key {:?}", String::from_utf8_lossy(key))]
    OverlappingOps {
        /// Key or prefix that two operations touch.
        key: Vec<u8>,
    },
    /// The transaction exceeds the limits of the store.
    #[error("transaction has {actual} {unit}, the limit is {limit}")]
    TooLarge {
        /// `operations` or `bytes`.
        unit: &'static str,
        /// Size of the transaction in this unit.
        actual: usize,
        /// Limit in this unit.
        limit: usize,
    },
    /// The quota of an etcd, or the disk, is full; the transaction has changed nothing.
    #[error("store has no space left")]
    NoSpace,
    /// The store did not answer in time, or cannot be reached. A write may or may not have been
    /// done; repeat it with a comparison that detects that.
    #[error("store does not answer")]
    Unavailable {
        /// Error of the last attempt.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The storage failed. A write may or may not have become durable; an embedded store takes no
    /// more writes until it is opened again.
    #[error("storage failed")]
    Storage {
        /// Error of the storage.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The store is shutting down, or its writer is gone. A write may or may not have become
    /// durable.
    #[error("store is closed")]
    Closed,
}

/// Error of opening a store. Existing data is left as it was.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process (or another part of this one) has the file open.
    #[error("{} is in use by another process", path.display())]
    Locked {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file is no store: no database, or that of another program.
    #[error("{} is not a fabricast store", path.display())]
    NotAStore {
        /// Path of the file.
        path: PathBuf,
    },
    /// There is no store at the place, and none was to be created.
    #[error("there is no store at {location}")]
    Missing {
        /// Location as given.
        location: String,
    },
    /// The file was written by a version with another layout.
    #[error("{} has store layout {found}, this program reads layout {expected}", path.display())]
    SchemaVersion {
        /// Path of the file.
        path: PathBuf,
        /// Layout of the file.
        found: u64,
        /// Layout that this program reads.
        expected: u64,
    },
    /// The file is a store, but its content is damaged; restore it from a copy.
    #[error("{} is damaged: {detail}", path.display())]
    Corrupted {
        /// Path of the file.
        path: PathBuf,
        /// Kind of damage.
        detail: String,
    },
    /// The file could not be created, opened, read or written.
    #[error("cannot open store {}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Error of the system.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The certificates for an etcd cannot be used.
    #[error("certificates for etcd cannot be used")]
    Certificates {
        /// Names the file and the fault.
        source: fabricast_rpc::SecurityError,
    },
    /// No member of an etcd answers.
    #[error("etcd at {endpoints} does not answer {how}")]
    Unreachable {
        /// Members as given, joined by commas.
        endpoints: String,
        /// `in plain text` or `over TLS`.
        how: &'static str,
        /// Error of the last attempt.
        source: Arc<dyn Error + Send + Sync>,
    },
    /// The keys under the prefix in etcd were written by a version with another layout.
    #[error("etcd has store layout {found} at '{prefix}', this program reads layout {expected}")]
    EtcdLayout {
        /// Prefix of the keys.
        prefix: String,
        /// Layout in etcd.
        found: String,
        /// Layout that this program reads.
        expected: &'static str,
    },
}
