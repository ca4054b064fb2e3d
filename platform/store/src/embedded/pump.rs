//! The task behind one watch: copies the change log to its reader, at the reader's pace.

use std::sync::{Arc, Weak};

use redb::Database;
use tokio::sync::{mpsc, watch};

use crate::embedded::tables::{LogPage, read_log};
use crate::error::StoreError;
use crate::watch::WatchBatch;

/// Log rows read at a time, so that one page stays small.
const PAGE_ROWS: usize = 1_024;

/// State of a watch.
pub(crate) struct Pump {
    /// Weak: an idle watch must not keep the file of a dropped store open.
    pub(crate) db: Weak<Database>,
    pub(crate) newest: watch::Receiver<u64>,
    pub(crate) prefix: Vec<u8>,
    pub(crate) next: u64,
    pub(crate) sender: mpsc::Sender<Result<WatchBatch, StoreError>>,
}

impl Pump {
    /// Runs until the reader is gone or the store is closed.
    pub(crate) async fn run(mut self) {
        if let Err(error) = self.copy().await {
            // A failed send means that the reader is gone.
            let _ = self.sender.send(Err(error)).await;
        }
    }

    /// Copies until an error, or until the reader is gone.
    async fn copy(&mut self) -> Result<(), StoreError> {
        loop {
            let next = self.next;
            let news = tokio::select! {
                news = self.newest.wait_for(|newest| *newest >= next) => news.is_ok(),
                () = self.sender.closed() => return Ok(()),
            };
            if !news {
                return Err(StoreError::Closed);
            }
            let page = self.read().await?;
            if self.next < page.oldest {
                return Err(StoreError::Compacted { asked: self.next, oldest: page.oldest });
            }
            for batch in page.batches {
                if self.sender.send(Ok(batch)).await.is_err() {
                    return Ok(());
                }
            }
            self.next = page.next;
        }
    }

    async fn read(&self) -> Result<LogPage, StoreError> {
        let db: Arc<Database> = self.db.upgrade().ok_or(StoreError::Closed)?;
        let (prefix, from) = (self.prefix.clone(), self.next);
        let task = tokio::task::spawn_blocking(move || read_log(&db, &prefix, from, PAGE_ROWS));
        let page = task.await.map_err(|_| StoreError::Closed)?;
        page.map_err(|error| StoreError::Storage { source: Arc::new(error) })
    }
}
