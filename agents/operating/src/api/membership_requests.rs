//! Joins and leaves of the API: one, or many begun together, each with an end of its own.

use std::future::ready;
use std::num::NonZeroU32;

use fabricast_groups::command::GroupSpec;
use fabricast_groups::names::{EndpointName, GroupName, JobName, NodeName, ProcessName, RequestId};
use fabricast_groups::operating::{JoinCall, LeaveCall, Membership, Phase};
use fabricast_groups::token::{JobToken, TokenError};
use fabricast_proto::v1;
use fabricast_rpc::{CallCost, Reason, give_turn, joined, request_id};
use fabricast_telemetry::traces;
use fabricast_topology::Mgid;
use fabricast_wire::{decode_name, decode_refusal, encode_position, encode_refusal};
use tonic::Status;

use super::status::{missing, shutting_down, stopped, unknown_node};
use crate::agent::Agent;
use crate::nodes::Nodes;
use crate::tic::membership_calls::CallFailure;
use crate::tic::requests::read_hints;

/// Joins or leaves in one call.
const MAX_CALLS: usize = 10_000;
/// Hints that are read at once; more of them are read on a thread of their own.
const HINTS_AT_ONCE: usize = 1_024;

/// The name of a node that is hosted here.
pub(super) fn hosted_node(nodes: &Nodes, text: &str) -> Result<NodeName, Status> {
    let node = decode_name("node", text, NodeName::new)?;
    match nodes.read(&node, |_| ()) {
        Some(()) => Ok(node),
        None => Err(unknown_node(&node)),
    }
}

/// The name of a node that is hosted here and not stopped.
pub(super) fn live_node(nodes: &Nodes, text: &str) -> Result<NodeName, Status> {
    let node = hosted_node(nodes, text)?;
    match nodes.read(&node, |agent| agent.phase()) {
        Some(Phase::Stopped) | None => Err(stopped(&node)),
        Some(Phase::Up | Phase::Registering) => Ok(node),
    }
}

/// Reads a request to join.
pub(super) fn read_join(
    nodes: &Nodes,
    request: v1::OperatingAgentServiceJoinGroupRequest,
) -> Result<(NodeName, JoinCall), Status> {
    let endpoint = match request.endpoint.as_str() {
        "" => None,
        text => Some(decode_name("endpoint", text, EndpointName::new)?),
    };
    let job = match request.job.as_str() {
        "" => None,
        text => Some(decode_name("job", text, JobName::new)?),
    };
    let join = JoinCall {
        request_id: read_request_id(&request.request_id)?,
        group: GroupSpec {
            name: decode_name("group", &request.group, GroupName::new)?,
            mgid: request.mgid.map(Mgid),
            persistent: request.persistent,
            exclusive: request.exclusive,
            hints: read_hints(request.hints.unwrap_or_default())?,
            job,
            complete_at: NonZeroU32::new(request.complete_at_member_count),
            tree: None,
            operation_bytes: None,
            token: read_token(&request.job_token)?,
        },
        process: decode_name("process", &request.process, ProcessName::new)?,
        endpoint,
        sends_only: false,
    };
    Ok((live_node(nodes, &request.node)?, join))
}

/// Reads a request to join that may have many hints, while other calls go on.
pub(super) async fn read_long_join(
    nodes: &Nodes,
    mut request: v1::OperatingAgentServiceJoinGroupRequest,
) -> Result<(NodeName, JoinCall), Status> {
    let is_long = |hints: &mut v1::MgidHints| hints.expected_endpoints.len() > HINTS_AT_ONCE;
    let Some(hints) = request.hints.take_if(is_long) else { return read_join(nodes, request) };
    let (node, mut join) = read_join(nodes, request)?;
    let turn = CallCost::current().turn().await;
    join.group.hints = joined(turn.run(move || read_hints(hints)).await).await?;
    Ok((node, join))
}

/// Reads the token of a job, which may be left out.
pub(super) fn read_token(text: &str) -> Result<Option<JobToken>, Status> {
    let invalid = |error: TokenError| {
        Reason::NameInvalid.status(format!("job_token: {error}"), &[("field", "job_token")])
    };
    (!text.is_empty()).then(|| JobToken::new(text).map_err(invalid)).transpose()
}

/// Reads a request to leave.
pub(super) fn read_leave(
    nodes: &Nodes,
    request: &v1::OperatingAgentServiceLeaveGroupRequest,
) -> Result<(NodeName, LeaveCall), Status> {
    let leave = LeaveCall {
        request_id: read_request_id(&request.request_id)?,
        group: decode_name("group", &request.group, GroupName::new)?,
        process: decode_name("process", &request.process, ProcessName::new)?,
    };
    Ok((live_node(nodes, &request.node)?, leave))
}

/// Joins one process and waits for the end.
pub(super) async fn join(
    agent: &Agent,
    node: NodeName,
    join: JoinCall,
) -> Result<v1::Membership, Status> {
    let held = only(agent.calls.join_many(vec![(node, join)]).await)?;
    Ok(membership_to_wire(&held))
}

