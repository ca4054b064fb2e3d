//! Outcomes of calls that are bound to objects of their callers, with objects of the caller.
//!
//! A request must be complete, so that the outcome is that of its objects: a refusal of the request
//! itself, as `FIELD_MISSING`, tells nothing about them.

use fabricast_rpc::Access;

/// Outcomes that a call may have.
#[derive(Debug)]
pub(crate) struct OwnOutcome {
    /// It is answered, or waits for something.
    pub(crate) served: bool,
    /// Reasons for which it may be refused.
    pub(crate) refused: &'static [&'static str],
}

const SERVED: OwnOutcome = OwnOutcome { served: true, refused: &[] };

const fn refused(reasons: &'static [&'static str]) -> OwnOutcome {
    OwnOutcome { served: false, refused: reasons }
}

const fn served_or(reasons: &'static [&'static str]) -> OwnOutcome {
    OwnOutcome { served: true, refused: reasons }
}

/// The outcomes of a call with objects of its caller.
pub(crate) fn own_outcome(access: &Access) -> OwnOutcome {
    match (access.service, access.call) {
        // The process is no member, and the group is not there.
        ("TicService", "LeaveGroup") => refused(&["NOT_A_MEMBER"]),
        ("CollectiveService", "RequestSwitchTree") => refused(&["NOT_A_MEMBER"]),
        ("TicService", "DeleteGroup") => refused(&["UNKNOWN_GROUP"]),
        ("GroupAgentService", "RegisterMember" | "DeregisterMember") => {
            refused(&["NOT_HOSTED_HERE"])
        }
        // The route service at work has reported since.
        ("TicService", "ReportRoutes") => served_or(&["STALE_TERM"]),
        ("RouteChoiceService", "RecordRouteChoices") => refused(&["TOPOLOGY_DIFFERS"]),
        // It comes from a file.
        ("TopologyService", "ReportTopology") => refused(&["TOPOLOGY_FIXED"]),
        // A job that was placed may be on the node.
        ("JobService", "ReserveJob") => served_or(&["NODE_TAKEN"]),
        // The role before has left.
        ("OperatingAgentService", "LeaveGroup") => served_or(&["NOT_A_MEMBER"]),
        // A node may have no use for a link to itself.
        ("OperatingAgentService", "OpenLink") => served_or(&["LIMIT_REACHED"]),
        // No tree has an entry for it.
        ("FabricAggregationService", "ContributeValues") => refused(&["COLLECTIVE_FAILED"]),
        _ => SERVED,
    }
}
