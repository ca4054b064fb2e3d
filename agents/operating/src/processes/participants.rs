//! Processes that take part in a group's messages: from a call of `TakePart` to its end.
//!
//! ```text
//!  process ──► TakePart: more ──► Participant ──► takes from MemberEvents as many as there is room
//!          ◄── participants, messages ──┘
//!          ──► SendMessage, RunOperation ──► the MemberHandle of the session in the group
//! ```
//!
//! Invariants
//! - SESSION-3: an agent has handed a process at most as many messages as the process has asked
//!   for.

use std::sync::Arc;

use fabricast_groups::names::GroupName;
use fabricast_proto::v1;
use fabricast_proto::v1::take_part_response::Event;
use tokio::sync::mpsc;
use tokio_stream::{Stream, StreamExt};

use super::memory::{Memories, Shared};
use super::sessions::Session;
use crate::links::member_handle::{MemberEvent, MemberEvents, MemberHandle};

/// A process that takes part in a group, until this is dropped.
#[derive(Debug)]
pub(crate) struct Participant {
    session: Arc<Session>,
    group: GroupName,
    handle: MemberHandle,
    events: MemberEvents,
    /// Messages that the process has asked for and not got.
    room: u64,
    memory: Option<ParticipantMemory>,
}

/// The process is not a member of the group any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoMember;

/// Shared memory for the messages of one call of `TakePart`.
#[derive(Debug)]
pub(crate) struct ParticipantMemory {
    memories: Arc<Memories>,
    shared: Arc<Shared>,
    part: u64,
}

impl ParticipantMemory {
    /// - `part`: the number of the call; 0 if the process has given it none.
    pub(crate) fn open(memories: &Arc<Memories>, session: &Session, part: u64) -> Option<Self> {
        let shared = session.shared().filter(|_| part != 0)?;
        shared.open_part(part);
        Some(Self { memories: Arc::clone(memories), shared, part })
    }

    fn lend(&self, payload: &[u8]) -> Option<v1::MemoryRange> {
        self.shared.lend(&self.memories, Some(self.part), payload)
    }
}

impl Drop for ParticipantMemory {
    fn drop(&mut self) {
        self.shared.close_part(self.part);
    }
}

impl Participant {
    /// - `room`: messages that the process has asked for with its first request.
    pub(crate) fn new(
        session: Arc<Session>,
        group: GroupName,
        handle: MemberHandle,
        events: MemberEvents,
        room: u32,
    ) -> Self {
        session.members.lock().insert(group.clone(), handle.clone());
        Self { session, group, handle, events, room: room.into(), memory: None }
    }

    /// Lets messages go through shared memory, if there is any.
    pub(crate) fn with_memory(mut self, memory: Option<ParticipantMemory>) -> Self {
        self.memory = memory;
        self
    }

    /// Sends events until nobody listens, the session is over, or the member has ended.
    ///
    /// - `more`: the numbers of further messages that the process asks for.
    pub(crate) async fn serve(
        mut self,
        more: impl Stream<Item = u32> + Unpin,
        events: mpsc::Sender<Result<v1::TakePartResponse, NoMember>>,
    ) {
        let over = self.session.over.clone();
        tokio::select! {
            () = self.send_events(more, &events) => {}
            () = events.closed() => {}
            () = over.cancelled() => {}
        }
    }

    async fn send_events(
        &mut self,
        mut more: impl Stream<Item = u32> + Unpin,
        events: &mpsc::Sender<Result<v1::TakePartResponse, NoMember>>,
    ) {
        let mut may_ask = true;
        loop {
            let event = tokio::select! {
                event = self.events.next_if(self.room > 0) => event,
                more = more.next(), if may_ask => {
                    match more {
                        Some(more) => self.room = self.room.saturating_add(more.into()),
                        // The process may go on listening to what it has asked for.
                        None => may_ask = false,
                    }
                    continue;
                }
            };
            let event = match event {
                Some(MemberEvent::Roster(pns)) => {
                    let pns = pns.iter().map(|pn| pn.0).collect();
                    Ok(Event::Participants(v1::Participants { pns }))
                }
                Some(MemberEvent::Message { from, payload }) => {
                    self.room -= 1;
                    let memory = self.memory.as_ref();
                    let shared_payload = memory.and_then(|memory| memory.lend(&payload));
                    let payload = if shared_payload.is_some() { Vec::new() } else { payload };
                    let from_pn = from.0;
                    Ok(Event::Message(v1::GroupMessage { from_pn, payload, shared_payload }))
                }
                Some(MemberEvent::Ended) => Err(NoMember),
                None => return,
            };
            let event = event.map(|event| v1::TakePartResponse { event: Some(event) });
            if events.send(event).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Participant {
    fn drop(&mut self) {
        self.handle.close();
        let mut members = self.session.members.lock();
        if members.get(&self.group).is_some_and(|handle| handle.is(&self.handle)) {
            members.remove(&self.group);
        }
    }
}
