//! Queries of the directory: look-ups, snapshots of groups, and verdicts on status reports.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_topology::Mgid;

use super::draft::{check_mgid, check_unused_mgid};
use super::requests::{job_subject, remembered, reused};
use super::{Directory, GroupSnapshot, HostedGroup, Limits, MemberView, NodeCounts, Verdict};
use crate::Refusal;
use crate::ids::{Gn, Incarnation, Revision};
use crate::job::JobRecord;
use crate::names::{EndpointName, GroupName, JobName, NodeName, RequestId};
use crate::record::{GroupRecord, MemberRecord, NodeRecord, NodeState, Outcome};

impl Directory {
    /// Returns the number of decisions so far.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the limits in force.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Returns a node by its name.
    pub fn node(&self, name: &NodeName) -> Option<&NodeRecord> {
        self.nodes.get(name).map(Arc::as_ref)
    }

    /// Returns the lowest incarnation of nodes that register from now on.
    pub fn first_incarnation(&self) -> Incarnation {
        self.first_incarnation
    }

    /// Returns all nodes by name, expelled ones included.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeRecord> {
        self.nodes.values().map(Arc::as_ref)
    }

    /// Returns the nodes that follow `after` by name, for pages of a list.
    pub fn nodes_after(&self, after: Option<&NodeName>) -> impl Iterator<Item = &NodeRecord> {
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.nodes.range((from, std::ops::Bound::Unbounded)).map(|(_, node)| node.as_ref())
    }

    /// Returns the node that is up and owns an endpoint.
    pub fn owner(&self, endpoint: &EndpointName) -> Option<&NodeRecord> {
        self.node(self.owners.get(endpoint)?)
    }

    /// Returns a group by its number.
    pub fn group(&self, gn: Gn) -> Option<&GroupRecord> {
        self.groups.get(&gn).map(|group| group.record.as_ref())
    }

    /// Returns the GN of the group with a name.
    pub fn find_group(&self, name: &GroupName) -> Option<Gn> {
        self.names.get(name).copied()
    }

    /// Returns the groups from `from` on, ascending by GN.
    pub fn groups_from(&self, from: Gn) -> impl Iterator<Item = &GroupRecord> {
        self.groups.range(from..).map(|(_, group)| group.record.as_ref())
    }

    /// Returns the number of groups.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// Returns the number of memberships in all groups.
    pub fn membership_count(&self) -> usize {
        self.membership_count
    }

    /// Returns the numbers of nodes.
    pub fn node_counts(&self) -> NodeCounts {
        self.node_counts
    }

    /// Returns the members of a group, ascending by PN; none if there is no such group.
    pub fn members(&self, gn: Gn) -> impl Iterator<Item = &MemberRecord> {
        self.groups.get(&gn).into_iter().flat_map(|group| group.members.values().map(Arc::as_ref))
    }

    /// Returns the members of a group that are on a node.
    pub fn members_on(&self, gn: Gn, node: &NodeName) -> impl Iterator<Item = &MemberRecord> {
        let group = self.groups.get(&gn);
        group.into_iter().flat_map(move |group| group.processes.on_node(node))
    }

    /// Returns the number of members of a group; 0 if there is no such group.
    pub fn member_count(&self, gn: Gn) -> usize {
        self.groups.get(&gn).map_or(0, |group| group.members.len())
    }

    /// Returns the memberships of a node.
    pub fn memberships(&self, node: &NodeName) -> impl Iterator<Item = &MemberRecord> {
        self.memberships
            .get(node)
            .into_iter()
            .flatten()
            .filter_map(|(gn, pn)| self.groups.get(gn)?.members.get(pn))
            .map(Arc::as_ref)
    }

    /// Returns the groups that an endpoint is in, once per member that uses it.
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

    /// Returns the groups of a job, ascending by GN.
    pub fn groups_of_job(&self, job: &JobName) -> impl Iterator<Item = Gn> {
        self.job_groups.get(job).into_iter().flatten().copied()
    }

    /// Returns the GN that the next new group gets.
    pub fn next_gn(&self) -> Gn {
        self.next_gn
    }

    /// Returns a job by its name.
    pub fn job(&self, name: &JobName) -> Option<&JobRecord> {
        self.jobs.get(name).map(Arc::as_ref)
    }

    /// Returns the jobs that follow `after` by name, for pages of a list.
    pub fn jobs_after(&self, after: Option<&JobName>) -> impl Iterator<Item = &JobRecord> {
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.jobs.range((from, std::ops::Bound::Unbounded)).map(|(_, job)| job.as_ref())
    }

    /// Returns the job that an endpoint belongs to.
    pub fn job_of_endpoint(&self, endpoint: &EndpointName) -> Option<&JobName> {
        self.job_endpoints.get(endpoint)
    }

    /// Returns the job that a repeated request created; `None` if the request is new.
    ///
    /// # Errors
    ///
    /// [`Refusal`] if the request id was used for another request, its job has ended, or another
    /// job has the name.
    pub fn created_job(
        &self,
        request_id: &RequestId,
        job: &JobName,
    ) -> Result<Option<&JobRecord>, Refusal> {
        let there = self.job(job);
        match remembered(self, request_id, &job_subject(job))? {
            Some(Outcome::JobCreated { revision }) => {
                let ended = || Refusal::JobEnded { request_id: request_id.clone() };
                there.filter(|job| job.revision == *revision).map(Some).ok_or_else(ended)
            }
            Some(_) => Err(reused(request_id)),
            None if there.is_some() => Err(Refusal::JobExists { job: job.clone() }),
            None => Ok(None),
        }
    }

    /// Returns whether a new group may use the MGID.
    pub fn mgid_is_free(&self, mgid: Mgid) -> bool {
        mgid.0 < self.limits.mgids
            && !self.mgids.contains_key(&mgid)
            && !self.retired.contains_key(&mgid)
    }

    /// Returns the MGID that a group has, or that its creator gives it; `None` for a new group for
    /// which one is to be chosen.
    ///
    /// # Errors
    ///
    /// The refusal that a join with this MGID would get.
    pub fn settled_mgid(
        &self,
        group: &GroupName,
        given: Option<Mgid>,
    ) -> Result<Option<Mgid>, Refusal> {
        match self.find_group(group).and_then(|gn| self.group(gn)) {
            Some(record) => check_mgid(given, record).map(|()| Some(record.mgid)),
            None => given.map(|mgid| check_unused_mgid(self, mgid)).transpose(),
        }
    }

    /// Returns the MGIDs of ended groups that tables may still hold.
    pub fn retired_mgids(&self) -> impl Iterator<Item = Mgid> + '_ {
        self.retired.keys().copied()
    }

    /// Returns the nodes that host group agents and follow `after` by name.
    pub fn host_names_after(&self, after: Option<&NodeName>) -> impl Iterator<Item = &NodeName> {
        let from = after.map_or(std::ops::Bound::Unbounded, std::ops::Bound::Excluded);
        self.hosts.range((from, std::ops::Bound::Unbounded)).map(|(node, _)| node)
    }

    /// Returns whether a node hosts group agents.
    pub fn is_host(&self, node: &NodeName) -> bool {
        self.hosts.contains_key(node)
    }

    /// Returns the number of groups whose agents a node hosts.
    pub fn hosted_groups(&self, node: &NodeName) -> usize {
        self.hosts.get(node).map_or(0, BTreeSet::len)
    }

    /// Returns everything that a group's agent must know. Cost: O(members).
    pub fn snapshot(&self, gn: Gn) -> Option<GroupSnapshot> {
        let group = self.groups.get(&gn)?;
        let agent = group.record.agent.as_ref().and_then(|agent| self.nodes.get(agent));
        let view = |member: &MemberRecord| {
            let node = self.nodes.get(&member.node)?;
            let (incarnation, address) = (node.incarnation, node.address.clone());
            Some(MemberView { member: member.clone(), incarnation, address })
        };
        let voucher = |member: &MemberRecord| {
            let node = self.nodes.get(&member.node)?;
            Some((member.pn, node.vouch_for_enrolment(&group.record, agent?, member)?))
        };
        Some(GroupSnapshot {
            revision: self.revision,
            group: GroupRecord::clone(&group.record),
            agent_address: agent.map(|node| node.address.clone()),
            members: self.members(gn).filter_map(view).collect(),
            vouchers: self.members(gn).filter_map(voucher).collect(),
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
