//! A copy of the TIC's records, kept up to date by the watch.
//!
//! The cache also keeps which groups changed since the last plan, so that planning touches only
//! those.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_proto::v1;
use fabricast_proto::v1::directory_change::Kind;

/// One group as the TIC records it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CachedGroup {
    pub(crate) name: String,
    pub(crate) mgid: u32,
    pub(crate) exclusive: bool,
    /// True while it waits for members; until they are there it has no route.
    pub(crate) incomplete: bool,
    pub(crate) members_revision: u64,
    /// Route as reported last; senders hear of it through the TIC.
    pub(crate) route: Option<v1::Route>,
    /// Endpoint of each member, by PN. Members may share an endpoint.
    pub(crate) endpoints: BTreeMap<u32, String>,
    /// Revision of each member's join, by PN. A route of an older revision does not serve it.
    pub(crate) joined: BTreeMap<u32, u64>,
}

/// The records at one revision.
#[derive(Debug, Default)]
pub(crate) struct DirectoryCache {
    pub(crate) revision: u64,
    pub(crate) groups: BTreeMap<u64, CachedGroup>,
    pub(crate) failed: Vec<v1::Element>,
    /// Digest of the topology of the records; empty if the TIC does not send it.
    topology_sha256: Vec<u8>,
    /// GNs of the exclusive groups.
    exclusive: BTreeSet<u64>,
    /// GNs of the groups with a member at an endpoint, by its name.
    gns_by_endpoint: BTreeMap<String, BTreeSet<u64>>,
    dirty: BTreeSet<u64>,
    failed_changed: bool,
    /// True if groups may have ended whose MGIDs the TIC still holds back.
    pub(crate) mgids_held_back: bool,
}

/// Changes since the last call of [`DirectoryCache::take_changes`].
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// GNs of groups that are new, changed or gone, ascending.
    pub(crate) groups: Vec<u64>,
    /// True if the failed parts of the fabric changed.
    pub(crate) failed: bool,
}

impl DirectoryCache {
    /// Applies one message of the watch. Messages of a snapshot go into an empty cache, which then
    /// goes to [`Self::replace_with`].
    pub(crate) fn apply(&mut self, message: v1::WatchDirectoryResponse) {
        if !message.topology_sha256.is_empty() {
            self.topology_sha256 = message.topology_sha256;
        }
        for change in message.changes.into_iter().filter_map(|change| change.kind) {
            self.apply_change(change);
        }
        self.revision = self.revision.max(message.revision);
    }

    fn apply_change(&mut self, change: Kind) {
        match change {
            Kind::Group(record) => {
                let group = self.groups.entry(record.gn).or_default();
                // Our own route reports come back as group records; they change nothing.
                let is_changed = group.mgid != record.mgid
                    || group.name != record.name
                    || group.exclusive != record.exclusive
                    || group.incomplete != record.incomplete
                    || group.members_revision != record.members_revision;
                group.name = record.name;
                group.mgid = record.mgid;
                group.exclusive = record.exclusive;
                group.incomplete = record.incomplete;
                group.members_revision = record.members_revision;
                group.route = record.route;
                if record.exclusive {
                    self.exclusive.insert(record.gn);
                } else {
                    self.exclusive.remove(&record.gn);
                }
                if is_changed {
                    self.dirty.insert(record.gn);
                }
            }
            Kind::DeletedGn(gn) => {
                self.remove(gn);
                self.dirty.insert(gn);
                self.mgids_held_back = true;
            }
            Kind::Joined(v1::MemberChange { gn, member: Some(member) }) => {
                let group = self.groups.entry(gn).or_default();
                let before = group.endpoints.insert(member.pn, member.endpoint.clone());
                group.joined.insert(member.pn, member.joined_revision);
                if let Some(before) = before {
                    self.forget_endpoint(gn, &before);
                }
                self.gns_by_endpoint.entry(member.endpoint).or_default().insert(gn);
                self.dirty.insert(gn);
            }
            Kind::Left(v1::MemberChange { gn, member: Some(member) }) => {
                if let Some(group) = self.groups.get_mut(&gn) {
                    let endpoint = group.endpoints.remove(&member.pn);
                    group.joined.remove(&member.pn);
                    if let Some(endpoint) = endpoint {
                        self.forget_endpoint(gn, &endpoint);
                    }
                }
                self.dirty.insert(gn);
            }
            Kind::FailedElements(list) => {
                self.failed = list.elements;
                self.failed_changed = true;
            }
            Kind::Joined(_) | Kind::Left(_) | Kind::Node(_) => {}
        }
    }

    /// Replaces the records by a snapshot. All groups, old and new, count as changed.
    pub(crate) fn replace_with(&mut self, snapshot: Self) {
        let gone: Vec<u64> = self.groups.keys().copied().collect();
        self.dirty.extend(gone);
        self.dirty.extend(snapshot.groups.keys());
        self.failed_changed = true;
        self.mgids_held_back = true;
        self.revision = snapshot.revision;
        self.groups = snapshot.groups;
        self.exclusive = snapshot.exclusive;
        self.gns_by_endpoint = snapshot.gns_by_endpoint;
        self.failed = snapshot.failed;
        self.topology_sha256 = snapshot.topology_sha256;
    }

    /// Removes a group.
    pub(crate) fn remove(&mut self, gn: u64) {
        self.exclusive.remove(&gn);
        for endpoint in self.groups.remove(&gn).into_iter().flat_map(|group| group.endpoints) {
            self.forget_endpoint(gn, &endpoint.1);
        }
    }

