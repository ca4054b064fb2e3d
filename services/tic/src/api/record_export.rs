//! `ExportRecords`: a copy of the records as a file, while the TIC goes on.

use std::sync::{Arc, Weak};

use fabricast_groups::directory::Limits;
use fabricast_proto::v1;
use fabricast_rpc::Reason;
use fabricast_store::Store;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;

use crate::records::backup::{self, BackupError, Lines};
use crate::records::storage::Storage;

/// Copies that are made at one time; each holds all records in memory.
const COPIES: usize = 2;
/// Bytes of the file in one message.
const CHUNK: usize = 1 << 20;

/// Makes copies of the records; clones share the bound.
#[derive(Clone)]
pub(crate) struct RecordExports {
    /// Gone once the TIC has ended: connections that are still open must not hold the store.
    store: Weak<dyn Store>,
    limits: Limits,
    permits: Arc<Semaphore>,
}

impl std::fmt::Debug for RecordExports {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RecordExports").finish_non_exhaustive()
    }
}

impl RecordExports {
    pub(crate) fn new(storage: &Storage) -> Self {
        let permits = Arc::new(Semaphore::new(COPIES));
        Self { store: Arc::downgrade(&storage.store), limits: storage.limits.clone(), permits }
    }

    /// Begins a copy.
    pub(crate) async fn begin(&self) -> Result<RecordChunks, Status> {
        let permit = Arc::clone(&self.permits).try_acquire_owned().map_err(|_all_taken| {
            let text = format!("{COPIES} copies of the records are being made");
            Reason::LimitReached.status(text, &[])
        })?;
        let ended = || Reason::ShuttingDown.status("the TIC has ended", &[]);
        let storage =
            Storage { store: self.store.upgrade().ok_or_else(ended)?, limits: self.limits.clone() };
        let (summary, lines) = backup::lines(storage).await.map_err(failed)?;
        tracing::info!(revision = summary.revision, keys = summary.keys, "records copied");
        Ok(RecordChunks { lines, rest: Vec::new(), _permit: permit })
    }
}

fn failed(error: BackupError) -> Status {
    match error {
        BackupError::Records(error) => error.into(),
        error => Status::internal(format!("the records cannot be copied: {error}")),
    }
}

/// The file in messages, made as they are read.
pub(crate) struct RecordChunks {
    lines: Lines,
    rest: Vec<u8>,
    _permit: OwnedSemaphorePermit,
}

impl Iterator for RecordChunks {
    type Item = Result<v1::ExportRecordsResponse, Status>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.rest.len() < CHUNK
            && let Some(line) = self.lines.next()
        {
            self.rest.extend(line.as_bytes());
        }
        let later = self.rest.split_off(self.rest.len().min(CHUNK));
        let chunk = std::mem::replace(&mut self.rest, later);
        (!chunk.is_empty()).then_some(Ok(v1::ExportRecordsResponse { chunk }))
    }
}
