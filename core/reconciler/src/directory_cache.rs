//! A copy of the TIC's records, kept up to date by the watch.
//!
//! The cache also keeps which groups changed since the last plan, so that planning touches only
//! those. Endpoints are numbers here: a name is looked up once, where it enters.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_groups::ids::{Gn, Pn, Revision};
use fabricast_groups::names::{EndpointName, GroupName};
use fabricast_groups::record::Route;
use fabricast_topology::{EndpointId, Mgid, PortId, SwitchId};
use serde::{Deserialize, Serialize};

/// Some changes of the records, which lead to a revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryUpdate {
    /// Revision of the records after the changes.
    pub revision: Revision,
    /// Changes, oldest first.
    pub changes: Vec<DirectoryChange>,
}

/// One change of the records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DirectoryChange {
    /// A group is new, or its record changed; its members stay.
    Group(GroupState),
    /// A group has ended.
    Deleted(Gn),
    /// A member has joined, or has another endpoint.
    Joined {
        /// Number of its group.
        gn: Gn,
        /// Its rank in the group.
        pn: Pn,
        /// Its endpoint and the revision of its join.
        member: CachedMember,
    },
    /// A member has left.
    Left {
        /// Number of its group.
        gn: Gn,
        /// Rank that it had in the group.
        pn: Pn,
    },
    /// These parts of the fabric have failed, and no others.
    Failed(Vec<FailedElement>),
}

/// The record of a group, as far as routing needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupState {
    /// Number of the group.
    pub gn: Gn,
    /// Name of the group.
    pub name: GroupName,
    /// MGID whose spanning tree it is to be on.
    pub mgid: Mgid,
    /// True if the group must not share a tree.
    pub exclusive: bool,
    /// True while it waits for members; until they are there it has no route.
    pub incomplete: bool,
    /// Revision of the latest change of the membership.
    pub members_revision: Revision,
    /// Route as reported last; senders hear of it through the TIC.
    #[serde(with = "crate::as_json")]
    pub route: Option<Route>,
}

/// A member of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CachedMember {
    /// Its adapter port.
    pub endpoint: RecordedEndpoint,
    /// Revision of its join. A route of an older revision does not serve it.
    pub joined: Revision,
    /// True if it only sends: nothing is delivered to its endpoint for it.
    pub sends_only: bool,
}

/// Endpoint of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordedEndpoint {
    /// An endpoint of the topology.
    Known(EndpointId),
    /// A name that the topology does not have. The TIC may have another topology by now.
    Unknown(Box<EndpointName>),
}

/// A part of the fabric that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailedElement {
    /// The link at a port.
    Link(PortId),
    /// A switch with all of its links.
    Switch(SwitchId),
    /// An endpoint with its link.
    Endpoint(EndpointId),
}

/// One group as the TIC records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CachedGroup {
    /// `None` until its record arrives; its members may come first.
    pub(crate) name: Option<GroupName>,
    pub(crate) mgid: Mgid,
    pub(crate) exclusive: bool,
    /// True while it waits for members; until they are there it has no route.
    pub(crate) incomplete: bool,
    pub(crate) members_revision: Revision,
    /// Route as reported last; senders hear of it through the TIC.
    pub(crate) route: Option<Route>,
    /// Members by PN. They may share an endpoint.
    pub(crate) members: BTreeMap<Pn, CachedMember>,
}

/// The records at one revision.
#[derive(Debug, Default)]
pub(crate) struct DirectoryCache {
    pub(crate) revision: Revision,
    pub(crate) groups: BTreeMap<Gn, CachedGroup>,
    pub(crate) failed: Vec<FailedElement>,
    /// GNs of the exclusive groups.
    exclusive: BTreeSet<Gn>,
    /// Number of members that only send, by GN; no group has 0.
    only_senders: BTreeMap<Gn, usize>,
    /// GNs of the groups with a member at an endpoint.
    gns_by_endpoint: BTreeMap<EndpointId, BTreeSet<Gn>>,
    dirty: BTreeSet<Gn>,
    failed_changed: bool,
    /// True if groups may have ended whose MGIDs the TIC still holds back.
    pub(crate) mgids_held_back: bool,
}

/// Changes since the last call of [`DirectoryCache::take_changes`].
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// GNs of groups that are new, changed or gone, ascending.
    pub(crate) groups: Vec<Gn>,
    /// True if the failed parts of the fabric changed.
    pub(crate) failed: bool,
}

