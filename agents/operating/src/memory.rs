//! Memory shared with attached processes, for payloads that are too long to go through the socket well.
//!
//! ```text
//!  process ──► ShareMemory ──► a file is made ──► "opened" ──► its name goes; Shared
//!          ──► SendMessage, RunOperation: a range ──► Shared::read (checked, copied)
//!          ◄── messages, results: a range ◄── Shared::lend
//!          ──► ShareMemory: read, ended_parts ──► Shared::take_back
//! ```
//!
//! Where there is no memory, or no room in it, payloads go through the socket.
//!
//! Invariants
//! - SESSION-4: what was lent to a process stays as it is until the process has given it back, or given up the call it
//!   came with, or is gone.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fabricast_memory::{Folder, Half, Memory, MemoryError, Named, Range, Rooms};
use fabricast_proto::v1;
use fabricast_rpc::Reason;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status, Streaming};
use tracing::warn;

use crate::host::lock;
use crate::parts::first_word;
use crate::processes::{AnswerStream, ProcessServer, user};
use crate::sessions::Session;

/// Bytes of each half: four of the longest messages. Memory is used for as much of it as was ever needed at one time.
const HALF: u64 = 4 << 20;
/// A process opens the file in this time.
const OPENING: Duration = Duration::from_secs(5);
/// What a process may say about its failure, in characters.
const LONGEST_FAILURE: usize = 200;

/// Where the memory of processes is made.
#[derive(Debug, Default)]
pub(crate) struct Memories {
    folder: Option<Folder>,
    said: AtomicBool, // that something does not work
}

/// Memory shared with one process.
#[derive(Debug)]
pub(crate) struct Shared {
    memory: Memory,
    least: usize, // bytes; what is shorter goes through the socket
    lent: Mutex<Lent>,
}

/// How far a session's process has come with sharing memory.
#[derive(Debug, Default)]
pub(crate) enum Sharing {
    /// It does not, or not any more.
    #[default]
    No,
    /// It has been told of a file.
    Begun,
    /// It has opened it.
    Shared(Arc<Shared>),
}

/// A call that shares memory; that ends when this is dropped.
#[derive(Debug)]
struct SharingCall(Arc<Session>);

/// What the process may still read.
#[derive(Debug)]
struct Lent {
    rooms: Rooms,
    parts: BTreeMap<u64, u64>, // by offset: the call of `TakePart` that it went out with
    open: BTreeSet<u64>,       // calls of `TakePart` that something may go out with
    over: bool,                // nothing more goes out
}

impl Memories {
    /// Memory in files of `folder`, for the agent that listens at `socket`; `None`: there is to be none.
    pub(crate) fn new(folder: Option<&Path>, socket: Option<&Path>) -> Self {
        let folder = folder.zip(socket).map(|(folder, socket)| Folder::new(folder, socket, HALF));
        let left = folder.as_ref().map_or(0, Folder::sweep);
        if left > 0 {
            warn!(attempt = left, "files of an agent that was killed removed");
        }
        Self { folder, said: AtomicBool::new(false) }
    }

    fn make(&self, user: Option<u32>) -> Result<Named, Status> {
        let none = |text: String| Reason::NoSharedMemory.status(text, &[]);
        let Some(folder) = &self.folder else {
            return Err(none("this agent shares no memory".to_owned()));
        };
        folder.create(user).map_err(|error| {
            let why = error.source().map_or(String::new(), |source| format!(": {source}"));
            if !matches!(error, MemoryError::AnotherUser { .. }) {
                self.complain(&format!("{error}{why}"));
            }
            none(format!("no memory can be shared: {error}{why}"))
        })
    }

    /// Takes what a process says about memory that it cannot use.
    fn hear(&self, failure: &str) {
        if !failure.is_empty() {
            let failure: String = failure.chars().take(LONGEST_FAILURE).collect();
            self.complain(&format!("a process says: {failure:?}"));
        }
    }

    /// Says that memory cannot be used as intended: once, for it will be so for all processes.
    fn complain(&self, reason: &str) {
        if !self.said.swap(true, Ordering::Relaxed) {
            warn!(reason, "payloads go through the socket, memory cannot be shared");
        }
    }
}

impl Shared {
    fn new(memory: Memory, least: u64) -> Self {
        let rooms = Rooms::new(Half::Agent, memory.half());
        let lent = Lent { rooms, parts: BTreeMap::new(), open: BTreeSet::new(), over: false };
        let least = usize::try_from(least).unwrap_or(usize::MAX);
        Self { memory, least, lent: Mutex::new(lent) }
    }

    /// Copies what a process has written; `field` is the one that names the range.
    fn read(&self, field: &str, range: v1::MemoryRange) -> Result<Vec<u8>, Status> {
        let range = Range { offset: range.offset_bytes, length: range.length_bytes };
        let refused = |what: String| range_invalid(field, &what);
        Half::Process
            .check(self.memory.half(), range)
            .map_err(|error| refused(format!("{field}.{error}")))?;
        self.memory.read(range).map_err(|error| refused(format!("{field}: {error}")))
    }

