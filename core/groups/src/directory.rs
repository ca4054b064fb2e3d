//! The TIC's records: groups, members, nodes, and the requests it has answered.
//!
//! A shell calls [`Directory::decide`], writes the changes of the [`Decision`] as one store
//! transaction, passes each to [`Directory::apply`], and only then answers. Whoever reads the
//! store back with [`Directory::load`] gets an equal directory (S3). Everything said to agents
//! ([`Directory::snapshot`], [`Directory::verdict`]) is a function of the records alone, so an
//! agent that missed a hint is put right by its next report.
//!
//! Invariants
//! - G1: a GN comes from a counter that is stored with the group; a PN is held by one live member.
//! - DIR-1: a group's agent is a node with a member in it; only empty groups have none.
//! - DIR-2: a member's node is up, and the member belongs to the node's present incarnation.
//! - DIR-3: no MGID belongs to two groups, no endpoint to two nodes that are up, nor to two jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_routing::Mgid;
use thiserror::Error;

use crate::flaps::FlapDamping;
use crate::hints::MgidHints;
use crate::ids::{Epoch, Gn, Incarnation, Moment, Pn, Revision};
use crate::job::JobRecord;
use crate::names::{Address, EndpointName, GroupName, JobName, NodeName, ProcessName, RequestId};
use crate::record::{Change, DecodeError, GroupRecord, MemberRecord, NodeRecord, RequestRecord};
use crate::{Command, Decision, Refusal};

mod apply;
mod batch;
mod decide;
mod draft;
mod jobs;
mod read;
#[cfg(test)]
mod tests;

/// Bounds on the records; each is a refusal, never a silent cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most groups at one time.
    pub groups: usize,
    /// Most members of one group.
    pub members_per_group: usize,
    /// Most nodes, expelled ones included.
    pub nodes: usize,
    /// Most adapter ports of one node.
    pub endpoints_per_node: usize,
    /// Most memberships in one batch.
    pub batch: usize,
    /// Most jobs at one time.
    pub jobs: usize,
    /// Answered requests that are remembered.
    pub requests: usize,
    /// The first MGID that the fabric does not have.
    pub mgids: u32,
    /// When and how nodes that come and go are held off.
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
            jobs: 1 << 20,
            requests: 1 << 16,
            mgids: 1 << 24,
            damping: FlapDamping::default(),
        }
    }
}

/// The TIC's records with the indices that make decisions cheap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directory {
    limits: Limits,
    revision: Revision,
    next_gn: Gn,
    nodes: BTreeMap<NodeName, NodeRecord>,
    groups: BTreeMap<Gn, GroupState>,
    retired: BTreeMap<Mgid, Revision>,
    jobs: BTreeMap<JobName, JobRecord>,
    requests: BTreeMap<u64, RequestRecord>,
    // Indices: functions of the records above.
    names: BTreeMap<GroupName, Gn>,
    mgids: BTreeMap<Mgid, Gn>,
    owners: BTreeMap<EndpointName, NodeName>,
    seats: BTreeMap<NodeName, BTreeSet<(Gn, Pn)>>,
    hosts: BTreeMap<NodeName, BTreeSet<Gn>>,
    job_endpoints: BTreeMap<EndpointName, JobName>,
    job_groups: BTreeMap<JobName, BTreeSet<Gn>>,
    request_ids: BTreeMap<RequestId, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct GroupState {
    record: GroupRecord,
    members: BTreeMap<Pn, Arc<MemberRecord>>,
    processes: BTreeMap<(NodeName, Option<ProcessName>), Pn>, // none would come before all of its node
    vacant: BTreeSet<Pn>, // free PNs below the highest taken one
}

/// A group, its members and where to reach them, as of one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupSnapshot {
    /// The revision of the records.
    pub revision: Revision,
    /// The group.
    pub group: GroupRecord,
    /// Where its agent listens; `None` if it is empty.
    pub agent_address: Option<Address>,
    /// The members, ascending by PN.
    pub members: Vec<MemberView>,
}

/// A member and where to reach it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberView {
    /// The member.
    pub member: MemberRecord,
    /// The life of its node.
    pub incarnation: Incarnation,
    /// Where the agents of its node listen.
    pub address: Address,
}

/// One group as its agent knows it, in a status report to the TIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostedGroup {
    /// The group.
    pub gn: Gn,
    /// The epoch the agent acts in.
    pub epoch: Epoch,
    /// The revision of the snapshot it works from; 0 if none yet.
    pub known: Revision,
}

/// What the TIC answers to the status report of one host of group agents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The reporting life of the node is over: drop everything, start again.
    pub expelled: bool,
    /// Groups to fetch: the host is their agent and behind, or does not know yet.
    pub refresh: Vec<Gn>,
    /// Groups that are gone or have another agent.
    pub drop: Vec<Gn>,
}

/// What a new group is, for the choice of its MGID.
pub struct NewGroup<'a> {
    /// Its name.
    pub name: &'a GroupName,
    /// The endpoints of its first members.
    pub endpoints: Vec<&'a EndpointName>,
    /// What its creator knows beside.
    pub hints: &'a MgidHints,
    /// Whether an MGID is in range, unused and clean, also within this batch.
    pub is_free: &'a dyn Fn(Mgid) -> bool,
}

/// The policy that picks MGIDs for new groups; `None` means that none is free.
pub type ChooseMgid<'a> = dyn FnMut(&NewGroup<'_>) -> Option<Mgid> + 'a;

impl Directory {
    /// Creates an empty directory.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            revision: Revision(0),
            next_gn: Gn(1),
            nodes: BTreeMap::new(),
            groups: BTreeMap::new(),
            retired: BTreeMap::new(),
            jobs: BTreeMap::new(),
            requests: BTreeMap::new(),
            names: BTreeMap::new(),
            mgids: BTreeMap::new(),
            owners: BTreeMap::new(),
            seats: BTreeMap::new(),
            hosts: BTreeMap::new(),
            job_endpoints: BTreeMap::new(),
            job_groups: BTreeMap::new(),
            request_ids: BTreeMap::new(),
        }
    }

    /// Reads a directory back from its stored records, in any order.
    ///
    /// # Errors
    ///
    /// [`LoadError`] if a record is damaged or records contradict each other; nobody but the TIC
    /// may write these keys.
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

    /// Decides what a command changes and what to answer; changes nothing itself.
    ///
    /// - `now`: the TIC's wall clock, recorded as the creation time of new groups.
    /// - `choose`: asked for the MGID of each new group that comes without one.
    ///
    /// # Errors
    ///
    /// [`Refusal`] if the command is at odds with the records; nothing is to be written then.
    pub fn decide(
        &self,
        now: Moment,
        command: &Command,
        choose: &mut ChooseMgid<'_>,
    ) -> Result<Decision, Refusal> {
        decide::decide(self, now, command, choose)
    }

    /// Takes one change of a decision over. Changes come in the order of the decision, and only
    /// from decisions on exactly these records.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::NodePut(node) => self.put_node(node),
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
            Change::RevisionPut(revision) => self.revision = *revision,
        }
    }
}

/// Why stored records are no directory.
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
    /// The GN counter would give a GN out twice.
    #[error("the next group number is {next}, but group {gn} exists")]
    CounterBehind {
        /// The highest GN found.
        gn: Gn,
        /// The counter.
        next: Gn,
    },
}
