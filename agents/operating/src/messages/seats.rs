//! Seats: what a process uses to send messages, run operations, and hear.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_groups::ids::{Gn, Pn};
use fabricast_groups::names::NodeName;
use fabricast_messages::{
    Answer, Mode, OnFailure, OpenError, Operation, OperationError, SendError, StartError,
};
use fabricast_rpc::Reason;
use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::{Duration, Instant};
use tonic::Status;

use super::{Messaging, Waiting};
use crate::host::Host;

/// A process is told who takes part once in this time, at most: when many begin at once each of them would be told
/// of each.
const QUIET: Duration = Duration::from_millis(5);

/// The way to the seats of the members hosted by a process of operating agents.
#[derive(Clone, Debug)]
pub struct Messages(pub(crate) Host);

impl Messages {
    /// Lets a member take part in its group's messages and operations.
    ///
    /// # Errors
    ///
    /// `NOT_FOUND / UNKNOWN_NODE`, `NOT_FOUND / NOT_A_MEMBER` if the member has no place yet,
    /// `ALREADY_EXISTS / SEAT_TAKEN` if it takes part already.
    pub fn open_seat(&self, node: &NodeName, gn: Gn, pn: Pn) -> Result<(Seat, SeatEvents), Status> {
        self.0.open_seat(node, gn, pn)
    }
}

/// A member that takes part; it ceases to when the last copy is dropped.
#[derive(Clone, Debug)]
pub struct Seat(Arc<Place>);

#[derive(Debug)]
struct Place {
    host: Host,
    node: NodeName,
    gn: Gn,
    pn: Pn,
    room: Arc<Notify>,
}

/// What happens to a member, in order.
#[derive(Debug)]
pub struct SeatEvents {
    host: Host,
    node: NodeName,
    gn: Gn,
    pn: Pn,
    messages: mpsc::UnboundedReceiver<(Pn, Vec<u8>)>,
    roster: Option<watch::Receiver<()>>,
    quiet_until: Instant,
    ended: bool,
}

/// One thing that happens to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SeatEvent {
    /// A message of another member, whole.
    Message {
        /// Who sent it.
        from: Pn,
        /// The message.
        payload: Vec<u8>,
    },
    /// Who takes part; the first event, and after each change.
    Roster(Vec<Pn>),
    /// The member takes part no more; the last event.
    Ended,
}

/// How an operation ended for a member.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// Who contributed.
    pub participants: BTreeSet<Pn>,
    /// What the member gets.
    pub answer: Answer,
    /// Whether the switches combined it for the member, and not the members' tree.
    pub by_switches: bool,
}

impl Host {
    /// As [`Messages::open_seat`].
    pub(crate) fn open_seat(
        &self,
        node: &NodeName,
        gn: Gn,
        pn: Pn,
    ) -> Result<(Seat, SeatEvents), Status> {
        let (messages, arriving) = mpsc::unbounded_channel();
        let (roster, mut watched) = watch::channel(());
        let room = Arc::new(Notify::new());
        let waiting = Waiting {
            messages,
            roster,
            sends: BTreeMap::new(),
            operation: None,
            room: Arc::clone(&room),
            way: None,
            run: None,
        };
        let opened = self.messages(node, |messaging, agent, now| {
            let held = agent.member(gn, pn);
            if let Some(place) = held.and_then(super::place) {
                messaging.take_place(now, held, place);
            }
            messaging.courier.open(now, gn, pn)?;
            messaging.seats.insert((gn, pn), waiting);
            Ok(())
        });
        opened.ok_or_else(|| crate::service::unknown_node(node))?.map_err(not_opened)?;
        let place = Place { host: self.clone(), node: node.clone(), gn, pn, room };
        watched.mark_changed();
        let events = SeatEvents {
            host: self.clone(),
            node: node.clone(),
            gn,
            pn,
            messages: arriving,
            roster: Some(watched),
            quiet_until: Instant::now(),
            ended: false,
        };
        Ok((Seat(Arc::new(place)), events))
    }
}

