//! The one place where an error of the TIC becomes a gRPC status with a stable reason.

use fabricast_collectives::Refusal as CollectiveRefusal;
use fabricast_groups::command::Refusal;
use fabricast_placement::JobRefusal;
use fabricast_rpc::Reason;
use fabricast_store::StoreError;
use tonic::Status;

use crate::domain::choices::ChoiceError;
use crate::domain::collectives::error::CollectiveError;
use crate::domain::elements::{DrainError, ElementError, TooManyReporters};
use crate::domain::jobs::{self, PlacementError};
use crate::domain::route_terms::RouteTermError;
use crate::domain::shares::ShareError;
use crate::domain::topology::TopologyError;
use crate::leadership::election::LeaderInfo;
use crate::leadership::state::NotLeader;
use crate::records::keys::RecordsError;
use crate::records::watchers::{TooManyWatches, WatchEnd};
use crate::writer::error::WriteError;

/// The status of a refusal of the directory.
pub(crate) fn refusal(refusal: &Refusal) -> Status {
    let (reason, fact) = directory_reason(refusal);
    reason.status(refusal.to_string(), &[fact])
}

/// The status of a refusal of one of many items, which the message names.
pub(crate) fn refusal_of(item: &str, refusal: &Refusal) -> Status {
    let (reason, fact) = directory_reason(refusal);
    reason.status(format!("{item}: {refusal}"), &[fact])
}

/// The status of a call of which a task panicked.
pub(crate) fn panicked(task: &str) -> Status {
    Status::internal(format!("{task} failed"))
}

impl From<WriteError> for Status {
    fn from(error: WriteError) -> Self {
        let text = error.to_string();
        match error {
            WriteError::StoreLimit(StoreError::NoSpace) => Reason::StoreFull.status(text, &[]),
            WriteError::QueueFull { .. } | WriteError::StoreLimit(_) => {
                Reason::LimitReached.status(text, &[])
            }
            WriteError::Stopping => Reason::ShuttingDown.status(text, &[]),
            WriteError::Deposed => Reason::NotLeader.status(text, &[]),
            WriteError::StoreSilent
            | WriteError::StoreConflict
            | WriteError::NotStored(_)
            | WriteError::Unclear(_) => Reason::StoreFailed.status(text, &[]),
            WriteError::Directory(error) => refusal(&error),
            WriteError::RouteTerm(error) => route_term(&error),
            WriteError::Placement(error) => placement(&error),
            WriteError::Share(error) => share(&error),
            WriteError::Choices(error) => choices(&error),
            WriteError::Topology(error) => topology(&error),
            WriteError::Trees(_) => {
                Reason::RevisionOutOfRange.status(text, &[("field", "revision")])
            }
            WriteError::Collective(error) => collective(&error),
        }
    }
}

impl From<NotLeader> for Status {
    fn from(error: NotLeader) -> Self {
        let LeaderInfo { address, term } = &error.leader;
        let facts = [("leader", address.as_str()), ("term", &term.to_string())];
        Reason::NotLeader.status(error.to_string(), &facts)
    }
}

impl From<DrainError> for Status {
    fn from(error: DrainError) -> Self {
        let text = error.to_string();
        match &error {
            DrainError::Needed { first, .. } => {
                Reason::LinkNeeded.status(text, &[("endpoint", first.as_str())])
            }
            DrainError::TooMany => Reason::LimitReached.status(text, &[]),
        }
    }
}

impl From<ElementError> for Status {
    fn from(error: ElementError) -> Self {
        let reason = match &error {
            ElementError::Unnamed => Reason::FieldMissing,
            ElementError::UnknownSwitch { .. }
            | ElementError::Endpoint(_)
            | ElementError::UnknownPort { .. }
            | ElementError::NoLink { .. }
            | ElementError::NoSwitch { .. }
            | ElementError::NotLinked { .. }
            | ElementError::NotLinkedAt { .. } => Reason::UnknownElement,
        };
        reason.status(error.to_string(), &[])
    }
}

impl From<TooManyReporters> for Status {
    fn from(error: TooManyReporters) -> Self {
        Reason::LimitReached.status(error.to_string(), &[])
    }
}

