//! Handles of members that take part: to send messages, run operations, and receive events.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_groups::ids::{Gn, Moment, Pn};
use fabricast_groups::names::NodeName;
use fabricast_messages::{
    Answer, MemberId, Mode, OpenError, Operation, OperationError, SendError, StartError, Terms,
};
use fabricast_rpc::Reason;
use thiserror::Error;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Duration, Instant};

use crate::nodes::Nodes;
use crate::nodes::messages::{MemberChannels, NodeMessages};

/// Shortest time between two rosters: when many members open at once, each would be told of each.
const ROSTER_INTERVAL: Duration = Duration::from_millis(5);

/// Opens members hosted by a process of operating agents.
#[derive(Clone, Debug)]
pub struct Messages(pub(crate) Nodes);

/// A member that takes part in its group's messages; closed when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct MemberHandle(Arc<OpenMember>);

#[derive(Debug)]
struct OpenMember {
    nodes: Nodes,
    node: NodeName,
    gn: Gn,
    pn: Pn,
    room: Arc<Notify>,
}

/// Events of a member, in order.
#[derive(Debug)]
pub struct MemberEvents {
    nodes: Nodes,
    node: NodeName,
    gn: Gn,
    pn: Pn,
    messages: mpsc::UnboundedReceiver<(Pn, Vec<u8>)>,
    roster_changed: Option<watch::Receiver<()>>,
    next_roster: Instant,
    has_ended: bool,
}

/// One event of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberEvent {
    /// A message of another member, whole.
    Message {
        /// The sender's rank.
        from: Pn,
        /// The bytes as sent.
        payload: Vec<u8>,
    },
    /// The members that take part, ascending; the first event, and after each change.
    Roster(Vec<Pn>),
    /// The member takes part no more; the last event.
    Ended,
}

/// The end of an operation for a member.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// The members that contributed.
    pub participants: BTreeSet<Pn>,
    /// The member's result.
    pub answer: Answer,
    /// Bytes of the longest contribution of one member.
    pub longest: usize,
    /// True if switches combined the contributions, false if the members' tree did.
    pub by_switches: bool,
}

/// The failure of a call on a member.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum MemberError {
    /// The node is not hosted by this process.
    #[error("node: '{node}' is not hosted here")]
    UnknownNode {
        /// Name of the node, as given.
        node: NodeName,
    },
    /// The member cannot be opened now.
    #[error("{0}")]
    NotOpened(OpenError),
    /// The member has left its group, or never was in it.
    #[error("rank {pn} of group {gn} takes part no more")]
    NotAMember {
        /// Number of the group.
        gn: Gn,
        /// The member's rank.
        pn: Pn,
    },
    /// The member is in its group and takes part no more.
    #[error("rank {pn} of group {gn} takes part no more")]
    TakesNoPart {
        /// Number of the group.
        gn: Gn,
        /// The member's rank.
        pn: Pn,
    },
    /// The payload is too long.
    #[error("payload: {0}")]
    NotSent(SendError),
    /// The operation is invalid, or another one of the member runs.
    #[error("{0}")]
    NotStarted(StartError),
    /// The operation has begun and failed.
    #[error("{0}")]
    Failed(OperationError),
}

impl MemberError {
    /// The stable reason.
    #[must_use]
    pub fn reason(&self) -> Reason {
        match self {
            Self::UnknownNode { .. } => Reason::UnknownNode,
            Self::NotOpened(OpenError::Open { .. }) => Reason::TakesPartAlready,
            Self::NotOpened(OpenError::NoPlace { .. }) | Self::NotAMember { .. } => {
                Reason::NotAMember
            }
            Self::TakesNoPart { .. }
            | Self::NotSent(SendError::NotOpen { .. } | SendError::NoRoom)
            | Self::NotStarted(StartError::NotOpen { .. }) => Reason::TakesNoPart,
            Self::NotSent(SendError::TooLong { .. })
            | Self::NotStarted(StartError::TooLong { .. })
            | Self::Failed(OperationError::TooLong { .. }) => Reason::PayloadTooLong,
            Self::NotStarted(StartError::Busy) => Reason::OperationRunning,
            Self::NotStarted(StartError::Reduction(_)) => Reason::ContributionInvalid,
            Self::Failed(OperationError::MembersFailed { .. }) => Reason::MembersFailed,
            Self::Failed(OperationError::Differ { .. }) => Reason::OperationsDiffer,
        }
    }
}

