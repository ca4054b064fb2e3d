//! Why the TIC's directory changes nothing.

use fabricast_routing::Mgid;
use thiserror::Error;

use crate::ids::Incarnation;
use crate::names::{EndpointName, GroupName, JobName, NodeName, ProcessName, RequestId};

/// Why the directory changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// No group has the name.
    #[error("no group is named {group:?}")]
    UnknownGroup {
        /// The name.
        group: GroupName,
    },
    /// The node has never registered.
    #[error("node {node:?} is not registered")]
    UnknownNode {
        /// The node.
        node: NodeName,
    },
    /// The node was expelled and has not come back.
    #[error("node {node:?} was expelled and has not registered again")]
    NodeFailed {
        /// The node.
        node: NodeName,
    },
    /// The node has come back since.
    #[error("incarnation {given} of node {node:?} is not its present one, {known}")]
    StaleIncarnation {
        /// The node.
        node: NodeName,
        /// The life that asked.
        given: Incarnation,
        /// The life that is known.
        known: Incarnation,
    },
    /// A node was announced without adapter ports.
    #[error("node {node:?} has no endpoints")]
    NoEndpoints {
        /// The node.
        node: NodeName,
    },
    /// The endpoint is not one of the node's.
    #[error("endpoint {endpoint:?} does not belong to node {node:?}")]
    UnknownEndpoint {
        /// The node.
        node: NodeName,
        /// The endpoint.
        endpoint: EndpointName,
    },
    /// No node that is up owns the endpoint.
    #[error("endpoint {endpoint:?} belongs to no node that is up")]
    EndpointUnowned {
        /// The endpoint.
        endpoint: EndpointName,
    },
    /// Another node has the endpoint.
    #[error("endpoint {endpoint:?} belongs to node {owner:?}")]
    EndpointTaken {
        /// The endpoint.
        endpoint: EndpointName,
        /// Its owner.
        owner: NodeName,
    },
    /// Another group has the MGID.
    #[error("mgid {} belongs to group {group:?}", mgid.0)]
    MgidInUse {
        /// The MGID.
        mgid: Mgid,
        /// Its group.
        group: GroupName,
    },
    /// Switch tables may still hold an ended group's MGID; try again later.
    #[error("mgid {} belonged to a group whose routes are not cleared yet", mgid.0)]
    MgidNotClean {
        /// The MGID.
        mgid: Mgid,
    },
    /// The group exists with another MGID.
    #[error("group {group:?} has mgid {}, not {}", has.0, asked.0)]
    MgidMismatch {
        /// The group.
        group: GroupName,
        /// Its MGID.
        has: Mgid,
        /// The MGID asked for.
        asked: Mgid,
    },
    /// The fabric has no such MGID.
    #[error("mgid {} is not below the fabric's limit {limit}", mgid.0)]
    MgidOutOfRange {
        /// The MGID.
        mgid: Mgid,
        /// The first MGID that does not exist.
        limit: u32,
    },
    /// The chooser found no MGID for a new group.
    #[error("no mgid is free for group {group:?}")]
    NoMgidFree {
        /// The group.
        group: GroupName,
    },
    /// The process is a member with another endpoint.
    #[error("process {process:?} is in group {group:?} with endpoint {endpoint:?}")]
    JoinedElsewhere {
        /// The group.
        group: GroupName,
        /// The process.
        process: ProcessName,
        /// The endpoint it joined with.
        endpoint: EndpointName,
    },
    /// The process is not in the group.
    #[error("process {process:?} of node {node:?} is not in group {group:?}")]
    NotAMember {
        /// The group.
        group: GroupName,
        /// The node.
        node: NodeName,
        /// The process.
        process: ProcessName,
    },
    /// The join was granted once and the membership has ended since.
    #[error("the membership that request {request_id:?} was granted has ended")]
    MembershipEnded {
        /// The request.
        request_id: RequestId,
    },
    /// The request id was used for something else.
    #[error("request id {request_id:?} was used for another request")]
    RequestIdReused {
        /// The request.
        request_id: RequestId,
    },
    /// A group to be created exists.
    #[error("group {group:?} exists")]
    GroupExists {
        /// The group.
        group: GroupName,
    },
    /// A batch names a group twice.
    #[error("group {group:?} is named twice in one batch")]
    GroupNamedTwice {
        /// The group.
        group: GroupName,
    },
    /// A batch has a group without members.
    #[error("group {group:?} has no members to form it")]
    NoMembers {
        /// The group.
        group: GroupName,
    },
    /// No job has the name.
    #[error("no job is named {job:?}")]
    UnknownJob {
        /// The name.
        job: JobName,
    },
    /// A job to be created exists.
    #[error("job {job:?} exists")]
    JobExists {
        /// The job.
        job: JobName,
    },
    /// The job that a request created is gone.
    #[error("the job that request {request_id:?} created has ended")]
    JobEnded {
        /// The request.
        request_id: RequestId,
    },
    /// An endpoint belongs to another job.
    #[error("endpoint {endpoint:?} belongs to job {job:?}")]
    EndpointInJob {
        /// The endpoint.
        endpoint: EndpointName,
        /// The job that has it.
        job: JobName,
    },
    /// A bound would be passed.
    #[error("{what} would be {wanted}, at most {limit} are allowed")]
    LimitReached {
        /// What is bounded.
        what: &'static str,
        /// How many there would be.
        wanted: usize,
        /// How many there may be.
        limit: usize,
    },
}
