//! Commands to the directory, and their answers.

use std::num::NonZeroU32;
use std::sync::Arc;

use fabricast_topology::Mgid;
use serde::{Deserialize, Serialize};

use crate::hints::MgidHints;
use crate::ids::{Gn, Incarnation, Moment, Pn, Revision};
use crate::job::{CreateJob, JobRecord, ReserveJob};
use crate::names::{Address, EndpointName, GroupName, JobName, NodeName, ProcessName, RequestId};
use crate::record::{Change, GroupRecord, MemberRecord, NodeRecord, Route};
pub use crate::refusal::{Refusal, TicRefusal};
use crate::token::JobToken;
use crate::tree::TreeShape;
use crate::voucher::{Voucher, VoucherKey};

/// A mutation of the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// A node announces itself. Memberships of its start before end first, a bounded number per
    /// decision.
    RegisterNode(RegisterNode),
    /// A process joins a group.
    Join(Join),
    /// Whole groups are formed at once; each of them completely or not at all.
    FormGroups(Arc<FormGroups>),
    /// An empty, persistent group is created.
    CreateGroup(CreateGroup),
    /// A process leaves a group.
    Leave(Leave),
    /// A group ends with all its memberships, a bounded number per decision.
    DeleteGroup(DeleteGroup),
    /// Groups of a job end with all their memberships, a bounded number per decision.
    DeleteJobGroups(DeleteJobGroups),
    /// A job gets its nodes.
    CreateJob(CreateJob),
    /// Groups are reserved for a job.
    ReserveJob(ReserveJob),
    /// A job ends and its nodes are free; one with a share ends with its groups, a bounded number
    /// per decision.
    DeleteJob(DeleteJob),
    /// A node has failed; all its memberships end, a bounded number per decision. Until they have,
    /// its record says that it is up.
    NodeFailed {
        /// Name of the node.
        node: NodeName,
        /// Incarnation that failed; a newer one is not affected. `None` means the present one.
        incarnation: Option<Incarnation>,
    },
    /// The flap history of a node is deleted, so that the node is no longer suppressed.
    ForgetFlaps {
        /// Name of the node.
        node: NodeName,
    },
    /// A node is to be emptied, or may be used again.
    DrainNode {
        /// Name of the node.
        node: NodeName,
        /// True if it is to be emptied.
        drained: bool,
    },
    /// The record of a failed node is removed.
    RemoveNode {
        /// Name of the node.
        node: NodeName,
    },
    /// Groups move to the spanning trees of other MGIDs, each if it is still where it was and the
    /// MGID is free; members keep the group's own MGID. Each group is named once.
    MoveGroups(Vec<GroupMove>),
    /// The route service reports what the switches hold.
    Routed {
        /// Groups with a new or changed route.
        routes: Vec<(Gn, Route)>,
        /// No table holds entries of groups that ended at or before this revision.
        clean: Option<Revision>,
    },
}

/// A group that gets the spanning tree of another MGID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupMove {
    /// Number of the group.
    pub gn: Gn,
    /// MGID of the spanning tree that it is on.
    pub from: Mgid,
    /// MGID of the spanning tree that it gets.
    pub to: Mgid,
}

/// Registration of a node by its operating agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegisterNode {
    /// Name of the node.
    pub name: NodeName,
    /// Address where its agents listen.
    pub address: Address,
    /// The adapter ports it owns.
    pub endpoints: Vec<EndpointName>,
    /// Number of the agent's start, higher than at earlier starts. A registration whose number is
    /// not higher than the recorded one changes nothing.
    pub start_id: u64,
    /// Key of this start, under which the TIC vouches to the node; older agents have none.
    pub voucher_key: Option<VoucherKey>,
}

/// Request to join a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Join {
    /// Request id; a repetition gets the first answer (S1).
    pub request_id: RequestId,
    /// The group, and its properties if it is new.
    pub group: GroupSpec,
    /// Node, endpoint and name of the joining process.
    pub member: Joiner,
}

