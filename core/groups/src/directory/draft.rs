//! A draft of a decision: the records and the changes decided so far.
//!
//! Within one decision a group is joined once or left once. Reading the records is therefore right
//! for everything except what the draft tracks itself: new MGIDs and new GNs.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::sync::Arc;

use fabricast_topology::Mgid;

use super::{ChooseMgid, Directory, GroupState, NewGroup};
use crate::command::{Expelled, GroupMove, GroupSpec, JobEnd, Joiner, Refusal};
use crate::flaps::Flaps;
use crate::ids::{Epoch, Gn, Incarnation, Moment, Pn, Revision};
use crate::names::{EndpointName, GroupName, JobName, NodeName, ProcessName, RequestId};
use crate::record::{
    Change, Expected, GroupRecord, MemberRecord, NodeRecord, NodeState, Outcome, RequestRecord,
};

/// Records and pending changes of one decision.
pub(super) struct Draft<'a> {
    pub(super) base: &'a Directory,
    pub(super) revision: Revision, // of the decision, if it changes anything
    pub(super) changes: Vec<Change>,
    pub(super) now: Moment,
    next_gn: Gn,
    new_mgids: BTreeSet<Mgid>,
    new_of_job: BTreeMap<JobName, usize>,
    new_of_tenant: BTreeMap<String, usize>,
}

/// Members; shared with the changes that put them.
type Members = Vec<Arc<MemberRecord>>;

/// Result of a join: the group's record after it, and the requested members, in order.
pub(super) struct JoinedMembers {
    pub(super) group: GroupRecord,
    pub(super) members: Members,
}

impl<'a> Draft<'a> {
    pub(super) fn new(base: &'a Directory, now: Moment) -> Self {
        Self {
            base,
            revision: base.revision.next(),
            changes: Vec::new(),
            now,
            next_gn: base.next_gn,
            new_mgids: BTreeSet::new(),
            new_of_job: BTreeMap::new(),
            new_of_tenant: BTreeMap::new(),
        }
    }

    /// Finishes the draft. The counters come last, so that a reader of the changes sees where a
    /// decision ends.
    pub(super) fn finish(mut self) -> (Revision, Vec<Change>) {
        if self.changes.is_empty() {
            return (self.base.revision, self.changes);
        }
        if self.next_gn != self.base.next_gn {
            self.changes.push(Change::NextGnPut(self.next_gn));
        }
        self.changes.push(Change::RevisionPut(self.revision));
        (self.revision, self.changes)
    }

