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
use super::reservations::{Holder, ProcessId, Reservations};
use super::session_shares::{NoShare, SessionShares};
use super::user_rules::Owner;
use crate::links::member_handle::MemberHandle;
use crate::runtime::Runtime;
use crate::settings::CALLS_PER_CLIENT;
use crate::tic::membership_calls::MembershipCalls;

/// Processes attached at one time.
const MAX_SESSIONS: usize = 16_384;
/// Processes that one session may have reserved.
const MAX_RESERVED: usize = 65_536;
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
    sessions: BTreeMap<u64, Arc<Session>>,
    shares: SessionShares,
    numbers: BTreeMap<ProcessId, u64>,
    reservations: Reservations,
}

impl Table {
    fn new() -> Self {
        let (sessions, numbers, reservations) = Default::default();
        Self { sessions, shares: SessionShares::new(MAX_SESSIONS), numbers, reservations }
    }

    /// Returns whether nobody else has reserved a name or is attached under it.
    fn is_free_for(&self, holder: &Holder, process: &ProcessId) -> bool {
        let attached = self.numbers.get(process).and_then(|number| self.sessions.get(number));
        let is_holder = |one: &Arc<Session>| holder.admits(one.owner.user, one.job_token.as_ref());
        self.reservations.holder(process).is_none_or(|other| other == holder)
            && attached.is_none_or(is_holder)
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
    #[error("process: '{process}' on node '{node}' is reserved for {holder}")]
    Reserved { node: NodeName, process: ProcessName, holder: Holder },
    #[error(
        "processes: '{process}' on node '{node}' is not free for {holder}: another user or job has \
         reserved it or is attached under it"
    )]
    NotFree { node: NodeName, process: ProcessName, holder: Holder },
    #[error("user: only root reserves names for another user, here {user}")]
    ForeignUser { user: u32 },
    #[error("the memberships of a process of this name that died have not ended yet")]
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
    /// The holder of names that this session reserves.
    ///
    /// - `user`: the user that it reserves them for; `None` for its own.
    fn holder(&self, user: Option<u32>) -> Result<Holder, SessionError> {
        let own = self.owner.user;
        match user {
            Some(user) if own != Some(user) && own != Some(ROOT) => {
                Err(SessionError::ForeignUser { user })
            }
            _ => {
                let token = self.job_token.as_ref().map(JobToken::hash);
                Ok(Holder { user: user.or(own), token })
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
        let session = table.sessions.get(&number).filter(|session| !session.over.is_cancelled());
        let session = session.ok_or(SessionError::Unknown)?;
        if session.owner != *owner {
            return Err(SessionError::NotYours);
        }
        Ok(Call { session: Arc::clone(session), _token: session.calls.token() })
    }

    /// Begins a session, once a predecessor of the same name has ended.
    ///
    /// A name that is reserved for others is refused (SESSION-6), and so is one that is a member of
    /// a group which the owner may not use.
    ///
    /// - `token`: of the process's job.
    pub(crate) async fn attach(
        &self,
        process: ProcessId,
        owner: Owner,
        token: Option<JobToken>,
    ) -> Result<Attached, SessionError> {
        let attaching = async {
            loop {
                let removed = self.0.removed.notified();
                tokio::pin!(removed);
                removed.as_mut().enable();
                if let Some(session) = self.insert(&process, &owner, token.as_ref())? {
                    return Ok(Attached { sessions: self.clone(), session });
                }
                removed.await;
            }
        };
        let attached = tokio::time::timeout(PREDECESSOR_TIMEOUT, attaching).await;
        let attached = attached.unwrap_or(Err(SessionError::PredecessorNotEnded))?;
        if self.groups(&process).iter().all(|group| owner.caller.owns_group(group.as_str())) {
            return Ok(attached);
        }
        let (node, process) = process;
        Err(SessionError::ForeignName { node, process, owner })
    }

    /// Adds a session; `None` while a predecessor is ending.
    fn insert(
        &self,
        process: &ProcessId,
        owner: &Owner,
        token: Option<&JobToken>,
    ) -> Result<Option<Arc<Session>>, SessionError> {
        let mut table = self.0.table.lock();
        let reserved = table.reservations.holder(process);
        if let Some(holder) = reserved.filter(|holder| !holder.admits(owner.user, token)) {
            let (holder, (node, process)) = (*holder, process.clone());
            return Err(SessionError::Reserved { node, process, holder });
        }
        if let Some(held) = table.numbers.get(process).and_then(|held| table.sessions.get(held)) {
            if held.over.is_cancelled() {
                return Ok(None);
            }
            let (node, process) = process.clone();
            return Err(SessionError::Attached { node, process });
        }
        table.shares.begin(owner.user)?;
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

    /// Notes processes that are to attach before a session ends, as a whole or not at all.
    ///
    /// - `user`: the user that they will run as; `None` for that of the session.
    ///
    /// # Errors
    ///
    /// [`SessionError::ForeignUser`], [`SessionError::NotFree`] with the first process that others
    /// have, [`SessionError::TooManyReserved`].
    pub(crate) fn reserve(
        &self,
        session: &Session,
        processes: &[ProcessId],
        user: Option<u32>,
    ) -> Result<(), SessionError> {
        let holder = session.holder(user)?;
        let mut table = self.0.table.lock();
        let taken = processes.iter().find(|process| !table.is_free_for(&holder, process));
        if let Some((node, process)) = taken.cloned() {
            return Err(SessionError::NotFree { node, process, holder });
        }
        let mut reserved = session.reserved.lock();
        let more = processes.iter().filter(|process| !reserved.contains(*process));
        let more: BTreeSet<&ProcessId> = more.collect();
        if reserved.len() + more.len() > MAX_RESERVED {
            return Err(SessionError::TooManyReserved);
        }
        for process in more {
            table.reservations.add(process.clone(), holder);
            reserved.insert(process.clone());
        }
        Ok(())
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
                let some: Vec<_> = all.by_ref().take(CALLS_PER_CLIENT).collect();
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
        let (node, process) = &session.process;
        info!(%node, %process, "process detached");
    }

    /// One leave for each membership of processes that are gone, if the ending session may use its
    /// group and no other session in which the process is attached may.
    fn leaves(&self, gone: &BTreeSet<ProcessId>, ending: &Session) -> Vec<(NodeName, LeaveCall)> {
        let held = self.memberships(gone);
        let table = self.0.table.lock();
        let is_left = |(process, group): &(ProcessId, GroupName)| {
            let may_use = |session: &Session| session.owner.caller.owns_group(group.as_str());
            let attached = table.numbers.get(process).and_then(|number| table.sessions.get(number));
            let attached = attached.filter(|other| other.number != ending.number);
            may_use(ending) && !attached.is_some_and(|other| may_use(other))
        };
        let leave = |((node, process), group)| {
            let request_id = RequestId::new(&request_id()).ok()?;
            Some((node, LeaveCall { request_id, group, process }))
        };
        held.into_iter().filter(is_left).filter_map(leave).collect()
    }

    /// The memberships of some processes.
    fn memberships(&self, processes: &BTreeSet<ProcessId>) -> Vec<(ProcessId, GroupName)> {
        let nodes: BTreeSet<&NodeName> = processes.iter().map(|(node, _)| node).collect();
        let of_node = |node: &NodeName| -> Vec<(ProcessId, GroupName)> {
            let held = self.0.runtime.nodes.read(node, |agent| {
                let process = |held: &Membership| (node.clone(), held.member.process.clone());
                let held = agent.memberships().map(|held| (process(held), held.group.clone()));
                held.filter(|(process, _)| processes.contains(process)).collect()
            });
            held.unwrap_or_default()
        };
        nodes.into_iter().flat_map(of_node).collect()
    }

    /// The groups that a process is a member of.
    fn groups(&self, (node, process): &ProcessId) -> Vec<GroupName> {
        let groups = self.0.runtime.nodes.read(node, |agent| {
            let held = agent.memberships().filter(|held| held.member.process == *process);
            held.map(|held| held.group.clone()).collect()
        });
        groups.unwrap_or_default()
    }

    /// Makes the names of a session free that has ended.
    ///
    /// - `reserved`: those that it reserved.
    fn remove(&self, session: &Session, reserved: &BTreeSet<ProcessId>) {
        let mut table = self.0.table.lock();
        reserved.iter().for_each(|process| table.reservations.remove(process));
        table.sessions.remove(&session.number);
        table.shares.end(session.owner.user);
        table.numbers.remove(&session.process);
        drop(table);
        self.0.removed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::agent;

    fn named(node: &NodeName, name: &str) -> ProcessId {
        (node.clone(), ProcessName::new(name).unwrap())
    }

    fn user(number: u32) -> Owner {
        Owner { user: Some(number), ..Owner::default() }
    }

    #[tokio::test]
    async fn a_name_is_attached_once_and_free_again_after_the_end() {
        let test = agent();
        let sessions = &test.agent.sessions;
        let process = named(&test.node, "p0");
        let first = sessions.attach(process.clone(), user(7), None).await.unwrap();
        let refused = sessions.attach(process.clone(), user(7), None).await.unwrap_err();
        assert_eq!(refused.reason(), Reason::ProcessAttached);
        let number = first.session.number;
        let call = sessions.call(number, &user(7)).unwrap();
        drop(first);
        assert_eq!(sessions.call(number, &user(7)).unwrap_err(), SessionError::Unknown);
        // A call of the first is still in flight, so the next of the name waits.
        let next = sessions.attach(process, user(7), None);
        tokio::pin!(next);
        let early = tokio::time::timeout(Duration::from_millis(20), &mut next).await;
        assert!(early.is_err(), "{early:?}");
        drop(call);
        assert_ne!(next.await.unwrap().session.number, number);
    }

    #[tokio::test]
    async fn no_user_attaches_so_many_processes_that_another_cannot() {
        let test = agent();
        let sessions = &test.agent.sessions;
        let process = |at: usize| named(&test.node, &format!("p{at}"));
        for at in 0..MAX_SESSIONS / 2 {
            sessions.insert(&process(at), &user(7), None).unwrap().unwrap();
        }
        let next = process(MAX_SESSIONS);
        let refused = sessions.insert(&next, &user(7), None).unwrap_err();
        let share = NoShare::User { count: MAX_SESSIONS / 2 };
        assert_eq!(refused, SessionError::NoShare(share));
        assert_eq!(refused.reason(), Reason::LimitReached);
        drop(sessions.attach(next.clone(), user(8), None).await.unwrap());
        sessions.attach(next, user(8), None).await.unwrap();
    }

    #[tokio::test]
    async fn a_session_reserves_a_bounded_number_of_processes() {
        let test = agent();
        let sessions = &test.agent.sessions;
        let attached = sessions.attach(named(&test.node, "p0"), user(7), None).await.unwrap();
        let session = &attached.session;
        let reserved = |count: usize| -> Vec<ProcessId> {
            (0..count).map(|number| named(&test.node, &format!("r{number}"))).collect()
        };
        // The same ones count once.
        sessions.reserve(session, &reserved(MAX_RESERVED), None).unwrap();
        sessions.reserve(session, &reserved(MAX_RESERVED), None).unwrap();
        let refused = sessions.reserve(session, &reserved(MAX_RESERVED + 1), None).unwrap_err();
        assert_eq!(refused.reason(), Reason::LimitReached);
    }

    #[tokio::test]
    async fn a_session_of_another_user_is_refused() {
        let test = agent();
        let sessions = &test.agent.sessions;
        let attached = sessions.attach(named(&test.node, "p0"), user(7), None).await.unwrap();
        for other in [user(8), Owner::default()] {
            let refused = sessions.call(attached.session.number, &other).unwrap_err();
            assert_eq!(refused, SessionError::NotYours);
        }
    }

    fn token(text: &str) -> Option<JobToken> {
        Some(JobToken::new(text).unwrap())
    }

    /// Asserts that a name is refused to a process as one that is reserved for others.
    async fn is_kept_from(
        sessions: &Sessions,
        process: &ProcessId,
        owner: Owner,
        token: Option<JobToken>,
    ) {
        let refused = sessions.attach(process.clone(), owner, token).await.unwrap_err();
        assert_eq!(refused.reason(), Reason::NotPermitted);
        let named =
            format!("process: '{}' on node '{}' is reserved for user", process.1, process.0);
        assert!(refused.to_string().starts_with(&named), "{refused}");
    }

    #[tokio::test]
    async fn a_reserved_name_is_kept_for_the_user_of_the_launcher_until_its_end() {
        let test = agent();
        let sessions = &test.agent.sessions;
        let [launching, process] = ["launcher", "p0"].map(|name| named(&test.node, name));
        let launcher = sessions.attach(launching.clone(), user(7), None).await.unwrap();
        sessions.reserve(&launcher.session, std::slice::from_ref(&process), None).unwrap();
        for other in [user(8), user(ROOT), Owner::default()] {
            is_kept_from(sessions, &process, other, None).await;
        }
        // The name was not used up, and is kept when its process has gone.
        let first = sessions.attach(process.clone(), user(7), None).await.unwrap();
        drop(first);
        is_kept_from(sessions, &process, user(8), None).await;
        drop(sessions.attach(process.clone(), user(7), None).await.unwrap());
        // While the launcher's session ends, the memberships may still be there.
        let call = sessions.call(launcher.session.number, &user(7)).unwrap();
        drop(launcher);
        is_kept_from(sessions, &process, user(8), None).await;
        drop(call);
        // The name of the launcher is free once its session has ended.
        let _next = sessions.attach(launching, user(8), None).await.unwrap();
        sessions.attach(process, user(8), None).await.unwrap();
    }

    #[tokio::test]
    async fn a_name_is_kept_until_the_last_session_that_reserves_it_has_ended() {
        let test = agent();
        let sessions = &test.agent.sessions;
        let [one, other, process] = ["one", "other", "p0"].map(|name| named(&test.node, name));
        let first = sessions.attach(one.clone(), user(7), None).await.unwrap();
        let second = sessions.attach(other.clone(), user(7), None).await.unwrap();
        let names = std::slice::from_ref(&process);
        for launcher in [&first, &first, &second] {
            sessions.reserve(&launcher.session, names, None).unwrap();
        }
        drop(first);
        drop(sessions.attach(one, user(7), None).await.unwrap());
        is_kept_from(sessions, &process, user(8), None).await;
        drop(second);
        let _next = sessions.attach(other, user(7), None).await.unwrap();
        sessions.attach(process, user(8), None).await.unwrap();
    }

    #[tokio::test]
    async fn only_root_reserves_for_another_user() {
        let test = agent();
        let sessions = &test.agent.sessions;
        let [one, other, process] = ["one", "other", "p0"].map(|name| named(&test.node, name));
        let names = std::slice::from_ref(&process);
        for (launching, owner) in [(one.clone(), user(8)), (one, Owner::default())] {
            let launcher = sessions.attach(launching, owner, None).await.unwrap();
            let refused = sessions.reserve(&launcher.session, names, Some(7)).unwrap_err();
            assert_eq!(refused, SessionError::ForeignUser { user: 7 });
            assert_eq!(refused.reason(), Reason::NotPermitted);
        }
        let root = sessions.attach(other, user(ROOT), None).await.unwrap();
        sessions.reserve(&root.session, names, Some(7)).unwrap();
        for other in [user(8), user(ROOT), Owner::default()] {
            is_kept_from(sessions, &process, other, None).await;
        }
        sessions.attach(process, user(7), None).await.unwrap();
    }

    #[tokio::test]
    async fn a_name_that_another_user_has_is_reserved_for_nobody_else_and_nothing_is_noted() {
        let test = agent();
        let sessions = &test.agent.sessions;
        let process = |name| named(&test.node, name);
        let _squatter = sessions.attach(process("p1"), user(8), None).await.unwrap();
        let other = sessions.attach(process("other"), user(8), None).await.unwrap();
        sessions.reserve(&other.session, &[process("p2")], None).unwrap();
        let launcher = sessions.attach(process("launcher"), user(7), None).await.unwrap();
        for taken in ["p1", "p2"] {
            let names = [process("p0"), process(taken)];
            let refused = sessions.reserve(&launcher.session, &names, None).unwrap_err();
            assert_eq!(refused.reason(), Reason::NotPermitted);
            let named = format!("processes: '{taken}' on node 'n0' is not free for user 7");
            assert!(refused.to_string().starts_with(&named), "{refused}");
        }
        assert!(launcher.session.reserved.lock().is_empty());
        sessions.attach(process("p0"), user(8), None).await.unwrap();
    }

    #[tokio::test]
    async fn a_launcher_with_a_jobs_token_keeps_its_names_for_processes_with_that_token() {
        let test = agent();
        let sessions = &test.agent.sessions;
        let [launching, process] = ["launcher", "p0"].map(|name| named(&test.node, name));
        let job = || token("aaaaaaaaaaaaaaaa");
        let launcher = sessions.attach(launching, user(7), job()).await.unwrap();
        sessions.reserve(&launcher.session, std::slice::from_ref(&process), None).unwrap();
        for other in [None, token("bbbbbbbbbbbbbbbb")] {
            is_kept_from(sessions, &process, user(7), other).await;
        }
        is_kept_from(sessions, &process, user(8), job()).await;
        sessions.attach(process, user(7), job()).await.unwrap();
    }
}
