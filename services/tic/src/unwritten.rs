//! Why a batch of decisions did not become durable, and what those who waited for it are told.

use fabricast_routing::LayoutError;
use fabricast_rpc::Reason;
use fabricast_store::StoreError;
use tokio::task::JoinError;
use tonic::Status;

use crate::orders::stopping;
use crate::storage::RecordsError;

/// Why a writer cannot go on.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The store failed: what it holds is known only when it is read again.
    Store(StoreError),
    /// Somebody else wrote to the store, and what they left cannot be used.
    Records(RecordsError),
    /// The colors do not make a space of MGIDs on this topology.
    Layout(LayoutError),
    /// A task panicked.
    Task(JoinError),
    /// Another TIC leads, or may.
    Deposed,
    /// There is another topology: the next term works with it.
    Replaced,
}

impl Ended {
    /// What those are told whose work nobody has begun.
    pub(crate) fn status(&self) -> Status {
        if matches!(self, Self::Replaced) { stopping() } else { no_store() }
    }
}

/// What callers are told when the store has failed.
pub(crate) fn no_store() -> Status {
    Reason::StoreFailed.status("the store does not answer", &[])
}

impl From<RecordsError> for Ended {
    fn from(error: RecordsError) -> Self {
        match error {
            RecordsError::Store(error) => Self::Store(error),
            other => Self::Records(other),
        }
    }
}

impl From<LayoutError> for Ended {
    fn from(error: LayoutError) -> Self {
        Self::Layout(error)
    }
}

/// Why a batch was not written.
pub(crate) enum Unwritten {
    /// Another TIC leads.
    Deposed,
    /// Somebody else has changed the store.
    Conflict {
        /// What they changed.
        key: String,
    },
    /// The store did not take it; the store is as it was.
    Refused(StoreError),
    /// The store failed; the batch may have been written.
    Failed(StoreError),
}

impl From<StoreError> for Unwritten {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Storage { .. } | StoreError::Unavailable { .. } | StoreError::Closed => {
                Self::Failed(error)
            }
            StoreError::Overloaded { .. }
            | StoreError::NoSpace
            | StoreError::TooLarge { .. }
            | StoreError::Compacted { .. }
            | StoreError::FutureRevision { .. }
            | StoreError::LeaseNotFound { .. }
            | StoreError::LeaseTooShort
            | StoreError::OverlappingOps { .. } => Self::Refused(error),
        }
    }
}

impl Unwritten {
    /// What those who waited for the batch are told.
    pub(crate) fn status(&self) -> Status {
        match self {
            Self::Deposed => Reason::NotLeader.status("another TIC leads by now", &[]),
            Self::Conflict { .. } => {
                Reason::StoreFailed.status("the store was written by somebody else", &[])
            }
            Self::Refused(
                error @ (StoreError::Overloaded { .. } | StoreError::TooLarge { .. }),
            ) => Reason::LimitReached.status(error.to_string(), &[]),
            Self::Refused(error) | Self::Failed(error) => {
                Reason::StoreFailed.status(format!("the change was not stored: {error}"), &[])
            }
        }
    }
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
