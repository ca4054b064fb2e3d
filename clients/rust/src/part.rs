//! The call through which a member takes part in messages and operations of a group.
//!
//! One task reads the events of the agent, which sends at most as many messages as were requested;
//! more are requested as messages are received.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fabricast_proto::v1;
use fabricast_proto::v1::take_part_response::Event;
use fabricast_rpc::RpcError;
use tokio::sync::{Mutex, mpsc, watch};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Streaming;

use crate::Error;
use crate::memory::Memory;
use crate::session::Session;

/// Messages that may be queued in this process; more wait at the agent.
const ROOM: u32 = 32;

/// A message of another member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Rank of the sender.
    pub from: u32,
    /// Bytes that were sent.
    pub payload: Vec<u8>,
}

/// The call of one member, and the events it has received.
#[derive(Debug)]
pub(crate) struct Part {
    group: String,
    seen: watch::Receiver<Seen>,
    inbox: Mutex<Inbox>,
    requests: mpsc::UnboundedSender<v1::TakePartRequest>,
    pub(crate) by_switches: AtomicU64, // operations
    reader: tokio::task::AbortHandle,
    memory: Option<PartMemory>,
}

/// Shared memory that payloads come through, and the number of the call there.
#[derive(Clone, Debug)]
struct PartMemory {
    memory: Arc<Memory>,
    number: u64,
}

/// Latest state of the call.
#[derive(Debug, Default)]
struct Seen {
    participants: Vec<u32>,
    end: Option<End>,
}

/// Reason why the call has ended.
#[derive(Clone, Debug)]
enum End {
    /// The agent ended the call.
    Closed,
    /// The call failed.
    Failed(RpcError),
    /// The agent sent a payload that cannot be read from shared memory.
    BadPayload(String),
}

impl End {
    fn into_error(self, group: &str) -> Error {
        match self {
            Self::Closed => Error::ended("the agent has ended the call"),
            Self::Failed(error) => Error::of_group(group, error),
            Self::BadPayload(what) => Error::bad_answer(what),
        }
    }
}

#[derive(Debug)]
struct Inbox {
    messages: mpsc::UnboundedReceiver<Message>, // at most as many as were requested
    received: u32,                              // since more were requested
}

impl Drop for Part {
    fn drop(&mut self) {
        self.reader.abort();
        if let Some(PartMemory { memory, number }) = &self.memory {
            memory.end_part(*number); // frees what was not read
        }
    }
}

impl Part {
    pub(crate) async fn begin(session: &Session, group: &str) -> Result<Self, Error> {
        session.check()?;
        let (requests, request_stream) = mpsc::unbounded_channel();
        let memory = session
            .memory()
            .await
            .map(|memory| PartMemory { memory: Arc::clone(memory), number: memory.begin_part() });
        let first = v1::TakePartRequest {
            session: session.number,
            group: group.to_owned(),
            more: ROOM,
            part: memory.as_ref().map_or(0, |memory| memory.number),
        };
        // The receiver still exists: it is in this function.
        let _ = requests.send(first);
        let begun = session.calls().take_part(UnboundedReceiverStream::new(request_stream)).await;
        let mut news = begun.map_err(|error| Error::of_group(group, error))?.into_inner();
        let (seen_sender, seen) = watch::channel(Seen::default());
        let (message_sender, messages) = mpsc::unbounded_channel();
        let shared = memory.as_ref().map(|memory| Arc::clone(&memory.memory));
        let reading = async move {
            let end = read(&mut news, shared.as_deref(), &seen_sender, &message_sender).await;
            seen_sender.send_modify(|seen| seen.end = Some(end));
        };
        let reader = tokio::spawn(reading).abort_handle();
        let inbox = Mutex::new(Inbox { messages, received: 0 });
        let group = group.to_owned();
        Ok(Self { group, seen, inbox, requests, by_switches: AtomicU64::new(0), reader, memory })
    }

    /// Waits until the participants satisfy a condition; returns their ranks.
    pub(crate) async fn wait_until(
        &self,
        wanted: impl Fn(&[u32]) -> bool,
    ) -> Result<Vec<u32>, Error> {
        let mut seen = self.seen.clone();
        let known = |seen: &Seen| seen.end.is_some() || wanted(&seen.participants);
        let seen = seen.wait_for(known).await.map_err(|_| self.end())?;
        match &seen.end {
            Some(end) => Err(end.clone().into_error(&self.group)),
            None => Ok(seen.participants.clone()),
        }
    }

    /// Waits for the next message of another member.
    pub(crate) async fn receive(&self) -> Result<Message, Error> {
        let mut inbox = self.inbox.lock().await;
        let message = inbox.messages.recv().await.ok_or_else(|| self.end())?;
        inbox.received += 1;
        if inbox.received >= ROOM / 2 {
            let more = std::mem::take(&mut inbox.received);
            // If the call has ended, the caller learns it once the queue is empty.
            let _ = self.requests.send(v1::TakePartRequest { more, ..Default::default() });
        }
        Ok(message)
    }

    /// Returns the memory that payloads may go through.
    pub(crate) fn memory(&self) -> Option<&Arc<Memory>> {
        self.memory.as_ref().map(|memory| &memory.memory)
    }

    fn end(&self) -> Error {
        self.seen.borrow().end.clone().unwrap_or(End::Closed).into_error(&self.group)
    }
}

/// Reads events until the call ends; returns the reason.
async fn read(
    news: &mut Streaming<v1::TakePartResponse>,
    memory: Option<&Memory>,
    seen_sender: &watch::Sender<Seen>,
    message_sender: &mpsc::UnboundedSender<Message>,
) -> End {
    loop {
        let event = match news.message().await {
            Ok(Some(news)) => news.event,
            Ok(None) => return End::Closed,
            Err(error) => return End::Failed(error.into()),
        };
        match event {
            Some(Event::Participants(v1::Participants { pns })) => {
                seen_sender.send_modify(|seen| seen.participants = pns);
            }
            Some(Event::Message(v1::GroupMessage { from_pn, payload, shared_payload })) => {
                let payload = match (shared_payload, memory) {
                    (Some(range), Some(memory)) => memory.take(range),
                    (Some(_), None) => Err("no memory is shared".to_owned()),
                    (None, _) => Ok(payload),
                };
                let payload = match payload {
                    Ok(payload) => payload,
                    Err(what) => return End::BadPayload(what),
                };
                // The receiver is dropped together with this task.
                let _ = message_sender.send(Message { from: from_pn, payload });
            }
            None => {} // an event that this version does not know
        }
    }
}
