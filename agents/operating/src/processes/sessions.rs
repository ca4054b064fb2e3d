//! Sessions: a process is attached from the call that attaches it to the end of that call.
//!
//! Invariants
//! - SESSION-1: of the processes of one name on one node, at most one is attached; its successor
//!   waits until all memberships of the predecessor have ended.
//! - SESSION-2: a join that a process began before it died ends with its session, too.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Arc, OnceLock};
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

/// A process by its node and name.
pub(crate) type ProcessId = (NodeName, ProcessName);

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
    /// Token of the process's job, for the groups that it joins; set when it has attached.
    pub(crate) job_token: OnceLock<JobToken>,
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

#[derive(Debug, Default)]
struct Table {
    sessions: BTreeMap<u64, Arc<Session>>,
    numbers: BTreeMap<ProcessId, u64>,
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
    #[error("{MAX_SESSIONS} processes are attached already")]
    TooMany,
    #[error("processes: a session reserves at most {MAX_RESERVED}")]
    TooManyReserved,
    #[error("the memberships of a process of this name that died have not ended yet")]
    PredecessorNotEnded,
}

impl SessionError {
    pub(crate) fn reason(&self) -> Reason {
        match self {
            Self::Unknown => Reason::UnknownSession,
            Self::NotYours => Reason::SessionNotYours,
            Self::ForeignName { .. } => Reason::NotPermitted,
            Self::Attached { .. } => Reason::ProcessAttached,
            Self::TooMany | Self::TooManyReserved => Reason::LimitReached,
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
    /// Notes processes that are to attach before this session ends.
    ///
    /// # Errors
    ///
    /// [`SessionError::TooManyReserved`]; then none of them is noted.
    pub(crate) fn reserve(&self, processes: &[ProcessId]) -> Result<(), SessionError> {
        let mut reserved = self.reserved.lock();
        let more = processes.iter().filter(|process| !reserved.contains(*process)).count();
        if reserved.len() + more > MAX_RESERVED {
            return Err(SessionError::TooManyReserved);
        }
        reserved.extend(processes.iter().cloned());
        Ok(())
    }
}

impl Sessions {
    pub(crate) fn new(runtime: Runtime, calls: MembershipCalls) -> Self {
        let (table, removed) = Default::default();
        Self(Arc::new(Inner { runtime, calls, table, removed }))
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
    /// A name that is a member of a group which the owner may not use is refused: it is reserved
    /// for a process of others.
    pub(crate) async fn attach(
        &self,
        process: ProcessId,
        owner: Owner,
    ) -> Result<Attached, SessionError> {
        let attaching = async {
            loop {
                let removed = self.0.removed.notified();
                tokio::pin!(removed);
                removed.as_mut().enable();
                if let Some(session) = self.insert(&process, &owner)? {
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
    ) -> Result<Option<Arc<Session>>, SessionError> {
        let mut table = self.0.table.lock();
        if let Some(held) = table.numbers.get(process).and_then(|held| table.sessions.get(held)) {
            if held.over.is_cancelled() {
                return Ok(None);
            }
            let (node, process) = process.clone();
            return Err(SessionError::Attached { node, process });
        }
        if table.sessions.len() >= MAX_SESSIONS {
            return Err(SessionError::TooMany);
        }
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
            job_token: OnceLock::new(),
            reserved: Mutex::default(),
        });
        table.numbers.insert(process.clone(), number);
        table.sessions.insert(number, Arc::clone(&session));
        Ok(Some(session))
    }

    /// Takes a process that is gone out of its groups, and those that it reserved and that have not
    /// attached.
    async fn end(self, session: Arc<Session>) {
        session.calls.close();
        session.calls.wait().await;
        let mut gone = std::mem::take(&mut *session.reserved.lock());
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
        self.remove(&session);
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

    fn remove(&self, session: &Session) {
        let mut table = self.0.table.lock();
        table.sessions.remove(&session.number);
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
        let first = sessions.attach(process.clone(), user(7)).await.unwrap();
        let refused = sessions.attach(process.clone(), user(7)).await.unwrap_err();
        assert_eq!(refused.reason(), Reason::ProcessAttached);
        let number = first.session.number;
        let call = sessions.call(number, &user(7)).unwrap();
        drop(first);
        assert_eq!(sessions.call(number, &user(7)).unwrap_err(), SessionError::Unknown);
        // A call of the first is still in flight, so the next of the name waits.
        let next = sessions.attach(process, user(7));
        tokio::pin!(next);
        let early = tokio::time::timeout(Duration::from_millis(20), &mut next).await;
        assert!(early.is_err(), "{early:?}");
        drop(call);
        assert_ne!(next.await.unwrap().session.number, number);
    }

    #[tokio::test]
    async fn a_session_reserves_a_bounded_number_of_processes() {
        let test = agent();
        let attached = test.agent.sessions.attach(named(&test.node, "p0"), user(7)).await.unwrap();
        let reserved = |count: usize| -> Vec<ProcessId> {
            (0..count).map(|number| named(&test.node, &format!("r{number}"))).collect()
        };
        // The same ones count once.
        attached.session.reserve(&reserved(MAX_RESERVED)).unwrap();
        attached.session.reserve(&reserved(MAX_RESERVED)).unwrap();
        let refused = attached.session.reserve(&reserved(MAX_RESERVED + 1)).unwrap_err();
        assert_eq!(refused.reason(), Reason::LimitReached);
    }

    #[tokio::test]
    async fn a_session_of_another_user_is_refused() {
        let test = agent();
        let sessions = &test.agent.sessions;
        let attached = sessions.attach(named(&test.node, "p0"), user(7)).await.unwrap();
        for other in [user(8), Owner::default()] {
            let refused = sessions.call(attached.session.number, &other).unwrap_err();
            assert_eq!(refused, SessionError::NotYours);
        }
    }
}
