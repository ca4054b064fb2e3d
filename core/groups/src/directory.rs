//! The directory: the TIC's records of groups, members, nodes, jobs and answered requests.
//!
//! A shell calls [`Directory::decide`], writes the changes of the [`Decision`] as one store
//! transaction, passes each change to [`Directory::apply`], and only then answers. One that decides
//! ahead of its store applies changes first, and undoes them with [`Directory::inverse`].
//! [`Directory::load`] on the same store gives an equal directory (S3). Everything sent to agents
//! ([`Directory::snapshot`], [`Directory::verdict`]) is a function of the records alone, so an
//! agent that missed a hint is corrected by its next report.
//!
//! Invariants
//! - G1: a GN comes from a counter that is stored with the group; a PN belongs to one live member.
//! - DIR-1: a group's agent is a node with a member in the group; only empty groups have no agent.
//! - DIR-2: a member's node is up, and the member belongs to the node's present incarnation.
//! - DIR-3: no MGID belongs to two groups, as their own or as their home, and no endpoint to two
//!   nodes that are up or to two jobs that were placed here.
//! - JOB-3: a group of a job with a share is formed and joined with the job's token only, and such
//!   a job has at most as many groups as were reserved for it.
//! - DIR-4: no two incarnations of a node have one number, also if its record was removed between.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_topology::Mgid;
use thiserror::Error;

use crate::flaps::FlapDamping;
use crate::hints::MgidHints;
use crate::ids::{Epoch, Gn, Incarnation, Moment, Pn, Revision};
use crate::job::JobRecord;
use crate::names::{Address, EndpointName, GroupName, JobName, NodeName, RequestId};
use crate::record::{Change, DecodeError, GroupRecord, MemberRecord, NodeRecord, RequestRecord};
use crate::voucher::Voucher;
use crate::{Command, Decision, Refusal};

use by_process::ByProcess;
pub use copy::{DirectoryCopy, GroupCopy, copy_job, copy_jobs};

mod apply;
mod batch;
mod by_process;
mod copy;
mod decide;
mod draft;
mod jobs;
mod read;
mod requests;
#[cfg(test)]
mod tests;

/// Limits on the records. A command that would exceed one is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Groups at one time. A tenant may have as many of them as are left for others.
    pub groups: usize,
    /// Members of one group.
    pub members_per_group: usize,
    /// Nodes, expelled ones included.
    pub nodes: usize,
    /// Adapter ports of one node.
    pub endpoints_per_node: usize,
    /// Memberships in one batch.
    pub batch: usize,
    /// Memberships of a node or of a process that one decision ends.
    pub ends: usize,
    /// Jobs at one time.
    pub jobs: usize,
    /// Answered requests that are remembered; the oldest are removed.
    pub requests: usize,
    /// First MGID that the fabric does not have.
    pub mgids: u32,
    /// Flap damping of nodes.
    pub damping: FlapDamping,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            groups: 1 << 20,
            members_per_group: 1 << 20,
            nodes: 1 << 20,
            endpoints_per_node: 64,
            batch: 1 << 20,
            ends: 2_048,
            jobs: 1 << 20,
            requests: 1 << 16,
            mgids: 1 << 24,
            damping: FlapDamping::default(),
        }
    }
}

/// The TIC's records, with indices so that a decision costs no more than what it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    limits: Limits,
    revision: Revision,
    next_gn: Gn,
    first_incarnation: Incarnation,
    nodes: BTreeMap<NodeName, Arc<NodeRecord>>,
    groups: BTreeMap<Gn, GroupState>,
    retired: BTreeMap<Mgid, Revision>,
    jobs: BTreeMap<JobName, Arc<JobRecord>>,
    requests: BTreeMap<u64, RequestRecord>,
    // Indices and counts: functions of the records above.
    node_counts: NodeCounts,
    membership_count: usize,
    names: BTreeMap<GroupName, Gn>,
    mgids: BTreeMap<Mgid, Gn>,
    owners: BTreeMap<EndpointName, NodeName>,
    memberships: BTreeMap<NodeName, BTreeSet<(Gn, Pn)>>,
    hosts: BTreeMap<NodeName, BTreeSet<Gn>>,
    job_endpoints: BTreeMap<EndpointName, JobName>,
    job_groups: BTreeMap<JobName, BTreeSet<Gn>>,
    tenant_groups: BTreeMap<String, usize>,
    request_ids: BTreeMap<RequestId, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct GroupState {
    record: Arc<GroupRecord>,
    members: BTreeMap<Pn, Arc<MemberRecord>>,
    processes: ByProcess,
    vacant: BTreeSet<Pn>, // free PNs below the highest taken one
}

/// Numbers of nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeCounts {
    /// Nodes that are up.
    pub up: usize,
    /// Nodes that have failed.
    pub failed: usize,
    /// Drained nodes, in either state.
    pub drained: usize,
}

/// Snapshot of a group, its members and their addresses, as of one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSnapshot {
    /// The revision of the records.
    pub revision: Revision,
    /// Record of the group.
    pub group: GroupRecord,
    /// Address of its agent; `None` if the group is empty.
    pub agent_address: Option<Address>,
    /// The members, ascending by PN.
    pub members: Vec<MemberView>,
    /// Words of the TIC for enrolments of members, by PN, if it was the group's agent that asked.
    /// Members whose nodes have no key have none.
    pub vouchers: BTreeMap<Pn, Voucher>,
}

/// A member and its node's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// Record of the member.
    pub member: MemberRecord,
    /// Incarnation of its node.
    pub incarnation: Incarnation,
    /// Address where the agents of its node listen.
    pub address: Address,
}

