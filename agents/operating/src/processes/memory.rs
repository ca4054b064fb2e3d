//! Memory shared with attached processes, for payloads too long for the socket.
//!
//! ```text
//!  process ──► ShareMemory ──► a file is made ──► "opened" ──► its name goes; Shared
//!          ──► SendMessage, RunOperation: a range ──► Shared::read (checked, copied)
//!          ◄── messages, results: a range ◄── Shared::lend
//!          ──► ShareMemory: read, ended_parts ──► Shared::take_requests
//! ```
//!
//! Where there is no memory, or no room in it, payloads go through the socket.
//!
//! Invariants
//! - SESSION-4: what was lent to a process stays as it is until the process has given it back, or
//!   given up the call it came with, or is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fabricast_memory::{Folder, Half, Memory, MemoryError, Named, Range, RangeAllocator};
use fabricast_proto::v1;
use fabricast_rpc::Reason;
use parking_lot::Mutex;
use thiserror::Error;
use tokio_stream::{Stream, StreamExt};
use tracing::warn;

use super::sessions::Session;

/// Bytes of each half: four of the longest messages. Memory is used for as much of it as was ever
/// needed at one time.
pub(crate) const HALF: u64 = 4 << 20;
/// Timeout for a process to open the file.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);
/// Characters of a process's failure that are logged.
const MAX_FAILURE: usize = 200;

/// Makes the memory of processes.
#[derive(Debug, Default)]
pub(crate) struct Memories {
    folder: Option<Folder>,
    has_warned: AtomicBool,
}

/// Memory shared with one process.
#[derive(Debug)]
pub(crate) struct Shared {
    memory: Memory,
    least: usize, // bytes; what is shorter goes through the socket
    lent: Mutex<Lent>,
}

/// State of the memory shared with a session's process.
#[derive(Debug, Default)]
pub(crate) enum Sharing {
    /// Nothing is shared.
    #[default]
    No,
    /// The process has been told of a file and has not opened it.
    Begun,
    /// The process has opened the file.
    Shared(Arc<Shared>),
}

/// A call that shares memory; the sharing ends when this is dropped.
#[derive(Debug)]
pub(crate) struct SharingCall(Arc<Session>);

/// The refusal of shared memory, or of a range of it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum SharingError {
    #[error("this agent shares no memory")]
    Disabled,
    #[error("no memory can be shared: {why}")]
    Failed { why: String },
    #[error("session: memory is shared with the process already")]
    SharedAlready,
    #[error("{field}: no memory is shared with the process")]
    NotShared { field: &'static str },
    #[error("{what}")]
    RangeInvalid { field: &'static str, what: String },
}

impl SharingError {
    pub(crate) fn range_invalid(field: &'static str, what: impl Into<String>) -> Self {
        Self::RangeInvalid { field, what: what.into() }
    }

    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::Disabled | Self::Failed { .. } | Self::NotShared { .. } => Reason::NoSharedMemory,
            Self::SharedAlready => Reason::MemoryShared,
            Self::RangeInvalid { .. } => Reason::RangeInvalid,
        }
    }
}

/// Ranges that the process may still read.
#[derive(Debug)]
struct Lent {
    ranges: RangeAllocator,
    /// By offset: the call of `TakePart` that a range was lent to.
    parts: BTreeMap<u64, u64>,
    /// Calls of `TakePart` that ranges may be lent to.
    open: BTreeSet<u64>,
    /// Nothing more is lent.
    is_over: bool,
}

impl Memories {
    /// Makes memory in files of `folder`, for the agent that listens at `socket`; none if one of
    /// them is missing.
    pub(crate) fn new(folder: Option<&Path>, socket: Option<&Path>) -> Self {
        let folder = folder.zip(socket).map(|(folder, socket)| Folder::new(folder, socket, HALF));
        let left = folder.as_ref().map_or(0, Folder::sweep);
        if left > 0 {
            warn!(files = left, "files of an agent that was killed removed");
        }
        Self { folder, has_warned: AtomicBool::new(false) }
    }

    pub(crate) fn make(&self, user: Option<u32>) -> Result<Named, SharingError> {
        let folder = self.folder.as_ref().ok_or(SharingError::Disabled)?;
        folder.create(user).map_err(|error| {
            let cause = error.source().map_or(String::new(), |source| format!(": {source}"));
            let why = format!("{error}{cause}");
            if !matches!(error, MemoryError::AnotherUser { .. }) {
                self.warn_once(&why);
            }
            SharingError::Failed { why }
        })
    }

    /// Logs the failure of a process to use the memory; empty if it has none.
    fn log_failure(&self, failure: &str) {
        if !failure.is_empty() {
            let failure: String = failure.chars().take(MAX_FAILURE).collect();
            self.warn_once(&format!("a process reports: {failure:?}"));
        }
    }

