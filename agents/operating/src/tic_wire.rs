//! The TIC's answers as the operating agent's state machine wants them.

use std::num::NonZeroU32;

use fabricast_group::wire::{self, name, required};
use fabricast_groups::Refusal;
use fabricast_groups::command::{Join, Joined, Leave, RegisterNode};
use fabricast_groups::hints::{Layer, MgidHints};
use fabricast_groups::ids::{Epoch, Gn, Incarnation, Pn};
use fabricast_groups::message::{AgentRefusal, PositionUpdate};
use fabricast_groups::names::{Address, EndpointName, LayerName, NodeName};
use fabricast_groups::operating::{CallAnswer, CallError};
use fabricast_groups::record::{NodeRecord, NodeState};
use fabricast_proto::v1;
use fabricast_rpc::{Reason, reason_of};
use tonic::Status;

use crate::host::CallOutcome;

pub(crate) fn register_request(node: &RegisterNode) -> v1::RegisterNodeRequest {
    let wire = v1::Node {
        name: node.name.to_string(),
        address: node.address.to_string(),
        endpoints: node.endpoints.iter().map(ToString::to_string).collect(),
        ..v1::Node::default()
    };
    v1::RegisterNodeRequest { node: Some(wire), start_id: node.start_id }
}

/// The record that the TIC answered `asked` with.
pub(crate) fn registered(
    asked: &RegisterNode,
    answer: v1::RegisterNodeResponse,
) -> Result<NodeRecord, Status> {
    let node = required("node", answer.node)?;
    let state = match node.state() {
        v1::NodeState::Failed => NodeState::Failed,
        v1::NodeState::Up | v1::NodeState::Unspecified => NodeState::Up,
    };
    Ok(NodeRecord {
        name: asked.name.clone(),
        address: asked.address.clone(),
        endpoints: asked.endpoints.clone(),
        incarnation: Incarnation(node.incarnation),
        start_id: answer.start_id,
        state,
        flaps: None,
    })
}

pub(crate) fn join_request(join: &Join) -> v1::JoinGroupRequest {
    v1::JoinGroupRequest {
        request_id: join.request_id.to_string(),
        group: join.group.name.to_string(),
        node: join.member.node.to_string(),
        incarnation: join.member.incarnation.0,
        endpoint: join.member.endpoint.to_string(),
        process: join.member.process.to_string(),
        mgid: join.group.mgid.map(|mgid| mgid.0),
        persistent: join.group.persistent,
        exclusive: join.group.exclusive,
        hints: hints_to_wire(&join.group.hints),
        job: join.group.job.as_ref().map_or_else(String::new, ToString::to_string),
        complete_at_member_count: join.group.complete_at.map_or(0, NonZeroU32::get),
    }
}

/// What a caller says of a new group.
pub(crate) fn hints(hints: v1::MgidHints) -> Result<MgidHints, Status> {
    let endpoint = |text: &String| name("hints.expected_endpoints", text, EndpointName::new);
    let layer = match hints.layer.as_str() {
        "" => None,
        text => Some(Layer {
            name: name("hints.layer", text, LayerName::new)?,
            groups: hints.layer_group_count,
            all_groups: hints.all_group_count,
        }),
    };
    let expected = hints.expected_endpoints.iter().map(endpoint).collect::<Result<_, _>>()?;
    Ok(MgidHints { expected, layer })
}

fn hints_to_wire(hints: &MgidHints) -> Option<v1::MgidHints> {
    let layer = hints.layer.as_ref();
    (*hints != MgidHints::default()).then(|| v1::MgidHints {
        expected_endpoints: hints.expected.iter().map(ToString::to_string).collect(),
        layer: layer.map_or_else(String::new, |layer| layer.name.to_string()),
        layer_group_count: layer.map_or(0, |layer| layer.groups),
        all_group_count: layer.map_or(0, |layer| layer.all_groups),
    })
}

pub(crate) fn joined(answer: &v1::JoinGroupResponse) -> Result<Joined, Status> {
    let group = required("group", answer.group.as_ref())?;
    let record = wire::group_record(group)?;
    let member = required("member", answer.member.as_ref())?;
    let member = wire::member_view(record.gn, member)?.member;
    let agent_address = name("group.agent_address", &group.agent_address, Address::new)?;
    Ok(Joined { group: record, agent_address, member })
}

pub(crate) fn leave_request(leave: &Leave) -> v1::LeaveGroupRequest {
    v1::LeaveGroupRequest {
        request_id: leave.request_id.to_string(),
        group: leave.group.to_string(),
        node: leave.node.to_string(),
        incarnation: leave.incarnation.0,
        process: leave.process.to_string(),
    }
}

/// What a failed call means to the state machine.
pub(crate) enum Verdict {
    /// Nobody knows what became of it: ask again.
    Unclear,
    /// This life of the node is over, or in doubt.
    Life(Refusal),
    /// The TIC will not have it; its own status is for the caller.
    Final(Refusal),
}

