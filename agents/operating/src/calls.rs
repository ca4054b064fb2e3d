//! Calls of processes as they travel: one or many joins and leaves, begun together, each with an end
//! of its own.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use fabricast_group::wire::{self, name};
use fabricast_groups::command::GroupSpec;
use fabricast_groups::names::{EndpointName, GroupName, JobName, NodeName, ProcessName, RequestId};
use fabricast_groups::operating::{CallAnswer, CallError, JoinCall, LeaveCall, Membership};
use fabricast_proto::v1;
use fabricast_routing::Mgid;
use fabricast_rpc::{Reason, refusal_to_wire, request_id};
use fabricast_telemetry::traces::{self, Origin};
use tokio::sync::oneshot;
use tonic::Status;

use crate::host::{CallOutcome, Effect, Host};
use crate::service::{OperatingAgentServer, stopped, unknown_node};
use crate::tic_wire;

/// Joins or leaves in one call.
const MANY: usize = 10_000;

/// What a process wants.
#[derive(Debug)]
pub(crate) enum Wish {
    Join(JoinCall),
    Leave(LeaveCall),
}

/// A call that was begun, or why it was not.
pub(crate) type Begun = Result<oneshot::Receiver<CallOutcome>, CallError>;

impl Host {
    /// Begins calls of processes, all at once; their ends come through the receivers. `None` for a
    /// node that is not hosted here.
    pub(crate) fn call(&self, wishes: Vec<(NodeName, Wish)>) -> Vec<Option<Begun>> {
        let (now, origin) = (self.now(), Origin::kept());
        let mut state = self.state();
        let mut begun = Vec::with_capacity(wishes.len());
        let mut touched = BTreeSet::new();
        for (node, wish) in wishes {
            let hosted = state.nodes.get_mut(&node).map(|hosted| &mut hosted.operating);
            let id = hosted.map(|agent| match wish {
                Wish::Join(wish) => agent.join(now, wish),
                Wish::Leave(wish) => agent.leave(now, wish),
            });
            begun.push(id.map(|id| {
                id.map(|id| {
                    let (tell, told) = oneshot::channel();
                    state.waiting.insert((node.clone(), id), (tell, origin.clone()));
                    told
                })
            }));
            touched.insert(node);
        }
        let effects: Vec<Effect> =
            touched.iter().flat_map(|node| self.drain(&mut state, node, now)).collect();
        drop(state);
        self.carry_out(effects);
        begun
    }
}

impl OperatingAgentServer {
    /// Reads a request to join.
    pub(crate) fn join_wish(
        &self,
        request: v1::OperatingAgentServiceJoinGroupRequest,
    ) -> Result<(NodeName, Wish), Status> {
        let endpoint = match request.endpoint.as_str() {
            "" => None,
            text => Some(name("endpoint", text, EndpointName::new)?),
        };
        let job = match request.job.as_str() {
            "" => None,
            text => Some(name("job", text, JobName::new)?),
        };
        let wish = JoinCall {
            request_id: request_name(&request.request_id)?,
            group: GroupSpec {
                name: name("group", &request.group, GroupName::new)?,
                mgid: request.mgid.map(Mgid),
                persistent: request.persistent,
                exclusive: request.exclusive,
                hints: tic_wire::hints(request.hints.unwrap_or_default())?,
                job,
                complete_at: NonZeroU32::new(request.complete_at_member_count),
            },
            process: name("process", &request.process, ProcessName::new)?,
            endpoint,
        };
        Ok((self.live_node(&request.node)?, Wish::Join(wish)))
    }

    /// Reads a request to leave.
    pub(crate) fn leave_wish(
        &self,
        request: &v1::OperatingAgentServiceLeaveGroupRequest,
    ) -> Result<(NodeName, Wish), Status> {
        let wish = LeaveCall {
            request_id: request_name(&request.request_id)?,
            group: name("group", &request.group, GroupName::new)?,
            process: name("process", &request.process, ProcessName::new)?,
        };
        Ok((self.live_node(&request.node)?, Wish::Leave(wish)))
    }

    /// Begins one call and waits for its end.
    pub(crate) async fn ended(&self, node: NodeName, wish: Wish) -> Result<CallAnswer, Status> {
        let begun = self.host.call(vec![(node.clone(), wish)]).pop().flatten();
        end(&node, begun).await
    }

    /// Begins all joins, if all of them can be read, and waits for their ends.
    pub(crate) async fn join_all(
        &self,
        joins: Vec<v1::OperatingAgentServiceJoinGroupRequest>,
    ) -> Result<Vec<v1::JoinEnd>, Status> {
        use v1::join_end::End;
        bounded("joins", joins.len())?;
        let wishes = joins.into_iter().map(|join| self.join_wish(join));
        let ends = self.all(numbered("joins", wishes)?).await;
        let end = |answer: Result<CallAnswer, Status>| match answer.and_then(joined) {
            Ok(membership) => End::Membership(membership),
            Err(status) => End::Refusal(refusal_to_wire(&status)),
        };
        Ok(ends.into_iter().map(|answer| v1::JoinEnd { end: Some(end(answer)) }).collect())
    }

