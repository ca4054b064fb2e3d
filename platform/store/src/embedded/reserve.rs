//! Disk space in reserve, so that a full disk refuses changes and does not break the store.
//!
//! After one failed write the database takes no more, and cannot be read either. So a file beside
//! the store holds some space. If the disk is full during a commit, that file gives its space to
//! the commit. Until it has the space back, the writer refuses transactions that need any.
//!
//! A file system that stores zeros without allocating them (by compression) keeps nothing in
//! reserve.
//!
//! Invariants
//! - RESERVE-1: while the disk is full, a transaction that needs space is refused and changes
//!   nothing, and reads and deletions succeed, as long as the reserve is larger than what one batch
//!   takes.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use redb::{BackendError, StorageBackend};
use tracing::{info, warn};

/// Least reserve, in bytes.
const LEAST: u64 = 16 * 1024 * 1024;
/// Reserve for each byte of a batch: the pages on the way to each changed one are copied.
const PER_BYTE: u64 = 4;
/// Least space that is given away at once, in bytes.
const PORTION: u64 = 1024 * 1024;
/// Zeros that are written at once.
static ZEROS: [u8; 64 * 1024] = [0; 64 * 1024];

/// Allocated space outside of the store.
pub(crate) trait Space: Debug + Send {
    /// Frees or allocates space, up to `bytes` in all. Returns the bytes that are allocated then.
    ///
    /// # Errors
    ///
    /// That of the disk, unless it is full.
    fn resize(&mut self, bytes: u64) -> io::Result<u64>;
}

/// A file of zeros.
#[derive(Debug)]
struct ReserveFile {
    path: PathBuf,
    /// Opened at the first use: a store that is only read needs no reserve.
    file: Option<File>,
}