    /// Returns a node that is up in the given incarnation.
    pub(super) fn live_node(
        &self,
        node: &NodeName,
        incarnation: Incarnation,
    ) -> Result<&'a NodeRecord, Refusal> {
        let record = self.base.node(node);
        let record = record.ok_or_else(|| Refusal::UnknownNode { node: node.clone() })?;
        if record.incarnation != incarnation {
            return Err(Refusal::StaleIncarnation {
                node: node.clone(),
                given: incarnation,
                known: record.incarnation,
            });
        }
        match record.state {
            NodeState::Up => Ok(record),
            NodeState::Failed => Err(Refusal::NodeFailed { node: node.clone() }),
        }
    }

    /// Adds processes to a group, which is created if necessary: all of them or none.
    pub(super) fn join(
        &mut self,
        spec: &GroupSpec,
        joiners: &[Joiner],
        choose: &mut ChooseMgid<'_>,
    ) -> Result<JoinedMembers, Refusal> {
        for joiner in joiners {
            let node = self.live_node(&joiner.node, joiner.incarnation)?;
            if !node.endpoints.contains(&joiner.endpoint) {
                return Err(Refusal::UnknownEndpoint {
                    node: joiner.node.clone(),
                    endpoint: joiner.endpoint.clone(),
                });
            }
        }
        let existing = self.base.find_group(&spec.name).map(|gn| &self.base.groups[&gn]);
        self.check_token(spec, existing)?;
        let mut group = match existing {
            Some(group) => {
                check_mgid(spec.mgid, &group.record)?;
                GroupRecord::clone(&group.record)
            }
            None => self.new_group(spec, joiners, choose)?,
        };
        let (members, fresh) = self.assign_pns(existing, &group, joiners)?;
        if existing.is_none() {
            self.next_gn = self.next_gn.next();
            self.new_mgids.insert(group.mgid);
            if let Some(job) = &group.job {
                *self.new_of_job.entry(job.clone()).or_default() += 1;
            }
            if let Some(tenant) = group.name.tenant() {
                *self.new_of_tenant.entry(tenant.to_owned()).or_default() += 1;
            }
        }
        if existing.is_none() || !fresh.is_empty() {
            if group.agent.is_none()
                && let Some(host) = self.choose_host(fresh.iter().map(Arc::as_ref))
            {
                group.agent = Some(host.clone());
                group.epoch = group.epoch.next();
            }
            let count = existing.map_or(0, |group| group.members.len()) + fresh.len();
            if let Some(expected) = &mut group.expected {
                expected.met |= u32::try_from(count).is_ok_and(|n| n >= expected.members.get());
            }
            group.members_revision = self.revision;
            group.changed = self.revision;
            self.changes.push(Change::GroupPut(group.clone()));
            self.changes.extend(fresh.into_iter().map(Change::MemberPut));
        }
        Ok(JoinedMembers { group, members })
    }

    /// Refuses to form or join a group of a job with a share without the job's token (JOB-3), and
    /// to form more groups than were reserved.
    fn check_token(&self, spec: &GroupSpec, existing: Option<&GroupState>) -> Result<(), Refusal> {
        let Some(job) = job_of(spec, existing.map(|group| group.record.as_ref())) else {
            return Ok(());
        };
        let record = self.base.job(&job);
        let Some(share) = record.and_then(|record| record.share.as_ref()) else {
            // Only names of this form need a share; others belong to a job of any launcher.
            return match spec.name.job() {
                Some(_) => Err(Refusal::UnknownJob { job }),
                None => Ok(()),
            };
        };
        let token = spec.token.as_ref();
        if !token.is_some_and(|token| share.token.is_of(token)) {
            let (group, given) = (spec.name.clone(), token.is_some());
            return Err(Refusal::TokenRefused { group, job, given });
        }
        if share.ending {
            return Err(Refusal::JobEnding { job });
        }
        let new = self.new_of_job.get(&job).copied().unwrap_or_default();
        let has = self.base.job_groups.get(&job).map_or(0, BTreeSet::len) + new;
        if existing.is_none() && u32::try_from(has).map_or(true, |has| has >= share.groups) {
            return Err(Refusal::ShareUsed { job, limit: share.groups });
        }
        Ok(())
    }

    /// Assigns each joiner a PN: the one it has, or else the lowest free one. Returns all members
    /// in order, and those that are new.
    fn assign_pns(
        &self,
        existing: Option<&GroupState>,
        group: &GroupRecord,
        joiners: &[Joiner],
    ) -> Result<(Members, Members), Refusal> {
        let mut vacant = existing.into_iter().flat_map(|group| group.vacant.iter().copied());
        let last = existing.and_then(|group| group.members.last_key_value());
        let mut end = last.map_or(Pn(0), |(pn, _)| pn.next());
        let mut given: BTreeMap<(&NodeName, &ProcessName), Arc<MemberRecord>> = BTreeMap::new();
        let (mut members, mut fresh) = (Vec::with_capacity(joiners.len()), Vec::new());
        for joiner in joiners {
            let key = (&joiner.node, &joiner.process);
            let existing_member =
                existing.and_then(|group| group.members.get(&group.processes.find(key.0, key.1)?));
            if let Some(member) = existing_member.or_else(|| given.get(&key)) {
                if member.endpoint != joiner.endpoint {
                    return Err(Refusal::JoinedElsewhere {
                        group: group.name.clone(),
                        process: member.process.clone(),
                        endpoint: member.endpoint.clone(),
                    });
                }
                members.push(Arc::clone(member));
                continue;
            }
            let pn = vacant.next().unwrap_or(end);
            end = end.max(pn.next());
            let member = Arc::new(MemberRecord {
                gn: group.gn,
                pn,
                node: joiner.node.clone(),
                process: joiner.process.clone(),
                endpoint: joiner.endpoint.clone(),
                joined: self.revision,
                sends_only: joiner.sends_only,
            });
            given.insert(key, Arc::clone(&member));
            fresh.push(Arc::clone(&member));
            members.push(member);
        }
        let wanted = existing.map_or(0, |group| group.members.len()) + fresh.len();
        check_limit("members of the group", wanted, self.base.limits.members_per_group)?;
        Ok((members, fresh))
    }

    fn new_group(
        &self,
        spec: &GroupSpec,
        joiners: &[Joiner],
        choose: &mut ChooseMgid<'_>,
    ) -> Result<GroupRecord, Refusal> {
        self.check_groups(&spec.name)?;
        let limits = &self.base.limits;
        let expected = spec.complete_at.map_or(0, NonZeroU32::get);
        let expected = usize::try_from(expected).unwrap_or(usize::MAX);
        check_limit("members that the group waits for", expected, limits.members_per_group)?;
        let mgid = match spec.mgid {
            Some(mgid) => self.check_new_mgid(mgid)?,
            None => {
                let endpoints: Vec<&EndpointName> = joiners.iter().map(|j| &j.endpoint).collect();
                let is_free =
                    |mgid| self.base.mgid_is_free(mgid) && !self.new_mgids.contains(&mgid);
                choose(&NewGroup {
                    name: &spec.name,
                    endpoints,
                    is_exclusive: spec.exclusive,
                    hints: &spec.hints,
                    is_free: &is_free,
                })
                .filter(|mgid| is_free(*mgid))
                .ok_or_else(|| Refusal::NoMgidFree { group: spec.name.clone() })?
            }
        };
        Ok(GroupRecord {
            gn: self.next_gn,
            name: spec.name.clone(),
            mgid,
            agent: None,
            epoch: Epoch(0),
            members_revision: self.revision,
            changed: self.revision,
            persistent: spec.persistent,
            exclusive: spec.exclusive,
            created: self.now,
            route: None,
            layer: spec.hints.layer.as_ref().map(|layer| layer.name.clone()),
            job: job_of(spec, None),
            expected: spec.complete_at.map(|members| Expected { members, met: false }),
            home: None,
            tree: spec.tree.unwrap_or_default(),
        })
    }

    /// Refuses one more group than there may be, or than its tenant may have: no more than are left
    /// for others, so that a tenant without groups finds room.
    fn check_groups(&self, name: &GroupName) -> Result<(), Refusal> {
        let (groups, most) =
            (self.base.groups.len() + self.new_mgids.len(), self.base.limits.groups);
        check_limit("groups", groups + 1, most)?;
        let Some(tenant) = name.tenant() else { return Ok(()) };
        let of = |counts: &BTreeMap<String, usize>| counts.get(tenant).copied().unwrap_or(0);
        let own = of(&self.base.tenant_groups) + of(&self.new_of_tenant);
        // Half of what the others do not have.
        let share = (most - groups + own).div_ceil(2);
        check_limit("groups of the tenant", own + 1, share)
    }

    fn check_new_mgid(&self, mgid: Mgid) -> Result<Mgid, Refusal> {
        let has_it =
            |change: &&Change| matches!(change, Change::GroupPut(group) if group.mgid == mgid);
        if self.new_mgids.contains(&mgid)
            && let Some(Change::GroupPut(group)) = self.changes.iter().find(has_it)
        {
            return Err(Refusal::MgidInUse { mgid, group: group.name.clone() });
        }
        check_unused_mgid(self.base, mgid)
    }

    /// Chooses the node that hosts a group's agent: the first that is neither suppressed nor
    /// drained, or else the first that is not suppressed, or else the first (FLAP-1).
    ///
    /// - `members`: members whose nodes may host the agent, in order of preference.
    fn choose_host<'m>(
        &self,
        members: impl Iterator<Item = &'m MemberRecord> + Clone,
    ) -> Option<&'m NodeName> {
        let node = |name: &NodeName| self.base.node(name);
        let is_free = |name: &&NodeName| {
            let flaps = node(name).and_then(|node| node.flaps);
            flaps.is_none_or(|flaps| flaps.suppressed_until(self.now).is_none())
        };
        let is_drained = |name: &NodeName| node(name).is_some_and(|node| node.drained);
        let nodes = members.map(|member| &member.node);
        let mut best = nodes.clone().filter(is_free).filter(|name| !is_drained(name));
        best.next().or_else(|| nodes.clone().find(is_free)).or_else(|| nodes.clone().next())
    }

    /// Returns a node's flap history with one flap more.
    pub(super) fn with_one_flap(&self, node: &NodeRecord) -> Option<Flaps> {
        Flaps::with_one_more(node.flaps, self.now, &self.base.limits.damping)
    }

    /// Removes members from a group. An emptied group that is not persistent ends. A group whose
    /// agent's node has no member left gets a new agent: the node of its lowest PN, unless that
    /// node is suppressed (FLAP-1).
    pub(super) fn remove(&mut self, gn: Gn, leaving: &BTreeSet<Pn>) {
        let group = &self.base.groups[&gn];
        let gone = leaving.iter().filter_map(|pn| group.members.get(pn)).cloned();
        self.changes.extend(gone.map(Change::MemberDeleted));
        let staying = group.members.values().filter(|member| !leaving.contains(&member.pn));
        let lowest = staying.clone().next();
        if lowest.is_none() && !group.record.persistent {
            self.end_group(&group.record);
            return;
        }
        let mut record = GroupRecord::clone(&group.record);
        let mut at_agent =
            group.record.agent.iter().flat_map(|agent| group.processes.on_node(agent));
        let keeps = at_agent.any(|member| !leaving.contains(&member.pn));
        if lowest.is_none()
            && let Some(expected) = &mut record.expected
        {
            expected.met = false; // its next users are waited for again
        }
        if !keeps {
            record.agent = self.choose_host(staying.map(Arc::as_ref)).cloned();
            record.epoch = record.epoch.next();
        }
        record.members_revision = self.revision;
        record.changed = self.revision;
        self.changes.push(Change::GroupPut(record));
    }

    /// Removes so many members of the highest PNs from a group of more.
    pub(super) fn remove_last(&mut self, gn: Gn, count: usize) {
        let members = self.base.groups[&gn].members.keys();
        let leaving: BTreeSet<Pn> = members.rev().take(count).copied().collect();
        self.remove(gn, &leaving);
    }

    /// Ends a group with all its members.
    pub(super) fn delete_group(&mut self, gn: Gn) {
        let group = &self.base.groups[&gn];
        self.changes.extend(group.members.values().cloned().map(Change::MemberDeleted));
        self.end_group(&group.record);
    }

    /// Ends groups of a job until so many records have changed, and counts them; a group of more
    /// members loses them first. Returns whether none is left.
    pub(super) fn delete_job_groups(
        &mut self,
        groups: impl Iterator<Item = Gn>,
        most: usize,
        ended: &mut JobEnd,
    ) -> bool {
        for gn in groups {
            let (members, left) =
                (self.base.member_count(gn), most.saturating_sub(self.changes.len()));
            if left == 0 {
                return false;
            }
            let ending = if members > most { left } else { members };
            ended.memberships += u64::try_from(ending).unwrap_or(u64::MAX);
            if ending < members {
                self.remove_last(gn, ending);
                return false;
            }
            ended.groups += 1;
            self.delete_group(gn);
        }
        true
    }

    fn end_group(&mut self, record: &GroupRecord) {
        self.changes.push(Change::GroupDeleted(record.gn));
        let mgids = [Some(record.mgid), record.home].into_iter().flatten();
        let retired = mgids.map(|mgid| Change::MgidRetired(mgid, self.revision));
        self.changes.extend(retired);
    }

    /// Moves a group to the spanning tree of another MGID. Returns whether it did: the group may be
    /// gone or elsewhere, and the MGID taken by now.
    pub(super) fn move_group(&mut self, asked: &GroupMove) -> bool {
        let GroupMove { gn, from, to } = *asked;
        let Some(group) = self.base.group(gn).filter(|group| group.home() == from) else {
            return false;
        };
        if !self.base.mgid_is_free(to) || !self.new_mgids.insert(to) {
            return false;
        }
        self.changes.extend(group.home.map(|home| Change::MgidRetired(home, self.revision)));
        self.changes.push(Change::GroupPut(GroupRecord {
            home: Some(to),
            members_revision: self.revision,
            changed: self.revision,
            ..group.clone()
        }));
        true
    }

    /// Ends the first memberships of a node: as many as one decision may end. Cost: these.
    pub(super) fn expel(&mut self, node: &NodeName) -> Expelled {
        let mut ending = self.base.memberships(node).peekable();
        let mut by_group: BTreeMap<Gn, BTreeSet<Pn>> = BTreeMap::new();
        let mut memberships = 0;
        for member in ending.by_ref().take(self.base.limits.ends) {
            by_group.entry(member.gn).or_default().insert(member.pn);
            memberships += 1;
        }
        let done = ending.peek().is_none();
        for (gn, pns) in &by_group {
            self.remove(*gn, pns);
        }
        Expelled { memberships, done }
    }

    /// Adds a request to the log and removes the oldest one if the log is full.
    pub(super) fn remember(&mut self, id: &RequestId, group: &GroupName, outcome: Outcome) {
        let requests = &self.base.requests;
        if self.base.limits.requests == 0 {
            return;
        }
        let excess = (requests.len() + 1).saturating_sub(self.base.limits.requests);
        let oldest = requests.keys().take(excess).copied();
        self.changes.extend(oldest.map(Change::RequestDeleted));
        let sequence = requests.last_key_value().map_or(0, |(sequence, _)| sequence + 1);
        let (id, group) = (id.clone(), group.clone());
        self.changes.push(Change::RequestPut(RequestRecord { sequence, id, group, outcome }));
    }
}