    /// Begins all leaves, if all of them can be read, and waits for their ends.
    pub(crate) async fn leave_all(
        &self,
        leaves: &[v1::OperatingAgentServiceLeaveGroupRequest],
    ) -> Result<Vec<v1::LeaveEnd>, Status> {
        bounded("leaves", leaves.len())?;
        let wishes = leaves.iter().map(|leave| self.leave_wish(leave));
        let ends = self.all(numbered("leaves", wishes)?).await.into_iter();
        let refusal = |answer: Result<CallAnswer, Status>| {
            answer.and_then(left).err().map(|status| refusal_to_wire(&status))
        };
        Ok(ends.map(|answer| v1::LeaveEnd { refusal: refusal(answer) }).collect())
    }

    async fn all(&self, wishes: Vec<(NodeName, Wish)>) -> Vec<Result<CallAnswer, Status>> {
        let nodes: Vec<NodeName> = wishes.iter().map(|(node, _)| node.clone()).collect();
        let begun = self.host.call(wishes);
        let mut ends = Vec::with_capacity(begun.len());
        for (node, one) in nodes.iter().zip(begun) {
            ends.push(end(node, one).await);
        }
        ends
    }
}

async fn end(node: &NodeName, begun: Option<Begun>) -> Result<CallAnswer, Status> {
    let told = begun.ok_or_else(|| unknown_node(node))?.map_err(|error| failed(&error))?;
    told.await.map_err(|_| Reason::ShuttingDown.status("the agent is stopping", &[]))?
}

/// The membership that a join ended with.
pub(crate) fn joined(answer: CallAnswer) -> Result<v1::Membership, Status> {
    match answer {
        CallAnswer::Joined(held) => Ok(membership_to_wire(&held)),
        CallAnswer::Failed(error) => Err(failed(&error)),
        CallAnswer::Left => Err(Status::internal("a join was answered as a leave")),
    }
}

/// The end of a leave.
pub(crate) fn left(answer: CallAnswer) -> Result<(), Status> {
    match answer {
        CallAnswer::Left => Ok(()),
        CallAnswer::Failed(error) => Err(failed(&error)),
        CallAnswer::Joined(_) => Err(Status::internal("a leave was answered as a join")),
    }
}

/// Refuses an empty call, and one that is too long.
fn bounded(field: &'static str, count: usize) -> Result<(), Status> {
    match count {
        0 => Err(Reason::FieldMissing.status(format!("{field} is missing"), &[("field", field)])),
        count if count > MANY => {
            let message = format!("{field}: {count}, at most {MANY} go into one call");
            Err(Reason::LimitReached.status(message, &[("field", field)]))
        }
        _ => Ok(()),
    }
}

/// Collects what could be read; of what could not, the first is named by its place.
fn numbered<T>(
    field: &str,
    read: impl Iterator<Item = Result<T, Status>>,
) -> Result<Vec<T>, Status> {
    let place = |(index, one): (usize, Result<T, Status>)| {
        one.map_err(|status| {
            let mut refusal = refusal_to_wire(&status);
            refusal.message = format!("{field}[{index}].{}", refusal.message);
            fabricast_rpc::refusal_from_wire(&refusal)
        })
    };
    read.enumerate().map(place).collect()
}

fn failed(error: &CallError) -> Status {
    match error {
        CallError::Refused(refusal) => Reason::PeerUnavailable.status(refusal.to_string(), &[]),
        CallError::TimedOut => Reason::PeerUnavailable.status(
            "no answer in time from the TIC or the group's agent; ask again with the same \
             request_id",
            &[],
        ),
        CallError::Stopped { node } => stopped(node),
        CallError::Busy { limit } => {
            Reason::LimitReached.status(format!("{limit} calls are waiting already"), &[])
        }
    }
}

fn request_name(text: &str) -> Result<RequestId, Status> {
    let text = if text.is_empty() { request_id() } else { text.to_owned() };
    traces::note("fabricast.request_id", &text);
    name("request_id", &text, RequestId::new)
}

pub(crate) fn membership_to_wire(held: &Membership) -> v1::Membership {
    v1::Membership {
        group: held.group.to_string(),
        gn: held.member.gn.0,
        mgid: held.mgid.0,
        node: held.member.node.to_string(),
        endpoint: held.member.endpoint.to_string(),
        process: held.member.process.to_string(),
        pn: held.member.pn.0,
        position: held.position.as_ref().map(wire::position_to_wire),
        agent_node: held.agent.to_string(),
        multicast_open: held.colors().is_some(),
    }
}