/// Sorts a failed call: the state machine has to know only whether the node's life is at stake.
pub(crate) fn verdict(node: &NodeName, status: &Status) -> Verdict {
    let reason = reason_of(status).unwrap_or_default();
    let life = [Reason::StaleIncarnation, Reason::UnknownNode];
    let refusal = Refusal::UnknownNode { node: node.clone() };
    if life.iter().any(|one| one.text() == reason) {
        return Verdict::Life(refusal);
    }
    match status.code() {
        tonic::Code::InvalidArgument
        | tonic::Code::NotFound
        | tonic::Code::AlreadyExists
        | tonic::Code::FailedPrecondition
        | tonic::Code::OutOfRange
        | tonic::Code::PermissionDenied
        | tonic::Code::Unimplemented => Verdict::Final(Refusal::NoEndpoints { node: node.clone() }),
        _ => Verdict::Unclear,
    }
}

/// How a call ends for the process that made it.
///
/// - `said`: the status that the TIC answered it with last.
pub(crate) fn outcome(answer: CallAnswer, said: Option<Status>) -> CallOutcome {
    match (&answer, said) {
        (CallAnswer::Failed(CallError::Refused(_) | CallError::TimedOut), Some(said))
            if reason_of(&said).is_some() =>
        {
            Err(said)
        }
        // What the transport says has no reason of ours.
        (CallAnswer::Failed(CallError::TimedOut), Some(said)) => {
            let text = format!(
                "no answer in time from the TIC, last: {}; ask again with the same request_id",
                said.message()
            );
            Err(Reason::PeerUnavailable.status(text, &[]))
        }
        _ => Ok(answer),
    }
}

/// What an agent answered to a registration; `None` if it did not answer at all, or what nobody
/// understands.
///
/// - `epoch`: in which it was asked.
pub(crate) fn placed(
    (gn, pn): (Gn, Pn),
    epoch: Epoch,
    answer: Result<v1::Position, Status>,
) -> Option<Result<PositionUpdate, AgentRefusal>> {
    match answer.and_then(|position| wire::read_position(&position)) {
        Ok(position) => Some(Ok(position)),
        Err(status) => refused_place((gn, pn), epoch, &status).map(Err),
    }
}

fn refused_place((gn, pn): (Gn, Pn), epoch: Epoch, status: &Status) -> Option<AgentRefusal> {
    let reason = reason_of(status)?;
    if reason == Reason::StaleEpoch.text() {
        return Some(AgentRefusal::StaleEpoch { gn, given: epoch, known: Epoch(epoch.0 + 1) });
    }
    if reason == Reason::NotAMember.text() {
        return Some(AgentRefusal::UnknownMember { gn, pn });
    }
    (reason == Reason::NotHostedHere.text()).then_some(AgentRefusal::NotHosted { gn, epoch })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(status: &Status) -> &'static str {
        match verdict(&NodeName::new("n").unwrap(), status) {
            Verdict::Unclear => "unclear",
            Verdict::Life(_) => "life",
            Verdict::Final(_) => "final",
        }
    }

    #[test]
    fn only_what_the_tic_has_decided_is_final() {
        assert_eq!(sorted(&Reason::MgidInUse.status("", &[])), "final");
        assert_eq!(sorted(&Reason::NameInvalid.status("", &[])), "final");
        assert_eq!(sorted(&Reason::NotAMember.status("", &[])), "final");
        assert_eq!(sorted(&Reason::StoreFailed.status("", &[])), "unclear");
        assert_eq!(sorted(&Reason::LimitReached.status("", &[])), "unclear");
        assert_eq!(sorted(&Status::unavailable("connection refused")), "unclear");
        assert_eq!(sorted(&Status::cancelled("Timeout expired")), "unclear");
    }

    #[test]
    fn a_refused_life_is_looked_into_and_not_passed_on() {
        assert_eq!(sorted(&Reason::StaleIncarnation.status("", &[])), "life");
        assert_eq!(sorted(&Reason::UnknownNode.status("", &[])), "life");
    }

    #[test]
    fn an_answer_without_a_member_is_an_error_and_no_panic() {
        let status = joined(&v1::JoinGroupResponse::default()).unwrap_err();
        assert_eq!(reason_of(&status).as_deref(), Some("FIELD_MISSING"));
    }

    #[test]
    fn a_call_that_fails_says_what_the_tic_said_last() {
        let late = || CallAnswer::Failed(CallError::TimedOut);
        let why = |said| {
            let status = outcome(late(), Some(said)).unwrap_err();
            (reason_of(&status).unwrap_or_default(), status.message().to_owned())
        };
        let not_clean = Reason::MgidNotClean.status("mgid 7 is not clean", &[]);
        assert_eq!(why(not_clean.clone()), ("MGID_NOT_CLEAN".into(), "mgid 7 is not clean".into()));
        let (reason, text) = why(Status::unavailable("connection refused"));
        assert_eq!(reason, "PEER_UNAVAILABLE");
        assert!(text.contains("last: connection refused"), "{text}");
        assert_eq!(outcome(late(), None).unwrap(), late());
        assert_eq!(outcome(CallAnswer::Left, Some(not_clean.clone())).unwrap(), CallAnswer::Left);
        let node = NodeName::new("n").unwrap();
        let stopped = CallAnswer::Failed(CallError::Stopped { node });
        assert_eq!(outcome(stopped.clone(), Some(not_clean)).unwrap(), stopped);
    }
}
