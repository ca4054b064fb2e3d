//! `ExportRecords`: a copy of the records as a file, while the TIC goes on.
//!
//! A copy holds all records in memory, so there are few, one of a client, and one of which nothing
//! is taken for a while is given up.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use fabricast_groups::directory::Limits;
use fabricast_proto::v1;
use fabricast_rpc::Reason;
use fabricast_store::Store;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep_until};
use tonic::Status;

use crate::records::backup::{self, BackupError, Lines};
use crate::records::storage::Storage;

/// Copies that are made at one time.
const COPIES: usize = 2;
/// Bytes of the file in one message.
const CHUNK: usize = 1 << 20;
/// Time for the caller to take the next message.
const CHUNK_TIMEOUT: Duration = Duration::from_secs(30);

/// Makes copies of the records; clones share the bound.
#[derive(Clone)]
pub(crate) struct RecordExports {
    /// Gone once the TIC has ended: connections that are still open must not hold the store.
    store: Weak<dyn Store>,
    limits: Limits,
    permits: Arc<Semaphore>,
    /// Clients of copies.
    clients: Arc<Mutex<BTreeSet<String>>>,
}

/// Permission for a copy, until it is dropped.
struct CopyPermit {
    clients: Arc<Mutex<BTreeSet<String>>>,
    client: String,
    _permit: OwnedSemaphorePermit,
}

impl Drop for CopyPermit {
    fn drop(&mut self) {
        self.clients.lock().remove(&self.client);
    }
}

impl std::fmt::Debug for RecordExports {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RecordExports").finish_non_exhaustive()
    }
}

impl RecordExports {
    pub(crate) fn new(storage: &Storage) -> Self {
        let (store, limits) = (Arc::downgrade(&storage.store), storage.limits.clone());
        Self { store, limits, permits: Arc::new(Semaphore::new(COPIES)), clients: Arc::default() }
    }

    fn permit(&self, client: String) -> Result<CopyPermit, Status> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().map_err(|_all_taken| {
            let text = format!("{COPIES} copies of the records are being made");
            Reason::LimitReached.status(text, &[])
        })?;
        if !self.clients.lock().insert(client.clone()) {
            let text = "a copy of the records is being made for this client";
            return Err(Reason::LimitReached.status(text, &[]));
        }
        Ok(CopyPermit { clients: Arc::clone(&self.clients), client, _permit: permit })
    }

    /// Begins a copy.
    ///
    /// - `client`: key of the client that asks for it.
    ///
    /// # Errors
    ///
    /// `RESOURCE_EXHAUSTED` / `LIMIT_REACHED` if there are as many as may be, or one of the client;
    /// `INTERNAL` / `STORE_FAILED`.
    pub(crate) async fn begin(&self, client: String) -> Result<RecordChunks, Status> {
        let permit = self.permit(client)?;
        let ended = || Reason::ShuttingDown.status("the TIC has ended", &[]);
        let storage =
            Storage { store: self.store.upgrade().ok_or_else(ended)?, limits: self.limits.clone() };
        let (summary, lines) = backup::lines(storage).await.map_err(failed)?;
        tracing::info!(revision = summary.revision, keys = summary.keys, "records copied");
        let copy = OpenCopy { lines, rest: Vec::new(), taken: Instant::now(), _permit: permit };
        let copy = Arc::new(Mutex::new(Some(copy)));
        tokio::spawn(give_up(Arc::downgrade(&copy)));
        Ok(RecordChunks { copy, has_ended: false })
    }
}

fn failed(error: BackupError) -> Status {
    match error {
        BackupError::Records(error) => error.into(),
        error => Status::internal(format!("the records cannot be copied: {error}")),
    }
}

/// The records of a copy that have not been taken.
struct OpenCopy {
    lines: Lines,
    rest: Vec<u8>,
    /// Time at which the caller last took a message.
    taken: Instant,
    _permit: CopyPermit,
}

