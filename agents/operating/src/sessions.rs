//! The attached processes: each has a session from the call that attaches it to the end of that call.
//!
//! Invariants
//! - SESSION-1: of the processes of one name on one node, at most one is attached; its successor waits
//!   until everything that the predecessor was a member of has ended.
//! - SESSION-2: a join that a process began before it died ends with its session, too.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fabricast_groups::names::{GroupName, NodeName, ProcessName, RequestId};
use fabricast_groups::operating::LeaveCall;
use fabricast_rpc::{Backoff, Reason, request_id};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tonic::Status;
use tracing::info;

use crate::calls::Wish;
use crate::host::{Host, lock};
use crate::memory::Sharing;
use crate::messages::Seat;

/// Processes attached at one time.
const MAX_SESSIONS: usize = 16_384;
/// How long a process waits for the end of a predecessor of its name.
const PATIENCE: Duration = Duration::from_secs(8);

/// A process by its node and name.
pub(crate) type ProcessId = (NodeName, ProcessName);

/// One attached process.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) number: u64,
    pub(crate) process: ProcessId,
    /// Over: the process has died or detached.
    pub(crate) over: CancellationToken,
    user: Option<u32>,
    calls: TaskTracker,
    /// Where the process takes part, by group.
    pub(crate) seats: Mutex<BTreeMap<GroupName, Seat>>,
    pub(crate) memory: Mutex<Sharing>,
    reserved: Mutex<Vec<ProcessId>>,
}

#[derive(Debug, Default)]
struct Table {
    sessions: BTreeMap<u64, Arc<Session>>,
    numbers: BTreeMap<ProcessId, u64>,
}

/// All sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    table: Mutex<Table>,
    ended: Notify,
}

/// A call of an attached process; the session's end waits for it.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) session: Arc<Session>,
    _token: TaskTrackerToken,
}

/// Ends the session when it is dropped, which happens when the call that attached the process ends.
#[derive(Debug)]
pub(crate) struct Attached {
    host: Host,
    pub(crate) session: Arc<Session>,
}

impl Drop for Attached {
    fn drop(&mut self) {
        let table = lock(&self.host.0.sessions.table);
        self.session.over.cancel(); // under the lock: no call begins after this
        drop(table);
        let seats = std::mem::take(&mut *lock(&self.session.seats));
        seats.values().for_each(Seat::close); // what is under way there ends
        let session = Arc::clone(&self.session);
        self.host.spawn(|host| host.end(session));
    }
}

impl Sessions {
    /// Finds the session that a call names, and keeps it from ending before the call.
    pub(crate) fn call(&self, number: u64, user: Option<u32>) -> Result<Call, Status> {
        let table = lock(&self.table);
        let session = table.sessions.get(&number).filter(|session| !session.over.is_cancelled());
        let Some(session) = session else {
            let text = "session: none such, or it has ended; attach again";
            return Err(Reason::UnknownSession.status(text, &[]));
        };
        if session.user != user {
            let text = "session: it belongs to a process of another user";
            return Err(Reason::SessionNotYours.status(text, &[]));
        }
        Ok(Call { session: Arc::clone(session), _token: session.calls.token() })
    }

    fn insert(
        &self,
        process: &ProcessId,
        user: Option<u32>,
    ) -> Result<Option<Arc<Session>>, Status> {
        let mut table = lock(&self.table);
        if let Some(held) = table.numbers.get(process).and_then(|held| table.sessions.get(held)) {
            if held.over.is_cancelled() {
                return Ok(None);
            }
            let (node, name) = process;
            let text = format!("process: '{name}' is attached on node '{node}' already");
            return Err(Reason::ProcessAttached.status(text, &[("node", node.as_str())]));
        }
        if table.sessions.len() >= MAX_SESSIONS {
            let text = format!("{MAX_SESSIONS} processes are attached already");
            return Err(Reason::LimitReached.status(text, &[]));
        }
        // The one source of chance that the standard library has: nobody guesses another's session.
        let number = RandomState::new().build_hasher().finish();
        let session = Arc::new(Session {
            number,
            process: process.clone(),
            over: CancellationToken::new(),
            user,
            calls: TaskTracker::new(),
            seats: Mutex::default(),
            memory: Mutex::default(),
            reserved: Mutex::default(),
        });
        table.numbers.insert(process.clone(), number);
        table.sessions.insert(number, Arc::clone(&session));
        Ok(Some(session))
    }

    fn remove(&self, session: &Session) {
        let mut table = lock(&self.table);
        table.sessions.remove(&session.number);
        table.numbers.remove(&session.process);
        drop(table);
        self.ended.notify_waiters();
    }

