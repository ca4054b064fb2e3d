//! Applies changes to the records and to the indices over them, and names their inverses, for
//! decisions that the store refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{ByProcess, Directory, GroupState, NodeCounts};
use crate::ids::{Gn, Pn};
use crate::job::JobRecord;
use crate::names::{JobName, NodeName};
use crate::record::{Change, GroupRecord, MemberRecord, NodeRecord, NodeState};

impl Directory {
    /// Returns the change that undoes another one, which is about to be applied; `None` if there is
    /// nothing to undo. Applied backwards, the inverses of some changes leave the records, indices
    /// and counts as they were. Cost: a look-up, and a copy of the record that is replaced.
    pub fn inverse(&self, change: &Change) -> Option<Change> {
        Some(match change {
            Change::NodePut(node) => match self.nodes.get(&node.name) {
                Some(before) => Change::NodePut(NodeRecord::clone(before)),
                None => Change::NodeRemoved(node.name.clone()),
            },
            Change::NodeRemoved(name) => Change::NodePut(NodeRecord::clone(self.nodes.get(name)?)),
            Change::GroupPut(group) => match self.groups.get(&group.gn) {
                Some(before) => Change::GroupPut(GroupRecord::clone(&before.record)),
                None => Change::GroupDeleted(group.gn),
            },
            // Its members were deleted before it.
            Change::GroupDeleted(gn) => {
                Change::GroupPut(GroupRecord::clone(&self.groups.get(gn)?.record))
            }
            Change::MemberPut(member) => Change::MemberDeleted(Arc::clone(member)),
            Change::MemberDeleted(member) => Change::MemberPut(Arc::clone(member)),
            Change::MgidRetired(mgid, _) => match self.retired.get(mgid) {
                Some(before) => Change::MgidRetired(*mgid, *before),
                None => Change::MgidReleased(*mgid),
            },
            Change::MgidReleased(mgid) => Change::MgidRetired(*mgid, *self.retired.get(mgid)?),
            Change::JobPut(job) => match self.jobs.get(&job.name) {
                Some(before) => Change::JobPut(JobRecord::clone(before)),
                None => Change::JobDeleted(job.name.clone()),
            },
            Change::JobDeleted(name) => Change::JobPut(JobRecord::clone(self.jobs.get(name)?)),
            Change::RequestPut(request) => Change::RequestDeleted(request.sequence),
            Change::RequestDeleted(sequence) => {
                Change::RequestPut(self.requests.get(sequence)?.clone())
            }
            Change::NextGnPut(_) => Change::NextGnPut(self.next_gn),
            Change::FirstIncarnationPut(_) => Change::FirstIncarnationPut(self.first_incarnation),
            Change::RevisionPut(_) => Change::RevisionPut(self.revision),
        })
    }

    pub(super) fn put_node(&mut self, node: &NodeRecord) {
        self.node_counts.add(node);
        if let Some(before) = self.nodes.insert(node.name.clone(), Arc::new(node.clone())) {
            self.node_counts.subtract(&before);
            self.disown(&before);
        }
        if node.state == NodeState::Up {
            let named = node.endpoints.iter().map(|e| (e.clone(), node.name.clone()));
            self.owners.extend(named);
        }
    }

    pub(super) fn remove_node(&mut self, name: &NodeName) {
        if let Some(node) = self.nodes.remove(name) {
            self.node_counts.subtract(&node);
            // Only one whose registration is undone owns any.
            self.disown(&node);
        }
    }

    fn disown(&mut self, node: &NodeRecord) {
        for endpoint in &node.endpoints {
            if self.owners.get(endpoint) == Some(&node.name) {
                self.owners.remove(endpoint);
            }
        }
    }