    /// Adds or replaces a group.
    #[cfg(test)]
    pub(crate) fn put(&mut self, gn: u64, group: CachedGroup) {
        self.remove(gn);
        for endpoint in group.endpoints.values() {
            self.gns_by_endpoint.entry(endpoint.clone()).or_default().insert(gn);
        }
        self.exclusive.extend(group.exclusive.then_some(gn));
        self.groups.insert(gn, group);
    }

    /// Removes an endpoint of a group from the index, unless another member is there.
    fn forget_endpoint(&mut self, gn: u64, endpoint: &str) {
        let mut others = self.groups.get(&gn).into_iter().flat_map(|one| one.endpoints.values());
        if others.any(|other| other == endpoint) {
            return;
        }
        if let Some(gns) = self.gns_by_endpoint.get_mut(endpoint) {
            gns.remove(&gn);
            if gns.is_empty() {
                self.gns_by_endpoint.remove(endpoint);
            }
        }
    }

    /// GNs of the exclusive groups, rising.
    pub(crate) fn exclusive(&self) -> impl Iterator<Item = u64> {
        self.exclusive.iter().copied()
    }

    /// Groups with a member at an endpoint: GN and group.
    pub(crate) fn groups_at(&self, endpoint: &str) -> impl Iterator<Item = (u64, &CachedGroup)> {
        let gns = self.gns_by_endpoint.get(endpoint).into_iter().flatten();
        gns.filter_map(|gn| Some((*gn, self.groups.get(gn)?)))
    }

    /// True if the records belong to another topology than the one with this digest.
    pub(crate) fn is_of_other_topology(&self, sha256: &[u8]) -> bool {
        !self.topology_sha256.is_empty() && self.topology_sha256 != sha256
    }

    /// Returns what changed since the last call.
    pub(crate) fn take_changes(&mut self) -> Changes {
        Changes {
            groups: std::mem::take(&mut self.dirty).into_iter().collect(),
            failed: std::mem::take(&mut self.failed_changed),
        }
    }

    /// Finds a group by its name: GN and group.
    pub(crate) fn find(&self, name: &str) -> Option<(u64, &CachedGroup)> {
        self.groups.iter().find(|(_, group)| group.name == name).map(|(gn, group)| (*gn, group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(revision: u64, kinds: Vec<Kind>) -> v1::WatchDirectoryResponse {
        let changes =
            kinds.into_iter().map(|kind| v1::DirectoryChange { kind: Some(kind) }).collect();
        v1::WatchDirectoryResponse { revision, changes, ..Default::default() }
    }

    fn group(gn: u64, members_revision: u64) -> Kind {
        Kind::Group(v1::Group { gn, mgid: 7, members_revision, ..Default::default() })
    }

    fn member(gn: u64, pn: u32, endpoint: &str) -> v1::MemberChange {
        let endpoint = endpoint.to_owned();
        v1::MemberChange { gn, member: Some(v1::Member { pn, endpoint, ..Default::default() }) }
    }

    #[test]
    fn joins_and_leaves_are_followed_and_reported_once() {
        let mut directory = DirectoryCache::default();
        directory.apply(message(3, vec![group(1, 3), Kind::Joined(member(1, 0, "a"))]));
        assert_eq!(directory.take_changes().groups, [1]);
        assert_eq!(directory.take_changes(), Changes::default());
        directory.apply(message(4, vec![Kind::Left(member(1, 0, "a"))]));
        assert!(directory.groups[&1].endpoints.is_empty());
        assert_eq!((directory.take_changes().groups, directory.revision), (vec![1], 4));
    }

    #[test]
    fn groups_are_found_by_the_endpoints_of_their_members() {
        let mut directory = DirectoryCache::default();
        let at = |directory: &DirectoryCache, endpoint| -> Vec<u64> {
            directory.groups_at(endpoint).map(|(gn, _)| gn).collect()
        };
        let members = [member(1, 0, "a"), member(1, 1, "a"), member(1, 2, "b"), member(2, 0, "a")];
        let joined = members.iter().cloned().map(Kind::Joined);
        directory.apply(message(3, [group(1, 3), group(2, 3)].into_iter().chain(joined).collect()));
        assert_eq!((at(&directory, "a"), at(&directory, "b")), (vec![1, 2], vec![1]));
        directory.apply(message(4, vec![Kind::Left(member(1, 0, "a"))]));
        assert_eq!(at(&directory, "a"), [1, 2], "the other member is still there");
        directory.apply(message(5, vec![Kind::Joined(member(1, 1, "b"))]));
        assert_eq!((at(&directory, "a"), at(&directory, "b")), (vec![2], vec![1]));
        directory.apply(message(6, vec![Kind::DeletedGn(1)]));
        assert_eq!((at(&directory, "a"), at(&directory, "b")), (vec![2], vec![]));
        directory.replace_with(DirectoryCache::default());
        assert!(at(&directory, "a").is_empty());
    }

    #[test]
    fn a_route_report_that_comes_back_is_no_change() {
        let mut directory = DirectoryCache::default();
        directory.apply(message(3, vec![group(1, 3)]));
        directory.take_changes();
        directory.apply(message(4, vec![group(1, 3)]));
        assert_eq!(directory.take_changes(), Changes::default());
    }

    #[test]
    fn a_group_missing_in_a_new_snapshot_is_a_change() {
        let mut directory = DirectoryCache::default();
        directory.apply(message(3, vec![group(1, 3)]));
        directory.take_changes();
        directory.replace_with(DirectoryCache::default());
        assert_eq!(directory.take_changes(), Changes { groups: vec![1], failed: true });
        assert!(directory.groups.is_empty());
    }
}