impl CachedMember {
    /// Endpoint in the topology, if it has one.
    pub(crate) const fn known(&self) -> Option<EndpointId> {
        match &self.endpoint {
            RecordedEndpoint::Known(endpoint) => Some(*endpoint),
            RecordedEndpoint::Unknown(_) => None,
        }
    }
}

impl Default for CachedGroup {
    fn default() -> Self {
        Self {
            name: None,
            mgid: Mgid(0),
            exclusive: false,
            incomplete: false,
            members_revision: Revision(0),
            route: None,
            members: BTreeMap::new(),
        }
    }
}

impl CachedGroup {
    #[cfg(test)]
    pub(crate) fn named(name: &str) -> Self {
        Self { name: GroupName::new(name).ok(), ..Self::default() }
    }

    /// Endpoints of the members that the topology has.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = EndpointId> {
        self.members.values().filter_map(CachedMember::known)
    }

    /// Name of the group; empty until its record arrives.
    pub(crate) fn name(&self) -> &str {
        self.name.as_ref().map_or("", GroupName::as_str)
    }
}

impl DirectoryCache {
    /// Replaces the records by a snapshot, given in parts. All groups, old and new, count as
    /// changed.
    pub(crate) fn replace(&mut self, snapshot: Vec<DirectoryUpdate>) {
        let mut records = Self::default();
        snapshot.into_iter().for_each(|part| records.apply(part));
        records.dirty.extend(self.groups.keys());
        records.dirty.append(&mut self.dirty);
        records.failed_changed = true;
        records.mgids_held_back = true;
        *self = records;
    }

    /// The records as a snapshot; `None` if the record of a group has yet to arrive.
    ///
    /// - `route`: the route of a group by GN.
    pub(crate) fn snapshot(&self, route: impl Fn(Gn) -> Option<Route>) -> Option<DirectoryUpdate> {
        let mut changes = Vec::new();
        for (gn, group) in &self.groups {
            changes.push(DirectoryChange::Group(GroupState {
                gn: *gn,
                name: group.name.clone()?,
                mgid: group.mgid,
                exclusive: group.exclusive,
                incomplete: group.incomplete,
                members_revision: group.members_revision,
                route: route(*gn),
            }));
            let joined = |(pn, member): (&Pn, &CachedMember)| DirectoryChange::Joined {
                gn: *gn,
                pn: *pn,
                member: member.clone(),
            };
            changes.extend(group.members.iter().map(joined));
        }
        changes.push(DirectoryChange::Failed(self.failed.clone()));
        Some(DirectoryUpdate { revision: self.revision, changes })
    }

    pub(crate) fn apply(&mut self, update: DirectoryUpdate) {
        update.changes.into_iter().for_each(|change| self.apply_change(change));
        self.revision = self.revision.max(update.revision);
    }

    fn apply_change(&mut self, change: DirectoryChange) {
        match change {
            DirectoryChange::Group(state) => self.apply_group(state),
            DirectoryChange::Deleted(gn) => {
                self.remove(gn);
                self.dirty.insert(gn);
                self.mgids_held_back = true;
            }
            DirectoryChange::Joined { gn, pn, member } => {
                let group = self.groups.entry(gn).or_default();
                let (endpoint, sends_only) = (member.known(), member.sends_only);
                let before = group.members.insert(pn, member);
                if sends_only {
                    *self.only_senders.entry(gn).or_default() += 1;
                }
                if let Some(before) = before {
                    self.forget_only_sender(gn, &before);
                    self.forget_endpoint(gn, &before);
                }
                if let Some(endpoint) = endpoint {
                    self.gns_by_endpoint.entry(endpoint).or_default().insert(gn);
                }
                self.dirty.insert(gn);
            }
            DirectoryChange::Left { gn, pn } => {
                let group = self.groups.get_mut(&gn);
                if let Some(before) = group.and_then(|group| group.members.remove(&pn)) {
                    self.forget_only_sender(gn, &before);
                    self.forget_endpoint(gn, &before);
                }
                self.dirty.insert(gn);
            }
            DirectoryChange::Failed(elements) => {
                self.failed = elements;
                self.failed_changed = true;
            }
        }
    }

