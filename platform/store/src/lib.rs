//! Durable state behind one trait: keys and values with revisions, transactions, watches and
//! leases.
//!
//! Read [`Store`] first: it is the contract. [`EmbeddedStore`] keeps data in one crash-safe file
//! (or in memory, for tests and demonstrations), [`EtcdStore`] in an etcd of several machines.
//! Services take an `Arc<dyn Store>`; [`StoreLocation::open`] opens the configured one.
//!
//! Invariants
//! - STORE-1: an acknowledged write survives the death of the process at any moment.
//! - STORE-2: a transaction is carried out as a whole, under one revision, or not at all.
//! - STORE-3: revisions only grow, also across restarts.
//! - STORE-4: a watch delivers every change of its prefix once, in revision order, or ends with
//!   [`StoreError::Compacted`].
//! - STORE-5: every queue is bounded; a full one refuses with [`StoreError::Overloaded`].
//! - STORE-6: a transaction is carried out at most once, however often it was sent.

mod clock;
mod embedded;
mod error;
mod etcd;
mod lease;
mod location;
mod store;
mod txn;
mod watch;

pub use clock::{Clock, ManualClock, SystemClock};
pub use embedded::{EmbeddedStore, Options};
pub use error::{OpenError, StoreError};
pub use etcd::{EtcdOptions, EtcdStore};
pub use lease::LeaseId;
pub use location::{EtcdLocation, LocationError, StoreLocation};
pub use store::{KeyValue, Limits, Snapshot, Store};
pub use txn::{Compare, Expected, Op, Txn, TxnOutcome};
pub use watch::{Change, Watch, WatchBatch};