/// Returns the job that a group belongs to: the one that it was formed for or is named after, or
/// else the one that its creator gives it.
fn job_of(spec: &GroupSpec, existing: Option<&GroupRecord>) -> Option<JobName> {
    match existing {
        Some(group) => group.job.clone(),
        None => spec.name.job().or_else(|| spec.job.clone()),
    }
}

/// Refuses another MGID than that of an existing group.
pub(super) fn check_mgid(asked: Option<Mgid>, group: &GroupRecord) -> Result<(), Refusal> {
    match asked {
        Some(asked) if asked != group.mgid => {
            Err(Refusal::MgidMismatch { group: group.name.clone(), has: group.mgid, asked })
        }
        Some(_) | None => Ok(()),
    }
}

/// Refuses an MGID that a new group cannot have.
pub(super) fn check_unused_mgid(directory: &Directory, mgid: Mgid) -> Result<Mgid, Refusal> {
    let limit = directory.limits.mgids;
    if mgid.0 >= limit {
        return Err(Refusal::MgidOutOfRange { mgid, limit });
    }
    if let Some(gn) = directory.mgids.get(&mgid) {
        let group = directory.groups[gn].record.name.clone();
        return Err(Refusal::MgidInUse { mgid, group });
    }
    if directory.retired.contains_key(&mgid) {
        return Err(Refusal::MgidNotClean { mgid });
    }
    Ok(mgid)
}

/// Refuses a count above its limit.
pub(super) fn check_limit(what: &'static str, wanted: usize, limit: usize) -> Result<(), Refusal> {
    if wanted > limit { Err(Refusal::LimitReached { what, wanted, limit }) } else { Ok(()) }
}