    fn apply_group(&mut self, state: GroupState) {
        let group = self.groups.entry(state.gn).or_default();
        // The MGID that it had is free once no table has its entries.
        self.mgids_held_back |= group.name.is_some() && group.mgid != state.mgid;
        // Our own route reports come back as group records; they change nothing.
        let is_changed = group.mgid != state.mgid
            || group.name.as_ref() != Some(&state.name)
            || group.exclusive != state.exclusive
            || group.incomplete != state.incomplete
            || group.members_revision != state.members_revision;
        group.name = Some(state.name);
        group.mgid = state.mgid;
        group.exclusive = state.exclusive;
        group.incomplete = state.incomplete;
        group.members_revision = state.members_revision;
        group.route = state.route;
        if state.exclusive {
            self.exclusive.insert(state.gn);
        } else {
            self.exclusive.remove(&state.gn);
        }
        if is_changed {
            self.dirty.insert(state.gn);
        }
    }

    /// Removes a group.
    pub(crate) fn remove(&mut self, gn: Gn) {
        self.exclusive.remove(&gn);
        self.only_senders.remove(&gn);
        for member in self.groups.remove(&gn).into_iter().flat_map(|group| group.members) {
            self.forget_endpoint(gn, &member.1);
        }
    }

    /// Adds or replaces a group.
    #[cfg(test)]
    pub(crate) fn put(&mut self, gn: Gn, group: CachedGroup) {
        self.remove(gn);
        for endpoint in group.endpoints() {
            self.gns_by_endpoint.entry(endpoint).or_default().insert(gn);
        }
        self.exclusive.extend(group.exclusive.then_some(gn));
        let only_senders = group.members.values().filter(|member| member.sends_only).count();
        self.only_senders.extend((only_senders > 0).then_some((gn, only_senders)));
        self.groups.insert(gn, group);
    }

    /// Counts a former member of a group out, if it only sent.
    fn forget_only_sender(&mut self, gn: Gn, member: &CachedMember) {
        let Some(count) = self.only_senders.get_mut(&gn).filter(|_| member.sends_only) else {
            return;
        };
        *count -= 1;
        if *count == 0 {
            self.only_senders.remove(&gn);
        }
    }

    /// Removes the endpoint of a former member of a group from the index, unless another member is
    /// there.
    fn forget_endpoint(&mut self, gn: Gn, member: &CachedMember) {
        let Some(endpoint) = member.known() else { return };
        let mut others = self.groups.get(&gn).into_iter().flat_map(CachedGroup::endpoints);
        if others.any(|other| other == endpoint) {
            return;
        }
        if let Some(gns) = self.gns_by_endpoint.get_mut(&endpoint) {
            gns.remove(&gn);
            if gns.is_empty() {
                self.gns_by_endpoint.remove(&endpoint);
            }
        }
    }

    /// GNs of the exclusive groups, rising.
    pub(crate) fn exclusive(&self) -> impl Iterator<Item = Gn> {
        self.exclusive.iter().copied()
    }

    /// True if a group has a member that only sends.
    pub(crate) fn has_only_senders(&self, gn: Gn) -> bool {
        self.only_senders.contains_key(&gn)
    }

    /// Groups with a member at an endpoint: GN and group.
    pub(crate) fn groups_at(
        &self,
        endpoint: EndpointId,
    ) -> impl Iterator<Item = (Gn, &CachedGroup)> {
        let gns = self.gns_by_endpoint.get(&endpoint).into_iter().flatten();
        gns.filter_map(|gn| Some((*gn, self.groups.get(gn)?)))
    }

    /// Returns what changed since the last call.
    pub(crate) fn take_changes(&mut self) -> Changes {
        Changes {
            groups: std::mem::take(&mut self.dirty).into_iter().collect(),
            failed: std::mem::take(&mut self.failed_changed),
        }
    }

