//! A connection to a switch: requests in batches, each confirmed by a barrier.
//!
//! ```text
//!   exchange ──bytes──► writing half ──► switch
//!      ▲                                   │
//!      └── answers by transaction id ◄── reading half ──► listener (ports, roles)
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fabricast_openflow::{Body, DecodeError, ErrorMessage, Framer, MAX_MESSAGE, Message, Version};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

/// Messages that one barrier confirms at most.
pub(super) const BATCH: usize = 512;
/// Most bytes of the answers to one batch; what is longer does not come of a switch that works.
const MOST_ANSWERED: usize = 256 << 20;
/// Batches that may wait to be sent.
const WAITING: usize = 64;
const READ_BYTES: usize = 64 << 10;

/// A byte stream to a switch.
pub(super) trait Bytes: AsyncRead + AsyncWrite + Send + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> Bytes for T {}

/// Reason why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum Closed {
    /// The switch closed it.
    #[error("the switch closed the connection")]
    ByPeer,
    /// The connection broke.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The switch sent something that is no OpenFlow.
    #[error("the switch sent no OpenFlow: {0}")]
    Malformed(#[from] DecodeError),
    /// A request was not answered in time.
    #[error("the switch did not answer within {0:?}")]
    Late(Duration),
    /// The answer to a request was too long.
    #[error("the switch answered with more than {MOST_ANSWERED} bytes")]
    TooLong,
    /// The switch refused to undo a write.
    #[error("the switch refused to undo a write: {0}")]
    Torn(String),
    /// The agent has no use for the connection.
    #[error("the agent closed the connection")]
    ByAgent,
}

/// Answers to one message.
#[derive(Clone, Debug, Default)]
pub(super) struct Answer {
    pub(super) replies: Vec<Body>,
    pub(super) refusal: Option<ErrorMessage>,
}

/// Watches the messages of a switch in their order, also those that answer nothing.
pub(super) type Listener = dyn Fn(&Body) + Send + Sync;

/// A connection whose version is agreed; clones share it.
#[derive(Clone)]
pub(super) struct Connection {
    shared: Arc<Shared>,
    version: Version,
    limit: Duration,
}

struct Shared {
    outgoing: mpsc::Sender<Vec<u8>>,
    calls: Mutex<Calls>,
    closed: watch::Sender<Option<Closed>>,
}

#[derive(Default)]
struct Calls {
    last_xid: u32,
    /// By the first transaction id.
    pending: BTreeMap<u32, PendingCall>,
}

struct PendingCall {
    answers: Vec<Answer>,
    bytes: usize,
    /// Number of answers that have come.
    progress: u64,
    done: oneshot::Sender<Vec<Answer>>,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let closed = self.shared.closed.borrow().clone();
        f.debug_struct("Connection").field("closed", &closed).finish_non_exhaustive()
    }
}

impl Connection {
    /// Starts the two halves, which end when the connection closes.
    ///
    /// - `framer`: has what was received behind the hello.
    /// - `limit`: time for an answer; a connection without any bytes for as long is probed.
    pub(super) fn start(
        stream: impl Bytes,
        framer: Framer,
        version: Version,
        limit: Duration,
        listener: Arc<Listener>,
    ) -> Self {
        let (outgoing, waiting) = mpsc::channel(WAITING);
        let (calls, closed) = (Mutex::default(), watch::Sender::new(None));
        let shared = Arc::new(Shared { outgoing, calls, closed });
        let connection = Self { shared, version, limit };
        let (reading, writing) = tokio::io::split(stream);
        let running = connection.clone();
        tokio::spawn(async move {
            let mut closed = running.shared.closed.subscribe();
            let reason = tokio::select! {
                reason = running.receive(reading, framer, &*listener) => reason,
                reason = send(writing, waiting) => reason,
                _ = closed.wait_for(Option::is_some) => return running.give_up_calls(),
            };
            running.close(reason);
            running.give_up_calls();
        });
        connection
    }

    pub(super) fn version(&self) -> Version {
        self.version
    }

    /// Sends messages and a barrier; waits until the switch has processed all of them. The answers
    /// are in the order of the messages.
    ///
    /// # Errors
    ///
    /// [`Closed`]; the switch may have processed any of the messages. One that makes no progress
    /// for the limit loses the connection.
    pub(super) async fn exchange(&self, bodies: &[Body]) -> Result<Vec<Answer>, Closed> {
        self.exchange_within(bodies, self.limit).await
    }

    /// The same with another limit, for messages that take long.
    pub(super) async fn exchange_slowly(
        &self,
        bodies: &[Body],
        more: Duration,
    ) -> Result<Vec<Answer>, Closed> {
        self.exchange_within(bodies, self.limit + more).await
    }

    async fn exchange_within(
        &self,
        bodies: &[Body],
        limit: Duration,
    ) -> Result<Vec<Answer>, Closed> {
        let (done, mut answered) = oneshot::channel();
        let (first, bytes) = self.register(bodies, done);
        // A caller that waits no longer for the answers has given the call up.
        let _pending = PendingGuard { shared: &self.shared, first };
        if timeout(limit, self.shared.outgoing.send(bytes)).await.is_err() {
            return Err(self.close(Closed::Late(limit)));
        }
        let mut progress = 0;
        loop {
            match timeout(limit, &mut answered).await {
                Ok(Ok(answers)) => return Ok(answers),
                Ok(Err(_given_up)) => return Err(self.reason()),
                Err(_elapsed) => {
                    let calls = self.shared.calls.lock();
                    let now = calls.pending.get(&first).map(|call| call.progress);
                    drop(calls);
                    match now {
                        Some(now) if now > progress => progress = now,
                        Some(_) | None => return Err(self.close(Closed::Late(limit))),
                    }
                }
            }
        }
    }