    fn is_attached(&self, process: &ProcessId) -> bool {
        lock(&self.table).numbers.contains_key(process)
    }
}

impl Session {
    /// Notes processes that are to attach before this session ends.
    pub(crate) fn reserve(&self, processes: impl IntoIterator<Item = ProcessId>) {
        lock(&self.reserved).extend(processes);
    }
}

impl Host {
    /// Begins a session.
    pub(crate) async fn attach(
        &self,
        process: ProcessId,
        user: Option<u32>,
    ) -> Result<Attached, Status> {
        let sessions = &self.0.sessions;
        let attaching = async {
            loop {
                let ended = sessions.ended.notified();
                tokio::pin!(ended);
                ended.as_mut().enable();
                if let Some(session) = sessions.insert(&process, user)? {
                    return Ok(Attached { host: self.clone(), session });
                }
                ended.await;
            }
        };
        tokio::time::timeout(PATIENCE, attaching).await.unwrap_or_else(|_elapsed| {
            let text = "the memberships of a process of this name that died have not ended yet";
            Err(Reason::PeerUnavailable.status(text, &[]))
        })
    }

    /// Takes a process that is gone out of all its groups, and those it was to launch.
    async fn end(self, session: Arc<Session>) {
        session.calls.close();
        session.calls.wait().await;
        let mut gone = vec![session.process.clone()];
        gone.append(&mut lock(&session.reserved));
        let mut backoff = Backoff::default();
        loop {
            gone.retain(|process| {
                *process == session.process || !self.0.sessions.is_attached(process)
            });
            let leaves: Vec<_> = gone.iter().flat_map(|process| self.leaves(process)).collect();
            if leaves.is_empty() {
                break;
            }
            for ended in self.call(leaves).into_iter().flatten().flatten() {
                // Whether it has left is looked up, whatever the answer.
                let _ = ended.await;
            }
            if gone.iter().any(|process| !self.leaves(process).is_empty()) {
                tokio::time::sleep(backoff.next_delay()).await;
            }
        }
        self.0.sessions.remove(&session);
        let (node, name) = &session.process;
        info!(member = %format_args!("{node}/{name}"), "process detached");
    }

    /// What there is to leave for a process.
    fn leaves(&self, (node, process): &ProcessId) -> Vec<(NodeName, Wish)> {
        let groups = self.look(node, |agent| {
            let held = agent.memberships().filter(|held| held.member.process == *process);
            held.map(|held| held.group.clone()).collect::<Vec<GroupName>>()
        });
        let wish = |group| {
            let request_id = RequestId::new(&request_id()).ok()?;
            let leave = LeaveCall { request_id, group, process: process.clone() };
            Some((node.clone(), Wish::Leave(leave)))
        };
        groups.unwrap_or_default().into_iter().filter_map(wish).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::host;
    use fabricast_rpc::reason_of;

    fn named(node: &NodeName, name: &str) -> ProcessId {
        (node.clone(), ProcessName::new(name).unwrap())
    }

    fn reason<T>(answer: Result<T, Status>) -> Option<String> {
        reason_of(&answer.err()?)
    }

    #[tokio::test]
    async fn a_name_is_attached_once_and_free_again_after_the_end() {
        let (host, node) = host();
        let process = named(&node, "p0");
        let first = host.attach(process.clone(), Some(7)).await.unwrap();
        let refused = host.attach(process.clone(), Some(7)).await;
        assert_eq!(reason(refused).as_deref(), Some("PROCESS_ATTACHED"));
        let number = first.session.number;
        let call = host.0.sessions.call(number, Some(7)).unwrap();
        drop(first);
        let refused = host.0.sessions.call(number, Some(7));
        assert_eq!(reason(refused).as_deref(), Some("UNKNOWN_SESSION"));
        // Its call is still out, so the next of the name waits.
        let next = host.attach(process, Some(7));
        tokio::pin!(next);
        let early = tokio::time::timeout(Duration::from_millis(20), &mut next).await;
        assert!(early.is_err(), "{early:?}");
        drop(call);
        assert_ne!(next.await.unwrap().session.number, number);
    }

    #[tokio::test]
    async fn another_users_session_is_of_no_use() {
        let (host, node) = host();
        let attached = host.attach(named(&node, "p0"), Some(7)).await.unwrap();
        for user in [Some(8), None] {
            let refused = host.0.sessions.call(attached.session.number, user);
            assert_eq!(reason(refused).as_deref(), Some("SESSION_NOT_YOURS"));
        }
    }
}