impl Space for ReserveFile {
    fn resize(&mut self, bytes: u64) -> io::Result<u64> {
        if self.file.is_none() {
            let mut options = OpenOptions::new();
            let opened = options.write(true).create(true).truncate(false).open(&self.path);
            match opened {
                Err(error) if is_full(&error) => return Ok(0),
                opened => self.file = Some(opened?),
            }
        }
        let Some(file) = &mut self.file else { return Ok(0) };
        let mut length = file.metadata()?.len();
        if bytes <= length {
            file.set_len(bytes)?;
            return Ok(bytes);
        }
        file.seek(SeekFrom::Start(length))?;
        while length < bytes {
            let count = usize::try_from(bytes - length).map_or(ZEROS.len(), |n| n.min(ZEROS.len()));
            match file.write(&ZEROS[..count]) {
                Ok(written) => length += written as u64,
                Err(error) if is_full(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(length)
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// The reserve of a store; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Reserve(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// None if there is no reserve: the store is in memory, or the file cannot be made.
    space: Option<Box<dyn Space>>,
    held: u64,
    target: u64,
    is_short: bool,
}

impl Reserve {
    /// Keeps space in a file beside the store.
    pub(crate) fn beside(store: &Path) -> Self {
        let path = PathBuf::from(format!("{}.reserve", store.display()));
        Self::of(Some(Box::new(ReserveFile { path, file: None })))
    }

    /// Keeps no space.
    pub(crate) fn none() -> Self {
        Self::of(None)
    }

    pub(crate) fn of(space: Option<Box<dyn Space>>) -> Self {
        let state = State { space, held: 0, target: LEAST, is_short: false };
        Self(Arc::new(Mutex::new(state)))
    }

    /// Takes space for a batch of this many bytes. Returns whether the reserve has all of it.
    pub(crate) fn refill(&self, batch: usize) -> bool {
        let mut state = self.0.lock();
        state.target = state.target.max(PER_BYTE.saturating_mul(batch as u64));
        let (target, held) = (state.target, state.held);
        if held < target
            && let Some(space) = &mut state.space
        {
            match space.resize(target) {
                Ok(held) => state.held = held,
                Err(error) => {
                    warn!(%error, "store has no reserve of disk space");
                    state.space = None;
                }
            }
        }
        let is_short = state.space.is_some() && state.held < state.target;
        if is_short && !state.is_short {
            warn!("disk of the store is full: changes that need space are refused");
        } else if state.is_short && !is_short {
            info!("disk of the store has space again");
        }
        state.is_short = is_short;
        !is_short
    }

    /// Gives space to a write that found none. Returns false if there is nothing left to give.
    fn give(&self, bytes: u64) -> bool {
        let mut state = self.0.lock();
        if state.held == 0 {
            return false;
        }
        let left = state.held.saturating_sub(bytes.max(PORTION));
        let freed = state.space.as_mut().map(|space| space.resize(left));
        state.held = left;
        matches!(freed, Some(Ok(_)))
    }
}

/// A storage whose writes take space from a reserve when the disk is full.
#[derive(Debug)]
pub(crate) struct ReservedBackend<B> {
    pub(crate) backend: B,
    pub(crate) reserve: Reserve,
}

impl<B: StorageBackend> ReservedBackend<B> {
    fn with_reserve(&self, bytes: usize, attempt: impl Fn(&B) -> io::Result<()>) -> io::Result<()> {
        loop {
            match attempt(&self.backend) {
                Err(error) if is_full(&error) && self.reserve.give(bytes as u64) => {}
                ended => return ended,
            }
        }
    }
}

impl<B: StorageBackend> StorageBackend for ReservedBackend<B> {
    fn len(&self) -> io::Result<u64> {
        self.backend.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.backend.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.with_reserve(0, |backend| backend.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.backend.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.with_reserve(data.len(), |backend| backend.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.backend.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.backend.try_lock_range(start, end)
    }

    fn try_lock_shared_range(
        &self,
        start: Bound<u64>,
        end: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.backend.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.backend.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.backend.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.backend.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.backend.query_lock_range(start, end)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use redb::backends::InMemoryBackend;

    use super::*;
    use crate::clock::SystemClock;
    use crate::embedded::{EmbeddedStore, Options, open};
    use crate::error::StoreError;
    use crate::store::Store;
    use crate::txn::{Txn, TxnOutcome};

    const PAGE: u64 = 4096;

    /// Pages that are free on a disk.
    type Free = Arc<Mutex<u64>>;

    fn take(free: &Free, pages: u64) -> io::Result<()> {
        let mut free = free.lock();
        let left = free.checked_sub(pages).ok_or(ErrorKind::StorageFull)?;
        *free = left;
        Ok(())
    }

    /// A file in memory, which takes its pages from a disk when they are first written.
    #[derive(Debug)]
    struct SmallDisk {
        file: InMemoryBackend,
        written: Mutex<BTreeSet<u64>>,
        free: Free,
    }

    impl StorageBackend for SmallDisk {
        fn len(&self) -> io::Result<u64> {
            self.file.len()
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            self.file.read(offset, out)
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.file.set_len(len)
        }

        fn sync_data(&self) -> io::Result<()> {
            self.file.sync_data()
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            let mut written = self.written.lock();
            let pages = offset / PAGE..(offset + data.len() as u64).div_ceil(PAGE);
            let new: Vec<u64> = pages.filter(|page| !written.contains(page)).collect();
            take(&self.free, new.len() as u64)?;
            written.extend(new);
            self.file.write(offset, data)
        }
    }

    /// A reserve on the same disk.
    #[derive(Debug)]
    struct DiskSpace {
        held: u64,
        free: Free,
    }

    impl Space for DiskSpace {
        fn resize(&mut self, bytes: u64) -> io::Result<u64> {
            let wanted = bytes / PAGE;
            if wanted < self.held {
                *self.free.lock() += self.held - wanted;
                self.held = wanted;
            }
            while self.held < wanted && take(&self.free, 1).is_ok() {
                self.held += 1;
            }
            Ok(self.held * PAGE)
        }
    }

    fn store(free: &Free) -> EmbeddedStore {
        let file = InMemoryBackend::new();
        let disk = SmallDisk { file, written: Mutex::default(), free: Arc::clone(free) };
        let reserve = Reserve::of(Some(Box::new(DiskSpace { held: 0, free: Arc::clone(free) })));
        let opened = open::open_backend_with(disk, reserve).unwrap();
        let clock = Arc::new(SystemClock::new());
        EmbeddedStore::start(Path::new("disk"), opened, Options::default(), clock).unwrap()
    }

    fn key(number: u32) -> String {
        format!("key/{number}")
    }

    /// Writes until the disk is full; returns the number of keys that were acknowledged.
    async fn fill(store: &EmbeddedStore, first: u32) -> u32 {
        let mut next = first;
        loop {
            match store.txn(Txn::new().put(key(next), vec![7; 20_000])).await {
                Ok(TxnOutcome::Committed { .. }) => next += 1,
                Err(StoreError::NoSpace) => return next,
                other => panic!("{other:?}"),
            }
        }
    }

    #[tokio::test]
    async fn a_full_disk_refuses_additions_only_and_takes_them_again_when_it_has_room() {
        let free: Free = Arc::new(Mutex::new(24 * 1024 * 1024 / PAGE));
        let store = store(&free);
        let count = fill(&store, 0).await;
        assert!(count > 10, "{count}");
        // Deletions and essential changes copy pages, too: from the reserve.
        for number in 0..40 {
            store.txn(Txn::new().delete(key(number))).await.unwrap();
            let note = Txn::new().essential().put("note", number.to_string());
            store.txn(note).await.unwrap();
        }
        assert!(matches!(store.txn(Txn::new().put("a", "b")).await, Err(StoreError::NoSpace)));
        assert_eq!(store.get(b"a").await.unwrap(), None);
        let left = store.range(b"key/").await.unwrap().entries.len();
        assert_eq!(left, usize::try_from(count).unwrap() - 40);

        *free.lock() += 8 * 1024 * 1024 / PAGE;
        let more = fill(&store, count).await;
        assert!(more > count, "{more}");
        let left = store.range(b"key/").await.unwrap().entries.len();
        assert_eq!(left, usize::try_from(more).unwrap() - 40);
    }

    #[tokio::test]
    async fn a_file_gives_its_space_and_takes_it_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("records.redb");
        let store = EmbeddedStore::open(&path).unwrap();
        let reserve = folder.path().join("records.redb.reserve");
        assert!(!reserve.exists(), "nothing was written yet");
        store.txn(Txn::new().put("a", "b")).await.unwrap();
        assert_eq!(reserve.metadata().unwrap().len(), LEAST);

        let reserve = Reserve::beside(&path);
        assert!(reserve.refill(0));
        assert!(reserve.give(10) && reserve.give(3 * PORTION));
        let length =
            || std::fs::metadata(folder.path().join("records.redb.reserve")).unwrap().len();
        assert_eq!(length(), LEAST - 4 * PORTION);
        assert!(reserve.refill(5 * 1024 * 1024));
        assert_eq!(length(), 20 * 1024 * 1024);
    }

    #[test]
    fn a_store_whose_folder_takes_no_file_works_without_a_reserve() {
        let reserve = Reserve::beside(Path::new("/proc/none/records.redb"));
        assert!(reserve.refill(0) && reserve.refill(1));
        assert!(!reserve.give(1));
    }
}
