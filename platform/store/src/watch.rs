//! What a watch delivers.

use tokio::sync::mpsc;

use crate::error::StoreError;

/// The receiving end of a watch. Dropping it ends the watch.
#[derive(Debug)]
pub struct Watch {
    receiver: mpsc::Receiver<Result<WatchBatch, StoreError>>,
}

impl Watch {
    /// Wraps the channel that a store's implementation feeds. The channel must be bounded, and its
    /// sender must stop after the first error.
    #[must_use]
    pub fn new(receiver: mpsc::Receiver<Result<WatchBatch, StoreError>>) -> Self {
        Self { receiver }
    }

    /// Waits for the next revision that changed something under the prefix. Safe to cancel: nothing
    /// is lost.
    ///
    /// # Errors
    ///
    /// The watch is over after an error: [`StoreError::Compacted`] if the reader was too slow (read
    /// a snapshot and start over), [`StoreError::Closed`], [`StoreError::Storage`].
    pub async fn next(&mut self) -> Result<WatchBatch, StoreError> {
        self.receiver.recv().await.unwrap_or(Err(StoreError::Closed))
    }
}

/// Everything that one revision changed under a watch's prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchBatch {
    /// The revision.
    pub revision: u64,
    /// The changes, at least one, each key at most once.
    pub changes: Vec<Change>,
}

/// One key that was written or deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: Vec<u8>,
    /// Its new value; `None` if it was deleted.
    pub value: Option<Vec<u8>>,
}
