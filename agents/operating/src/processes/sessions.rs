//! Sessions: a process is attached from the call that attaches it to the end of that call.
//!
//! Invariants
//! - SESSION-1: of the processes of one name on one node, at most one is attached; its successor
//!   waits until all memberships of the predecessor have ended.
//! - SESSION-2: a join that a process began before it died ends with its session, too.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::names::{GroupName, NodeName, ProcessName, RequestId};
use fabricast_groups::operating::{LeaveCall, Membership};
use fabricast_groups::token::JobToken;
use fabricast_rpc::{Backoff, Reason, request_id};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::info;

use super::memory::Sharing;
use super::reservations::{ProcessId, Reservations, UserAndJob};
use super::user_rules::Owner;
use super::user_shares::{NoShare, UserShares};
use crate::links::member_handle::MemberHandle;
use crate::runtime::Runtime;
use crate::settings::CALLS_PER_NODE;
use crate::tic::membership_calls::MembershipCalls;

/// Processes attached at one time.
const MAX_SESSIONS: usize = 16_384;
/// Processes that one session may have reserved.
const MAX_RESERVED: usize = 65_536;
/// Processes that all sessions may have reserved.
const MAX_RESERVED_BY_ALL: usize = 16 * MAX_RESERVED;
/// A process waits this long for the end of a predecessor of its name.
const PREDECESSOR_TIMEOUT: Duration = Duration::from_secs(8);
/// Number of the user that may reserve names for others.
const ROOT: u32 = 0;

/// One attached process.
#[derive(Debug)]
pub(crate) struct Session {
    /// Random, so that nobody guesses another's session.
    pub(crate) number: u64,
    pub(crate) process: ProcessId,
    /// Cancelled when the process has died or detached.
    pub(crate) over: CancellationToken,
    /// The user that the process runs as, and its groups.
    pub(crate) owner: Owner,
    calls: TaskTracker,
    /// The members that the process has opened, by group.
    pub(crate) members: Mutex<BTreeMap<GroupName, MemberHandle>>,
    pub(crate) memory: Mutex<Sharing>,
    /// Token of the process's job, for the groups that it joins.
    pub(crate) job_token: Option<JobToken>,
    /// Processes that are to attach before this session ends.
    reserved: Mutex<BTreeSet<ProcessId>>,
}

/// All sessions; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Sessions(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    runtime: Runtime,
    calls: MembershipCalls,
    table: Mutex<Table>,
    /// Notified when a session has been removed.
    removed: Notify,
}

#[derive(Debug)]
struct Table {
    /// Sessions by their number.
    sessions: BTreeMap<u64, Arc<Session>>,
    /// Sessions of each user.
    shares: UserShares,
    /// Number of the session in which a process is attached.
    numbers: BTreeMap<ProcessId, u64>,
    reservations: Reservations,
    /// Names that the sessions of each user reserve.
    reserved: UserShares,
}

impl Table {
    fn new() -> Self {
        let (sessions, numbers, reservations) = Default::default();
        let shares = UserShares::new("processes are attached", MAX_SESSIONS);
        let reserved = UserShares::new("names are reserved", MAX_RESERVED_BY_ALL);
        Self { sessions, shares, numbers, reservations, reserved }
    }

    /// The session in which a process is attached, or was until it began to end.
    fn attached(&self, process: &ProcessId) -> Option<&Arc<Session>> {
        self.sessions.get(self.numbers.get(process)?)
    }

    /// Sessions that reserve a name.
    fn reserving(&self, process: &ProcessId) -> impl Iterator<Item = &Arc<Session>> {
        let numbers = self.reservations.get(process).map(|reservation| &reservation.sessions);
        numbers.into_iter().flatten().filter_map(move |number| self.sessions.get(number))
    }

    /// Returns whether a name may be reserved now: not while sessions that had it are ending, which
    /// takes the process out of its groups, also out of those that it would be joined to now.
    ///
    /// # Errors
    ///
    /// [`SessionError::NotFree`] if others have reserved it or are attached under it.
    fn is_free_for(&self, who: UserAndJob, process: &ProcessId) -> Result<bool, SessionError> {
        let is_admitted = |one: &Session| who.admits(one.owner.user, one.job_token.as_ref());
        let reserved = self.reservations.get(process);
        let is_reserved = reserved.is_some_and(|reserved| reserved.who != who)
            && self.reserving(process).any(|one| !one.is_ending());
        let attached = self.attached(process);
        if is_reserved || attached.is_some_and(|one| !one.is_ending() && !is_admitted(one)) {
            let ProcessId { node, process } = process.clone();
            return Err(SessionError::NotFree { node, process, who });
        }
        Ok(!self.reserving(process).chain(attached).any(|one| one.is_ending()))
    }