impl Messages {
    /// Lets a member take part in its group's messages and operations.
    ///
    /// # Errors
    ///
    /// [`MemberError`] with `UNKNOWN_NODE`, `NOT_A_MEMBER` if the member has no position yet, or
    /// `SEAT_TAKEN` if it takes part already.
    pub fn open_member(
        &self,
        node: &NodeName,
        gn: Gn,
        pn: Pn,
    ) -> Result<(MemberHandle, MemberEvents), MemberError> {
        let (messages, arriving) = mpsc::unbounded_channel();
        let (sender, mut roster_changed) = watch::channel(());
        let room = Arc::new(Notify::new());
        let channels = MemberChannels { messages, roster_changed: sender, room: Arc::clone(&room) };
        let opened = self.0.messages(node, |messages, agent, now| {
            messages.open(now, agent, MemberId { gn, pn }, channels)
        });
        opened
            .ok_or_else(|| MemberError::UnknownNode { node: node.clone() })?
            .map_err(MemberError::NotOpened)?;
        let (nodes, node) = (self.0.clone(), node.clone());
        roster_changed.mark_changed();
        let events = MemberEvents {
            nodes: nodes.clone(),
            node: node.clone(),
            gn,
            pn,
            messages: arriving,
            roster_changed: Some(roster_changed),
            next_roster: Instant::now(),
            has_ended: false,
        };
        Ok((MemberHandle(Arc::new(OpenMember { nodes, node, gn, pn, room })), events))
    }
}

/// The members that take part as a member knows them, ascending; none if it takes no part itself.
fn roster(nodes: &Nodes, node: &NodeName, gn: Gn, pn: Pn) -> Vec<Pn> {
    let roster = nodes.read_messages(node, |messages| messages.layer.roster(gn, pn));
    roster.flatten().unwrap_or_default().into_keys().collect()
}

impl MemberHandle {
    /// Returns the member's rank.
    #[must_use]
    pub fn pn(&self) -> Pn {
        self.0.pn
    }

    /// Returns the members that take part, as far as is known here, ascending.
    #[must_use]
    pub fn roster(&self) -> Vec<Pn> {
        roster(&self.0.nodes, &self.0.node, self.0.gn, self.0.pn)
    }

    /// Closes the member, whatever clones there are: calls in flight end, too.
    pub(crate) fn close(&self) {
        self.0.close();
    }

    /// Tells if this is a clone of another handle.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Sends a message to all others who take part; waits for room before it is taken. A reliable
    /// message ends once every live member has it, and returns those who ceased to take part
    /// meanwhile.
    ///
    /// # Errors
    ///
    /// [`MemberError`] with `PAYLOAD_TOO_LONG`, or `NOT_A_MEMBER` or `TAKES_NO_PART` if the member
    /// takes part no more.
    pub async fn send(&self, mode: Mode, payload: &[u8]) -> Result<Vec<Pn>, MemberError> {
        let key = MemberId { gn: self.0.gn, pn: self.0.pn };
        loop {
            let room = self.0.room.notified();
            tokio::pin!(room);
            room.as_mut().enable(); // room that comes during the attempt is not missed
            let sent = self.with(|messages, now| messages.send(now, key, mode, payload));
            match sent {
                Some(Ok(None)) => return Ok(Vec::new()),
                Some(Ok(Some(delivered))) => return delivered.await.map_err(|_| self.closed()),
                Some(Err(SendError::NoRoom)) => room.await,
                Some(Err(SendError::NotOpen { .. })) | None => return Err(self.closed()),
                Some(Err(error @ SendError::TooLong { .. })) => {
                    return Err(MemberError::NotSent(error));
                }
            }
        }
    }