/// A group by name, and its properties if it does not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSpec {
    /// Name of the group.
    pub name: GroupName,
    /// A fixed MGID, which must match if the group exists; `None` lets the TIC choose.
    pub mgid: Option<Mgid>,
    /// True if the group outlives its last member. Ignored if the group exists.
    pub persistent: bool,
    /// True if the group must not share a virtual group. Ignored if the group exists.
    pub exclusive: bool,
    /// Hints for the choice of its MGID. Ignored if the group exists.
    pub hints: MgidHints,
    /// Job that the group belongs to and ends with. Ignored if the group exists.
    pub job: Option<JobName>,
    /// Number of members that the group must have had before it is routed; `None` routes it at
    /// once. Ignored if the group exists.
    pub complete_at: Option<NonZeroU32>,
    /// Shape of its unicast tree; `None` for the default. Ignored if the group exists.
    pub tree: Option<TreeShape>,
    /// Bytes of the operations that matter most, by which the TIC chooses a shape that is left
    /// out; the directory keeps them nowhere.
    pub operation_bytes: Option<u32>,
    /// Token of the job that the group belongs to; needed if a share is reserved for the job.
    pub token: Option<JobToken>,
}

impl GroupSpec {
    /// Creates a specification with the name and default properties.
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
            tree: None,
            operation_bytes: None,
            token: None,
        }
    }
}

/// A process that joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joiner {
    /// Name of the node.
    pub node: NodeName,
    /// Incarnation of the node.
    pub incarnation: Incarnation,
    /// The adapter port it uses; must be one of the node's.
    pub endpoint: EndpointName,
    /// Name of the process.
    pub process: ProcessName,
    /// True if it only sends. Ignored if it is a member already.
    pub sends_only: bool,
}

/// Request to form whole groups.
///
/// A request that was answered without a refusal is remembered, and its repetition gets the same
/// answer. One with refusals is decided again; processes that have joined meanwhile keep their
/// ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormGroups {
    /// Request id; a repetition gets the first answer (S1).
    pub request_id: RequestId,
    /// Groups to form, in order; no two with one name.
    pub groups: Vec<FormGroup>,
}

/// One group of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormGroup {
    /// The group, and its properties if it is new.
    pub group: GroupSpec,
    /// Processes that join; the node of the first one hosts the agent of a new group.
    pub members: Vec<FormMember>,
}

/// A process of a batch, which sends and receives. Its node may be left open, since a launcher need
/// not know about nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormMember {
    /// The adapter port it uses.
    pub endpoint: EndpointName,
    /// Name of the process.
    pub process: ProcessName,
    /// Its node; `None` means the owner of the endpoint.
    pub node: Option<NodeName>,
    /// Incarnation of the node; `None` means the present one.
    pub incarnation: Option<Incarnation>,
}

impl From<Joiner> for FormMember {
    fn from(joiner: Joiner) -> Self {
        let Joiner { node, incarnation, endpoint, process, sends_only: _ } = joiner;
        Self { endpoint, process, node: Some(node), incarnation: Some(incarnation) }
    }
}

/// Request of [`Command::DeleteGroup`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteGroup {
    /// Request id; a repetition gets the first answer (S1).
    pub request_id: RequestId,
    /// Name of the group.
    pub group: GroupName,
    /// Number of the group in the answer to the last decision; `None` in the first.
    pub gn: Option<Gn>,
    /// Most memberships that end in one decision.
    pub most: usize,
}

/// Request to end groups of a job, repeated until none is left, since one decision ends a limited
/// number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteJobGroups {
    /// Request id; the decision after which no group is left is remembered.
    pub request_id: RequestId,
    /// Name of the job.
    pub job: JobName,
    /// Groups from this number on are not affected, since they were created after the request.
    pub before: Gn,
    /// Limit on changed records; no further group is ended beyond it.
    pub most: usize,
    /// Groups and memberships that earlier decisions of this request ended.
    pub ended: JobEnd,
}

/// Request to end a job, repeated until none of its groups is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeleteJob {
    /// Request id; a repetition gets the first answer (S1).
    pub request_id: RequestId,
    /// Name of the job.
    pub job: JobName,
    /// Limit on changed records; no further group is ended beyond it.
    pub most: usize,
    /// Groups and memberships that earlier decisions of this request ended.
    pub ended: JobEnd,
}

