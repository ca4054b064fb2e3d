//! Reasons why a change is refused, a batch is not stored, or a term ends.

use fabricast_groups::command::Refusal;
use fabricast_routing::LayoutError;
use fabricast_store::StoreError;
use thiserror::Error;
use tokio::task::JoinError;

use crate::domain::choices::ChoiceError;
use crate::domain::collectives::error::CollectiveError;
use crate::domain::collectives::published::FutureTrees;
use crate::domain::jobs::PlacementError;
use crate::domain::route_terms::RouteTermError;
use crate::domain::shares::ShareError;
use crate::domain::topology::TopologyError;
use crate::records::keys::RecordsError;

/// Reason why a write request changes nothing, or may not have been stored.
#[derive(Clone, Debug, Error)]
pub(crate) enum WriteError {
    /// Too many requests wait for the writer.
    #[error("{limit} changes wait already")]
    QueueFull {
        /// Capacity of the queue.
        limit: usize,
    },
    /// The term is ending, and another one or a restart follows.
    #[error("the TIC is stopping")]
    Stopping,
    /// Another TIC leads.
    #[error("another TIC leads by now")]
    Deposed,
    /// The store failed before.
    #[error("the store does not answer")]
    StoreSilent,
    /// Another program changed the store.
    #[error("the store was written by somebody else")]
    StoreConflict,
    /// The store is overloaded, or the change is too large for it.
    #[error("{0}")]
    StoreLimit(StoreError),
    /// The store refused the change.
    #[error("the change was not stored: {0}")]
    NotStored(StoreError),
    /// The store failed; the change may have been stored.
    #[error("it is not known whether the change was stored: {0}")]
    Unclear(StoreError),
    /// The change is at odds with the directory.
    #[error(transparent)]
    Directory(#[from] Refusal),
    /// The route service does not hold the term.
    #[error(transparent)]
    RouteTerm(#[from] RouteTermError),
    /// A job gets no nodes.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// A job gets no share.
    #[error(transparent)]
    Share(#[from] ShareError),
    /// A report of choices is not taken.
    #[error(transparent)]
    Choices(#[from] ChoiceError),
    /// The topology cannot change.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// A report on trees is of a revision that does not exist.
    #[error(transparent)]
    Trees(#[from] FutureTrees),
    /// A request about collectives is refused.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
}

impl WriteError {
    /// Returns whether the same request may succeed a little later, within this term.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::QueueFull { .. }
            | Self::StoreSilent
            | Self::StoreConflict
            | Self::StoreLimit(_)
            | Self::NotStored(_)
            | Self::Unclear(_) => true,
            Self::Stopping
            | Self::Deposed
            | Self::Directory(_)
            | Self::RouteTerm(_)
            | Self::Placement(_)
            | Self::Share(_)
            | Self::Choices(_)
            | Self::Topology(_)
            | Self::Trees(_)
            | Self::Collective(_) => false,
        }
    }
}

/// Reason why a batch was not written.
#[derive(Debug)]
pub(crate) enum CommitError {
    /// Another TIC leads.
    Deposed,
    /// Another program changed this key of the store.
    Conflict { key: String },
    /// The store did not take it; the store is as it was.
    Refused(StoreError),
    /// The store failed; the batch may have been written.
    Failed(StoreError),
}

impl From<StoreError> for CommitError {
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

impl CommitError {
    /// The error that callers in the batch get.
    pub(crate) fn write_error(&self) -> WriteError {
        match self {
            Self::Deposed => WriteError::Deposed,
            Self::Conflict { .. } => WriteError::StoreConflict,
            Self::Refused(
                error @ (StoreError::Overloaded { .. }
                | StoreError::TooLarge { .. }
                | StoreError::NoSpace),
            ) => WriteError::StoreLimit(error.clone()),
            Self::Refused(error) => WriteError::NotStored(error.clone()),
            Self::Failed(error) => WriteError::Unclear(error.clone()),
        }
    }
}

/// Reason why a term ends.
#[derive(Debug)]
pub(crate) enum TermEnd {
    /// The store failed; what it holds is known only when it is read again.
    Store(StoreError),
    /// Another program wrote to the store, and what it left cannot be used.
    Records(RecordsError),
    /// The colors do not make a space of MGIDs on this topology.
    Layout(LayoutError),
    /// A task panicked.
    Task(JoinError),
    /// Another TIC leads, or may.
    Deposed,
    /// There is a new topology, which needs services built anew.
    NewTopology,
}

impl TermEnd {
    /// The error that callers get whose requests were not begun.
    pub(crate) fn write_error(&self) -> WriteError {
        match self {
            Self::NewTopology => WriteError::Stopping,
            Self::Deposed => WriteError::Deposed,
            Self::Store(_) | Self::Records(_) | Self::Layout(_) | Self::Task(_) => {
                WriteError::StoreSilent
            }
        }
    }
}

impl From<RecordsError> for TermEnd {
    fn from(error: RecordsError) -> Self {
        match error {
            RecordsError::Store(error) => Self::Store(error),
            other => Self::Records(other),
        }
    }
}

impl From<LayoutError> for TermEnd {
    fn from(error: LayoutError) -> Self {
        Self::Layout(error)
    }
}