impl From<TooManyWatches> for Status {
    fn from(error: TooManyWatches) -> Self {
        Reason::LimitReached.status(error.to_string(), &[])
    }
}

impl From<WatchEnd> for Status {
    fn from(end: WatchEnd) -> Self {
        let reason = match end {
            WatchEnd::ReaderTooSlow => Reason::ReaderTooSlow,
            WatchEnd::NotLeader => Reason::NotLeader,
            WatchEnd::RecordsReplaced => Reason::StoreFailed,
            WatchEnd::ShuttingDown => Reason::ShuttingDown,
        };
        reason.status(end.to_string(), &[])
    }
}

impl From<RecordsError> for Status {
    fn from(error: RecordsError) -> Self {
        Reason::StoreFailed.status(format!("the records cannot be read: {error}"), &[])
    }
}

fn route_term(error: &RouteTermError) -> Status {
    let text = error.to_string();
    match error {
        RouteTermError::Held { term, holder, left } => {
            let facts = [
                ("term", &*term.to_string()),
                ("router", &holder.name),
                ("leader", &holder.address),
                ("milliseconds", &left.as_millis().to_string()),
            ];
            Reason::RouteTermHeld.status(text, &facts)
        }
        RouteTermError::Stale { newest: term, .. } | RouteTermError::StaleReport { term, .. } => {
            Reason::StaleTerm.status(text, &[("term", &term.to_string())])
        }
    }
}

fn placement(error: &PlacementError) -> Status {
    let text = error.to_string();
    match error {
        PlacementError::NotAFatTree => Reason::NotAFatTree.status(text, &[]),
        PlacementError::UnknownNode { node } => Reason::UnknownNode.status(text, &[("node", node)]),
        PlacementError::Refused { refusal, .. } => {
            let reason = match refusal {
                JobRefusal::NoNodes => Reason::FieldMissing,
                JobRefusal::Exists { .. } => Reason::JobExists,
                JobRefusal::TooLarge { .. } | JobRefusal::NoRoom(_) => Reason::NoRoom,
                JobRefusal::UnknownNode { .. } => Reason::UnknownNode,
                JobRefusal::Twice { .. } => Reason::NameInvalid,
                JobRefusal::Taken { .. } => Reason::NodeTaken,
                JobRefusal::LeftOut { .. } => Reason::NodeDown,
                JobRefusal::Shared { .. } => Reason::LinksShared,
            };
            reason.status(text, &[("field", jobs::field(refusal))])
        }
    }
}

fn share(error: &ShareError) -> Status {
    let text = error.to_string();
    match error {
        ShareError::UnknownNode { node } => {
            Reason::UnknownNode.status(text, &[("node", node.as_str())])
        }
        ShareError::NoNodes => Reason::FieldMissing.status(text, &[("field", "nodes")]),
        ShareError::NotAttached => Reason::UnknownNode.status(text, &[("field", "nodes")]),
        ShareError::Refused { others, wait, free, .. } => {
            let reason = if *others { Reason::NoRoom } else { Reason::QuotaReached };
            match wait {
                Some(wait) => reason.status_after(text, *wait),
                None => reason.status(text, &[("free_groups", &free.to_string())]),
            }
        }
    }
}

fn choices(error: &ChoiceError) -> Status {
    let (reason, field) = match error {
        ChoiceError::Stale { .. } => (Reason::StaleFence, "fence"),
        ChoiceError::TooManyGroups => (Reason::LimitReached, "changed"),
    };
    reason.status(error.to_string(), &[("field", field)])
}

fn topology(error: &TopologyError) -> Status {
    let text = error.to_string();
    match error {
        TopologyError::Fixed => Reason::TopologyFixed.status(text, &[]),
        TopologyError::EndpointInUse { node, endpoint } => {
            let facts = [("node", node.as_str()), ("endpoint", endpoint.as_str())];
            Reason::EndpointInUse.status(text, &facts)
        }
        TopologyError::NoMgids(_) => Reason::TopologyInvalid.status(text, &[]),
    }
}

