//! The store of one process: a redb database in one file.
//!
//! Reads run on tokio's blocking threads, each on its own consistent view. Writes go to one thread
//! that commits many of them at once (see the diagram in `writer`). A watch reads the change log at
//! its reader's pace, so a slow reader costs no memory.
//!
//! Leases are kept in the file; their times restart when it is opened. A second file beside it
//! holds disk space in reserve (see `reserve`).

mod apply;
mod leases;
mod open;
mod pump;
mod reserve;
mod tables;
mod writer;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use async_trait::async_trait;
use redb::Database;
use redb::backends::InMemoryBackend;
use tokio::sync::{Semaphore, mpsc, oneshot};

use crate::clock::{Clock, SystemClock};
use crate::embedded::open::Opened;
use crate::embedded::pump::Pump;
use crate::embedded::writer::{Body, Command, Reply, Shared, Writer};
use crate::error::{OpenError, StoreError};
use crate::lease::LeaseId;
use crate::store::{KeyValue, Limits, Snapshot, Store};
use crate::txn::{Txn, TxnOutcome};
use crate::watch::Watch;

/// Bounds of an embedded store.
#[derive(Clone, Debug)]
pub struct Options {
    /// Revisions kept in the change log for watches, default 100 000: minutes of heavy work, so
    /// that a restarted reader can resume.
    pub keep_revisions: u64,
    /// Writes that wait for the writer, default 8 192; one more is refused.
    pub max_queue: usize,
    /// Writes that share one commit, default 1 024: more would make each wait longer without saving
    /// much.
    pub max_batch: usize,
    /// Reads under way at once, default 256; one more is refused.
    pub max_reads: usize,
    /// Operations in one transaction, default 65 536.
    pub max_txn_ops: usize,
    /// Bytes in one transaction, default 16 MiB; also ends a batch.
    pub max_txn_bytes: usize,
    /// Batches that wait for a watch's reader before the watch pauses, default 64.
    pub max_watch_buffer: usize,
    /// Verify every checksum in a file that is opened, default true: damage is better found at the
    /// start than during work.
    pub verify: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            keep_revisions: 100_000,
            max_queue: 8_192,
            max_batch: 1_024,
            max_reads: 256,
            max_txn_ops: 65_536,
            max_txn_bytes: 16 * 1024 * 1024,
            max_watch_buffer: 64,
            verify: true,
        }
    }
}

/// A [`Store`] in one file. Share it as `Arc`; dropping the last handle finishes what is queued and
/// frees the file.
pub struct EmbeddedStore {
    shared: Shared,
    commands: Option<SyncSender<Command>>,
    writer: Option<JoinHandle<()>>,
    reads: Arc<Semaphore>,
    clock: Arc<dyn Clock>,
    options: Options,
}

impl EmbeddedStore {
    /// Opens a store file with default options, creating it if there is none. Blocks while it
    /// reads.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]; every variant names the file.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, OpenError> {
        Self::open_with(path, Options::default(), Arc::new(SystemClock::new()))
    }

    /// Opens a store file with the given bounds and clock.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open_with(
        path: impl AsRef<Path>,
        options: Options,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OpenError> {
        let path = path.as_ref();
        let opened = open::open_file(path, options.verify)?;
        Self::start(path, opened, options, clock)
    }

    /// Creates a store in memory, lost when it is dropped.
    ///
    /// # Errors
    ///
    /// [`OpenError::Io`] if no thread can be started.
    pub fn in_memory() -> Result<Self, OpenError> {
        Self::in_memory_with(Options::default(), Arc::new(SystemClock::new()))
    }

    /// Creates a store in memory with the given bounds and clock.
    ///
    /// # Errors
    ///
    /// As [`EmbeddedStore::in_memory`].
    pub fn in_memory_with(options: Options, clock: Arc<dyn Clock>) -> Result<Self, OpenError> {
        Self::start(
            Path::new("(memory)"),
            open::open_backend(InMemoryBackend::new())?,
            options,
            clock,
        )
    }

    fn start(
        path: &Path,
        opened: Opened,
        options: Options,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, OpenError> {
        let (commands, queue) = sync_channel(options.max_queue);
        let (writer, shared) = Writer::new(opened, queue, Arc::clone(&clock), options.clone());
        let writer = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || writer.run())
            .map_err(|error| OpenError::Io { path: path.to_owned(), source: Arc::new(error) })?;
        let reads = Arc::new(Semaphore::new(options.max_reads));
        Ok(Self { shared, commands: Some(commands), writer: Some(writer), reads, clock, options })
    }

    /// Deletes the keys of expired leases at once. For tests that advance a
    /// [`crate::ManualClock`].
    ///
    /// # Errors
    ///
    /// As any write.
    pub async fn sweep(&self) -> Result<(), StoreError> {
        self.write(Body::Sweep).await
    }

    async fn write<T>(&self, body: impl FnOnce(Reply<T>) -> Body) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let command = Command { sent_at: self.clock.now(), body: body(reply) };
        let queue = self.commands.as_ref().ok_or(StoreError::Closed)?;
        match queue.try_send(command) {
            Ok(()) => answer.await.unwrap_or_else(|_| Err(self.writer_error())),
            Err(TrySendError::Full(_)) => {
                Err(StoreError::Overloaded { queue: "write queue", limit: self.options.max_queue })
            }
            Err(TrySendError::Disconnected(_)) => Err(self.writer_error()),
        }
    }

    async fn read<T, F>(&self, read: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Database) -> Result<T, redb::Error> + Send + 'static,
    {
        let Ok(permit) = Arc::clone(&self.reads).try_acquire_owned() else {
            let limit = self.options.max_reads;
            return Err(StoreError::Overloaded { queue: "reads under way", limit });
        };
        let db = Arc::clone(&self.shared.db);
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            read(&db)
        });
        // The task is lost only when the runtime shuts down.
        let result = task.await.map_err(|_| StoreError::Closed)?;
        result.map_err(|error| StoreError::Storage { source: Arc::new(error) })
    }

    /// Returns the reason why the writer has ended.
    fn writer_error(&self) -> StoreError {
        self.shared.failed.get().cloned().unwrap_or(StoreError::Closed)
    }
}