    /// Logs that memory cannot be used as intended: once, since it will be so for all processes.
    fn warn_once(&self, reason: &str) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            warn!(reason, "payloads go through the socket, memory cannot be shared");
        }
    }
}

impl Shared {
    fn new(memory: Memory, least: u64) -> Self {
        let ranges = RangeAllocator::new(Half::Agent, memory.half());
        let lent = Lent { ranges, parts: BTreeMap::new(), open: BTreeSet::new(), is_over: false };
        let least = usize::try_from(least).unwrap_or(usize::MAX);
        Self { memory, least, lent: Mutex::new(lent) }
    }

    /// Copies a range that a process has written.
    ///
    /// - `field`: the field that gives the range.
    fn read(&self, field: &'static str, range: v1::MemoryRange) -> Result<Vec<u8>, SharingError> {
        let range = Range { offset: range.offset_bytes, length: range.length_bytes };
        let refused = |what: String| SharingError::range_invalid(field, what);
        Half::Process
            .check(self.memory.half(), range)
            .map_err(|error| refused(format!("{field}.{error}")))?;
        self.memory.read(range).map_err(|error| refused(format!("{field}: {error}")))
    }

    /// Lends bytes to the process, if they are long enough and there is room.
    ///
    /// - `part`: the call of `TakePart` that they are lent to, if it is one.
    pub(crate) fn lend(
        &self,
        memories: &Memories,
        part: Option<u64>,
        bytes: &[u8],
    ) -> Option<v1::MemoryRange> {
        if bytes.len() < self.least {
            return None;
        }
        let mut lent = self.lent.lock();
        if lent.is_over || part.is_some_and(|part| !lent.open.contains(&part)) {
            return None;
        }
        let range = lent.ranges.allocate(u64::try_from(bytes.len()).ok()?)?;
        lent.parts.extend(part.map(|part| (range.offset, part)));
        drop(lent);
        if let Err(error) = self.memory.write(range.offset, bytes) {
            memories.warn_once(&error.to_string());
            self.lent.lock().give_back(range.offset);
            return None;
        }
        Some(v1::MemoryRange { offset_bytes: range.offset, length_bytes: range.length })
    }

    /// Lets messages of a call of `TakePart` go through the memory.
    pub(crate) fn open_part(&self, part: u64) {
        self.lent.lock().open.insert(part);
    }

    /// Ends that. Ranges that were lent may still be read.
    pub(crate) fn close_part(&self, part: u64) {
        self.lent.lock().open.remove(&part);
    }

    /// Takes back the ranges that the process has read or given up.
    fn take_requests(&self, request: &v1::ShareMemoryRequest) -> Result<(), SharingError> {
        let mut lent = self.lent.lock();
        for offset in &request.read {
            if !lent.give_back(*offset) {
                let what = format!("read: nothing was lent at {offset}");
                return Err(SharingError::range_invalid("read", what));
            }
        }
        for part in &request.ended_parts {
            lent.open.remove(part);
            let of_part = lent.parts.iter().filter(|(_, of)| *of == part);
            for offset in of_part.map(|(offset, _)| *offset).collect::<Vec<_>>() {
                lent.give_back(offset);
            }
        }
        Ok(())
    }
}

impl Lent {
    fn give_back(&mut self, offset: u64) -> bool {
        self.parts.remove(&offset);
        self.ranges.free(offset)
    }
}

impl SharingCall {
    /// Begins to share memory with a session's process.
    pub(crate) fn begin(session: &Arc<Session>) -> Result<Self, SharingError> {
        let mut sharing = session.memory.lock();
        if !matches!(*sharing, Sharing::No) {
            return Err(SharingError::SharedAlready);
        }
        *sharing = Sharing::Begun;
        Ok(Self(Arc::clone(session)))
    }

    /// Waits until the process has opened the file. Returns the memory; `None` if the process ends
    /// the call or cannot use it.
    ///
    /// - `least_bytes`: what is shorter goes through the socket.
    pub(crate) async fn opened(
        &self,
        memories: &Memories,
        named: Named,
        least_bytes: u64,
        requests: &mut (impl Stream<Item = v1::ShareMemoryRequest> + Unpin),
    ) -> Option<Arc<Shared>> {
        let second = tokio::time::timeout(OPEN_TIMEOUT, requests.next()).await;
        let second = second.ok().flatten()?;
        memories.log_failure(&second.failure);
        if !second.opened {
            return None;
        }
        let shared = Arc::new(Shared::new(named.forget_name(), least_bytes));
        *self.0.memory.lock() = Sharing::Shared(Arc::clone(&shared));
        Some(shared)
    }

