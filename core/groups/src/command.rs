//! What the TIC can be asked to do with its records, and what it answers.

use fabricast_routing::Mgid;

use crate::hints::MgidHints;
use crate::ids::{Gn, Incarnation, Pn, Revision};
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
    /// Whole groups are formed at once, each all or nothing. Safe to repeat, as each join is.
    FormGroups(Vec<FormGroup>),
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

/// One group of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormGroup {
    /// The group and what it is to be like if it is new.
    pub group: GroupSpec,
    /// Those who join; the first one's node hosts the agent of a new group.
    pub members: Vec<Joiner>,
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
    /// To `Join`.
    Joined(Joined),
    /// To `FormGroups`, in the order asked.
    Formed(Vec<Result<Formed, Refusal>>),
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
    /// The group.
    pub group: GroupRecord,
    /// The ranks, in the order of the members asked for.
    pub pns: Vec<Pn>,
}