impl Host {
    /// Who takes part as a member knows it, ascending; nobody if it takes no part itself.
    fn roster(&self, node: &NodeName, gn: Gn, pn: Pn) -> Vec<Pn> {
        let state = self.state();
        let hosted = state.nodes.get(node);
        let roster = hosted.and_then(|hosted| hosted.messages.courier.roster(gn, pn));
        roster.unwrap_or_default().into_keys().collect()
    }
}

impl Seat {
    /// Answers the member's rank.
    #[must_use]
    pub fn pn(&self) -> Pn {
        self.0.pn
    }

    /// Answers who takes part, as far as is known here, ascending.
    #[must_use]
    pub fn roster(&self) -> Vec<Pn> {
        self.0.host.roster(&self.0.node, self.0.gn, self.0.pn)
    }

    /// Ends the member's part, whatever copies there are: calls that are under way end, too.
    pub(crate) fn close(&self) {
        self.0.close();
    }

    /// Whether this is a copy of another seat.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Sends a message to all others who take part. A reliable one is answered once all have it who
    /// live, with those who ceased to take part meanwhile; waits for room before it is taken.
    ///
    /// # Errors
    ///
    /// `INVALID_ARGUMENT / PAYLOAD_TOO_LONG`, `NOT_FOUND / NOT_A_MEMBER` or
    /// `FAILED_PRECONDITION / TAKES_NO_PART` if the member takes part no more.
    pub async fn send(&self, mode: Mode, payload: &[u8]) -> Result<Vec<Pn>, Status> {
        let key = (self.0.gn, self.0.pn);
        loop {
            let room = self.0.room.notified();
            tokio::pin!(room);
            room.as_mut().enable(); // room that comes while we ask is not missed
            let (tell, told) = oneshot::channel();
            let sent = self.with(|messaging, now| {
                let id = messaging.courier.send(now, key, mode, payload)?;
                let seat = messaging.seats.get_mut(&key);
                if let Some(seat) = seat.filter(|_| mode == Mode::Reliable) {
                    seat.sends.insert(id, tell);
                }
                Ok(())
            });
            match sent {
                Ok(()) if mode == Mode::BestEffort => return Ok(Vec::new()),
                Ok(()) => return told.await.map_err(|_| self.ended()),
                Err(SendError::NoRoom) => room.await,
                Err(SendError::NotOpen { .. }) => return Err(self.ended()),
                Err(error @ SendError::TooLong { .. }) => {
                    return Err(Reason::PayloadTooLong.status(format!("payload: {error}"), &[]));
                }
            }
        }
    }

    /// Runs a collective operation; matched with the others' by the order of calls.
    ///
    /// # Errors
    ///
    /// `ABORTED / MEMBERS_FAILED`, `FAILED_PRECONDITION / OPERATIONS_DIFFER`,
    /// `FAILED_PRECONDITION / OPERATION_RUNNING`, `INVALID_ARGUMENT / PAYLOAD_TOO_LONG`,
    /// `INVALID_ARGUMENT / CONTRIBUTION_INVALID`, `NOT_FOUND / NOT_A_MEMBER` or
    /// `FAILED_PRECONDITION / TAKES_NO_PART` if the member takes part no more.
    pub async fn operate(
        &self,
        operation: &Operation,
        on_failure: OnFailure,
    ) -> Result<Ended, Status> {
        let key = (self.0.gn, self.0.pn);
        let (tell, told) = oneshot::channel();
        let begun = self.with(|messaging, now| {
            messaging.courier.operate(now, key, operation, on_failure)?;
            if let Some(seat) = messaging.seats.get_mut(&key) {
                seat.operation = Some(tell);
            }
            Ok(())
        });
        begun.map_err(|error| self.not_begun(error))?;
        let (call, outcome, by_switches) = told.await.map_err(|_| self.ended())?;
        let answer = outcome.answer(self.0.pn, &call).map_err(|error| failed(&error))?;
        Ok(Ended { participants: outcome.participants.clone(), answer, by_switches })
    }

