//! Requests to the TIC and its replies, in the state machines' terms.

use std::num::NonZeroU32;

use fabricast_groups::TicRefusal;
use fabricast_groups::command::{Join, Joined, Leave, RegisterNode};
use fabricast_groups::hints::{Layer, MgidHints};
use fabricast_groups::ids::Incarnation;
use fabricast_groups::names::{Address, EndpointName, LayerName};
use fabricast_groups::record::{NodeRecord, NodeState};
use fabricast_groups::voucher::Voucher;
use fabricast_proto::v1;
use fabricast_rpc::{Reason, RpcError};
use fabricast_wire::{decode_group, decode_member, decode_name, required};
use tonic::Code;

pub(crate) fn register_node_request(node: &RegisterNode) -> v1::RegisterNodeRequest {
    let wire = v1::Node {
        name: node.name.to_string(),
        address: node.address.to_string(),
        endpoints: node.endpoints.iter().map(ToString::to_string).collect(),
        ..v1::Node::default()
    };
    v1::RegisterNodeRequest {
        node: Some(wire),
        start_id: node.start_id,
        voucher_key: node.voucher_key.map_or_else(Vec::new, |key| key.bytes().to_vec()),
    }
}

/// The record of a node that the TIC has registered.
///
/// - `asked`: the request that is answered.
pub(crate) fn read_record(
    asked: &RegisterNode,
    answer: v1::RegisterNodeResponse,
) -> Result<NodeRecord, RpcError> {
    let node = required("node", answer.node)?;
    let state = match node.state() {
        v1::NodeState::Failed => NodeState::Failed,
        v1::NodeState::Up | v1::NodeState::Silent | v1::NodeState::Unspecified => NodeState::Up,
    };
    Ok(NodeRecord {
        name: asked.name.clone(),
        address: asked.address.clone(),
        endpoints: asked.endpoints.clone(),
        incarnation: Incarnation(node.incarnation),
        start_id: answer.start_id,
        state,
        flaps: None,
        drained: false,
        voucher_key: None, // no answer has it
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
        job_token: join.group.token.as_ref().map_or_else(String::new, |it| it.as_str().to_owned()),
        sends_only: join.member.sends_only,
    }
}

/// Reads a process's hints on the MGID of a new group.
pub(crate) fn read_hints(hints: v1::MgidHints) -> Result<MgidHints, RpcError> {
    let endpoint = |text: &String| decode_name("hints.expected_endpoints", text, EndpointName::new);
    let layer = match hints.layer.as_str() {
        "" => None,
        text => Some(Layer {
            name: decode_name("hints.layer", text, LayerName::new)?,
            groups: hints.layer_group_count,
            all_groups: hints.all_group_count,
        }),
    };
    let expected = hints.expected_endpoints.iter().map(endpoint).collect::<Result<_, _>>()?;
    Ok(MgidHints { expected, layer, planned: None })
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

pub(crate) fn read_joined(answer: &v1::JoinGroupResponse) -> Result<Joined, RpcError> {
    let group = required("group", answer.group.as_ref())?;
    let record = decode_group(group)?;
    let member = required("member", answer.member.as_ref())?;
    let voucher = member.voucher.map(Voucher);
    let member = decode_member(record.gn, member)?.member;
    let agent_address = decode_name("group.agent_address", &group.agent_address, Address::new)?;
    Ok(Joined { group: record, agent_address, member, voucher })
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

/// The TIC's refusal of a request; `None` if the request may have been carried out or may succeed
/// later, so that it is to be repeated.
pub(crate) fn refusal(error: &RpcError) -> Option<TicRefusal> {
    if let Some(Reason::StaleIncarnation | Reason::UnknownNode) = error.reason() {
        return Some(TicRefusal::StaleIncarnation);
    }
    match error.code() {
        // Repeating would hide the reason from the caller until the time is over.
        Code::ResourceExhausted
            if !matches!(error.reason(), Some(Reason::StoreFull | Reason::QuotaReached)) =>
        {
            None
        }
        Code::ResourceExhausted
        | Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::FailedPrecondition
        | Code::OutOfRange
        | Code::PermissionDenied
        | Code::Unimplemented => Some(TicRefusal::Final {
            code: i32::from(error.code()).unsigned_abs(),
            reason: error.reason_text().unwrap_or_default(),
            message: error.message().to_owned(),
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Status;

    /// Code and reason of a final refusal.
    fn final_refusal(status: Status) -> Option<(u32, String)> {
        match refusal(&status.into())? {
            TicRefusal::Final { code, reason, .. } => Some((code, reason)),
            TicRefusal::StaleIncarnation => panic!("the refusal is final"),
        }
    }

    #[test]
    fn final_refusals_keep_the_code_and_reason_of_the_tic() {
        let decided = [
            Reason::MgidInUse,
            Reason::NameInvalid,
            Reason::NotAMember,
            Reason::NotPermitted,
            Reason::UnknownEndpoint,
            Reason::StoreFull,
            Reason::QuotaReached,
            Reason::TokenRefused,
        ];
        for reason in decided {
            let code = i32::from(reason.code()).unsigned_abs();
            let refusal = final_refusal(reason.status("", &[]));
            assert_eq!(refusal, Some((code, reason.text().to_owned())));
        }
        let proxy = Status::permission_denied("no certificate");
        assert_eq!(final_refusal(proxy), Some((7, String::new())));
    }

    #[test]
    fn requests_that_may_succeed_later_are_repeated() {
        let unclear = [
            Reason::StoreFailed.status("", &[]),
            Reason::LimitReached.status("", &[]),
            Status::unavailable("connection refused"),
            Status::cancelled("Timeout expired"),
        ];
        assert!(unclear.into_iter().all(|status| refusal(&status.into()).is_none()));
    }

    #[test]
    fn a_stale_incarnation_registers_again() {
        for reason in [Reason::StaleIncarnation, Reason::UnknownNode] {
            let refusal = refusal(&reason.status("", &[]).into());
            assert_eq!(refusal, Some(TicRefusal::StaleIncarnation));
        }
    }

    #[test]
    fn an_answer_without_a_member_is_an_error() {
        let error = read_joined(&v1::JoinGroupResponse::default()).unwrap_err();
        assert_eq!(error.reason(), Some(Reason::FieldMissing));
    }
}