    /// Lends bytes to the process, if they are worth it and there is room.
    ///
    /// - `part`: the call of `TakePart` that they go out with, if it is one.
    pub(crate) fn lend(
        &self,
        memories: &Memories,
        part: Option<u64>,
        bytes: &[u8],
    ) -> Option<v1::MemoryRange> {
        if bytes.len() < self.least {
            return None;
        }
        let mut lent = lock(&self.lent);
        if lent.over || part.is_some_and(|part| !lent.open.contains(&part)) {
            return None;
        }
        let range = lent.rooms.take(u64::try_from(bytes.len()).ok()?)?;
        lent.parts.extend(part.map(|part| (range.offset, part)));
        drop(lent);
        if let Err(error) = self.memory.write(range.offset, bytes) {
            memories.complain(&error.to_string());
            lock(&self.lent).give_back(range.offset);
            return None;
        }
        Some(v1::MemoryRange { offset_bytes: range.offset, length_bytes: range.length })
    }

    /// Lets messages of a call of `TakePart` come through the memory.
    pub(crate) fn open_part(&self, part: u64) {
        lock(&self.lent).open.insert(part);
    }

    /// Ends that. What has gone out may still be read.
    pub(crate) fn close_part(&self, part: u64) {
        lock(&self.lent).open.remove(&part);
    }

    fn take_back(&self, request: &v1::ShareMemoryRequest) -> Result<(), Status> {
        let mut lent = lock(&self.lent);
        for offset in &request.read {
            if !lent.give_back(*offset) {
                let what = format!("read: nothing was lent at {offset}");
                return Err(range_invalid("read", &what));
            }
        }
        for part in &request.ended_parts {
            lent.open.remove(part);
            let came_with = lent.parts.iter().filter(|(_, with)| *with == part);
            for offset in came_with.map(|(offset, _)| *offset).collect::<Vec<_>>() {
                lent.give_back(offset);
            }
        }
        Ok(())
    }
}

impl Lent {
    fn give_back(&mut self, offset: u64) -> bool {
        self.parts.remove(&offset);
        self.rooms.give_back(offset)
    }
}

impl ProcessServer {
    /// Shares memory with a process for as long as the answer is listened to.
    pub(crate) async fn begin_sharing(
        &self,
        request: Request<Streaming<v1::ShareMemoryRequest>>,
    ) -> Result<AnswerStream<v1::ShareMemoryResponse>, Status> {
        let user = user(&request);
        let mut requests = request.into_inner();
        let first = first_word(requests.message()).await?;
        let call = self.host().0.sessions.call(first.session, user)?;
        let sharing = SharingCall::begin(&call.session)?;
        let named = self.host().0.memories.make(user)?;
        let answer = v1::ShareMemoryResponse {
            memory: Some(v1::SharedMemory {
                path: named.path().display().to_string(),
                device: named.identity().device,
                inode: named.identity().inode,
                half_bytes: HALF,
            }),
        };
        let (tell, told) = mpsc::channel(1);
        self.host().spawn(|host| async move {
            let over = sharing.0.over.clone();
            let refused = tokio::select! {
                ended = sharing.last(&host.0.memories, (named, first.least_bytes), requests, &tell) => ended.err(),
                () = tell.closed() => None,
                () = over.cancelled() => None,
            };
            drop(sharing);
            if let Some(status) = refused {
                // Who listens no more knows by itself that it has ended.
                let _ = tell.send(Err(status)).await;
            }
        });
        Ok(Box::pin(tokio_stream::once(Ok(answer)).chain(ReceiverStream::new(told))))
    }
}

impl SharingCall {
    fn begin(session: &Arc<Session>) -> Result<Self, Status> {
        let mut sharing = lock(&session.memory);
        if !matches!(*sharing, Sharing::No) {
            let text = "session: memory is shared with the process already";
            return Err(Reason::MemoryShared.status(text, &[]));
        }
        *sharing = Sharing::Begun;
        Ok(Self(Arc::clone(session)))
    }

    /// Shares the memory once the process has opened it, until it ends the call or gives back what it has not got.
    async fn last(
        &self,
        memories: &Memories,
        (named, least): (Named, u64),
        mut requests: Streaming<v1::ShareMemoryRequest>,
        tell: &mpsc::Sender<Result<v1::ShareMemoryResponse, Status>>,
    ) -> Result<(), Status> {
        let second = tokio::time::timeout(OPENING, requests.message()).await;
        let Ok(Ok(Some(second))) = second else { return Ok(()) };
        memories.hear(&second.failure);
        if !second.opened {
            return Ok(());
        }
        let shared = Arc::new(Shared::new(named.forget_name(), least));
        *lock(&self.0.memory) = Sharing::Shared(Arc::clone(&shared));
        // Who listens no more has ended the call.
        let _ = tell.send(Ok(v1::ShareMemoryResponse::default())).await;
        while let Ok(Some(request)) = requests.message().await {
            memories.hear(&request.failure);
            shared.take_back(&request)?;
        }
        Ok(())
    }
}