    /// Serves the process until it ends the call.
    ///
    /// # Errors
    ///
    /// [`SharingError::RangeInvalid`] if it gives back what it was not lent.
    pub(crate) async fn serve(
        &self,
        memories: &Memories,
        shared: &Shared,
        requests: &mut (impl Stream<Item = v1::ShareMemoryRequest> + Unpin),
    ) -> Result<(), SharingError> {
        while let Some(request) = requests.next().await {
            memories.log_failure(&request.failure);
            shared.take_requests(&request)?;
        }
        Ok(())
    }

    /// Waits for the end of the session.
    pub(crate) async fn session_over(&self) {
        self.0.over.cancelled().await;
    }
}

impl Drop for SharingCall {
    fn drop(&mut self) {
        let before = std::mem::take(&mut *self.0.memory.lock());
        if let Sharing::Shared(shared) = before {
            shared.lent.lock().is_over = true; // calls in flight answer through the socket
        }
    }
}

impl Session {
    /// The memory that is shared with the process, if any is.
    pub(crate) fn shared(&self) -> Option<Arc<Shared>> {
        match &*self.memory.lock() {
            Sharing::Shared(shared) => Some(Arc::clone(shared)),
            Sharing::No | Sharing::Begun => None,
        }
    }

    /// Copies a range that the process has written; `None` if there is no range.
    ///
    /// - `field`: the field that gives the range.
    pub(crate) fn read_shared(
        &self,
        field: &'static str,
        range: Option<v1::MemoryRange>,
    ) -> Result<Option<Vec<u8>>, SharingError> {
        let Some(range) = range else { return Ok(None) };
        let shared = self.shared().ok_or(SharingError::NotShared { field })?;
        shared.read(field, range).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricast_memory::{Identity, open};
    use std::os::unix::fs::MetadataExt as _;

    fn shared(least: u64) -> Shared {
        let folder = Folder::new(Path::new("/dev/shm"), Path::new("/test/agent.sock"), 100);
        Shared::new(folder.create(None).unwrap().forget_name(), least)
    }

    fn at(range: Option<v1::MemoryRange>) -> Option<u64> {
        range.map(|range| range.offset_bytes)
    }

    #[test]
    fn a_lent_range_stays_until_it_is_given_back_or_its_call_is_given_up() {
        let (shared, none) = (shared(10), Memories::default());
        let lend = |part, length| at(shared.lend(&none, part, &vec![7; length]));
        assert_eq!(lend(None, 9), None, "it is too short");
        assert_eq!(lend(Some(3), 10), None, "there is no such call");
        shared.open_part(3);
        assert_eq!(
            (lend(Some(3), 40), lend(None, 40), lend(Some(3), 40)),
            (Some(100), Some(140), None)
        );
        let request = |read: &[u64], ended: &[u64]| v1::ShareMemoryRequest {
            read: read.to_vec(),
            ended_parts: ended.to_vec(),
            ..Default::default()
        };
        let refused = shared.take_requests(&request(&[101], &[])).unwrap_err();
        assert_eq!(refused.reason(), Reason::RangeInvalid);
        shared.close_part(3);
        assert_eq!(lend(None, 40), None, "a range lent to the call may still be read");
        shared.take_requests(&request(&[], &[3, 8])).unwrap();
        assert_eq!((lend(Some(3), 40), lend(None, 40)), (None, Some(100)));
        shared.take_requests(&request(&[100, 140], &[])).unwrap();
        assert_eq!(lend(None, 100), Some(100), "all of it is free again");
    }

    #[test]
    fn a_failed_write_is_logged_and_takes_no_room() {
        let memories = Memories::default();
        let folder = Folder::new(Path::new("/dev/shm"), Path::new("/test/agent.sock"), 100);
        let named = folder.create(None).unwrap();
        let made = std::fs::metadata(named.path()).unwrap();
        let identity = Identity { device: made.dev(), inode: made.ino() };
        // Where no file reaches, every write is refused, as it is when there is no memory left.
        let shared = Shared::new(open(named.path(), identity, 1 << 63).unwrap(), 1);
        assert_eq!(shared.lend(&memories, None, b"payload"), None);
        assert!(memories.has_warned.load(Ordering::Relaxed));
        assert!(shared.lent.lock().ranges.is_empty());
    }

    #[test]
    fn only_the_half_of_the_process_is_read() {
        let shared = shared(1);
        let field = "shared_payload";
        let range = |offset_bytes, length_bytes| v1::MemoryRange { offset_bytes, length_bytes };
        assert_eq!(shared.read(field, range(90, 10)).unwrap(), [0; 10]);
        for (range, names) in [(range(90, 11), "length_bytes"), (range(100, 1), "offset_bytes")] {
            let refused = shared.read(field, range).unwrap_err();
            assert!(refused.to_string().starts_with(&format!("{field}.{names}: ")), "{refused}");
        }
    }
}