/// A group as its agent knows it, in a status report to the TIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostedGroup {
    /// Number of the group.
    pub gn: Gn,
    /// Epoch in which the agent acts.
    pub epoch: Epoch,
    /// Revision of the snapshot that it works from; 0 if none yet.
    pub known: Revision,
}

/// The TIC's answer to the status report of a host of group agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The reporting incarnation of the node has ended: drop everything and start again.
    pub expelled: bool,
    /// Groups to fetch: the host is their agent and has an old snapshot or none.
    pub refresh: Vec<Gn>,
    /// Groups that have ended or have another agent.
    pub drop: Vec<Gn>,
}

/// Properties of a new group on which the choice of its MGID depends.
pub struct NewGroup<'a> {
    /// Name of the group.
    pub name: &'a GroupName,
    /// The endpoints of its first members.
    pub endpoints: Vec<&'a EndpointName>,
    /// True if it must not share a spanning tree.
    pub is_exclusive: bool,
    /// Hints of its creator.
    pub hints: &'a MgidHints,
    /// Returns whether an MGID is in range, unused and clean; takes earlier groups of the same
    /// batch into account.
    pub is_free: &'a dyn Fn(Mgid) -> bool,
}

/// Policy that chooses the MGID of a new group; `None` if none is free.
pub type ChooseMgid<'a> = dyn FnMut(&NewGroup<'_>) -> Option<Mgid> + 'a;

impl Directory {
    /// Creates an empty directory.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            revision: Revision(0),
            next_gn: Gn(1),
            first_incarnation: Incarnation(1),
            nodes: BTreeMap::new(),
            groups: BTreeMap::new(),
            retired: BTreeMap::new(),
            jobs: BTreeMap::new(),
            requests: BTreeMap::new(),
            names: BTreeMap::new(),
            mgids: BTreeMap::new(),
            owners: BTreeMap::new(),
            memberships: BTreeMap::new(),
            hosts: BTreeMap::new(),
            job_endpoints: BTreeMap::new(),
            job_groups: BTreeMap::new(),
            tenant_groups: BTreeMap::new(),
            request_ids: BTreeMap::new(),
            node_counts: NodeCounts::default(),
            membership_count: 0,
        }
    }

    /// Loads a directory from its stored records, in any order. Cost: O(n log n) in the records.
    ///
    /// # Errors
    ///
    /// [`LoadError`] if a record is damaged or records contradict each other. Only the TIC may
    /// write these keys.
    pub fn load<K: AsRef<str>, V: AsRef<[u8]>>(
        limits: Limits,
        records: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self, LoadError> {
        let mut directory = Self::new(limits);
        let mut members = Vec::new();
        for (key, value) in records {
            let change = Change::decode(key.as_ref(), value.as_ref())?;
            if matches!(change, Change::MemberPut(_)) {
                members.push(change); // after their groups
            } else {
                directory.apply(&change);
            }
        }
        for change in &members {
            if let Change::MemberPut(member) = change
                && !directory.groups.contains_key(&member.gn)
            {
                return Err(LoadError::NoGroup { key: change.store_key() });
            }
            directory.apply(change);
        }
        match directory.groups.last_key_value() {
            Some((gn, _)) if *gn >= directory.next_gn => {
                Err(LoadError::CounterBehind { gn: *gn, next: directory.next_gn })
            }
            Some(_) | None => Ok(directory),
        }
    }

    /// Decides what a command changes and what to answer. The directory itself does not change.
    ///
    /// - `now`: the TIC's wall clock, recorded as the creation time of new groups.
    /// - `choose`: called for each new group whose MGID the command leaves open.
    ///
    /// # Errors
    ///
    /// [`Refusal`] if the command contradicts the records; then nothing is to be written.
    pub fn decide(
        &self,
        now: Moment,
        command: &Command,
        choose: &mut ChooseMgid<'_>,
    ) -> Result<Decision, Refusal> {
        decide::decide(self, now, command, choose)
    }

    /// Applies one change of a decision, or the inverse of one. Changes must be applied in the
    /// order of the decision, and only if it was made on exactly these records.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::NodePut(node) => self.put_node(node),
            Change::NodeRemoved(name) => self.remove_node(name),
            Change::GroupPut(group) => self.put_group(group),
            Change::GroupDeleted(gn) => self.delete_group(*gn),
            Change::MemberPut(member) => self.put_member(member),
            Change::MemberDeleted(member) => self.delete_member(member),
            Change::MgidRetired(mgid, at) => {
                self.retired.insert(*mgid, *at);
            }
            Change::MgidReleased(mgid) => {
                self.retired.remove(mgid);
            }
            Change::JobPut(job) => self.put_job(job),
            Change::JobDeleted(name) => self.delete_job(name),
            Change::RequestPut(request) => {
                self.request_ids.insert(request.id.clone(), request.sequence);
                self.requests.insert(request.sequence, request.clone());
            }
            Change::RequestDeleted(sequence) => {
                if let Some(request) = self.requests.remove(sequence) {
                    self.request_ids.remove(&request.id);
                }
            }
            Change::NextGnPut(gn) => self.next_gn = *gn,
            Change::FirstIncarnationPut(first) => self.first_incarnation = *first,
            Change::RevisionPut(revision) => self.revision = *revision,
        }
    }
}

/// Reason why stored records cannot be loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// A record could not be read.
    #[error("a stored record cannot be read")]
    Record(#[from] DecodeError),
    /// A member's group is missing.
    #[error("the group of {key:?} is missing")]
    NoGroup {
        /// The member's key.
        key: String,
    },
    /// The counter of GNs would use a GN twice.
    #[error("the next group number is {next}, but group {gn} exists")]
    CounterBehind {
        /// The highest GN found.
        gn: Gn,
        /// Value of the counter.
        next: Gn,
    },
}
