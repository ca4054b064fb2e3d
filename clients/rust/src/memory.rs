//! Memory shared with the agent, for long payloads, which are slow through the socket.
//!
//! Without shared memory, or without room in it, payloads go through the socket.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use fabricast_memory::{Half, Identity, Range, RangeAllocator, open};
use fabricast_proto::v1;
use fabricast_proto::v1::process_service_client::ProcessServiceClient;
use parking_lot::Mutex;
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

use crate::Error;

/// Timeout for the offer of the agent, which comes at once if there is any.
const OFFER_TIMEOUT: Duration = Duration::from_secs(5);

/// Memory shared with the agent of a process.
#[derive(Debug)]
pub(crate) struct Memory {
    memory: fabricast_memory::Memory,
    least: usize, // bytes; shorter payloads go through the socket
    ranges: Mutex<RangeAllocator>,
    requests: mpsc::UnboundedSender<v1::ShareMemoryRequest>, // bounded by the ranges lent
    parts: AtomicU64,                                        // calls of `TakePart` so far
    ended: Arc<AtomicBool>,
    reported_failure: AtomicBool,
    reader: tokio::task::AbortHandle,
}

/// A range that the agent may read until this value is dropped.
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
    /// Shares memory with the agent; `None` if it has none, or this process cannot open it.
    ///
    /// - `least`: shortest payload in bytes that goes through it.
    pub(crate) async fn share(
        calls: ProcessServiceClient<Channel>,
        session: u64,
        least: usize,
    ) -> Option<Arc<Self>> {
        let shared = tokio::time::timeout(OFFER_TIMEOUT, Self::begin(calls, session, least)).await;
        shared.ok().and_then(Result::ok).flatten().map(Arc::new)
    }

    async fn begin(
        mut calls: ProcessServiceClient<Channel>,
        session: u64,
        least: usize,
    ) -> Result<Option<Self>, Error> {
        let (requests, request_stream) = mpsc::unbounded_channel();
        let least_bytes = u64::try_from(least).unwrap_or(u64::MAX);
        // The receiver still exists: it is in this function.
        let send = |request| _ = requests.send(request);
        send(v1::ShareMemoryRequest { session, least_bytes, ..Default::default() });
        let answers = calls.share_memory(UnboundedReceiverStream::new(request_stream)).await;
        let mut answers = answers.map_err(Error::of_call)?.into_inner();
        let Some(offered) =
            answers.message().await.map_err(Error::of_call)?.and_then(|answer| answer.memory)
        else {
            return Ok(None);
        };
        let v1::SharedMemory { path, device, inode, half_bytes } = offered;
        let memory = match open(Path::new(&path), Identity { device, inode }, half_bytes) {
            Ok(memory) => memory,
            Err(error) => {
                let failure = with_source(&error);
                send(v1::ShareMemoryRequest { failure, ..Default::default() });
                // The agent ends the call once it has received that.
                let _ = answers.message().await;
                return Ok(None);
            }
        };
        send(v1::ShareMemoryRequest { opened: true, ..Default::default() });
        if answers.message().await.map_err(Error::of_call)?.is_none() {
            return Ok(None);
        }
        let ended = Arc::new(AtomicBool::new(false));
        let reader = tokio::spawn(until_ended(answers, Arc::clone(&ended))).abort_handle();
        Ok(Some(Self {
            memory,
            least,
            ranges: Mutex::new(RangeAllocator::new(Half::Process, half_bytes)),
            requests,
            parts: AtomicU64::new(0),
            ended,
            reported_failure: AtomicBool::new(false),
            reader,
        }))
    }

    /// Lends a payload to the agent; `None` if it is too short or there is no room.
    pub(crate) fn lend(self: &Arc<Self>, payload: &[u8]) -> Option<Lent> {
        if payload.len() < self.least || self.ended.load(Ordering::Relaxed) {
            return None;
        }
        let range = self.ranges().allocate(u64::try_from(payload.len()).ok()?)?;
        let lent = Lent { memory: Arc::clone(self), range };
        if let Err(error) = self.memory.write(range.offset, payload) {
            if !self.reported_failure.swap(true, Ordering::Relaxed) {
                let failure = error.to_string();
                self.send(v1::ShareMemoryRequest { failure, ..Default::default() });
            }
            return None;
        }
        Some(lent)
    }

    /// Lends the encoding of an operation, as [`Self::lend`].
    pub(crate) fn lend_encoded(self: &Arc<Self>, operation: &v1::GroupOperation) -> Option<Lent> {
        let worth = operation.encoded_len() >= self.least;
        worth.then(|| self.lend(&operation.encode_to_vec())).flatten()
    }

    /// Copies a range lent by the agent and returns the range to it; the error is text.
    pub(crate) fn take(&self, range: v1::MemoryRange) -> Result<Vec<u8>, String> {
        let v1::MemoryRange { offset_bytes: offset, length_bytes: length } = range;
        let range = Range { offset, length };
        let wrong = |what: String| format!("the agent's memory: {what}");
        let half = self.memory.half();
        Half::Agent.check(half, range).map_err(|error| wrong(error.to_string()))?;
        let payload = self.memory.read(range).map_err(|error| wrong(error.to_string()));
        self.send(v1::ShareMemoryRequest { read: vec![offset], ..Default::default() });
        payload
    }

    /// Allots a number for a call of `TakePart`.
    pub(crate) fn begin_part(&self) -> u64 {
        self.parts.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Returns all ranges that came with that call and were not read.
    pub(crate) fn end_part(&self, part: u64) {
        self.send(v1::ShareMemoryRequest { ended_parts: vec![part], ..Default::default() });
    }

    fn send(&self, request: v1::ShareMemoryRequest) {
        // Once the call has ended there is nothing to return.
        let _ = self.requests.send(request);
    }

    fn ranges(&self) -> parking_lot::MutexGuard<'_, RangeAllocator> {
        self.ranges.lock()
    }
}

impl Lent {
    /// Converts the range for a request.
    pub(crate) fn range(&self) -> v1::MemoryRange {
        v1::MemoryRange { offset_bytes: self.range.offset, length_bytes: self.range.length }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.memory.ranges().free(self.range.offset);
    }
}

/// Runs a call that uses the memory in a task of its own, so that it completes even if the caller
/// stops waiting: until then the agent may read the payload, and must learn that its answer was
/// read.
pub(crate) async fn run_to_end<T: Send + 'static>(
    call: impl Future<Output = T> + Send + 'static,
) -> Result<T, Error> {
    tokio::spawn(call).await.map_err(|_| Error::ended("the client's runtime has ended"))
}

async fn until_ended(mut answers: Streaming<v1::ShareMemoryResponse>, ended: Arc<AtomicBool>) {
    while let Ok(Some(_)) = answers.message().await {}
    ended.store(true, Ordering::Relaxed);
}

fn with_source(error: &dyn std::error::Error) -> String {
    let source = error.source().map_or(String::new(), |source| format!(": {source}"));
    format!("{error}{source}")
}
