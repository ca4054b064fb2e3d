//! Joins and leaves of processes: from the call of a process to the TIC's answer and back.
//!
//! ```text
//!  process ──► join_many ──► Oa ──► Effect::Join ──► send_join: queue ──► JoinMany ──► TIC
//!          ◄── end_call ◄─── Oa ◄── join_answered ◄────────────────────────────────────┘
//! ```
//!
//! The state machine repeats the request until the TIC has answered or the call's time is up. Each
//! client has a queue of its own: the calls of one wait for no batch of another, and are not lost
//! with it. It has a window, too: further calls begin once earlier ones have ended, also those
//! whose process has gone away.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::TicRefusal;
use fabricast_groups::command::{Join, Leave};
use fabricast_groups::ids::{Gn, Incarnation, Moment, Pn, Revision};
use fabricast_groups::names::NodeName;
use fabricast_groups::operating::{
    CallAnswer, CallError, CallId, JoinCall, LeaveCall, Membership, Oa,
};
use fabricast_proto::v1;
use fabricast_rpc::{CallCost, RpcError};
use fabricast_telemetry::traces::Origin;
use fabricast_wire::decode_refusal;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout_at};
use tracing::debug;

use super::requests::{join_request, leave_request, read_joined, refusal};
use crate::runtime::Runtime;
use crate::runtime::batch_queue::BatchQueue;
use crate::runtime::channels::{one_by_one, unavailable};
use crate::runtime::client_windows::{ClientWindows, Permits};

/// Joins or leaves of one client in one call; a join with many hints counts as several. The TIC
/// decides the calls of an agent in their order, so those of other clients wait for as many.
const PER_CALL: usize = 64;
/// Hints that are as much work as a join.
const HINTS_PER_JOIN: usize = 4;
/// Calls that a client may have in progress for each node that is hosted. Their effects are carried
/// out in the order in which they arise, so a call of another client waits for at most as many.
const AT_ONCE: usize = 64;
/// Calls of a client that begin together, once it may have so many more in progress. A few that are
/// answered late, as on a node that the TIC does not admit, hold up no others.
const TOGETHER: usize = 16;
/// A call that has not begun after this fails, as those before it are not answered in time. A list
/// of 10,000 calls has begun by then if 200 of them are answered in a second.
const PATIENCE: Duration = Duration::from_secs(60);

/// Makes calls of processes; clones share them.
#[derive(Clone, Debug)]
pub(crate) struct MembershipCalls(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    runtime: Runtime,
    /// The calls that have not ended.
    pending: Mutex<BTreeMap<(NodeName, CallId), PendingCall>>,
    /// Permits for calls in progress.
    windows: ClientWindows,
    /// Joins that wait, by the client that asks for them.
    joins: Mutex<BatchQueue<u64, Key, Join>>,
    leaves: Mutex<BatchQueue<u64, Key, Leave>>,
}

/// A call to the TIC. A call repeated in another incarnation of the node is another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    node: NodeName,
    incarnation: Incarnation,
    id: CallId,
}

/// A call of a process that has not ended.
#[derive(Debug)]
struct PendingCall {
    end: CallEnd,
    /// The client that made it; 0 for this agent itself.
    client: u64,
    /// The traced request that made the call.
    origin: Origin,
    /// The TIC's last answer, if it was neither a success nor final.
    last_error: Option<RpcError>,
    _permit: Option<Permits>,
}

#[derive(Debug)]
enum CallEnd {
    Join(oneshot::Sender<Result<Box<Membership>, CallFailure>>),
    Leave(oneshot::Sender<Result<(), CallFailure>>),
}

/// A call that the node's state machine has begun, the way its end is told, and the receiver of
/// that.
type Started<T> = Result<(CallId, CallEnd, oneshot::Receiver<Result<T, CallFailure>>), CallFailure>;

/// A call that was begun; its end comes through the receiver.
type Begun<T> = Result<oneshot::Receiver<Result<T, CallFailure>>, CallFailure>;