#[async_trait]
impl Store for EmbeddedStore {
    fn limits(&self) -> Limits {
        Limits { txn_ops: self.options.max_txn_ops, txn_bytes: self.options.max_txn_bytes }
    }

    async fn get(&self, key: &[u8]) -> Result<Option<KeyValue>, StoreError> {
        let key = key.to_vec();
        self.read(move |db| tables::read_key(db, &key)).await
    }

    async fn range(&self, prefix: &[u8]) -> Result<Snapshot, StoreError> {
        let prefix = prefix.to_vec();
        self.read(move |db| tables::read_range(db, &prefix)).await
    }

    async fn revision(&self) -> Result<u64, StoreError> {
        self.read(tables::read_revision).await
    }

    async fn txn(&self, txn: Txn) -> Result<TxnOutcome, StoreError> {
        self.limits().check(&txn)?;
        txn.check_overlaps()?;
        self.write(|reply| Body::Txn(txn, reply)).await
    }

    async fn watch(&self, prefix: &[u8], from_revision: u64) -> Result<Watch, StoreError> {
        let from = from_revision.max(1);
        let oldest = self.read(tables::read_oldest).await?;
        if from < oldest {
            return Err(StoreError::Compacted { asked: from, oldest });
        }
        let (sender, receiver) = mpsc::channel(self.options.max_watch_buffer.max(1));
        let pump = Pump {
            db: Arc::downgrade(&self.shared.db),
            newest: self.shared.newest.clone(),
            prefix: prefix.to_vec(),
            next: from,
            sender,
        };
        tokio::spawn(pump.run());
        Ok(Watch::new(receiver))
    }

    async fn grant_lease(&self, ttl: Duration) -> Result<LeaseId, StoreError> {
        if ttl.as_millis() == 0 {
            return Err(StoreError::LeaseTooShort);
        }
        self.write(|reply| Body::Grant(ttl, reply)).await
    }

    async fn keep_alive(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.write(|reply| Body::KeepAlive(lease, reply)).await
    }

    async fn revoke(&self, lease: LeaseId) -> Result<(), StoreError> {
        self.write(|reply| Body::Revoke(lease, reply)).await
    }

    async fn compact(&self, revision: u64) -> Result<(), StoreError> {
        self.write(|reply| Body::Compact(revision, reply)).await
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        drop(self.commands.take());
        if let Some(writer) = self.writer.take() {
            // A panic of the writer was reported already.
            let _ = writer.join();
        }
    }
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbeddedStore").field("options", &self.options).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::error::Error;
    use std::io;
    use std::sync::atomic::{AtomicBool, Ordering};

    use redb::StorageBackend;

    use super::*;

    /// A disk that stops taking writes.
    #[derive(Debug)]
    struct FailingDisk {
        disk: InMemoryBackend,
        broken: Arc<AtomicBool>,
    }

    impl StorageBackend for FailingDisk {
        fn len(&self) -> io::Result<u64> {
            self.disk.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.disk.read(offset, out)
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.disk.set_len(len)
        }

        fn sync_data(&self) -> io::Result<()> {
            if self.broken.load(Ordering::SeqCst) {
                return Err(io::Error::other("disk on fire"));
            }
            self.disk.sync_data()
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            self.disk.write(offset, data)
        }
    }

    #[tokio::test]
    async fn after_a_failed_commit_nothing_is_acknowledged_any_more() {
        let broken = Arc::new(AtomicBool::new(false));
        let disk = FailingDisk { disk: InMemoryBackend::new(), broken: Arc::clone(&broken) };
        let opened = open::open_backend(disk).unwrap();
        let store = EmbeddedStore::start(
            Path::new("disk"),
            opened,
            Options::default(),
            Arc::new(SystemClock::new()),
        )
        .unwrap();
        store.txn(Txn::new().put("a", "1")).await.unwrap();
        broken.store(true, Ordering::SeqCst);
        let (one, two) =
            tokio::join!(store.txn(Txn::new().put("a", "2")), store.txn(Txn::new().put("b", "2")));
        broken.store(false, Ordering::SeqCst);
        for result in [one, two, store.txn(Txn::new().put("c", "2")).await] {
            let error = result.expect_err("the disk failed");
            assert!(matches!(error, StoreError::Storage { .. }), "{error:?}");
            assert!(error.source().unwrap().to_string().contains("disk on fire"), "{error:?}");
        }
    }
}