    /// Returns whether the end of a session takes a process out of a group: the session may use the
    /// group, and no other one may in which the process is attached, or that reserves its name.
    fn takes_out(&self, ending: &Session, process: &ProcessId, group: &GroupName) -> bool {
        let may_use = |session: &Session| session.owner.caller.owns_group(group.as_str());
        let attached = self.attached(process).filter(|other| other.number != ending.number);
        // Memberships of a process end with it, also if its name is reserved for its successor.
        let reserving = self
            .reserving(process)
            .filter(|other| *process != ending.process && !other.is_ending());
        may_use(ending) && !attached.into_iter().chain(reserving).any(|other| may_use(other))
    }
}

/// A call of an attached process; the session's end waits for it.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) session: Arc<Session>,
    _token: TaskTrackerToken,
}

/// Ends the session when dropped, which is when the call that attached the process ends.
#[derive(Debug)]
pub(crate) struct Attached {
    sessions: Sessions,
    pub(crate) session: Arc<Session>,
}

/// The refusal of a session.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub(crate) enum SessionError {
    #[error("session: none such, or it has ended; attach again")]
    Unknown,
    #[error("session: it belongs to a process of another user or tenant")]
    NotYours,
    #[error("process: '{process}' is a member of groups on node '{node}' that {owner} may not use")]
    ForeignName { node: NodeName, process: ProcessName, owner: Owner },
    #[error("process: '{process}' is attached on node '{node}' already")]
    Attached { node: NodeName, process: ProcessName },
    #[error(transparent)]
    NoShare(#[from] NoShare),
    #[error("processes: a session reserves at most {MAX_RESERVED}")]
    TooManyReserved,
    #[error("process: '{process}' on node '{node}' is reserved for {who}")]
    Reserved { node: NodeName, process: ProcessName, who: UserAndJob },
    #[error(
        "processes: '{process}' on node '{node}' is not free for {who}: another user or job has \
         reserved it or is attached under it"
    )]
    NotFree { node: NodeName, process: ProcessName, who: UserAndJob },
    #[error("user: only root reserves names for another user, here {user}")]
    ForeignUser { user: u32 },
    #[error(
        "the memberships of a process of this name that died, or that a launcher had reserved, \
         have not ended yet"
    )]
    PredecessorNotEnded,
}

impl SessionError {
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::Unknown => Reason::UnknownSession,
            Self::NotYours => Reason::SessionNotYours,
            Self::ForeignName { .. }
            | Self::Reserved { .. }
            | Self::NotFree { .. }
            | Self::ForeignUser { .. } => Reason::NotPermitted,
            Self::Attached { .. } => Reason::ProcessAttached,
            Self::NoShare(_) | Self::TooManyReserved => Reason::LimitReached,
            Self::PredecessorNotEnded => Reason::PeerUnavailable,
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        let table = self.sessions.0.table.lock();
        self.session.over.cancel(); // under the lock: no call begins after this
        drop(table);
        let members = std::mem::take(&mut *self.session.members.lock());
        members.values().for_each(MemberHandle::close); // calls in flight on them end
        let sessions = self.sessions.clone();
        let session = Arc::clone(&self.session);
        self.sessions.0.runtime.tasks.spawn(sessions.end(session));
    }
}

impl Session {
    /// Returns whether it has begun to end.
    fn is_ending(&self) -> bool {
        self.over.is_cancelled()
    }

    /// The user and job that this session reserves names for.
    ///
    /// - `user`: the user that it reserves them for; `None` for its own.
    fn reserves_for(&self, user: Option<u32>) -> Result<UserAndJob, SessionError> {
        let own = self.owner.user;
        match user {
            Some(user) if own != Some(user) && own != Some(ROOT) => {
                Err(SessionError::ForeignUser { user })
            }
            _ => {
                let token = self.job_token.as_ref().map(JobToken::hash);
                Ok(UserAndJob { user: user.or(own), token })
            }
        }
    }
}

impl Sessions {
    pub(crate) fn new(runtime: Runtime, calls: MembershipCalls) -> Self {
        let table = Mutex::new(Table::new());
        Self(Arc::new(Inner { runtime, calls, table, removed: Notify::new() }))
    }

