//! Errors of the subsystems as statuses: a code, a stable reason and a message.

use fabricast_groups::TicRefusal;
use fabricast_groups::names::{GroupName, NodeName};
use fabricast_proto::v1;
use fabricast_rpc::{Reason, reason_of};
use fabricast_wire::{decode_refusal, encode_operation_error};
use tonic::{Code, Status};

use crate::collectives::CollectiveError;
use crate::fabric::listeners::TooManyListeners;
use crate::fabric::packets::PacketError;
use crate::links::measurement::MeasurementError;
use crate::links::member_handle::MemberError;
use crate::links::streams::LinkError;
use crate::nodes::direct::DirectFrameError;
use crate::processes::group_members::QueryError;
use crate::processes::memory::SharingError;
use crate::processes::sessions::SessionError;
use crate::processes::user_rules::NoRule;
use crate::tic::membership_calls::CallFailure;

pub(super) fn missing(field: &str) -> Status {
    Reason::FieldMissing.status(format!("{field} is missing"), &[("field", field)])
}

pub(super) fn unknown_node(node: &NodeName) -> Status {
    let text = format!("node: '{node}' is not hosted here");
    Reason::UnknownNode.status(text, &[("node", node.as_str())])
}

pub(super) fn stopped(node: &NodeName) -> Status {
    Reason::NodeStopped.status(format!("node '{node}' is stopped"), &[("node", node.as_str())])
}

pub(super) fn not_a_member(group: &GroupName, node: &NodeName) -> Status {
    let text = format!("group: '{group}' has no such member on node '{node}'");
    Reason::NotAMember.status(text, &[("group", group.as_str()), ("node", node.as_str())])
}

pub(super) fn shutting_down() -> Status {
    Reason::ShuttingDown.status("the agent is stopping", &[])
}

/// Gives an error of the transport a reason; an answer of the peer itself stays as it is.
pub(super) fn unreachable(status: Status, peer: &str) -> Status {
    match reason_of(&status) {
        Some(_) => status,
        None => no_answer(&status, peer),
    }
}

/// The same for the TIC. That it stops, or does not lead, says nothing about the agent, which a
/// process would take for gone.
pub(super) fn tic_refusal(status: Status) -> Status {
    let of_itself = [Reason::ShuttingDown, Reason::NotLeader].map(Reason::text);
    match reason_of(&status) {
        Some(reason) if !of_itself.contains(&reason.as_str()) => status,
        // The TIC is of an older version.
        None if status.code() == Code::Unimplemented => status,
        Some(_) | None => no_answer(&status, "TIC"),
    }
}

fn no_answer(status: &Status, peer: &str) -> Status {
    let text = format!("the {peer} does not answer: {}", status.message());
    Reason::PeerUnavailable.status(text, &[])
}

impl From<MeasurementError> for Status {
    fn from(error: MeasurementError) -> Self {
        let text = error.to_string();
        match error {
            MeasurementError::Invalid { .. } => {
                Reason::CollectiveInvalid.status(text, &[("field", "operations")])
            }
            MeasurementError::TooMany => Reason::LimitReached.status(text, &[]),
            MeasurementError::NoPlace { group, .. } => {
                Reason::NotAMember.status(text, &[("group", group.as_str())])
            }
            MeasurementError::Missing { .. } => Reason::PeerUnavailable.status(text, &[]),
            MeasurementError::Member(error) => error.into(),
        }
    }
}

impl From<CallFailure> for Status {
    fn from(failure: CallFailure) -> Self {
        let text = failure.to_string();
        match failure {
            CallFailure::UnknownNode { node } => unknown_node(&node),
            CallFailure::NodeStopped { node } => stopped(&node),
            CallFailure::TooManyCalls { .. } | CallFailure::NotBegun => {
                Reason::LimitReached.status(text, &[])
            }
            CallFailure::Refused(TicRefusal::Final { code, reason, message }) => {
                decode_refusal(&v1::CallRefusal { code, reason, message }).into()
            }
            CallFailure::Refused(TicRefusal::StaleIncarnation)
            | CallFailure::TimedOut { last_error: None } => {
                Reason::PeerUnavailable.status(text, &[])
            }
            CallFailure::TimedOut { last_error: Some(error) } => {
                if error.reason_text().is_some() {
                    return error.into();
                }
                // An error of the transport.
                let text = format!(
                    "no answer in time from the TIC, last: {}; ask again with the same request_id",
                    error.message()
                );
                Reason::PeerUnavailable.status(text, &[])
            }
            CallFailure::ShuttingDown => shutting_down(),
        }
    }
}

