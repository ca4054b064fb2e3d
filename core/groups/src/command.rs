//! What the TIC can be asked to do with its records, and what it answers.

use std::num::NonZeroU32;
use std::sync::Arc;

use fabricast_routing::Mgid;
use serde::{Deserialize, Serialize};

use crate::hints::MgidHints;
use crate::ids::{Gn, Incarnation, Moment, Pn, Revision};
use crate::job::{CreateJob, JobRecord};
use crate::names::{Address, EndpointName, GroupName, JobName, NodeName, ProcessName, RequestId};
use crate::record::{Change, GroupRecord, MemberRecord, NodeRecord, Route};
pub use crate::refusal::Refusal;

/// One mutation of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A node announces itself.
    RegisterNode(RegisterNode),
    /// A process joins a group.
    Join(Join),
    /// Whole groups are formed at once, each all or nothing.
    FormGroups(Arc<FormGroups>),
    /// An empty group that outlives its members is created.
    CreateGroup(CreateGroup),
    /// A process leaves a group.
    Leave(Leave),
    /// A group ends with all its memberships.
    DeleteGroup {
        /// The caller's name for the request.
        request_id: RequestId,
        /// The group.
        group: GroupName,
    },
    /// Groups of a job end with all their memberships, some at a time.
    DeleteJobGroups(DeleteJobGroups),
    /// A job gets its nodes.
    CreateJob(CreateJob),
    /// A job ends and its nodes are free.
    DeleteJob {
        /// The caller's name for the request.
        request_id: RequestId,
        /// The job.
        job: JobName,
    },
    /// A node has failed; everything it had in groups ends.
    NodeFailed {
        /// The node.
        node: NodeName,
        /// The life that failed; a newer one is left alone. `None` means the present one.
        incarnation: Option<Incarnation>,
    },
    /// It is forgotten how often a node has come and gone: it is not suppressed any more.
    ForgetFlaps {
        /// The node.
        node: NodeName,
    },
    /// A process has failed; its memberships end.
    ProcessFailed {
        /// Its node.
        node: NodeName,
        /// The life of the node that it belonged to.
        incarnation: Incarnation,
        /// The process.
        process: ProcessName,
    },
    /// The route service says what the switches hold.
    Routed {
        /// Groups whose route is new or different.
        routes: Vec<(Gn, Route)>,
        /// No table holds anything of groups that ended at or before this revision.
        clean: Option<Revision>,
    },
}

/// Announces a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterNode {
    /// Its name.
    pub name: NodeName,
    /// Where its agents listen.
    pub address: Address,
    /// The adapter ports it owns.
    pub endpoints: Vec<EndpointName>,
    /// Chosen by the operating agent at each start, higher than before; a call with one that is not higher than the
    /// recorded one changes nothing.
    pub start_id: u64,
}

/// Asks for a membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// The caller's name for the request.
    pub request_id: RequestId,
    /// The group and what it is to be like if it is new.
    pub group: GroupSpec,
    /// The process.
    pub member: Joiner,
}

/// A group by name, and what it is to be like if it does not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// The name.
    pub name: GroupName,
    /// A fixed MGID; must match if the group exists. `None` lets the TIC choose.
    pub mgid: Option<Mgid>,
    /// Keep it when its last member leaves. Ignored if it exists.
    pub persistent: bool,
    /// Never merge it with another. Ignored if it exists.
    pub exclusive: bool,
    /// What helps to choose its MGID. Ignored if it exists.
    pub hints: MgidHints,
    /// The job it belongs to and ends with. Ignored if it exists.
    pub job: Option<JobName>,
    /// No route before it has had so many members. Ignored if it exists.
    pub complete_at: Option<NonZeroU32>,
}

impl GroupSpec {
    /// A group of which only the name is given.
    #[must_use]
    pub fn new(name: GroupName) -> Self {
        Self {
            name,
            mgid: None,
            persistent: false,
            exclusive: false,
            hints: MgidHints::default(),
            job: None,
            complete_at: None,
        }
    }
}

/// A process that is to become a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joiner {
    /// Its node.
    pub node: NodeName,
    /// The life of the node.
    pub incarnation: Incarnation,
    /// The adapter port it uses; must be one of the node's.
    pub endpoint: EndpointName,
    /// The process.
    pub process: ProcessName,
}

/// Asks for whole groups.
///
/// A request that was answered without a refusal is remembered, and its repetition gets the same
/// answer; one with refusals is decided anew, where processes that have joined keep their seats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormGroups {
    /// The caller's name for the request.
    pub request_id: RequestId,
    /// The groups.
    pub groups: Vec<FormGroup>,
}