/// The failure of a join or leave.
#[derive(Clone, Debug, Error)]
pub(crate) enum CallFailure {
    #[error("node: '{node}' is not hosted here")]
    UnknownNode { node: NodeName },
    #[error("node '{node}' is stopped")]
    NodeStopped { node: NodeName },
    #[error("{limit} calls of the node are waiting already")]
    TooManyCalls { limit: usize },
    #[error("not begun: earlier joins and leaves of this client have no answer yet")]
    NotBegun,
    #[error("{0}")]
    Refused(TicRefusal),
    /// The call may have succeeded nevertheless.
    #[error(
        "no answer in time from the TIC or the group's agent; ask again with the same request_id"
    )]
    TimedOut {
        /// The TIC's last answer, if there was one.
        last_error: Option<RpcError>,
    },
    #[error("the agent is stopping")]
    ShuttingDown,
}

impl CallFailure {
    fn new(error: CallError, last_error: Option<RpcError>) -> Self {
        match error {
            CallError::Refused(refusal) => Self::Refused(refusal),
            CallError::TimedOut => Self::TimedOut { last_error },
            CallError::Stopped { node } => Self::NodeStopped { node },
            CallError::Busy { limit } => Self::TooManyCalls { limit },
        }
    }
}

impl MembershipCalls {
    pub(crate) fn new(runtime: Runtime) -> Self {
        let nodes = runtime.nodes.names().len().max(1);
        Self::with_window(runtime, AT_ONCE * nodes)
    }

    /// - `window`: calls that a client may have in progress.
    fn with_window(runtime: Runtime, window: usize) -> Self {
        Self(Arc::new(Inner {
            runtime,
            pending: Mutex::default(),
            windows: ClientWindows::new(window),
            joins: Mutex::new(BatchQueue::weighed(PER_CALL, join_weight)),
            leaves: Mutex::new(BatchQueue::new(PER_CALL)),
        }))
    }

    /// Begins joins, in their order, and waits for their ends.
    pub(crate) async fn join_many(
        &self,
        joins: Vec<(NodeName, JoinCall)>,
    ) -> Vec<Result<Box<Membership>, CallFailure>> {
        let client = CallCost::current().client();
        ends(self.begin_all(client, joins, Oa::join, CallEnd::Join).await).await
    }

    /// Begins leaves, in their order, and waits for their ends.
    pub(crate) async fn leave_many(
        &self,
        leaves: Vec<(NodeName, LeaveCall)>,
    ) -> Vec<Result<(), CallFailure>> {
        let client = CallCost::current().client();
        ends(self.begin_all(client, leaves, Oa::leave, CallEnd::Leave).await).await
    }

    /// Begins calls in their order, as many at a time as a client may have in progress.
    ///
    /// - `client`: 0 for the agent itself, which does not wait.
    async fn begin_all<C, T>(
        &self,
        client: u64,
        calls: Vec<(NodeName, C)>,
        start: fn(&mut Oa, Moment, C) -> Result<CallId, CallError>,
        end: fn(oneshot::Sender<Result<T, CallFailure>>) -> CallEnd,
    ) -> Vec<Begun<T>> {
        let last = Instant::now() + PATIENCE;
        let mut begun = Vec::with_capacity(calls.len());
        let mut left = calls.into_iter();
        while left.len() > 0 {
            let some: Vec<_> = left.by_ref().take(TOGETHER).collect();
            let permits = timeout_at(last, self.permits(client, some.len())).await;
            let Ok(permits) = permits else {
                let not_begun = some.len() + left.len();
                begun.extend((0..not_begun).map(|_| Err(CallFailure::NotBegun)));
                break;
            };
            begun.extend(self.begin(client, some, permits, |call, agent, now| {
                let id = start(agent, now, call).map_err(|error| CallFailure::new(error, None))?;
                let (sender, ended) = oneshot::channel();
                Ok((id, end(sender), ended))
            }));
        }
        begun
    }

    /// Waits until a client may have so many more calls in progress.
    async fn permits(&self, client: u64, count: usize) -> Option<Permits> {
        match client {
            0 => None,
            client => Some(self.0.windows.take(client, count).await),
        }
    }

