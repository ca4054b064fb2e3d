//! The records as a TIC has them that does not lead.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::records::Records;
use crate::records::keys::RecordsError;
use crate::records::storage::Storage;

/// Age at which the copy is read anew, once somebody asks for it.
const MAX_AGE: Duration = Duration::from_secs(1);

/// Committed records that are read from the store on demand.
#[derive(Debug)]
pub(crate) struct RecordsCopy {
    storage: Storage,
    records: Arc<Records>,
    read_at: Mutex<Option<Instant>>,
}

impl RecordsCopy {
    pub(crate) fn new(storage: Storage, records: Arc<Records>) -> Self {
        Self { storage, records, read_at: Mutex::default() }
    }

    /// Reads the records again if the copy is older than [`MAX_AGE`].
    pub(crate) async fn refresh(&self) -> Result<(), RecordsError> {
        let mut read_at = self.read_at.lock().await;
        if read_at.is_some_and(|at| at.elapsed() < MAX_AGE) {
            return Ok(());
        }
        let asked = Instant::now();
        self.records.replace(self.storage.load().await?.directory);
        *read_at = Some(asked);
        Ok(())
    }
}