impl Drop for SharingCall {
    fn drop(&mut self) {
        let before = std::mem::take(&mut *lock(&self.0.memory));
        if let Sharing::Shared(shared) = before {
            lock(&shared.lent).over = true; // calls that are under way answer through the socket
        }
    }
}

impl Session {
    /// The memory that is shared with the process, if any is.
    pub(crate) fn shared(&self) -> Option<Arc<Shared>> {
        match &*lock(&self.memory) {
            Sharing::Shared(shared) => Some(Arc::clone(shared)),
            Sharing::No | Sharing::Begun => None,
        }
    }

    /// Copies what the process has written into a range that the field `field` names; `None` if it names none.
    pub(crate) fn read_shared(
        &self,
        field: &str,
        range: Option<v1::MemoryRange>,
    ) -> Result<Option<Vec<u8>>, Status> {
        let Some(range) = range else { return Ok(None) };
        let shared = self.shared().ok_or_else(|| {
            let text = format!("{field}: no memory is shared with the process");
            Reason::NoSharedMemory.status(text, &[("field", field)])
        })?;
        shared.read(field, range).map(Some)
    }
}

/// A refusal of what a process says of the memory.
pub(crate) fn range_invalid(field: &str, what: &str) -> Status {
    Reason::RangeInvalid.status(what, &[("field", field)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use fabricast_memory::{Identity, open};
    use fabricast_rpc::reason_of;
    use std::os::unix::fs::MetadataExt as _;

    fn shared(least: u64) -> Shared {
        let folder = Folder::new(Path::new("/dev/shm"), Path::new("/test/agent.sock"), 100);
        Shared::new(folder.create(None).unwrap().forget_name(), least)
    }

    fn at(range: Option<v1::MemoryRange>) -> Option<u64> {
        range.map(|range| range.offset_bytes)
    }

    #[test]
    fn what_is_lent_stays_until_it_is_given_back_or_its_call_is_given_up() {
        let (shared, none) = (shared(10), Memories::default());
        let lend = |part, length| at(shared.lend(&none, part, &vec![7; length]));
        assert_eq!(lend(None, 9), None, "it is too short");
        assert_eq!(lend(Some(3), 10), None, "there is no such call");
        shared.open_part(3);
        assert_eq!(
            (lend(Some(3), 40), lend(None, 40), lend(Some(3), 40)),
            (Some(100), Some(140), None)
        );
        let say = |read: &[u64], ended: &[u64]| v1::ShareMemoryRequest {
            read: read.to_vec(),
            ended_parts: ended.to_vec(),
            ..Default::default()
        };
        let refused = shared.take_back(&say(&[101], &[])).unwrap_err();
        assert_eq!(reason_of(&refused).as_deref(), Some("RANGE_INVALID"));
        shared.close_part(3);
        assert_eq!(lend(None, 40), None, "what went out with the call may still be read");
        shared.take_back(&say(&[], &[3, 8])).unwrap();
        assert_eq!((lend(Some(3), 40), lend(None, 40)), (None, Some(100)));
        shared.take_back(&say(&[100, 140], &[])).unwrap();
        assert_eq!(lend(None, 100), Some(100), "all of it is free again");
    }

    #[test]
    fn a_system_that_writes_no_more_is_said_and_takes_no_room() {
        let memories = Memories::default();
        let folder = Folder::new(Path::new("/dev/shm"), Path::new("/test/agent.sock"), 100);
        let named = folder.create(None).unwrap();
        let made = std::fs::metadata(named.path()).unwrap();
        let identity = Identity { device: made.dev(), inode: made.ino() };
        // Where no file reaches, every write is refused, as it is when there is no memory left.
        let shared = Shared::new(open(named.path(), identity, 1 << 63).unwrap(), 1);
        assert_eq!(shared.lend(&memories, None, b"payload"), None);
        assert!(memories.said.load(Ordering::Relaxed));
        assert!(lock(&shared.lent).rooms.is_empty());
    }

    #[test]
    fn only_what_lies_in_the_half_of_the_process_is_read() {
        let shared = shared(1);
        let field = "shared_payload";
        let range = |offset_bytes, length_bytes| v1::MemoryRange { offset_bytes, length_bytes };
        assert_eq!(shared.read(field, range(90, 10)).unwrap(), [0; 10]);
        for (range, names) in [(range(90, 11), "length_bytes"), (range(100, 1), "offset_bytes")] {
            let refused = shared.read(field, range).unwrap_err();
            assert!(refused.message().starts_with(&format!("{field}.{names}: ")), "{refused}");
        }
    }
}