/// Takes one process out of a group and waits for the end.
pub(super) async fn leave(agent: &Agent, node: NodeName, leave: LeaveCall) -> Result<(), Status> {
    only(agent.calls.leave_many(vec![(node, leave)]).await)
}

/// Begins all joins, if all of them can be read, and waits for their ends.
pub(super) async fn join_all(
    agent: &Agent,
    joins: Vec<v1::OperatingAgentServiceJoinGroupRequest>,
) -> Result<Vec<Result<v1::Membership, Status>>, Status> {
    check_count("joins", joins.len())?;
    let nodes = &agent.runtime.nodes;
    let read = numbered("joins", joins, |join| read_long_join(nodes, join)).await?;
    let ends = agent.calls.join_many(read).await;
    Ok(in_turns(ends, |end| Ok(membership_to_wire(&*end?))).await)
}

/// Begins all leaves, if all of them can be read, and waits for their ends.
pub(super) async fn leave_all(
    agent: &Agent,
    leaves: Vec<v1::OperatingAgentServiceLeaveGroupRequest>,
) -> Result<Vec<v1::LeaveEnd>, Status> {
    check_count("leaves", leaves.len())?;
    let nodes = &agent.runtime.nodes;
    let read = numbered("leaves", leaves, |leave| ready(read_leave(nodes, &leave))).await?;
    let ends = agent.calls.leave_many(read).await;
    let end = |end: Result<(), CallFailure>| {
        let refusal = end.err().map(|failure| encode_refusal(Status::from(failure)));
        v1::LeaveEnd { refusal }
    };
    Ok(in_turns(ends, end).await)
}

/// Maps the items of a list that may be long; other calls have their turns meanwhile.
pub(super) async fn in_turns<T, U>(items: Vec<T>, mut one: impl FnMut(T) -> U) -> Vec<U> {
    let mut mapped = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        give_turn(index).await;
        mapped.push(one(item));
    }
    mapped
}

pub(super) fn membership_to_wire(held: &Membership) -> v1::Membership {
    v1::Membership {
        group: held.group.to_string(),
        gn: held.member.gn.0,
        mgid: held.mgid.0,
        node: held.member.node.to_string(),
        endpoint: held.member.endpoint.to_string(),
        process: held.member.process.to_string(),
        pn: held.member.pn.0,
        position: held.position.as_ref().map(encode_position),
        agent_node: held.agent.to_string(),
        multicast_open: held.colors().is_some(),
    }
}

/// The end of a single call.
fn only<T>(ends: Vec<Result<T, CallFailure>>) -> Result<T, Status> {
    let end = ends.into_iter().next().ok_or_else(shutting_down)?;
    end.map_err(Status::from)
}

/// Refuses an empty call, and one that is too long.
pub(super) fn check_count(field: &'static str, count: usize) -> Result<(), Status> {
    match count {
        0 => Err(missing(field)),
        count if count > MAX_CALLS => {
            let message = format!("{field}: {count}, at most {MAX_CALLS} go into one call");
            Err(Reason::LimitReached.status(message, &[("field", field)]))
        }
        _ => Ok(()),
    }
}

/// Reads all requests, or names the first that could not be read by its index.
async fn numbered<R, T, F: Future<Output = Result<T, Status>>>(
    field: &str,
    requests: Vec<R>,
    mut read: impl FnMut(R) -> F,
) -> Result<Vec<T>, Status> {
    let mut all = Vec::with_capacity(requests.len());
    for (index, request) in requests.into_iter().enumerate() {
        give_turn(index).await;
        let numbered = |status| {
            let mut refusal = encode_refusal(status);
            refusal.message = format!("{field}[{index}].{}", refusal.message);
            Status::from(decode_refusal(&refusal))
        };
        all.push(read(request).await.map_err(numbered)?);
    }
    Ok(all)
}

/// Reads the name of a request, or makes one up if it has none.
fn read_request_id(text: &str) -> Result<RequestId, Status> {
    let text = if text.is_empty() { request_id() } else { text.to_owned() };
    traces::note("fabricast.request_id", &text);
    Ok(decode_name("request_id", &text, RequestId::new)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::agent;

    #[tokio::test]
    async fn many_hints_are_read_as_few_are() {
        let test = agent();
        let nodes = &test.agent.runtime.nodes;
        for count in [HINTS_AT_ONCE, HINTS_AT_ONCE + 1] {
            let endpoints: Vec<String> = (0..count).map(|at| format!("h{at}")).collect();
            let hints = v1::MgidHints { expected_endpoints: endpoints, ..Default::default() };
            let mut request = v1::OperatingAgentServiceJoinGroupRequest {
                node: test.node.to_string(),
                group: "g".to_owned(),
                process: "p".to_owned(),
                hints: Some(hints),
                ..Default::default()
            };
            let (node, join) = read_long_join(nodes, request.clone()).await.unwrap();
            assert_eq!((&node, join.group.hints.expected.len()), (&test.node, count));
            request.hints.as_mut().unwrap().expected_endpoints[count / 2].clear();
            let refused = read_long_join(nodes, request).await.unwrap_err();
            assert!(Reason::NameInvalid.is_of(&refused), "{refused}");
        }
    }
}