impl From<CollectiveError> for Status {
    fn from(error: CollectiveError) -> Self {
        let text = error.to_string();
        match &error {
            CollectiveError::NotAMember { collective, .. } => {
                Reason::NotAMember.status(text, &[("collective", collective)])
            }
            CollectiveError::Suspended { collective, .. } => {
                Reason::MemberCutOff.status(text, &[("collective", collective)])
            }
            CollectiveError::NotProgrammed { collective }
            | CollectiveError::NoTree { collective } => {
                Reason::NotProgrammed.status(text, &[("collective", collective)])
            }
            CollectiveError::NotInTree => Reason::NotProgrammed.status(text, &[]),
        }
    }
}

impl From<DirectFrameError> for Status {
    fn from(error: DirectFrameError) -> Self {
        let reason = match error {
            DirectFrameError::Missing => Reason::FieldMissing,
            DirectFrameError::Foreign { .. }
            | DirectFrameError::End
            | DirectFrameError::Body(_) => Reason::FrameInvalid,
        };
        reason.status(error.to_string(), &[("field", "frames.frame")])
    }
}

impl From<LinkError> for Status {
    fn from(error: LinkError) -> Self {
        let text = error.to_string();
        match &error {
            LinkError::UnknownNode { node } => {
                Reason::UnknownNode.status(text, &[("node", node.as_str())])
            }
            LinkError::NodeNotUp { node } => {
                Reason::NodeStopped.status(text, &[("node", node.as_str())])
            }
            LinkError::NotWanted { node, .. } => {
                Reason::LimitReached.status(text, &[("node", node.as_str())])
            }
        }
    }
}

impl From<MemberError> for Status {
    fn from(error: MemberError) -> Self {
        let (reason, text) = (error.reason(), error.to_string());
        match &error {
            MemberError::UnknownNode { node } => reason.status(text, &[("node", node.as_str())]),
            MemberError::Failed(error) => encode_operation_error(error),
            _ => reason.status(text, &[]),
        }
    }
}

impl From<PacketError> for Status {
    fn from(error: PacketError) -> Self {
        let reason = match error {
            PacketError::NotAttached => Reason::FabricUnavailable,
            PacketError::QueueFull => Reason::LimitReached,
        };
        reason.status(error.to_string(), &[])
    }
}

impl From<QueryError> for Status {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::NotAMember { group, node } => not_a_member(&group, &node),
            QueryError::NoAnswer => Reason::PeerUnavailable.status(error.to_string(), &[]),
            QueryError::Refused(error) => error.into(),
        }
    }
}

impl From<SessionError> for Status {
    fn from(error: SessionError) -> Self {
        let (reason, text) = (error.reason(), error.to_string());
        match &error {
            SessionError::Attached { node, .. }
            | SessionError::ForeignName { node, .. }
            | SessionError::Reserved { node, .. }
            | SessionError::NotFree { node, .. } => reason.status(text, &[("node", node.as_str())]),
            SessionError::Unknown
            | SessionError::NotYours
            | SessionError::NoShare(_)
            | SessionError::TooManyReserved
            | SessionError::ForeignUser { .. }
            | SessionError::PredecessorNotEnded => reason.status(text, &[]),
        }
    }
}

impl From<NoRule> for Status {
    fn from(error: NoRule) -> Self {
        Reason::NotPermitted.status(error.to_string(), &[])
    }
}

impl From<SharingError> for Status {
    fn from(error: SharingError) -> Self {
        let (reason, text) = (error.reason(), error.to_string());
        match &error {
            SharingError::NotShared { field } | SharingError::RangeInvalid { field, .. } => {
                reason.status(text, &[("field", field)])
            }
            SharingError::Disabled | SharingError::Failed { .. } | SharingError::SharedAlready => {
                reason.status(text, &[])
            }
        }
    }
}

impl From<TooManyListeners> for Status {
    fn from(error: TooManyListeners) -> Self {
        Reason::LimitReached.status(error.to_string(), &[])
    }
}

#[cfg(test)]
mod tests;