/// One group of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormGroup {
    /// The group and what it is to be like if it is new.
    pub group: GroupSpec,
    /// Those who join; the first one's node hosts the agent of a new group.
    pub members: Vec<FormMember>,
}

/// A process of a batch, named by somebody who need not know about nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormMember {
    /// The adapter port it uses.
    pub endpoint: EndpointName,
    /// The process.
    pub process: ProcessName,
    /// Its node; `None` means the one that owns the endpoint.
    pub node: Option<NodeName>,
    /// The life of the node; `None` means the present one.
    pub incarnation: Option<Incarnation>,
}

impl From<Joiner> for FormMember {
    fn from(joiner: Joiner) -> Self {
        let Joiner { node, incarnation, endpoint, process } = joiner;
        Self { endpoint, process, node: Some(node), incarnation: Some(incarnation) }
    }
}

/// Asks to end groups of a job, as many as one decision may; repeated until none is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteJobGroups {
    /// The caller's name for the request; the decision after which none is left is remembered.
    pub request_id: RequestId,
    /// The job.
    pub job: JobName,
    /// Groups from this number on are left alone: they came after the request.
    pub before: Gn,
    /// Ends no further group once so many records have changed.
    pub most: usize,
    /// Groups and memberships that earlier decisions of this request ended.
    pub ended: JobEnd,
}

/// What has ended with a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnd {
    /// Groups.
    pub groups: u64,
    /// Memberships in them.
    pub memberships: u64,
}

/// Asks for an empty group that outlives its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateGroup {
    /// The caller's name for the request.
    pub request_id: RequestId,
    /// The group; it is persistent whatever the specification says.
    pub group: GroupSpec,
}

/// Asks to end a membership.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leave {
    /// The caller's name for the request.
    pub request_id: RequestId,
    /// The group.
    pub group: GroupName,
    /// The node of the process.
    pub node: NodeName,
    /// The life of the node.
    pub incarnation: Incarnation,
    /// The process.
    pub process: ProcessName,
}

/// What was decided. Write the changes in one transaction, then apply them, then answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The revision after the changes; that of the records if there are none.
    pub revision: Revision,
    /// The records to change, in order; empty if there is nothing to change.
    pub changes: Vec<Change>,
    /// The answer, valid once the changes are durable.
    pub answer: Answer,
}

/// The answer to a [`Command`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To `RegisterNode`: the node as recorded. It is not up if its start was expelled meanwhile, and another
    /// start than was asked with if that is higher.
    Node(NodeRecord),
    /// To `RegisterNode` of a node that is not readmitted as it came and went too often; and until when.
    Suppressed(NodeRecord, Moment),
    /// To `ForgetFlaps`: the node as recorded.
    FlapsForgotten(NodeRecord),
    /// To `Join`.
    Joined(Joined),
    /// To `FormGroups`, in the order asked.
    Formed(Vec<Result<Formed, Refusal>>),
    /// To `DeleteJobGroups`.
    JobGroupsDeleted {
        /// What has ended by this request so far.
        ended: JobEnd,
        /// The revision of the last end; `None` if groups of the job are left.
        done: Option<Revision>,
    },
    /// To `CreateGroup`.
    Created(GroupRecord),
    /// To `Leave`.
    Left {
        /// The group.
        gn: Gn,
        /// The rank that is free now.
        pn: Pn,
        /// The revision of the leave.
        revision: Revision,
    },
    /// To `DeleteGroup`.
    Deleted {
        /// The group.
        gn: Gn,
        /// The revision of the end.
        revision: Revision,
    },
    /// To `CreateJob`.
    JobCreated(JobRecord),
    /// To `DeleteJob`.
    JobDeleted {
        /// The revision of the end.
        revision: Revision,
    },
    /// To `NodeFailed` and `ProcessFailed`.
    Expelled {
        /// Memberships that ended by this decision.
        memberships: usize,
    },
    /// To `Routed`.
    Routed {
        /// Groups that are gone, or of which a newer route is known.
        ignored: Vec<Gn>,
    },
}

/// A membership that was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The group as it is now.
    pub group: GroupRecord,
    /// Where the group's agent listens.
    pub agent_address: Address,
    /// The member.
    pub member: MemberRecord,
}

/// A group that was formed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formed {
    /// Its number.
    pub gn: Gn,
    /// Its MGID.
    pub mgid: Mgid,
    /// The ranks, in the order of the members asked for.
    pub pns: Vec<Pn>,
}
