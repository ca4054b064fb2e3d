//! A process that takes part in the messages and operations of a group.
//!
//! One task reads what the agent sends, which is never more than the process has asked for; more is
//! asked for as messages are received.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fabricast_proto::v1;
use fabricast_proto::v1::take_part_response::Event;
use tokio::sync::{Mutex, mpsc, watch};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Status, Streaming};

use crate::memory::{Lent, Memory, to_its_end};
use crate::session::Session;
use crate::{Error, Group};

/// Messages that may wait in this process to be received; more wait at the agent.
const ROOM: u32 = 32;

/// A message of another member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The rank of who sent it.
    pub from: u32,
    /// What it says.
    pub payload: Vec<u8>,
}

/// The call that lets a member take part, and what has come of it.
#[derive(Debug)]
pub(crate) struct Part {
    seen: watch::Receiver<Seen>,
    inbox: Mutex<Inbox>,
    asks: mpsc::UnboundedSender<v1::TakePartRequest>,
    pub(crate) by_switches: AtomicU64, // operations
    reader: tokio::task::AbortHandle,
    memory: Option<PartMemory>,
}

/// What messages may come through, and the number of the call there.
#[derive(Clone, Debug)]
struct PartMemory {
    memory: Arc<Memory>,
    number: u64,
}

/// The latest news.
#[derive(Debug, Default)]
struct Seen {
    participants: Vec<u32>,
    end: Option<Status>,
}

#[derive(Debug)]
struct Inbox {
    messages: mpsc::UnboundedReceiver<Message>, // as many as have been asked for
    received: u32,                              // since more were asked for
}

impl Drop for Part {
    fn drop(&mut self) {
        self.reader.abort();
        if let Some(PartMemory { memory, number }) = &self.memory {
            memory.end_part(*number); // nothing more of it is kept, whatever is read
        }
    }
}

impl Part {
    async fn begin(session: &Session, group: &str) -> Result<Self, Error> {
        session.check()?;
        let (asks, asked) = mpsc::unbounded_channel();
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
        // The other end is in this function.
        let _ = asks.send(first);
        let begun = session.calls().take_part(UnboundedReceiverStream::new(asked)).await;
        let mut news = begun.map_err(|status| Error::of_group(group, &status))?.into_inner();
        let (see, seen) = watch::channel(Seen::default());
        let (bring, messages) = mpsc::unbounded_channel();
        let shared = memory.as_ref().map(|memory| Arc::clone(&memory.memory));
        let reading = async move {
            let end = read(&mut news, shared.as_deref(), &see, &bring).await;
            see.send_modify(|seen| seen.end = Some(end));
        };
        let reader = tokio::spawn(reading).abort_handle();
        let inbox = Mutex::new(Inbox { messages, received: 0 });
        Ok(Self { seen, inbox, asks, by_switches: AtomicU64::new(0), reader, memory })
    }

    /// Waits until those who take part are as wanted.
    async fn wait_until(&self, wanted: impl Fn(&[u32]) -> bool) -> Result<Vec<u32>, Status> {
        let mut seen = self.seen.clone();
        let known = |seen: &Seen| seen.end.is_some() || wanted(&seen.participants);
        let seen = seen.wait_for(known).await.map_err(|_| self.end())?;
        match &seen.end {
            Some(end) => Err(end.clone()),
            None => Ok(seen.participants.clone()),
        }
    }

    async fn receive(&self) -> Result<Message, Status> {
        let mut inbox = self.inbox.lock().await;
        let message = inbox.messages.recv().await.ok_or_else(|| self.end())?;
        inbox.received += 1;
        if inbox.received >= ROOM / 2 {
            let more = std::mem::take(&mut inbox.received);
            // Who has ended the call says so when nothing is left to be received.
            let _ = self.asks.send(v1::TakePartRequest { more, ..Default::default() });
        }
        Ok(message)
    }

    /// The memory that payloads may go through.
    pub(crate) fn memory(&self) -> Option<&Arc<Memory>> {
        self.memory.as_ref().map(|memory| &memory.memory)
    }

    fn end(&self) -> Status {
        let gone = || Status::unavailable("the agent has ended the call");
        self.seen.borrow().end.clone().unwrap_or_else(gone)
    }
}

