//! Attached processes that take part in messages and operations: from a call of `TakePart` to its end.
//!
//! ```text
//!  process ──► TakePart: more ──► Part ──► takes from SeatEvents what there is room for
//!          ◄── participants, messages ──┘
//!          ──► SendMessage, RunOperation ──► the Seat of the session's part in the group
//! ```
//!
//! Invariants
//! - SESSION-3: an agent has handed a process at most as many messages as the process has asked for.

use std::sync::Arc;
use std::time::Duration;

use fabricast_group::wire::name;
use fabricast_groups::ids::Pn;
use fabricast_groups::names::GroupName;
use fabricast_proto::v1;
use fabricast_proto::v1::take_part_response::Event;
use fabricast_rpc::Reason;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Status, Streaming};

use crate::host::{Host, lock};
use crate::memory::Shared;
use crate::messages::{Seat, SeatEvent, SeatEvents};
use crate::processes::{AnswerStream, ProcessServer, user};
use crate::service::not_a_member;
use crate::sessions::Session;

/// Whoever begins a call of many requests says in this time who he is.
const FIRST_WORD: Duration = Duration::from_secs(5);

/// What a process is sent.
type News = Result<v1::TakePartResponse, Status>;

/// A process that takes part in a group; it ceases to when this is dropped.
#[derive(Debug)]
struct Part {
    session: Arc<Session>,
    group: GroupName,
    seat: Seat,
    events: SeatEvents,
    requests: Streaming<v1::TakePartRequest>,
    room: u64, // messages that may be sent
    memory: Option<PartMemory>,
}

/// The way of a part's messages through shared memory.
#[derive(Debug)]
struct PartMemory {
    host: Host,
    shared: Arc<Shared>,
    part: u64,
}

impl PartMemory {
    /// - `part`: the number of the call; 0 if the process has given it none.
    fn open(host: &Host, session: &Session, part: u64) -> Option<Self> {
        let shared = session.shared().filter(|_| part != 0)?;
        shared.open_part(part);
        Some(Self { host: host.clone(), shared, part })
    }

    fn lend(&self, payload: &[u8]) -> Option<v1::MemoryRange> {
        self.shared.lend(&self.host.0.memories, Some(self.part), payload)
    }
}

impl Drop for PartMemory {
    fn drop(&mut self) {
        self.shared.close_part(self.part);
    }
}

/// The first request of a call, which says who calls.
pub(crate) async fn first_word<T>(
    message: impl Future<Output = Result<Option<T>, Status>>,
) -> Result<T, Status> {
    let missing = || Reason::FieldMissing.status("session is missing", &[("field", "session")]);
    let first = tokio::time::timeout(FIRST_WORD, message).await;
    first.map_err(|_| missing())??.ok_or_else(missing)
}

impl ProcessServer {
    /// Opens a process's seat for as long as the answer is listened to.
    pub(crate) async fn begin_part(
        &self,
        request: Request<Streaming<v1::TakePartRequest>>,
    ) -> Result<AnswerStream<v1::TakePartResponse>, Status> {
        let user = user(&request);
        let mut requests = request.into_inner();
        let first = first_word(requests.message()).await?;
        let call = self.host().0.sessions.call(first.session, user)?;
        let group = name("group", &first.group, GroupName::new)?;
        let member = self.member(&call.session, &group)?;
        let node = &call.session.process.0;
        let (seat, events) = self.host().open_seat(node, member.gn, member.pn)?;
        let session = Arc::clone(&call.session);
        lock(&session.seats).insert(group.clone(), seat.clone());
        let memory = PartMemory::open(self.host(), &session, first.part);
        let room = first.more.into();
        let part = Part { session, group, seat, events, requests, room, memory };
        // Were the session over since, nobody else would close the seat.
        if part.session.over.is_cancelled() {
            return Err(Reason::UnknownSession.status("session: it has ended", &[]));
        }
        let (tell, told) = mpsc::channel(1);
        self.host().spawn(|_| part.last(tell));
        Ok(Box::pin(ReceiverStream::new(told)))
    }

    /// The seat of a session's process in a group.
    pub(crate) fn seat(&self, session: &Session, group: &str) -> Result<Seat, Status> {
        let group = name("group", group, GroupName::new)?;
        if let Some(seat) = lock(&session.seats).get(&group) {
            return Ok(seat.clone());
        }
        self.member(session, &group)?;
        let text = format!("group: the process takes no part in '{group}'");
        Err(Reason::TakesNoPart.status(text, &[("group", group.as_str())]))
    }
}

impl Part {
    /// Tells what happens, until nobody listens or there is nothing more to be told.
    async fn last(mut self, tell: mpsc::Sender<News>) {
        let over = self.session.over.clone();
        tokio::select! {
            () = self.tell_all(&tell) => {}
            () = tell.closed() => {}
            () = over.cancelled() => {}
        }
    }

    async fn tell_all(&mut self, tell: &mpsc::Sender<News>) {
        let mut asks = true;
        loop {
            let event = tokio::select! {
                event = self.events.next_if(self.room > 0) => event,
                request = self.requests.message(), if asks => {
                    match request {
                        Ok(Some(request)) => {
                            self.room = self.room.saturating_add(request.more.into());
                        }
                        // It may go on listening to what it has asked for.
                        Ok(None) | Err(_) => asks = false,
                    }
                    continue;
                }
            };
            let news = match event {
                Some(SeatEvent::Roster(pns)) => Ok(Event::Participants(participants(&pns))),
                Some(SeatEvent::Message { from, payload }) => {
                    self.room -= 1;
                    let memory = self.memory.as_ref();
                    let shared_payload = memory.and_then(|memory| memory.lend(&payload));
                    let payload = if shared_payload.is_some() { Vec::new() } else { payload };
                    let from_pn = from.0;
                    Ok(Event::Message(v1::GroupMessage { from_pn, payload, shared_payload }))
                }
                Some(SeatEvent::Ended) => Err(not_a_member(&self.group, &self.session.process.0)),
                None => return,
            };
            let news = news.map(|event| v1::TakePartResponse { event: Some(event) });
            if tell.send(news).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.seat.close();
        let mut seats = lock(&self.session.seats);
        if seats.get(&self.group).is_some_and(|seat| seat.is(&self.seat)) {
            seats.remove(&self.group);
        }
    }
}

/// Ranks in the API's words.
pub(crate) fn participants(pns: &[Pn]) -> v1::Participants {
    v1::Participants { pns: pns.iter().map(|pn| pn.0).collect() }
}
