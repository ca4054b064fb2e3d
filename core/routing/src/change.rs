//! Changes of groups, and the errors with which engines refuse them.

use fabricast_topology::{EndpointId, Mgid};
use thiserror::Error;

/// One change to the groups.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Makes a group, or gives it other members; once per group in a batch.
    Put {
        /// MGID of the group.
        mgid: Mgid,
        /// All its members, any order.
        members: Vec<EndpointId>,
    },
    /// Adds a member to a group that exists.
    Join {
        /// MGID of the group.
        mgid: Mgid,
        /// The new member.
        endpoint: EndpointId,
    },
    /// Takes a member out of a group.
    Leave {
        /// MGID of the group.
        mgid: Mgid,
        /// Endpoint of the member.
        endpoint: EndpointId,
    },
    /// Removes a group.
    Delete {
        /// MGID of the group.
        mgid: Mgid,
    },
}

/// Reason why a batch is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("change {index}, group {mgid}: {problem}", mgid = .mgid.0)]
pub struct ChangeError {
    /// Position of the change in the batch, from 0.
    pub index: usize,
    /// Group that the change names.
    pub mgid: Mgid,
    /// The rule that the change breaks.
    pub problem: ChangeProblem,
}

/// Rules that a change can break.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ChangeProblem {
    /// The MGID names no group.
    #[error("mgid: there is no such group")]
    UnknownGroup,
    /// Two groups of one batch have one MGID.
    #[error("mgid: two groups of one batch have it")]
    PutTwice,
    /// The fabric has no such endpoint.
    #[error("endpoint {}: the fabric has no such endpoint", .endpoint.0)]
    UnknownEndpoint {
        /// The endpoint that was named.
        endpoint: EndpointId,
    },
    /// The list of members names an endpoint twice.
    #[error("members: endpoint {} is listed twice", .endpoint.0)]
    DuplicateMember {
        /// The endpoint that was named.
        endpoint: EndpointId,
    },
    /// The endpoint that joins is a member already.
    #[error("endpoint {}: it is a member already", .endpoint.0)]
    AlreadyMember {
        /// The endpoint that was named.
        endpoint: EndpointId,
    },
    /// The endpoint that leaves is not a member.
    #[error("endpoint {}: it is not a member", .endpoint.0)]
    NotMember {
        /// The endpoint that was named.
        endpoint: EndpointId,
    },
}

impl Change {
    /// Returns the group that changes.
    #[must_use]
    pub const fn mgid(&self) -> Mgid {
        match self {
            Self::Put { mgid, .. }
            | Self::Join { mgid, .. }
            | Self::Leave { mgid, .. }
            | Self::Delete { mgid } => *mgid,
        }
    }
}