    /// Runs a collective operation; matched with the others' by the order of calls.
    ///
    /// # Errors
    ///
    /// [`MemberError`] with `MEMBERS_FAILED`, `OPERATIONS_DIFFER`, `OPERATION_RUNNING`,
    /// `PAYLOAD_TOO_LONG`, `CONTRIBUTION_INVALID`, or `NOT_A_MEMBER` or `TAKES_NO_PART` if the
    /// member takes part no more.
    pub async fn operate(
        &self,
        operation: &Operation,
        terms: impl Into<Terms>,
    ) -> Result<Ended, MemberError> {
        let key = MemberId { gn: self.0.gn, pn: self.0.pn };
        let terms = terms.into();
        let begun = self.with(|messages, now| messages.operate(now, key, operation, terms));
        let ended = match begun {
            Some(Ok(ended)) => ended,
            Some(Err(StartError::NotOpen { .. })) | None => return Err(self.closed()),
            Some(Err(error)) => return Err(MemberError::NotStarted(error)),
        };
        let end = ended.await.map_err(|_| self.closed())?;
        let answer = end.outcome.answer(self.0.pn, &end.call).map_err(MemberError::Failed)?;
        let participants = end.outcome.participants.clone();
        let longest = end.outcome.longest(&end.call);
        Ok(Ended { participants, answer, longest, by_switches: end.by_switches })
    }

    fn with<T>(&self, work: impl FnOnce(&mut NodeMessages, Moment) -> T) -> Option<T> {
        self.0.nodes.messages(&self.0.node, |messages, _, now| work(messages, now))
    }

    fn closed(&self) -> MemberError {
        let OpenMember { nodes, node, gn, pn, .. } = &*self.0;
        let (gn, pn) = (*gn, *pn);
        match nodes.read(node, |agent| agent.member(gn, pn).is_some()) {
            Some(true) => MemberError::TakesNoPart { gn, pn },
            Some(false) | None => MemberError::NotAMember { gn, pn },
        }
    }
}

impl OpenMember {
    fn close(&self) {
        self.nodes.messages(&self.node, |messages, _, now| {
            messages.close(now, MemberId { gn: self.gn, pn: self.pn }, &self.room);
        });
    }
}

impl Drop for OpenMember {
    fn drop(&mut self) {
        self.close();
    }
}

impl MemberEvents {
    /// Waits for the next event; `None` after the last. Messages that are not taken stop their
    /// senders once the inbox is full.
    pub async fn next(&mut self) -> Option<MemberEvent> {
        self.next_if(true).await
    }

    /// The same, without a message unless the process has room for one.
    pub(crate) async fn next_if(&mut self, has_room: bool) -> Option<MemberEvent> {
        loop {
            if self.has_ended {
                return None;
            }
            let changed = async {
                match &mut self.roster_changed {
                    Some(changed) => {
                        tokio::time::sleep_until(self.next_roster).await;
                        changed.changed().await
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                changed = changed => {
                    let roster = roster(&self.nodes, &self.node, self.gn, self.pn);
                    if changed.is_err() {
                        self.roster_changed = None;
                    } else if !roster.is_empty() {
                        self.next_roster = Instant::now() + ROSTER_INTERVAL;
                        return Some(MemberEvent::Roster(roster));
                    }
                },
                message = self.messages.recv(), if has_room => {
                    let Some((from, payload)) = message else {
                        self.has_ended = true;
                        return Some(MemberEvent::Ended);
                    };
                    self.nodes.messages(&self.node, |messages, _, now| {
                        messages.layer.consumed(now, self.gn, self.pn, 1);
                    });
                    return Some(MemberEvent::Message { from, payload });
                }
            }
        }
    }
}