    /// Begins calls at once.
    ///
    /// - `permits`: one for each.
    fn begin<C, T>(
        &self,
        client: u64,
        calls: Vec<(NodeName, C)>,
        mut permits: Option<Permits>,
        start: impl Fn(C, &mut Oa, Moment) -> Started<T>,
    ) -> Vec<Begun<T>> {
        let origin = Origin::kept();
        let nodes: Vec<NodeName> = calls.iter().map(|(node, _)| node.clone()).collect();
        let begun = self.0.runtime.nodes.input_many(calls, |node, agent, now, call| {
            let (id, end, ended) = start(call, agent, now)?;
            let permit = permits.as_mut().and_then(Permits::split_one);
            let origin = origin.clone();
            let call = PendingCall { end, client, origin, last_error: None, _permit: permit };
            // Under the lock of the nodes, so that the call is pending before it is answered.
            self.0.pending.lock().insert((node.clone(), id), call);
            Ok(ended)
        });
        let unknown = |node| Err(CallFailure::UnknownNode { node });
        nodes
            .into_iter()
            .zip(begun)
            .map(|(node, begun)| begun.unwrap_or_else(|| unknown(node)))
            .collect()
    }

    /// Tells a process how its call has ended.
    pub(crate) fn end_call(&self, node: NodeName, id: CallId, answer: CallAnswer) {
        let Some(call) = self.0.pending.lock().remove(&(node, id)) else { return };
        // A process that has gone away needs no answer.
        match (call.end, answer) {
            (CallEnd::Join(end), CallAnswer::Joined(held)) => drop(end.send(Ok(held))),
            (CallEnd::Leave(end), CallAnswer::Left) => drop(end.send(Ok(()))),
            (CallEnd::Join(end), CallAnswer::Failed(error)) => {
                drop(end.send(Err(CallFailure::new(error, call.last_error))));
            }
            (CallEnd::Leave(end), CallAnswer::Failed(error)) => {
                drop(end.send(Err(CallFailure::new(error, call.last_error))));
            }
            (CallEnd::Join(_), CallAnswer::Left) | (CallEnd::Leave(_), CallAnswer::Joined(_)) => {
                debug!("a join was answered as a leave, or a leave as a join");
            }
        }
    }

    /// Asks the TIC for a membership soon; the node's state machine gets the answer.
    pub(crate) fn send_join(&self, node: NodeName, id: CallId, join: Join) {
        let (client, origin) = self.caller(&node, id);
        let key = Key { node, incarnation: join.member.incarnation, id };
        if self.0.joins.lock().push(client, key, join, origin) {
            self.0.runtime.tasks.spawn(self.clone().work_joins(client));
        }
    }

    /// Asks the TIC to end a membership soon; the node's state machine gets the answer.
    pub(crate) fn send_leave(&self, node: NodeName, id: CallId, leave: Leave) {
        let (client, origin) = self.caller(&node, id);
        let key = Key { node, incarnation: leave.incarnation, id };
        if self.0.leaves.lock().push(client, key, leave, origin) {
            self.0.runtime.tasks.spawn(self.clone().work_leaves(client));
        }
    }

    /// The client that made a call, and the traced request that it came with.
    fn caller(&self, node: &NodeName, id: CallId) -> (u64, Origin) {
        let pending = self.0.pending.lock();
        let call = pending.get(&(node.clone(), id));
        call.map(|call| (call.client, call.origin.clone())).unwrap_or_default()
    }

    async fn work_joins(self, client: u64) {
        loop {
            let batch = self.0.joins.lock().take(&client);
            let Some(batch) = batch else { return };
            let span = batch.span("join");
            span.origin().cover(self.join_batch(client, batch.entries)).await;
        }
    }

    async fn work_leaves(self, client: u64) {
        loop {
            let batch = self.0.leaves.lock().take(&client);
            let Some(batch) = batch else { return };
            let span = batch.span("leave");
            span.origin().cover(self.leave_batch(client, batch.entries)).await;
        }
    }