/// Counts of what has ended with a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnd {
    /// Number of groups.
    pub groups: u64,
    /// Number of memberships in them.
    pub memberships: u64,
}

/// Request to create an empty group that outlives its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateGroup {
    /// Request id; a repetition gets the first answer (S1).
    pub request_id: RequestId,
    /// The group; always persistent, whatever the specification says.
    pub group: GroupSpec,
}

/// Request to leave a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leave {
    /// Request id; a repetition gets the first answer (S1).
    pub request_id: RequestId,
    /// Name of the group.
    pub group: GroupName,
    /// The node of the process.
    pub node: NodeName,
    /// Incarnation of the node.
    pub incarnation: Incarnation,
    /// Name of the process.
    pub process: ProcessName,
}

/// A decision. The caller writes the changes in one transaction, applies them, and only then
/// answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Revision after the changes; the present one if there are none.
    pub revision: Revision,
    /// Changed records, in order; may be empty.
    pub changes: Vec<Change>,
    /// Answer, valid once the changes are durable.
    pub answer: Answer,
}

/// The answer to a [`Command`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To `RegisterNode`: the node as recorded. Its state is not up if this start was expelled
    /// meanwhile; its start id is higher than the request's if a newer start has registered.
    Node(NodeRecord),
    /// To `RegisterNode` of a suppressed node, which is not readmitted before the moment given.
    Suppressed(NodeRecord, Moment),
    /// To `ForgetFlaps`: the node as recorded.
    FlapsForgotten(NodeRecord),
    /// Answer to `Join`.
    Joined(Joined),
    /// To `FormGroups`, in the order of the request.
    Formed(Vec<Result<Formed, Refusal>>),
    /// Answer to `DeleteJobGroups`.
    JobGroupsDeleted {
        /// Counts over all decisions of this request so far.
        ended: JobEnd,
        /// Revision of the last end; `None` if groups of the job are left.
        done: Option<Revision>,
    },
    /// Answer to `CreateGroup`.
    Created(GroupRecord),
    /// Answer to `Leave`.
    Left {
        /// Number of the group.
        gn: Gn,
        /// Rank that became free.
        pn: Pn,
        /// The revision of the leave.
        revision: Revision,
    },
    /// Answer to `DeleteGroup`.
    Deleted {
        /// Number of the group.
        gn: Gn,
        /// The revision of the end; `None` if memberships are left.
        done: Option<Revision>,
    },
    /// Answer to `CreateJob`.
    JobCreated(JobRecord),
    /// To `ReserveJob`: the job with its share.
    JobReserved(JobRecord),
    /// Answer to `DeleteJob`.
    JobDeleted {
        /// Counts over all decisions of this request so far.
        ended: JobEnd,
        /// Revision of the end; `None` if groups of the job are left.
        done: Option<Revision>,
    },
    /// To `DrainNode`: the node as recorded.
    NodeDrain(NodeRecord),
    /// Answer to `RemoveNode`.
    NodeRemoved,
    /// To `NodeFailed`, and to `RegisterNode` while memberships of the start before are left.
    Expelled(Expelled),
    /// Answer to `MoveGroups`: the moves that were made.
    Moved(Vec<GroupMove>),
    /// Answer to `Routed`.
    Routed {
        /// Groups that have ended, or for which a newer route is known.
        ignored: Vec<Gn>,
    },
}

/// Memberships that ended because their node failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expelled {
    /// Memberships that ended by this decision.
    pub memberships: usize,
    /// No membership is left, and the rest of the command is carried out. If not, the command is to
    /// be repeated.
    pub done: bool,
}

/// A membership that was granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Joined {
    /// The group as it is now.
    pub group: GroupRecord,
    /// Address where the group's agent listens.
    pub agent_address: Address,
    /// Record of the new member.
    pub member: MemberRecord,
    /// Word of the TIC to the group's agent; `None` if the agent's node has no key.
    pub voucher: Option<Voucher>,
}

/// A group that was formed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Formed {
    /// Number of the group.
    pub gn: Gn,
    /// MGID of the group.
    pub mgid: Mgid,
    /// Ranks, in the order of the requested members.
    pub pns: Vec<Pn>,
}
