//! The part of a membership whose message layer runs in this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use fabricast_messages::{Mode, OpenError, SendError, StartError};
use fabricast_proto::v1;
use fabricast_status::Reason;
use fabricast_wire::{decode_operation, encode_operation_error, encode_operation_result};
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use tokio::time::timeout;

use super::member::DirectMember;
use super::open_part::OpenPart;
use crate::Error;
use crate::part_state::{Message, Seen};

/// Time in which a member gets its place.
const PLACE_TIMEOUT: Duration = Duration::from_secs(15);

/// The part of a membership, until this is dropped.
#[derive(Debug)]
pub(crate) struct DirectPart {
    member: Arc<DirectMember>,
    serial: u64,
    pub(crate) seen: watch::Receiver<Seen>,
    inbox: Mutex<mpsc::UnboundedReceiver<Message>>,
}

impl Drop for DirectPart {
    fn drop(&mut self) {
        let id = self.member.id();
        self.member.with(|state, now| {
            if state.open.as_ref().is_some_and(|open| open.serial == self.serial) {
                state.open = None;
                state.layer.close(now, id.gn, id.pn);
            }
        });
        self.member.room.notify_waiters();
    }
}

impl DirectMember {
    /// Takes part from now on.
    pub(crate) async fn take_part(self: Arc<Self>) -> Result<DirectPart, Error> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let mut standing = self.standing.subscribe();
        let known = standing.wait_for(|standing| standing.has_place || standing.end.is_some());
        if timeout(PLACE_TIMEOUT, known).await.is_err() {
            return Err(self.refused(Reason::PeerUnavailable, "the member has no place yet"));
        }
        if let Some(error) = self.end_error() {
            return Err(error);
        }
        let id = self.id();
        let serial = NEXT.fetch_add(1, Ordering::Relaxed);
        let (seen_sender, seen) = watch::channel(Seen::default());
        let (messages, inbox) = mpsc::unbounded_channel();
        let (sends, operation) = Default::default();
        let open = OpenPart { serial, seen: seen_sender, messages, sends, operation };
        let opened = self.with(|state, now| {
            if self.has_ended() {
                return Err(OpenError::NoPlace { gn: id.gn, pn: id.pn });
            }
            if state.open.is_some() {
                return Err(OpenError::Open { gn: id.gn, pn: id.pn });
            }
            state.open = Some(open);
            let opened = state.layer.open(now, id.gn, id.pn);
            if opened.is_err() {
                state.open = None;
            }
            opened
        });
        match opened {
            Ok(()) => Ok(DirectPart { member: self, serial, seen, inbox: Mutex::new(inbox) }),
            Err(error @ OpenError::Open { .. }) => {
                Err(self.refused(Reason::TakesPartAlready, &error.to_string()))
            }
            Err(error @ OpenError::NoPlace { .. }) => {
                let refused = || self.refused(Reason::NotAMember, &error.to_string());
                Err(self.end_error().unwrap_or_else(refused))
            }
        }
    }

    fn refused(&self, reason: Reason, text: &str) -> Error {
        Error::of_group(self.group(), reason.status(text, &[]))
    }
}

impl DirectPart {
    pub(crate) fn group(&self) -> &str {
        self.member.group()
    }

    /// Waits for the next message of another member.
    pub(crate) async fn receive(&self) -> Result<Message, Error> {
        let message = self.inbox.lock().await.recv().await.ok_or_else(|| self.ended())?;
        let id = self.member.id();
        self.member.with(|state, now| state.layer.consumed(now, id.gn, id.pn, 1));
        Ok(message)
    }

    /// Sends a message; returns the ranks that may have it or not.
    pub(crate) async fn send(&self, payload: &[u8], best_effort: bool) -> Result<Vec<u32>, Error> {
        let mode = if best_effort { Mode::BestEffort } else { Mode::Reliable };
        let id = self.member.id();
        loop {
            let room = self.member.room.notified();
            tokio::pin!(room);
            room.as_mut().enable(); // room that comes during the attempt is not missed
            let sent = self.member.with(|state, now| {
                let id = state.layer.send(now, id, mode, payload)?;
                let (sender, delivered) = oneshot::channel();
                let open = state.open.as_mut().filter(|_| mode == Mode::Reliable);
                Ok(open.map(|open| {
                    open.sends.insert(id, sender);
                    delivered
                }))
            });
            match sent {
                Ok(None) => return Ok(Vec::new()),
                Ok(Some(delivered)) => {
                    let missed = delivered.await.map_err(|_| self.ended())?;
                    self.member.wait_until_sent().await;
                    return Ok(missed.into_iter().map(|pn| pn.0).collect());
                }
                Err(SendError::NoRoom) if self.member.has_ended() => return Err(self.ended()),
                Err(SendError::NoRoom) => room.await,
                Err(SendError::NotOpen { .. }) => return Err(self.ended()),
                Err(error @ SendError::TooLong { .. }) => {
                    return Err(self.refused(Reason::PayloadTooLong, &format!("payload: {error}")));
                }
            }
        }
    }

    /// Runs an operation to its end.
    pub(crate) async fn run(
        &self,
        operation: v1::GroupOperation,
    ) -> Result<v1::OperationResult, Error> {
        let (operation, terms) = decode_operation(Some(operation))
            .map_err(|error| Error::of_group(self.group(), error))?;
        let id = self.member.id();
        let (sender, ended) = oneshot::channel();
        let begun = self.member.with(|state, now| {
            let Some(open) = &mut state.open else {
                return Err(StartError::NotOpen { gn: id.gn, pn: id.pn });
            };
            if open.operation.is_some() {
                return Err(StartError::Busy);
            }
            open.operation = Some(sender); // it may end at once
            let begun = state.layer.operate(now, id, &operation, terms);
            if let (Err(_), Some(open)) = (&begun, &mut state.open) {
                open.operation = None;
            }
            begun
        });
        begun.map_err(|error| self.not_started(error))?;
        let (call, outcome) = ended.await.map_err(|_| self.ended())?;
        self.member.wait_until_sent().await;
        let answer = outcome.answer(id.pn, &call);
        let answer = answer
            .map_err(|error| Error::of_group(self.group(), encode_operation_error(&error)))?;
        Ok(encode_operation_result(&outcome.participants, answer, outcome.longest(&call)))
    }

    fn not_started(&self, error: StartError) -> Error {
        let reason = match error {
            StartError::NotOpen { .. } => return self.ended(),
            StartError::Busy => Reason::OperationRunning,
            StartError::TooLong { .. } => Reason::PayloadTooLong,
            StartError::Reduction(_) => Reason::ContributionInvalid,
        };
        self.refused(reason, &error.to_string())
    }

    fn refused(&self, reason: Reason, text: &str) -> Error {
        self.member.refused(reason, text)
    }

    fn ended(&self) -> Error {
        let takes_none = || self.refused(Reason::TakesNoPart, "the process takes no part any more");
        self.member.end_error().unwrap_or_else(takes_none)
    }
}
