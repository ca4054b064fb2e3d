//! Refusals of the directory: reasons why a command changes nothing.

use fabricast_topology::Mgid;
use thiserror::Error;

use crate::ids::{Incarnation, Revision};
use crate::names::{EndpointName, GroupName, JobName, NodeName, ProcessName, RequestId};

/// Reason why a command changes nothing; the caller may correct the request and repeat it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// No group has the name.
    #[error("no group is named {group:?}")]
    UnknownGroup {
        /// Name of the group.
        group: GroupName,
    },
    /// The node has never registered.
    #[error("node {node:?} is not registered")]
    UnknownNode {
        /// Name of the node.
        node: NodeName,
    },
    /// The node was expelled and has not come back.
    #[error("node {node:?} was expelled and has not registered again")]
    NodeFailed {
        /// Name of the node.
        node: NodeName,
    },
    /// The record of a node that takes part cannot be removed.
    #[error("node {node:?} is up; its record can be removed once it was expelled")]
    NodeUp {
        /// Name of the node.
        node: NodeName,
    },
    /// The node has come back in a newer incarnation.
    #[error("incarnation {given} of node {node:?} is not its present one, {known}")]
    StaleIncarnation {
        /// Name of the node.
        node: NodeName,
        /// Incarnation in the request.
        given: Incarnation,
        /// Incarnation that is up now.
        known: Incarnation,
    },
    /// The start of a node lies too far in the future: no later start could register.
    #[error("start {start_id} of node {node:?} is beyond {limit}, a day after now")]
    StartOutOfRange {
        /// Name of the node.
        node: NodeName,
        /// The start in the request.
        start_id: u64,
        /// The latest start that is taken now.
        limit: u64,
    },
    /// The records are not as new as a request says.
    #[error("{what} {given} is newer than the records, {known}")]
    FutureRevision {
        /// Field of the request.
        what: &'static str,
        /// Revision in the request.
        given: Revision,
        /// Revision of the records.
        known: Revision,
    },
    /// A node was registered without adapter ports.
    #[error("node {node:?} has no endpoints")]
    NoEndpoints {
        /// Name of the node.
        node: NodeName,
    },
    /// The endpoint is not one of the node's.
    #[error("endpoint {endpoint:?} does not belong to node {node:?}")]
    UnknownEndpoint {
        /// Name of the node.
        node: NodeName,
        /// Name of the endpoint.
        endpoint: EndpointName,
    },
    /// No node that is up owns the endpoint.
    #[error("endpoint {endpoint:?} belongs to no node that is up")]
    EndpointUnowned {
        /// Name of the endpoint.
        endpoint: EndpointName,
    },
    /// Another node has the endpoint.
    #[error("endpoint {endpoint:?} belongs to node {owner:?}")]
    EndpointTaken {
        /// Name of the endpoint.
        endpoint: EndpointName,
        /// Node that owns it.
        owner: NodeName,
    },
    /// Another group has the MGID.
    #[error("mgid {} belongs to group {group:?}", mgid.0)]
    MgidInUse {
        /// MGID of the group.
        mgid: Mgid,
        /// Name of the group.
        group: GroupName,
    },
    /// Switch tables may still hold an ended group's MGID; try again later.
    #[error("mgid {} belonged to a group whose routes are not cleared yet", mgid.0)]
    MgidNotClean {
        /// MGID of the group.
        mgid: Mgid,
    },
    /// The group exists with another MGID.
    #[error("group {group:?} has mgid {}, not {}", has.0, asked.0)]
    MgidMismatch {
        /// Name of the group.
        group: GroupName,
        /// MGID of the group.
        has: Mgid,
        /// The MGID asked for.
        asked: Mgid,
    },
    /// The fabric has no such MGID.
    #[error("mgid {} is not below the fabric's limit {limit}", mgid.0)]
    MgidOutOfRange {
        /// MGID of the group.
        mgid: Mgid,
        /// The first MGID that does not exist.
        limit: u32,
    },
    /// The chooser found no MGID for a new group.
    #[error("no mgid is free for group {group:?}")]
    NoMgidFree {
        /// Name of the group.
        group: GroupName,
    },
    /// The process is a member with another endpoint.
    #[error("process {process:?} is in group {group:?} with endpoint {endpoint:?}")]
    JoinedElsewhere {
        /// Name of the group.
        group: GroupName,
        /// Name of the process.
        process: ProcessName,
        /// The endpoint it joined with.
        endpoint: EndpointName,
    },
    /// The process is not in the group.
    #[error("process {process:?} of node {node:?} is not in group {group:?}")]
    NotAMember {
        /// Name of the group.
        group: GroupName,
        /// Name of the node.
        node: NodeName,
        /// Name of the process.
        process: ProcessName,
    },
    /// The join was granted once and the membership has ended since.
    #[error("the membership that request {request_id:?} was granted has ended")]
    MembershipEnded {
        /// Id of the request.
        request_id: RequestId,
    },
    /// The request id was used for another request.
    #[error("request id {request_id:?} was used for another request")]
    RequestIdReused {
        /// Id of the request.
        request_id: RequestId,
    },
    /// A group to be created exists.
    #[error("group {group:?} exists")]
    GroupExists {
        /// Name of the group.
        group: GroupName,
    },
    /// A batch names a group twice.
    #[error("group {group:?} is named twice in one batch")]
    GroupNamedTwice {
        /// Name of the group.
        group: GroupName,
    },
    /// A batch has a group without members.
    #[error("group {group:?} has no members to form it")]
    NoMembers {
        /// Name of the group.
        group: GroupName,
    },
    /// No job has the name.
    #[error("no job is named {job:?}")]
    UnknownJob {
        /// Name of the job.
        job: JobName,
    },
    /// A job to be created exists.
    #[error("job {job:?} exists")]
    JobExists {
        /// Name of the job.
        job: JobName,
    },
    /// The job that a request created is gone.
    #[error("the job that request {request_id:?} created has ended")]
    JobEnded {
        /// Id of the request.
        request_id: RequestId,
    },
    /// A group of a job was to be formed or joined without the job's token, or with another.
    #[error(
        "group {group:?} belongs to job {job:?}: {}",
        if *given { "the token is not that of the job" } else { "its token is required" }
    )]
    TokenRefused {
        /// Name of the group.
        group: GroupName,
        /// Name of the job.
        job: JobName,
        /// True if a token was given.
        given: bool,
    },
    /// The job has as many groups as were reserved for it.
    #[error("job {job:?} has {limit} groups, as many as were reserved for it")]
    ShareUsed {
        /// Name of the job.
        job: JobName,
        /// Groups that were reserved.
        limit: u32,
    },
    /// The job is being released.
    #[error("job {job:?} is being released")]
    JobEnding {
        /// Name of the job.
        job: JobName,
    },
    /// An endpoint belongs to another job.
    #[error("endpoint {endpoint:?} belongs to job {job:?}")]
    EndpointInJob {
        /// Name of the endpoint.
        endpoint: EndpointName,
        /// The job that has it.
        job: JobName,
    },
    /// The command would exceed a limit.
    #[error("{what} would be {wanted}, at most {limit} are allowed")]
    LimitReached {
        /// Name of the bounded quantity.
        what: &'static str,
        /// Count after the command.
        wanted: usize,
        /// Largest count allowed.
        limit: usize,
    },
}

/// The TIC's refusal of a request, as an operating agent reads it from the reply.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TicRefusal {
    /// The TIC does not know the incarnation that asked, or it is over. The node registers again
    /// and then repeats the request.
    #[error("the topology information center does not know this incarnation of the node")]
    StaleIncarnation,
    /// Every other refusal. Final: the request is not repeated, and the process that made it gets
    /// the TIC's own words.
    #[error("{message}")]
    Final {
        /// Number of the gRPC status code.
        code: u32,
        /// Stable name of the reason, such as `UNKNOWN_ENDPOINT`; empty if the reply names none.
        reason: String,
        /// Text for people.
        message: String,
    },
}
