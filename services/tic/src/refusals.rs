//! Which gRPC reason each refusal of the directory has.

use fabricast_groups::command::Refusal;
use fabricast_rpc::Reason;
use tonic::Status;

/// Turns a refusal into the status its caller gets.
pub(crate) fn status(refusal: &Refusal) -> Status {
    let (reason, fact) = sort(refusal);
    reason.status(refusal.to_string(), &[fact])
}

/// The same for a refusal of one of many things, which the message names.
pub(crate) fn status_at(place: &str, refusal: &Refusal) -> Status {
    let (reason, fact) = sort(refusal);
    reason.status(format!("{place}: {refusal}"), &[fact])
}

fn sort(refusal: &Refusal) -> (Reason, (&'static str, &str)) {
    match refusal {
        Refusal::UnknownGroup { group } => (Reason::UnknownGroup, ("group", group.as_str())),
        Refusal::UnknownNode { node } => (Reason::UnknownNode, ("node", node.as_str())),
        Refusal::NodeFailed { node } | Refusal::StaleIncarnation { node, .. } => {
            (Reason::StaleIncarnation, ("node", node.as_str()))
        }
        Refusal::NoEndpoints { node } => (Reason::FieldMissing, ("node", node.as_str())),
        Refusal::UnknownEndpoint { endpoint, .. } => {
            (Reason::UnknownEndpoint, ("endpoint", endpoint.as_str()))
        }
        Refusal::EndpointUnowned { endpoint } => {
            (Reason::UnknownEndpoint, ("endpoint", endpoint.as_str()))
        }
        Refusal::EndpointTaken { endpoint, .. } => {
            (Reason::EndpointTaken, ("endpoint", endpoint.as_str()))
        }
        Refusal::MgidInUse { group, .. } => (Reason::MgidInUse, ("group", group.as_str())),
        Refusal::MgidNotClean { .. } => (Reason::MgidNotClean, ("field", "mgid")),
        Refusal::MgidMismatch { group, .. } => (Reason::GroupDiffers, ("group", group.as_str())),
        Refusal::MgidOutOfRange { .. } => (Reason::MgidOutOfRange, ("field", "mgid")),
        Refusal::NoMgidFree { group } => (Reason::LimitReached, ("group", group.as_str())),
        Refusal::JoinedElsewhere { process, .. } => {
            (Reason::JoinedElsewhere, ("process", process.as_str()))
        }
        Refusal::NotAMember { process, .. } => (Reason::NotAMember, ("process", process.as_str())),
        Refusal::MembershipEnded { request_id } => {
            (Reason::MembershipEnded, ("request_id", request_id.as_str()))
        }
        Refusal::RequestIdReused { request_id } => {
            (Reason::RequestIdReused, ("request_id", request_id.as_str()))
        }
        Refusal::GroupExists { group } | Refusal::GroupNamedTwice { group } => {
            (Reason::GroupDiffers, ("group", group.as_str()))
        }
        Refusal::UnknownJob { job } => (Reason::UnknownJob, ("job", job.as_str())),
        Refusal::JobExists { job } => (Reason::JobExists, ("job", job.as_str())),
        Refusal::JobEnded { request_id } => (Reason::JobEnded, ("request_id", request_id.as_str())),
        Refusal::EndpointInJob { job, .. } => (Reason::NodeTaken, ("job", job.as_str())),
        Refusal::NoMembers { group } => (Reason::FieldMissing, ("group", group.as_str())),
        Refusal::LimitReached { what, .. } => (Reason::LimitReached, ("limit", *what)),
    }
}