/// Reads to the end, and answers how it ended.
async fn read(
    news: &mut Streaming<v1::TakePartResponse>,
    memory: Option<&Memory>,
    see: &watch::Sender<Seen>,
    bring: &mpsc::UnboundedSender<Message>,
) -> Status {
    loop {
        let event = match news.message().await {
            Ok(Some(news)) => news.event,
            Ok(None) => return Status::unavailable("the agent has ended the call"),
            Err(status) => return status,
        };
        match event {
            Some(Event::Participants(v1::Participants { pns })) => {
                see.send_modify(|seen| seen.participants = pns);
            }
            Some(Event::Message(v1::GroupMessage { from_pn, payload, shared_payload })) => {
                let payload = match (shared_payload, memory) {
                    (Some(range), Some(memory)) => memory.take(range),
                    (Some(_), None) => Err(Status::internal("no memory is shared")),
                    (None, _) => Ok(payload),
                };
                let payload = match payload {
                    Ok(payload) => payload,
                    Err(status) => return status,
                };
                // The inbox goes with this task.
                let _ = bring.send(Message { from: from_pn, payload });
            }
            None => {} // news that this client is too old for
        }
    }
}

impl Group {
    /// Takes part in the group's messages and operations from now on, until this value and its clones are
    /// dropped or the process leaves. Everything that needs it does it by itself; a process that wants to miss
    /// nothing does it early. Nobody waits for members that do not take part.
    ///
    /// # Errors
    ///
    /// [`Error::NotAMember`], [`Error::Detached`]; [`Error::Refused`] with `SEAT_TAKEN` if the process
    /// takes part through another value, which a second join made.
    pub async fn take_part(&self) -> Result<(), Error> {
        self.part().await.map(|_| ())
    }

    /// Those who take part, by rank, as far as this process knows: everything that it begins from now on
    /// includes them.
    ///
    /// # Errors
    ///
    /// As [`Self::take_part`].
    pub async fn participants(&self) -> Result<Vec<u32>, Error> {
        self.wait_until(|pns| !pns.is_empty()).await
    }

    /// Waits until so many take part, this process with them, and answers who.
    ///
    /// # Errors
    ///
    /// As [`Self::take_part`].
    pub async fn wait_for(&self, count: usize) -> Result<Vec<u32>, Error> {
        self.wait_until(|pns| pns.len() >= count).await
    }

    /// Sends a message to all others who take part, and waits until all have it; a long one is sent also if the wait is
    /// given up. Answers who ceased to take part
    /// meanwhile: those may have it or not. Messages of one process arrive everywhere in the order in which
    /// they were sent, if each is awaited before the next.
    ///
    /// # Errors
    ///
    /// As [`Self::take_part`]; [`Error::Refused`] with `PAYLOAD_TOO_LONG` above 1 MiB.
    pub async fn multicast(&self, payload: &[u8]) -> Result<Vec<u32>, Error> {
        self.send(payload, false).await
    }

    /// Sends a message once, over whatever is there; nobody asks who got it.
    ///
    /// # Errors
    ///
    /// As [`Self::multicast`].
    pub async fn multicast_best_effort(&self, payload: &[u8]) -> Result<(), Error> {
        self.send(payload, true).await.map(|_| ())
    }

    /// Waits for the next message of another member. Nothing is lost if the wait is given up. Who receives
    /// nothing makes the others wait, once its queues are full.
    ///
    /// # Errors
    ///
    /// As [`Self::take_part`], once everything that came before the end has been received.
    pub async fn receive(&self) -> Result<Message, Error> {
        let message = self.part().await?.receive().await;
        message.map_err(|status| Error::of_group(&self.name, &status))
    }

    /// How many operations of this process, since it takes part, switches of the fabric have combined. All others were
    /// combined by the tree of the members, with the same result.
    #[must_use]
    pub fn combined_by_switches(&self) -> u64 {
        self.part.get().map_or(0, |part| part.by_switches.load(Ordering::Relaxed))
    }

    pub(crate) async fn part(&self) -> Result<&Part, Error> {
        self.part.get_or_try_init(|| Part::begin(&self.session, &self.name)).await
    }

    async fn wait_until(&self, wanted: impl Fn(&[u32]) -> bool) -> Result<Vec<u32>, Error> {
        let found = self.part().await?.wait_until(wanted).await;
        found.map_err(|status| Error::of_group(&self.name, &status))
    }

    async fn send(&self, payload: &[u8], best_effort: bool) -> Result<Vec<u32>, Error> {
        let part = self.part().await?;
        let lent = part.memory().and_then(|memory| memory.lend(payload));
        let request = v1::SendMessageRequest {
            session: self.session.number,
            group: self.name.to_string(),
            payload: if lent.is_some() { Vec::new() } else { payload.to_vec() },
            best_effort,
            shared_payload: lent.as_ref().map(Lent::range),
        };
        let mut calls = self.session.calls();
        let sent = match lent {
            None => calls.send_message(request).await,
            Some(lent) => {
                to_its_end(async move {
                    let sent = calls.send_message(request).await;
                    drop(lent);
                    sent
                })
                .await
            }
        };
        let sent = sent.map_err(|status| Error::of_group(&self.name, &status))?;
        Ok(sent.into_inner().unknown_pns)
    }
}
