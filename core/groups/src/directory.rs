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
//! - DIR-3: no MGID belongs to two groups, no endpoint to two nodes that are up.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_routing::Mgid;
use thiserror::Error;

use crate::ids::{Epoch, Gn, Incarnation, Moment, Pn, Revision};
use crate::names::{Address, EndpointName, GroupName, NodeName, ProcessName, RequestId};
use crate::record::{
    Change, DecodeError, GroupRecord, MemberRecord, NodeRecord, NodeState, RequestRecord,
};
use crate::{Command, Decision, Refusal};

mod decide;
mod draft;
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
    /// Answered requests that are remembered.
    pub requests: usize,
    /// The first MGID that the fabric does not have.
    pub mgids: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            groups: 1 << 20,
            members_per_group: 1 << 20,
            nodes: 1 << 20,
            endpoints_per_node: 64,
            batch: 1 << 20,
            requests: 1 << 16,
            mgids: 1 << 24,
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
    requests: BTreeMap<u64, RequestRecord>,
    // Indices: functions of the records above.
    names: BTreeMap<GroupName, Gn>,
    mgids: BTreeMap<Mgid, Gn>,
    owners: BTreeMap<EndpointName, NodeName>,
    seats: BTreeMap<NodeName, BTreeSet<(Gn, Pn)>>,
    hosts: BTreeMap<NodeName, BTreeSet<Gn>>,
    request_ids: BTreeMap<RequestId, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct GroupState {
    record: GroupRecord,
    members: BTreeMap<Pn, MemberRecord>,
    processes: BTreeMap<NodeName, BTreeMap<ProcessName, Pn>>,
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
            requests: BTreeMap::new(),
            names: BTreeMap::new(),
            mgids: BTreeMap::new(),
            owners: BTreeMap::new(),
            seats: BTreeMap::new(),
            hosts: BTreeMap::new(),
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

    fn put_node(&mut self, node: &NodeRecord) {
        if let Some(before) = self.nodes.insert(node.name.clone(), node.clone()) {
            for endpoint in before.endpoints {
                if self.owners.get(&endpoint) == Some(&node.name) {
                    self.owners.remove(&endpoint);
                }
            }
        }
        if node.state == NodeState::Up {
            let named = node.endpoints.iter().map(|e| (e.clone(), node.name.clone()));
            self.owners.extend(named);
        }
    }

    fn put_group(&mut self, record: &GroupRecord) {
        let before = self.groups.get(&record.gn).and_then(|group| group.record.agent.clone());
        if before != record.agent {
            if let Some(agent) = before {
                remove_from(&mut self.hosts, &agent, &record.gn);
            }
            if let Some(agent) = &record.agent {
                self.hosts.entry(agent.clone()).or_default().insert(record.gn);
            }
        }
        if let Some(group) = self.groups.get_mut(&record.gn) {
            group.record = record.clone();
            return;
        }
        self.names.insert(record.name.clone(), record.gn);
        self.mgids.insert(record.mgid, record.gn);
        let group = GroupState {
            record: record.clone(),
            members: BTreeMap::new(),
            processes: BTreeMap::new(),
            vacant: BTreeSet::new(),
        };
        self.groups.insert(record.gn, group);
    }

    fn delete_group(&mut self, gn: Gn) {
        let Some(group) = self.groups.remove(&gn) else { return };
        self.names.remove(&group.record.name);
        self.mgids.remove(&group.record.mgid);
        if let Some(agent) = &group.record.agent {
            remove_from(&mut self.hosts, agent, &gn);
        }
    }

    fn put_member(&mut self, member: &MemberRecord) {
        let group = self.groups.get_mut(&member.gn).expect("a member follows its group");
        let end = group.members.last_key_value().map_or(0, |(pn, _)| pn.0 + 1);
        group.vacant.extend((end..member.pn.0).map(Pn));
        group.vacant.remove(&member.pn);
        let at_node = group.processes.entry(member.node.clone()).or_default();
        at_node.insert(member.process.clone(), member.pn);
        group.members.insert(member.pn, member.clone());
        self.seats.entry(member.node.clone()).or_default().insert((member.gn, member.pn));
    }

    fn delete_member(&mut self, member: &MemberRecord) {
        remove_from(&mut self.seats, &member.node, &(member.gn, member.pn));
        let Some(group) = self.groups.get_mut(&member.gn) else { return };
        group.members.remove(&member.pn);
        group.vacant.insert(member.pn);
        let end = group.members.last_key_value().map_or(0, |(pn, _)| pn.0 + 1);
        group.vacant.split_off(&Pn(end)); // above the highest taken PN none counts as vacant
        if let Some(processes) = group.processes.get_mut(&member.node) {
            processes.remove(&member.process);
            if processes.is_empty() {
                group.processes.remove(&member.node);
            }
        }
    }

    /// Answers the number of decisions so far.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Answers the bounds in force.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Answers a node.
    pub fn node(&self, name: &NodeName) -> Option<&NodeRecord> {
        self.nodes.get(name)
    }

    /// Answers all nodes by name, expelled ones included.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeRecord> {
        self.nodes.values()
    }

    /// Answers the nodes that follow `after` by name, for pages of a list.
    pub fn nodes_after(&self, after: Option<&NodeName>) -> impl Iterator<Item = &NodeRecord> {
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.nodes.range((from, std::ops::Bound::Unbounded)).map(|(_, node)| node)
    }

    /// Answers a group by its number.
    pub fn group(&self, gn: Gn) -> Option<&GroupRecord> {
        self.groups.get(&gn).map(|group| &group.record)
    }

    /// Answers the number of a group.
    pub fn find_group(&self, name: &GroupName) -> Option<Gn> {
        self.names.get(name).copied()
    }

    /// Answers the groups from `from` on, ascending by GN.
    pub fn groups_from(&self, from: Gn) -> impl Iterator<Item = &GroupRecord> {
        self.groups.range(from..).map(|(_, group)| &group.record)
    }

    /// Answers the members of a group, ascending by PN; none if there is no such group.
    pub fn members(&self, gn: Gn) -> impl Iterator<Item = &MemberRecord> {
        self.groups.get(&gn).into_iter().flat_map(|group| group.members.values())
    }

    /// Answers how many members a group has.
    pub fn member_count(&self, gn: Gn) -> usize {
        self.groups.get(&gn).map_or(0, |group| group.members.len())
    }

    /// Answers the memberships of a node.
    pub fn memberships(&self, node: &NodeName) -> impl Iterator<Item = &MemberRecord> {
        self.seats
            .get(node)
            .into_iter()
            .flatten()
            .filter_map(|(gn, pn)| self.groups.get(gn)?.members.get(pn))
    }

    /// Answers the groups that an endpoint is in, once per member that uses it.
    pub fn groups_of_endpoint(
        &self,
        endpoint: &EndpointName,
    ) -> impl Iterator<Item = &GroupRecord> {
        self.owners.get(endpoint).into_iter().flat_map(move |owner| {
            self.memberships(owner)
                .filter(move |member| member.endpoint == *endpoint)
                .filter_map(|member| self.group(member.gn))
        })
    }

    /// Answers whether a new group may have the MGID.
    pub fn mgid_is_free(&self, mgid: Mgid) -> bool {
        mgid.0 < self.limits.mgids
            && !self.mgids.contains_key(&mgid)
            && !self.retired.contains_key(&mgid)
    }

    /// Answers the nodes that host group agents, with the number of groups of each.
    pub fn hosts(&self) -> impl Iterator<Item = (&NodeName, usize)> {
        self.hosts.iter().map(|(node, groups)| (node, groups.len()))
    }

    /// Answers whether a node hosts group agents.
    pub fn is_host(&self, node: &NodeName) -> bool {
        self.hosts.contains_key(node)
    }

    /// Answers a group with all that its agent must know.
    pub fn snapshot(&self, gn: Gn) -> Option<GroupSnapshot> {
        let group = self.groups.get(&gn)?;
        let address = |node: &NodeName| self.nodes.get(node).map(|node| node.address.clone());
        let view = |member: &MemberRecord| {
            let node = self.nodes.get(&member.node)?;
            let (incarnation, address) = (node.incarnation, node.address.clone());
            Some(MemberView { member: member.clone(), incarnation, address })
        };
        Some(GroupSnapshot {
            revision: self.revision,
            group: group.record.clone(),
            agent_address: group.record.agent.as_ref().and_then(address),
            members: group.members.values().filter_map(view).collect(),
        })
    }

    /// Compares a host's status report with the records.
    ///
    /// Cost: O(groups reported + groups hosted), each with a look-up.
    pub fn verdict(
        &self,
        node: &NodeName,
        incarnation: Incarnation,
        reported: &[HostedGroup],
    ) -> Verdict {
        let present = self.nodes.get(node).is_some_and(|record| {
            record.state == NodeState::Up && record.incarnation == incarnation
        });
        if !present {
            return Verdict { expelled: true, ..Verdict::default() };
        }
        let nothing = BTreeSet::new();
        let hosted = self.hosts.get(node).unwrap_or(&nothing);
        let known: BTreeMap<Gn, &HostedGroup> = reported.iter().map(|g| (g.gn, g)).collect();
        let is_behind = |gn: &&Gn| match (self.groups.get(gn), known.get(gn)) {
            (Some(group), Some(known)) => {
                known.epoch != group.record.epoch || known.known < group.record.changed
            }
            (Some(_), None) => true,
            (None, _) => false,
        };
        Verdict {
            expelled: false,
            refresh: hosted.iter().filter(is_behind).copied().collect(),
            drop: known.keys().filter(|gn| !hosted.contains(gn)).copied().collect(),
        }
    }
}

fn remove_from<K: Ord, V: Ord>(index: &mut BTreeMap<K, BTreeSet<V>>, key: &K, value: &V) {
    if let Some(values) = index.get_mut(key) {
        values.remove(value);
        if values.is_empty() {
            index.remove(key);
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