    /// Finds the session of a call, and keeps it from ending before the call.
    ///
    /// - `owner`: the caller.
    pub(crate) fn call(&self, number: u64, owner: &Owner) -> Result<Call, SessionError> {
        let table = self.0.table.lock();
        let session = table.sessions.get(&number).filter(|session| !session.is_ending());
        let session = session.ok_or(SessionError::Unknown)?;
        if session.owner != *owner {
            return Err(SessionError::NotYours);
        }
        Ok(Call { session: Arc::clone(session), _token: session.calls.token() })
    }

    /// Begins a session, once a predecessor of the same name has ended.
    ///
    /// A name that is reserved for others is refused (SESSION-6), unless the sessions that reserve
    /// it are ending, and so is one that is a member of a group which the owner may not use.
    ///
    /// - `token`: of the process's job.
    pub(crate) async fn attach(
        &self,
        process: ProcessId,
        owner: Owner,
        token: Option<JobToken>,
    ) -> Result<Attached, SessionError> {
        let attaching = self.once_ended(|| {
            let session = self.insert(&process, &owner, token.as_ref())?;
            Ok(session.map(|session| Attached { sessions: self.clone(), session }))
        });
        let attached = attaching.await?;
        if self.groups(&process).iter().all(|group| owner.caller.owns_group(group.as_str())) {
            return Ok(attached);
        }
        let ProcessId { node, process } = process;
        Err(SessionError::ForeignName { node, process, owner })
    }

    /// Changes the table once no session that is ending is in the way.
    ///
    /// - `change`: returns `None` while one is.
    async fn once_ended<T>(
        &self,
        change: impl Fn() -> Result<Option<T>, SessionError>,
    ) -> Result<T, SessionError> {
        let changing = async {
            loop {
                let removed = self.0.removed.notified();
                tokio::pin!(removed);
                removed.as_mut().enable();
                if let Some(changed) = change().transpose() {
                    return changed;
                }
                removed.await;
            }
        };
        let changed = tokio::time::timeout(PREDECESSOR_TIMEOUT, changing).await;
        changed.unwrap_or(Err(SessionError::PredecessorNotEnded))
    }

    /// Adds a session; `None` while a predecessor, or a launcher that had the name, is ending.
    fn insert(
        &self,
        process: &ProcessId,
        owner: &Owner,
        token: Option<&JobToken>,
    ) -> Result<Option<Arc<Session>>, SessionError> {
        let mut table = self.0.table.lock();
        let who = table.reservations.get(process).map(|reservation| reservation.who);
        if let Some(who) = who.filter(|who| !who.admits(owner.user, token)) {
            if table.reserving(process).all(|launcher| launcher.is_ending()) {
                return Ok(None);
            }
            let ProcessId { node, process } = process.clone();
            return Err(SessionError::Reserved { node, process, who });
        }
        if let Some(held) = table.attached(process) {
            if held.is_ending() {
                return Ok(None);
            }
            let ProcessId { node, process } = process.clone();
            return Err(SessionError::Attached { node, process });
        }
        table.shares.begin(owner.user, 1)?;
        // The one source of randomness of the standard library.
        let number = RandomState::new().build_hasher().finish();
        let session = Arc::new(Session {
            number,
            process: process.clone(),
            over: CancellationToken::new(),
            owner: owner.clone(),
            calls: TaskTracker::new(),
            members: Mutex::default(),
            memory: Mutex::default(),
            job_token: token.cloned(),
            reserved: Mutex::default(),
        });
        table.numbers.insert(process.clone(), number);
        table.sessions.insert(number, Arc::clone(&session));
        Ok(Some(session))
    }

    /// Notes processes that are to attach before a session ends, as a whole or not at all, once the
    /// sessions that had their names before have ended.
    ///
    /// - `user`: the user that they will run as; `None` for that of the session.
    ///
    /// # Errors
    ///
    /// [`SessionError::ForeignUser`], [`SessionError::NotFree`] with the first process that others
    /// have, [`SessionError::TooManyReserved`], [`SessionError::NoShare`],
    /// [`SessionError::PredecessorNotEnded`], or [`SessionError::Unknown`] if the session ends
    /// meanwhile.
    pub(crate) async fn reserve(
        &self,
        session: &Session,
        processes: &[ProcessId],
        user: Option<u32>,
    ) -> Result<(), SessionError> {
        let who = session.reserves_for(user)?;
        let noting = self.once_ended(|| self.note_reserved(session, processes, who));
        tokio::select! {
            biased;
            () = session.over.cancelled() => Err(SessionError::Unknown),
            noted = noting => noted,
        }
    }

