//! Watches, and the changes that they deliver.

use tokio::sync::mpsc;

use crate::error::StoreError;

/// The receiving end of a watch. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watch {
    receiver: mpsc::Receiver<Result<WatchBatch, StoreError>>,
}

impl Watch {
    /// Wraps the channel of a store's implementation. The channel must be bounded, and its sender
    /// must stop after the first error.
    #[must_use]
    pub fn new(receiver: mpsc::Receiver<Result<WatchBatch, StoreError>>) -> Self {
        Self { receiver }
    }

    /// Waits for the next revision that changed something under the prefix. Cancel-safe.
    ///
    /// # Errors
    ///
    /// An error ends the watch: [`StoreError::Compacted`] if the reader was too slow (read a
    /// snapshot and start over), [`StoreError::Closed`], [`StoreError::Storage`].
    pub async fn next(&mut self) -> Result<WatchBatch, StoreError> {
        self.receiver.recv().await.unwrap_or(Err(StoreError::Closed))
    }
}

/// Changes of one revision under the prefix of a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchBatch {
    /// Revision of the changes.
    pub revision: u64,
    /// At least one change, each key at most once.
    pub changes: Vec<Change>,
}

/// One key that was written or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Key that was changed.
    pub key: Vec<u8>,
    /// New value; `None` if the key was deleted.
    pub value: Option<Vec<u8>>,
}