    pub(super) fn put_group(&mut self, record: &GroupRecord) {
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
            let before = std::mem::replace(&mut group.record, Arc::new(record.clone())).home;
            if before != record.home {
                before.map(|home| self.mgids.remove(&home));
                record.home.map(|home| self.mgids.insert(home, record.gn));
            }
            return;
        }
        if let Some(job) = &record.job {
            self.job_groups.entry(job.clone()).or_default().insert(record.gn);
        }
        if let Some(tenant) = record.name.tenant() {
            *self.tenant_groups.entry(tenant.to_owned()).or_default() += 1;
        }
        self.names.insert(record.name.clone(), record.gn);
        self.mgids.insert(record.mgid, record.gn);
        record.home.map(|home| self.mgids.insert(home, record.gn));
        let group = GroupState {
            record: Arc::new(record.clone()),
            members: BTreeMap::new(),
            processes: ByProcess::default(),
            vacant: BTreeSet::new(),
        };
        self.groups.insert(record.gn, group);
    }

    pub(super) fn delete_group(&mut self, gn: Gn) {
        let Some(group) = self.groups.remove(&gn) else { return };
        if let Some(tenant) = group.record.name.tenant() {
            count_out(&mut self.tenant_groups, tenant);
        }
        self.names.remove(&group.record.name);
        self.mgids.remove(&group.record.mgid);
        group.record.home.map(|home| self.mgids.remove(&home));
        if let Some(agent) = &group.record.agent {
            remove_from(&mut self.hosts, agent, &gn);
        }
        if let Some(job) = &group.record.job {
            remove_from(&mut self.job_groups, job, &gn);
        }
    }

    pub(super) fn put_member(&mut self, member: &Arc<MemberRecord>) {
        let group = self.groups.get_mut(&member.gn).expect("a member follows its group");
        let end = group.members.last_key_value().map_or(0, |(pn, _)| pn.0 + 1);
        group.vacant.extend((end..member.pn.0).map(Pn));
        group.vacant.remove(&member.pn);
        group.processes.insert(member);
        group.members.insert(member.pn, Arc::clone(member));
        let of_node = self.memberships.entry(member.node.clone()).or_default();
        self.membership_count += usize::from(of_node.insert((member.gn, member.pn)));
    }

    pub(super) fn delete_member(&mut self, member: &MemberRecord) {
        let place = (member.gn, member.pn);
        let was_there = remove_from(&mut self.memberships, &member.node, &place);
        self.membership_count -= usize::from(was_there);
        let Some(group) = self.groups.get_mut(&member.gn) else { return };
        group.members.remove(&member.pn);
        group.vacant.insert(member.pn);
        let end = group.members.last_key_value().map_or(0, |(pn, _)| pn.0 + 1);
        group.vacant.split_off(&Pn(end)); // PNs above the highest taken one are not kept as vacant
        group.processes.remove(&member.node, &member.process);
    }

    pub(super) fn put_job(&mut self, job: &JobRecord) {
        let before = self.jobs.insert(job.name.clone(), Arc::new(job.clone()));
        let had_them = before
            .is_some_and(|before| before.class.is_some() && before.nodes.is_copy_of(&job.nodes));
        // Nodes that the scheduler chose may serve several jobs.
        if job.class.is_none() || had_them {
            return;
        }
        for endpoint in job.nodes.iter().flat_map(|node| &node.endpoints) {
            self.job_endpoints.insert(endpoint.clone(), job.name.clone());
        }
    }

    pub(super) fn delete_job(&mut self, name: &JobName) {
        let Some(job) = self.jobs.remove(name).filter(|job| job.class.is_some()) else { return };
        for endpoint in job.nodes.iter().flat_map(|node| &node.endpoints) {
            self.job_endpoints.remove(endpoint);
        }
    }
}

/// Takes one from a count, which is forgotten at zero.
fn count_out(counts: &mut BTreeMap<String, usize>, key: &str) {
    let Some(count) = counts.get_mut(key) else { return };
    *count -= 1;
    if *count == 0 {
        counts.remove(key);
    }
}

/// Returns whether the value was there.
fn remove_from<K: Ord, V: Ord>(index: &mut BTreeMap<K, BTreeSet<V>>, key: &K, value: &V) -> bool {
    let Some(values) = index.get_mut(key) else { return false };
    let was_there = values.remove(value);
    if values.is_empty() {
        index.remove(key);
    }
    was_there
}

impl NodeCounts {
    fn add(&mut self, node: &NodeRecord) {
        *self.of_state(node.state) += 1;
        self.drained += usize::from(node.drained);
    }

    fn subtract(&mut self, node: &NodeRecord) {
        *self.of_state(node.state) -= 1;
        self.drained -= usize::from(node.drained);
    }

    fn of_state(&mut self, state: NodeState) -> &mut usize {
        match state {
            NodeState::Up => &mut self.up,
            NodeState::Failed => &mut self.failed,
        }
    }
}
