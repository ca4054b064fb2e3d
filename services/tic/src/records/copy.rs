//! The records as a TIC has them that does not lead.

use std::sync::Arc;
use std::time::Duration;

use fabricast_store::Clock;
use tokio::sync::Mutex;

use crate::records::Records;
use crate::records::keys::RecordsError;
use crate::records::storage::Storage;

/// Age at which the copy is read anew, once somebody asks for it.
const MAX_AGE: Duration = Duration::from_secs(1);

/// Committed records that are read from the store on demand.
pub(crate) struct RecordsCopy {
    storage: Storage,
    records: Arc<Records>,
    read_at: Mutex<Option<Duration>>,
    clock: Arc<dyn Clock>,
}

impl RecordsCopy {
    /// - `clock`: must count the time in which this machine is suspended.
    pub(crate) fn new(storage: Storage, records: Arc<Records>, clock: Arc<dyn Clock>) -> Self {
        Self { storage, records, read_at: Mutex::default(), clock }
    }

    /// Reads the records again if the copy is older than [`MAX_AGE`].
    pub(crate) async fn refresh(&self) -> Result<(), RecordsError> {
        let mut read_at = self.read_at.lock().await;
        let asked = self.clock.now();
        if read_at.is_some_and(|at| asked.saturating_sub(at) < MAX_AGE) {
            return Ok(());
        }
        self.records.replace(self.storage.load().await?.directory);
        *read_at = Some(asked);
        Ok(())
    }
}

impl std::fmt::Debug for RecordsCopy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("RecordsCopy").finish_non_exhaustive()
    }
}