    /// Finds a group by its name: GN and group.
    pub(crate) fn find(&self, name: &str) -> Option<(Gn, &CachedGroup)> {
        self.groups.iter().find(|(_, group)| group.name() == name).map(|(gn, group)| (*gn, group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(revision: u64, changes: Vec<DirectoryChange>) -> DirectoryUpdate {
        DirectoryUpdate { revision: Revision(revision), changes }
    }

    fn group(gn: u64, members_revision: u64) -> DirectoryChange {
        DirectoryChange::Group(GroupState {
            gn: Gn(gn),
            name: GroupName::new(&format!("g{gn}")).unwrap(),
            mgid: Mgid(7),
            exclusive: false,
            incomplete: false,
            members_revision: Revision(members_revision),
            route: None,
        })
    }

    fn joined(gn: u64, pn: u32, endpoint: u32) -> DirectoryChange {
        let endpoint = RecordedEndpoint::Known(EndpointId(endpoint));
        let member = CachedMember { endpoint, joined: Revision(0), sends_only: false };
        DirectoryChange::Joined { gn: Gn(gn), pn: Pn(pn), member }
    }

    fn left(gn: u64, pn: u32) -> DirectoryChange {
        DirectoryChange::Left { gn: Gn(gn), pn: Pn(pn) }
    }

    #[test]
    fn joins_and_leaves_are_followed_and_reported_once() {
        let mut directory = DirectoryCache::default();
        directory.apply(update(3, vec![group(1, 3), joined(1, 0, 5)]));
        assert_eq!(directory.take_changes().groups, [Gn(1)]);
        assert_eq!(directory.take_changes(), Changes::default());
        directory.apply(update(4, vec![left(1, 0)]));
        assert!(directory.groups[&Gn(1)].members.is_empty());
        assert_eq!(directory.take_changes().groups, [Gn(1)]);
        assert_eq!(directory.revision, Revision(4));
    }

    #[test]
    fn groups_are_found_by_the_endpoints_of_their_members() {
        let mut directory = DirectoryCache::default();
        let at = |directory: &DirectoryCache, endpoint| -> Vec<u64> {
            directory.groups_at(EndpointId(endpoint)).map(|(gn, _)| gn.0).collect()
        };
        let members = [joined(1, 0, 5), joined(1, 1, 5), joined(1, 2, 6), joined(2, 0, 5)];
        let changes = [group(1, 3), group(2, 3)].into_iter().chain(members).collect();
        directory.apply(update(3, changes));
        assert_eq!((at(&directory, 5), at(&directory, 6)), (vec![1, 2], vec![1]));
        directory.apply(update(4, vec![left(1, 0)]));
        assert_eq!(at(&directory, 5), [1, 2], "the other member is still there");
        directory.apply(update(5, vec![joined(1, 1, 6)]));
        assert_eq!((at(&directory, 5), at(&directory, 6)), (vec![2], vec![1]));
        directory.apply(update(6, vec![DirectoryChange::Deleted(Gn(1))]));
        assert_eq!((at(&directory, 5), at(&directory, 6)), (vec![2], vec![]));
        directory.replace(Vec::new());
        assert!(at(&directory, 5).is_empty());
    }

    #[test]
    fn groups_with_a_member_that_only_sends_are_known() {
        let only_sends = |gn, pn, sends_only| {
            let DirectoryChange::Joined { member, .. } = joined(gn, pn, 5) else {
                panic!("a join")
            };
            let member = CachedMember { sends_only, ..member };
            DirectoryChange::Joined { gn: Gn(gn), pn: Pn(pn), member }
        };
        let mut directory = DirectoryCache::default();
        let listed = |directory: &DirectoryCache| -> Vec<Gn> {
            [Gn(1), Gn(2)].into_iter().filter(|gn| directory.has_only_senders(*gn)).collect()
        };
        let mut joins = vec![only_sends(1, 0, true), only_sends(1, 1, true)];
        joins.extend([only_sends(2, 0, true), only_sends(2, 0, true)]); // one member, told twice
        directory.apply(update(3, [group(1, 3), group(2, 3)].into_iter().chain(joins).collect()));
        assert_eq!(listed(&directory), [Gn(1), Gn(2)]);
        directory.apply(update(4, vec![left(1, 0), only_sends(2, 0, false)]));
        assert_eq!(listed(&directory), [Gn(1)], "one is left, and one receives now");
        directory.apply(update(5, vec![left(1, 1)]));
        assert_eq!(listed(&directory), []);
        directory.apply(update(6, vec![only_sends(1, 0, true), DirectoryChange::Deleted(Gn(1))]));
        assert_eq!(listed(&directory), []);
    }

    #[test]
    fn a_route_report_that_comes_back_is_no_change() {
        let mut directory = DirectoryCache::default();
        directory.apply(update(3, vec![group(1, 3)]));
        directory.take_changes();
        directory.apply(update(4, vec![group(1, 3)]));
        assert_eq!(directory.take_changes(), Changes::default());
    }

    #[test]
    fn a_group_missing_in_a_new_snapshot_is_a_change() {
        let mut directory = DirectoryCache::default();
        directory.apply(update(3, vec![group(1, 3)]));
        directory.take_changes();
        directory.replace(Vec::new());
        assert_eq!(directory.take_changes(), Changes { groups: vec![Gn(1)], failed: true });
        assert!(directory.groups.is_empty());
    }
}
