//! Durable state behind one trait: keys and values with revisions, transactions, watches and
//! leases.
//!
//! Read [`Store`] first: it is the contract, and it is small enough that a clustered etcd can keep
//! it too. [`EmbeddedStore`] keeps it in one crash-safe file (or in memory, for tests and
//! demonstrations). Whoever needs durable state takes an `Arc<dyn Store>`.
//!
//! Invariants
//! - STORE-1: what was acknowledged survives the death of the process at any moment.
//! - STORE-2: a transaction happens as a whole, under one revision, or not at all.
//! - STORE-3: revisions only grow, also across restarts.
//! - STORE-4: a watch delivers every change of its prefix once, in revision order, or ends with
//!   [`StoreError::Compacted`].
//! - STORE-5: every queue is bounded; a full one refuses with [`StoreError::Overloaded`].

mod clock;
mod embedded;
mod error;
mod store;
mod txn;
mod watch;

pub use clock::{Clock, ManualClock, SystemClock};
pub use embedded::{EmbeddedStore, Options};
pub use error::{OpenError, StoreError};
pub use store::{KeyValue, LeaseId, Snapshot, Store};
pub use txn::{Compare, Expected, Op, Txn, TxnOutcome};
pub use watch::{Change, Watch, WatchBatch};
