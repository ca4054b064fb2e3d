//! Memory shared with the agent, for payloads that are too long to go through the socket well.
//!
//! Whoever has none, or no room in it, sends and gets payloads through the socket, as those do who never ask.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fabricast_memory::{Half, Identity, Range, Rooms, open};
use fabricast_proto::v1;
use fabricast_proto::v1::process_service_client::ProcessServiceClient;
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;
use tonic::{Status, Streaming};

/// An agent that has memory to share does so at once.
const PATIENCE: Duration = Duration::from_secs(5);

/// Memory shared with the agent of a process.
#[derive(Debug)]
pub(crate) struct Memory {
    memory: fabricast_memory::Memory,
    least: usize, // bytes; what is shorter goes through the socket
    rooms: Mutex<Rooms>,
    tell: mpsc::UnboundedSender<v1::ShareMemoryRequest>, // at most as much as was lent
    parts: AtomicU64,                                    // calls of `TakePart` so far
    ended: Arc<AtomicBool>,
    complained: AtomicBool,
    reader: tokio::task::AbortHandle,
}

/// A range that the agent may read until this is dropped.
#[derive(Debug)]
pub(crate) struct Lent {
    memory: Arc<Memory>,
    range: Range,
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Memory {
    /// Shares memory with the agent; `None`: it has none, or another place for it than this process.
    ///
    /// - `least`: bytes from which on payloads go through it.
    pub(crate) async fn share(
        calls: ProcessServiceClient<Channel>,
        session: u64,
        least: usize,
    ) -> Option<Arc<Self>> {
        let shared = tokio::time::timeout(PATIENCE, Self::begin(calls, session, least)).await;
        shared.ok().and_then(Result::ok).flatten().map(Arc::new)
    }

    async fn begin(
        mut calls: ProcessServiceClient<Channel>,
        session: u64,
        least: usize,
    ) -> Result<Option<Self>, Status> {
        let (tell, told) = mpsc::unbounded_channel();
        let least_bytes = u64::try_from(least).unwrap_or(u64::MAX);
        // The other end is in this function.
        let ask = |request| _ = tell.send(request);
        ask(v1::ShareMemoryRequest { session, least_bytes, ..Default::default() });
        let answers = calls.share_memory(UnboundedReceiverStream::new(told)).await;
        let mut answers = answers?.into_inner();
        let Some(offered) = answers.message().await?.and_then(|answer| answer.memory) else {
            return Ok(None);
        };
        let v1::SharedMemory { path, device, inode, half_bytes } = offered;
        let memory = match open(Path::new(&path), Identity { device, inode }, half_bytes) {
            Ok(memory) => memory,
            Err(error) => {
                let failure = told_with_source(&error);
                ask(v1::ShareMemoryRequest { failure, ..Default::default() });
                // The agent ends the call, once it has taken that in.
                let _ = answers.message().await;
                return Ok(None);
            }
        };
        ask(v1::ShareMemoryRequest { opened: true, ..Default::default() });
        if answers.message().await?.is_none() {
            return Ok(None);
        }
        let ended = Arc::new(AtomicBool::new(false));
        let reader = tokio::spawn(until_ended(answers, Arc::clone(&ended))).abort_handle();
        Ok(Some(Self {
            memory,
            least,
            rooms: Mutex::new(Rooms::new(Half::Process, half_bytes)),
            tell,
            parts: AtomicU64::new(0),
            ended,
            complained: AtomicBool::new(false),
            reader,
        }))
    }

    /// Lends a payload to the agent; `None`: it is not worth it, or there is no room.
    pub(crate) fn lend(self: &Arc<Self>, payload: &[u8]) -> Option<Lent> {
        if payload.len() < self.least || self.ended.load(Ordering::Relaxed) {
            return None;
        }
        let range = self.rooms().take(u64::try_from(payload.len()).ok()?)?;
        let lent = Lent { memory: Arc::clone(self), range };
        if let Err(error) = self.memory.write(range.offset, payload) {
            if !self.complained.swap(true, Ordering::Relaxed) {
                let failure = error.to_string();
                self.say(v1::ShareMemoryRequest { failure, ..Default::default() });
            }
            return None;
        }
        Some(lent)
    }

    /// Lends an operation in its encoding.
    pub(crate) fn lend_encoded(self: &Arc<Self>, operation: &v1::GroupOperation) -> Option<Lent> {
        let worth = operation.encoded_len() >= self.least;
        worth.then(|| self.lend(&operation.encode_to_vec())).flatten()
    }

    /// Copies what the agent has lent, and gives it back.
    pub(crate) fn take(&self, range: v1::MemoryRange) -> Result<Vec<u8>, Status> {
        let v1::MemoryRange { offset_bytes: offset, length_bytes: length } = range;
        let range = Range { offset, length };
        let wrong = |what: String| Status::internal(format!("the agent's memory: {what}"));
        let half = self.memory.half();
        Half::Agent.check(half, range).map_err(|error| wrong(error.to_string()))?;
        let payload = self.memory.read(range).map_err(|error| wrong(error.to_string()));
        self.say(v1::ShareMemoryRequest { read: vec![offset], ..Default::default() });
        payload
    }

    /// A number for one more call of `TakePart`.
    pub(crate) fn begin_part(&self) -> u64 {
        self.parts.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Gives back whatever came with that call and was not taken.
    pub(crate) fn end_part(&self, part: u64) {
        self.say(v1::ShareMemoryRequest { ended_parts: vec![part], ..Default::default() });
    }

    fn say(&self, request: v1::ShareMemoryRequest) {
        // Once the call has ended there is nothing to be given back.
        let _ = self.tell.send(request);
    }

    fn rooms(&self) -> std::sync::MutexGuard<'_, Rooms> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lent {
    /// The range in the API's words.
    pub(crate) fn range(&self) -> v1::MemoryRange {
        v1::MemoryRange { offset_bytes: self.range.offset, length_bytes: self.range.length }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.memory.rooms().give_back(self.range.offset);
    }
}

/// Runs a call that uses the memory to its end, also if nobody waits for that: until then the agent may read, and has
/// to be told that its answer has been read.
pub(crate) async fn to_its_end<T: Send + 'static>(
    call: impl Future<Output = Result<T, Status>> + Send + 'static,
) -> Result<T, Status> {
    let ended = tokio::spawn(call).await;
    ended.unwrap_or_else(|_| Err(Status::unavailable("the client's runtime has ended")))
}

async fn until_ended(mut answers: Streaming<v1::ShareMemoryResponse>, ended: Arc<AtomicBool>) {
    while let Ok(Some(_)) = answers.message().await {}
    ended.store(true, Ordering::Relaxed);
}

fn told_with_source(error: &dyn std::error::Error) -> String {
    let source = error.source().map_or(String::new(), |source| format!(": {source}"));
    format!("{error}{source}")
}