fn collective(error: &CollectiveError) -> Status {
    let text = error.to_string();
    match error {
        CollectiveError::Differs { name } => {
            Reason::CollectiveExists.status(text, &[("collective", name)])
        }
        CollectiveError::UnknownGroup { group } => {
            Reason::UnknownGroup.status(text, &[("group", group.as_str())])
        }
        CollectiveError::NotAMember { group, node, .. } => {
            let facts = [("group", group.as_str()), ("node", node.as_str())];
            Reason::NotAMember.status(text, &facts)
        }
        CollectiveError::SingleMember { group } => {
            Reason::NoSwitchTree.status(text, &[("group", group.as_str())])
        }
        CollectiveError::LimitReached | CollectiveError::TooManyQuotas => {
            Reason::LimitReached.status(text, &[])
        }
        CollectiveError::UnknownEndpoint { endpoint } => {
            Reason::UnknownEndpoint.status(text, &[("endpoint", endpoint)])
        }
        CollectiveError::CutOff { field, endpoint } => {
            Reason::MemberCutOff.status(text, &[("field", field), ("endpoint", endpoint)])
        }
        CollectiveError::TooFewEntries { field, switch, .. } => {
            Reason::NoRoom.status(text, &[("field", field), ("switch", switch)])
        }
        CollectiveError::OverQuota { field, .. } => {
            Reason::QuotaReached.status(text, &[("field", field)])
        }
        CollectiveError::Refused { refusal, .. } => {
            let reason = match refusal {
                CollectiveRefusal::Exists { .. } => Reason::CollectiveExists,
                CollectiveRefusal::NoMembers | CollectiveRefusal::Sizes { .. } => {
                    Reason::CollectiveInvalid
                }
                CollectiveRefusal::NoOperations => Reason::FieldMissing,
                CollectiveRefusal::CutOff { .. } => Reason::MemberCutOff,
                CollectiveRefusal::Quota { .. } => Reason::QuotaReached,
                CollectiveRefusal::NoSwitchTree { .. } => Reason::NoSwitchTree,
            };
            reason.status(text, &[])
        }
    }
}

/// The reason of a refusal of the directory, and the fact that it is about.
fn directory_reason(refusal: &Refusal) -> (Reason, (&'static str, &str)) {
    match refusal {
        Refusal::UnknownGroup { group } => (Reason::UnknownGroup, ("group", group.as_str())),
        Refusal::UnknownNode { node } => (Reason::UnknownNode, ("node", node.as_str())),
        Refusal::NodeFailed { node } | Refusal::StaleIncarnation { node, .. } => {
            (Reason::StaleIncarnation, ("node", node.as_str()))
        }
        Refusal::NodeUp { node } => (Reason::NodeUp, ("node", node.as_str())),
        Refusal::NoEndpoints { node } => (Reason::FieldMissing, ("node", node.as_str())),
        Refusal::UnknownEndpoint { endpoint, .. } => {
            (Reason::UnknownEndpoint, ("endpoint", endpoint.as_str()))
        }
        Refusal::EndpointUnowned { endpoint } => {
            (Reason::UnknownEndpoint, ("endpoint", endpoint.as_str()))
        }
        Refusal::StartOutOfRange { node, .. } => (Reason::StartOutOfRange, ("node", node.as_str())),
        Refusal::FutureRevision { what, .. } => (Reason::RevisionOutOfRange, ("field", *what)),
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
        Refusal::TokenRefused { group, .. } => (Reason::TokenRefused, ("group", group.as_str())),
        Refusal::ShareUsed { job, .. } => (Reason::QuotaReached, ("job", job.as_str())),
        Refusal::JobEnding { job } => (Reason::JobEnded, ("job", job.as_str())),
        Refusal::JobEnded { request_id } => (Reason::JobEnded, ("request_id", request_id.as_str())),
        Refusal::EndpointInJob { job, .. } => (Reason::NodeTaken, ("job", job.as_str())),
        Refusal::NoMembers { group } => (Reason::FieldMissing, ("group", group.as_str())),
        Refusal::LimitReached { what, .. } => (Reason::LimitReached, ("limit", *what)),
    }
}