    async fn join_batch(&self, client: u64, batch: Vec<(Key, Join)>) {
        let channels = &self.0.runtime.channels;
        let requests: Vec<_> = batch.iter().map(|(_, join)| join_request(join)).collect();
        let answers = match <[_; 1]>::try_from(requests) {
            Ok([request]) => {
                let answer = channels.tic().join_group(request).await;
                Ok(vec![answer.map(tonic::Response::into_inner).map_err(RpcError::from)])
            }
            Err(joins) => {
                let request = v1::JoinManyRequest { joins };
                let answer = channels.tic_batches().join_many(request).await;
                let answers = |answer: tonic::Response<v1::JoinManyResponse>| {
                    answer.into_inner().answers.into_iter().map(read_join).collect()
                };
                answer.map(answers).map_err(RpcError::from)
            }
        };
        self.0.joins.lock().answered(&client);
        for ((key, _), answer) in batch.into_iter().zip(one_by_one(answers)) {
            let answer = answer.and_then(|answer| read_joined(&answer));
            if let Some(answer) = self.judge(&key, answer) {
                let Key { node, id, .. } = key;
                self.0
                    .runtime
                    .nodes
                    .input(&node, |agent, now| agent.join_answered(now, id, answer));
            }
        }
    }

    async fn leave_batch(&self, client: u64, batch: Vec<(Key, Leave)>) {
        let channels = &self.0.runtime.channels;
        let requests: Vec<_> = batch.iter().map(|(_, leave)| leave_request(leave)).collect();
        let answers = match <[_; 1]>::try_from(requests) {
            Ok([request]) => {
                let answer = channels.tic().leave_group(request).await;
                Ok(vec![answer.map(tonic::Response::into_inner).map_err(RpcError::from)])
            }
            Err(leaves) => {
                let request = v1::LeaveManyRequest { leaves };
                let answer = channels.tic_batches().leave_many(request).await;
                let answers = |answer: tonic::Response<v1::LeaveManyResponse>| {
                    answer.into_inner().answers.into_iter().map(read_leave).collect()
                };
                answer.map(answers).map_err(RpcError::from)
            }
        };
        self.0.leaves.lock().answered(&client);
        for ((key, _), answer) in batch.into_iter().zip(one_by_one(answers)) {
            let answer = answer.map(|left| (Gn(left.gn), Pn(left.pn), Revision(left.revision)));
            if let Some(answer) = self.judge(&key, answer) {
                let Key { node, id, .. } = key;
                self.0.runtime.nodes.input(&node, |agent, _now| agent.leave_answered(id, answer));
            }
        }
    }

    /// Sorts the TIC's answer to a call; `None` if the call is to be repeated.
    fn judge<T>(&self, key: &Key, answer: Result<T, RpcError>) -> Option<Result<T, TicRefusal>> {
        let (answer, last_error) = match answer {
            Ok(answer) => (Some(Ok(answer)), None),
            Err(error) => match refusal(&error) {
                Some(refusal) => (Some(Err(refusal)), None),
                None => (None, Some(error)),
            },
        };
        if let Some(call) = self.0.pending.lock().get_mut(&(key.node.clone(), key.id)) {
            call.last_error = last_error;
        }
        answer
    }
}

fn join_weight(join: &Join) -> usize {
    1 + join.group.hints.expected.len() / HINTS_PER_JOIN
}

async fn ends<T>(begun: Vec<Begun<T>>) -> Vec<Result<T, CallFailure>> {
    let mut ends = Vec::with_capacity(begun.len());
    for begun in begun {
        ends.push(match begun {
            Ok(ended) => ended.await.unwrap_or(Err(CallFailure::ShuttingDown)),
            Err(failure) => Err(failure),
        });
    }
    ends
}

fn read_join(answer: v1::JoinAnswer) -> Result<v1::JoinGroupResponse, RpcError> {
    match answer.answer {
        Some(v1::join_answer::Answer::Joined(joined)) => Ok(joined),
        Some(v1::join_answer::Answer::Refusal(refusal)) => Err(decode_refusal(&refusal)),
        None => Err(unavailable("the TIC did not answer this join")),
    }
}

fn read_leave(answer: v1::LeaveAnswer) -> Result<v1::LeaveGroupResponse, RpcError> {
    match answer.answer {
        Some(v1::leave_answer::Answer::Left(left)) => Ok(left),
        Some(v1::leave_answer::Answer::Refusal(refusal)) => Err(decode_refusal(&refusal)),
        None => Err(unavailable("the TIC did not answer this leave")),
    }
}

#[cfg(test)]
mod tests;