impl OpenCopy {
    fn next(&mut self) -> Option<v1::ExportRecordsResponse> {
        self.taken = Instant::now();
        while self.rest.len() < CHUNK
            && let Some(line) = self.lines.next()
        {
            self.rest.extend(line.as_bytes());
        }
        let later = self.rest.split_off(self.rest.len().min(CHUNK));
        let chunk = std::mem::replace(&mut self.rest, later);
        (!chunk.is_empty()).then_some(v1::ExportRecordsResponse { chunk })
    }
}

/// Drops a copy of which nothing is taken in time.
async fn give_up(copy: Weak<Mutex<Option<OpenCopy>>>) {
    while let Some(due) = give_up_if_due(&copy) {
        sleep_until(due).await;
    }
}

/// Drops a copy whose time is over. Returns the time at which to look again; `None` if it has
/// ended.
fn give_up_if_due(copy: &Weak<Mutex<Option<OpenCopy>>>) -> Option<Instant> {
    let copy = copy.upgrade()?;
    let mut held = copy.lock();
    let due = held.as_ref()?.taken + CHUNK_TIMEOUT;
    if due > Instant::now() {
        return Some(due);
    }
    *held = None;
    tracing::info!("a copy of the records is not read, and was given up");
    None
}

/// The file in messages, made as they are read.
pub(crate) struct RecordChunks {
    /// `None` once it has ended or was given up.
    copy: Arc<Mutex<Option<OpenCopy>>>,
    has_ended: bool,
}

impl Iterator for RecordChunks {
    type Item = Result<v1::ExportRecordsResponse, Status>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let mut copy = self.copy.lock();
        let Some(held) = copy.as_mut() else {
            self.has_ended = true;
            let most = CHUNK_TIMEOUT.as_secs();
            let text = format!("no part of the copy was taken for {most} s");
            return Some(Err(Reason::ReaderTooSlow.status(text, &[])));
        };
        let chunk = held.next();
        if chunk.is_none() {
            self.has_ended = true;
            *copy = None;
        }
        chunk.map(Ok)
    }
}

#[cfg(test)]
mod tests {
    use fabricast_rpc::reason_of;
    use fabricast_store::{EmbeddedStore, Txn};

    use super::*;
    use crate::records::keys;

    async fn store() -> Storage {
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::in_memory().unwrap());
        store.txn(Txn::new().put(keys::SCHEMA, "2")).await.unwrap();
        Storage { store, limits: Limits::default() }
    }

    fn refusal<T>(refused: Result<T, Status>) -> Option<String> {
        reason_of(&refused.err().unwrap())
    }

    #[tokio::test]
    async fn one_client_leaves_copies_to_others() {
        let storage = store().await;
        let exports = RecordExports::new(&storage);
        let begin = |client: &str| exports.begin(client.to_owned());
        let mut first = begin("admin/a").await.unwrap();
        assert_eq!(refusal(begin("admin/a").await).as_deref(), Some("LIMIT_REACHED"));
        let _second = begin("admin/b").await.unwrap();
        assert_eq!(refusal(begin("admin/c").await).as_deref(), Some("LIMIT_REACHED"));
        // One that is complete keeps nobody waiting.
        assert!(first.next().unwrap().is_ok() && first.next().is_none());
        let third = begin("admin/c").await.unwrap();
        drop(third);
        begin("admin/a").await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_copy_of_which_nothing_is_taken_is_given_up() {
        let storage = store().await;
        let exports = RecordExports::new(&storage);
        let mut unread = exports.begin("admin/a".to_owned()).await.unwrap();
        tokio::time::sleep(CHUNK_TIMEOUT / 2).await;
        let mut read = exports.begin("admin/b".to_owned()).await.unwrap();
        tokio::time::sleep(CHUNK_TIMEOUT * 3 / 4).await;
        assert!(unread.copy.lock().is_none());
        exports.begin("admin/a".to_owned()).await.unwrap();
        let late = unread.next().unwrap();
        assert_eq!(refusal(late).as_deref(), Some("READER_TOO_SLOW"));
        assert!(unread.next().is_none());
        // The time begins again with each message.
        read.next().unwrap().unwrap();
        tokio::time::sleep(CHUNK_TIMEOUT * 3 / 4).await;
        assert!(read.next().is_none());
    }
}