    /// Notes reserved processes; `None` while sessions that had their names are ending.
    fn note_reserved(
        &self,
        session: &Session,
        processes: &[ProcessId],
        who: UserAndJob,
    ) -> Result<Option<()>, SessionError> {
        let mut table = self.0.table.lock();
        let mut are_free = true;
        for process in processes {
            are_free &= table.is_free_for(who, process)?;
        }
        if !are_free {
            return Ok(None);
        }
        let mut reserved = session.reserved.lock();
        let more = processes.iter().filter(|process| !reserved.contains(*process));
        let more: BTreeSet<&ProcessId> = more.collect();
        if reserved.len() + more.len() > MAX_RESERVED {
            return Err(SessionError::TooManyReserved);
        }
        table.reserved.begin(session.owner.user, more.len())?;
        for process in more {
            table.reservations.add(process.clone(), who, session.number);
            reserved.insert(process.clone());
        }
        Ok(Some(()))
    }

    /// Takes a process that is gone out of its groups, and those that it reserved and that have not
    /// attached.
    async fn end(self, session: Arc<Session>) {
        session.calls.close();
        session.calls.wait().await;
        let reserved = std::mem::take(&mut *session.reserved.lock());
        let mut gone = reserved.clone();
        gone.insert(session.process.clone());
        let mut backoff = Backoff::default();
        loop {
            let all = self.leaves(&gone, &session);
            if all.is_empty() {
                break;
            }
            let mut all = all.into_iter();
            loop {
                let some: Vec<_> = all.by_ref().take(CALLS_PER_NODE / 2).collect();
                if some.is_empty() {
                    break;
                }
                // The memberships show which leaves have failed.
                let _ = self.0.calls.leave_many(some).await;
            }
            if !self.leaves(&gone, &session).is_empty() {
                tokio::time::sleep(backoff.next_delay()).await;
            }
        }
        self.remove(&session, &reserved);
        let ProcessId { node, process } = &session.process;
        info!(%node, %process, "process detached");
    }

    /// One leave for each membership of processes that are gone and that the end of a session takes
    /// out of its group.
    fn leaves(&self, gone: &BTreeSet<ProcessId>, ending: &Session) -> Vec<(NodeName, LeaveCall)> {
        let held = self.memberships(gone);
        let table = self.0.table.lock();
        let is_left =
            |(process, group): &(ProcessId, GroupName)| table.takes_out(ending, process, group);
        let leave = |(ProcessId { node, process }, group)| {
            let request_id = RequestId::new(&request_id()).ok()?;
            Some((node, LeaveCall { request_id, group, process }))
        };
        held.into_iter().filter(is_left).filter_map(leave).collect()
    }

    /// The memberships of some processes.
    fn memberships(&self, processes: &BTreeSet<ProcessId>) -> Vec<(ProcessId, GroupName)> {
        let nodes: BTreeSet<&NodeName> = processes.iter().map(|process| &process.node).collect();
        let of_node = |node: &NodeName| -> Vec<(ProcessId, GroupName)> {
            let held = self.0.runtime.nodes.read(node, |agent| {
                let process = |held: &Membership| {
                    let process = held.member.process.clone();
                    ProcessId { node: node.clone(), process }
                };
                let held = agent.memberships().map(|held| (process(held), held.group.clone()));
                held.filter(|(process, _)| processes.contains(process)).collect()
            });
            held.unwrap_or_default()
        };
        nodes.into_iter().flat_map(of_node).collect()
    }

    /// The groups that a process is a member of.
    fn groups(&self, id: &ProcessId) -> Vec<GroupName> {
        let groups = self.0.runtime.nodes.read(&id.node, |agent| {
            let held = agent.memberships().filter(|held| held.member.process == id.process);
            held.map(|held| held.group.clone()).collect()
        });
        groups.unwrap_or_default()
    }

    /// Makes the names of a session free that has ended.
    ///
    /// - `reserved`: those that it reserved.
    fn remove(&self, session: &Session, reserved: &BTreeSet<ProcessId>) {
        let mut table = self.0.table.lock();
        reserved.iter().for_each(|process| table.reservations.remove(process, session.number));
        table.sessions.remove(&session.number);
        table.shares.end(session.owner.user, 1);
        table.reserved.end(session.owner.user, reserved.len());
        table.numbers.remove(&session.process);
        drop(table);
        self.0.removed.notify_waiters();
    }
}

#[cfg(test)]
mod tests;