    fn with<T, E: From<Gone>>(
        &self,
        work: impl FnOnce(&mut Messaging, fabricast_groups::Moment) -> Result<T, E>,
    ) -> Result<T, E> {
        let place = &self.0;
        let done = place.host.messages(&place.node, |messaging, _, now| work(messaging, now));
        done.unwrap_or_else(|| Err(Gone(place.gn, place.pn).into()))
    }

    fn ended(&self) -> Status {
        let Place { host, node, gn, pn, .. } = &*self.0;
        let text = format!("rank {pn} of group {gn} takes part no more");
        match host.look(node, |agent| agent.member(*gn, *pn).is_some()) {
            Some(true) => Reason::TakesNoPart.status(text, &[]),
            Some(false) | None => Reason::NotAMember.status(text, &[]),
        }
    }

    fn not_begun(&self, error: StartError) -> Status {
        let text = error.to_string();
        match error {
            StartError::NotOpen { .. } => self.ended(),
            StartError::Busy => Reason::OperationRunning.status(text, &[]),
            StartError::TooLong { .. } => Reason::PayloadTooLong.status(text, &[]),
            StartError::Reduction(_) => Reason::ContributionInvalid.status(text, &[]),
        }
    }
}

/// The node is not hosted any more.
struct Gone(Gn, Pn);

impl From<Gone> for SendError {
    fn from(Gone(gn, pn): Gone) -> Self {
        Self::NotOpen { gn, pn }
    }
}

impl From<Gone> for StartError {
    fn from(Gone(gn, pn): Gone) -> Self {
        Self::NotOpen { gn, pn }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.close();
    }
}

impl Place {
    fn close(&self) {
        let (gn, pn, room) = (self.gn, self.pn, &self.room);
        self.host.messages(&self.node, |messaging, _, now| {
            // The seat may be another's by now.
            let ours =
                messaging.seats.get(&(gn, pn)).is_some_and(|seat| Arc::ptr_eq(&seat.room, room));
            if ours {
                messaging.seats.remove(&(gn, pn));
                messaging.courier.close(now, gn, pn);
            }
        });
    }
}

impl SeatEvents {
    /// Waits for the next event; `None` after the last. Messages that are not taken stop their sources
    /// once the queue is full.
    pub async fn next(&mut self) -> Option<SeatEvent> {
        self.next_if(true).await
    }

    /// The same, without a message unless the process has room for one.
    pub(crate) async fn next_if(&mut self, room: bool) -> Option<SeatEvent> {
        loop {
            if self.ended {
                return None;
            }
            let changed = async {
                match &mut self.roster {
                    Some(roster) => {
                        tokio::time::sleep_until(self.quiet_until).await;
                        roster.changed().await
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                changed = changed => {
                    let roster = self.host.roster(&self.node, self.gn, self.pn);
                    if changed.is_err() {
                        self.roster = None;
                    } else if !roster.is_empty() {
                        self.quiet_until = Instant::now() + QUIET;
                        return Some(SeatEvent::Roster(roster));
                    }
                },
                message = self.messages.recv(), if room => {
                    let Some((from, payload)) = message else {
                        self.ended = true;
                        return Some(SeatEvent::Ended);
                    };
                    let (gn, pn) = (self.gn, self.pn);
                    self.host.messages(&self.node, |messaging, _, now| {
                        messaging.courier.consumed(now, gn, pn, 1);
                    });
                    return Some(SeatEvent::Message { from, payload });
                }
            }
        }
    }
}

fn not_opened(error: OpenError) -> Status {
    let text = error.to_string();
    match error {
        OpenError::NoPlace { .. } => Reason::NotAMember.status(text, &[]),
        OpenError::Open { .. } => Reason::SeatTaken.status(text, &[]),
    }
}

fn failed(error: &OperationError) -> Status {
    let text = error.to_string();
    match error {
        OperationError::MembersFailed { failed } => {
            let names: Vec<String> = failed.iter().map(ToString::to_string).collect();
            Reason::MembersFailed.status(text, &[("failed", &names.join(","))])
        }
        OperationError::Differ { .. } => Reason::OperationsDiffer.status(text, &[]),
    }
}