    fn register(&self, bodies: &[Body], done: oneshot::Sender<Vec<Answer>>) -> (u32, Vec<u8>) {
        let count = u32::try_from(bodies.len() + 1).unwrap_or(u32::MAX);
        let mut calls = self.shared.calls.lock();
        // 0 is the transaction id of messages that answer nothing.
        let first = calls.last_xid.checked_add(1).filter(|one| one.checked_add(count).is_some());
        let first = first.unwrap_or(1);
        calls.last_xid = first + count - 1;
        let answers = vec![Answer::default(); bodies.len()];
        calls.pending.insert(first, PendingCall { answers, bytes: 0, progress: 0, done });
        drop(calls);
        let mut bytes = Vec::with_capacity(128 * bodies.len() + 8);
        let all = bodies.iter().chain(std::iter::once(&Body::BarrierRequest));
        for (xid, body) in (first..).zip(all) {
            let message = Message { xid, body: body.clone() }.encode(self.version);
            assert!(message.len() <= MAX_MESSAGE, "254 ports fit into a group");
            bytes.extend_from_slice(&message);
        }
        (first, bytes)
    }

    /// Ends the connection; a reason that came first stays. Returns the reason.
    pub(super) fn close(&self, reason: Closed) -> Closed {
        self.shared.closed.send_if_modified(|closed| {
            let is_first = closed.is_none();
            closed.get_or_insert(reason);
            is_first
        });
        self.reason()
    }

    /// Waits until the connection has ended.
    pub(super) async fn ended(&self) -> Closed {
        let mut closed = self.shared.closed.subscribe();
        match closed.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or(Closed::ByAgent),
            Err(_) => Closed::ByAgent,
        }
    }

    fn reason(&self) -> Closed {
        self.shared.closed.borrow().clone().unwrap_or(Closed::ByAgent)
    }

    fn give_up_calls(&self) {
        self.shared.calls.lock().pending.clear();
    }

    async fn receive(
        &self,
        mut reading: ReadHalf<impl Bytes>,
        mut framer: Framer,
        listener: &Listener,
    ) -> Closed {
        let mut buffer = vec![0; READ_BYTES];
        let mut is_probed = false;
        loop {
            loop {
                match framer.next_message().and_then(|bytes| bytes.map(decode).transpose()) {
                    Ok(Some((length, message))) => {
                        listener(&message.body);
                        if let Err(reason) = self.take(length, message) {
                            return reason;
                        }
                    }
                    Ok(None) => break,
                    Err(error) => return error.into(),
                }
            }
            match timeout(self.limit, reading.read(&mut buffer)).await {
                Ok(Ok(0)) => return Closed::ByPeer,
                Ok(Ok(count)) => {
                    is_probed = false;
                    framer.push(&buffer[..count]);
                }
                Ok(Err(error)) => return Closed::Broken(error.to_string()),
                // A call that waits for an answer has a limit of its own.
                Err(_elapsed) if is_probed && self.shared.calls.lock().pending.is_empty() => {
                    return Closed::Late(self.limit);
                }
                Err(_elapsed) => {
                    is_probed = true;
                    self.send_alone(0, Body::EchoRequest(Vec::new()));
                }
            }
        }
    }

    /// Sends a message that nobody waits for. If the switch does not even take what was sent
    /// before, it is left out.
    fn send_alone(&self, xid: u32, body: Body) {
        let bytes = Message { xid, body }.encode(self.version);
        let _ = self.shared.outgoing.try_send(bytes);
    }

    fn take(&self, length: usize, message: Message) -> Result<(), Closed> {
        let Message { xid, body } = message;
        if let Body::EchoRequest(data) = body {
            self.send_alone(xid, Body::EchoReply(data));
            return Ok(());
        }
        let mut calls = self.shared.calls.lock();
        let Some((first, call)) = calls.pending.range_mut(..=xid).next_back() else {
            return Ok(());
        };
        let (first, at) = (*first, usize::try_from(xid - first).unwrap_or(usize::MAX));
        call.progress += 1;
        call.bytes += length;
        if call.bytes > MOST_ANSWERED {
            return Err(Closed::TooLong);
        }
        let count = call.answers.len();
        match (call.answers.get_mut(at), body) {
            (Some(answer), Body::Error(error)) => answer.refusal = Some(error),
            (Some(answer), body) => answer.replies.push(body),
            (None, Body::BarrierReply) if at == count => {
                if let Some(call) = calls.pending.remove(&first) {
                    // Nobody may wait for the answers any more.
                    let _ = call.done.send(call.answers);
                }
            }
            (None, _) => {}
        }
        Ok(())
    }
}

/// Takes a call out when nobody waits for it any more.
struct PendingGuard<'a> {
    shared: &'a Shared,
    first: u32,
}

impl Drop for PendingGuard<'_> {
    fn drop(&mut self) {
        self.shared.calls.lock().pending.remove(&self.first);
    }
}

fn decode(bytes: &[u8]) -> Result<(usize, Message), DecodeError> {
    Ok((bytes.len(), Message::decode(bytes)?.1))
}

async fn send(mut writing: WriteHalf<impl Bytes>, mut waiting: mpsc::Receiver<Vec<u8>>) -> Closed {
    while let Some(bytes) = waiting.recv().await {
        if let Err(error) = writing.write_all(&bytes).await {
            return Closed::Broken(error.to_string());
        }
    }
    Closed::ByAgent
}
