//! The route service's copy of the TIC's records, fed by the watch.
//!
//! It knows which groups changed since it was last asked, so that planning touches only those.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_proto::v1;
use fabricast_proto::v1::directory_change::Kind;

/// One group as the TIC records it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MirrorGroup {
    pub(crate) name: String,
    pub(crate) mgid: u32,
    pub(crate) exclusive: bool,
    /// It still waits for members, and has no route before they are there.
    pub(crate) incomplete: bool,
    pub(crate) members_revision: u64,
    /// The route that the TIC, and through it every sender, was told last.
    pub(crate) route: Option<v1::Route>,
    /// Endpoint of each member, by PN. Two members may share one.
    pub(crate) endpoints: BTreeMap<u32, String>,
    /// The revision of each member's join, by PN: no older route serves it.
    pub(crate) joined: BTreeMap<u32, u64>,
}

/// The records at one revision.
#[derive(Debug, Default)]
pub(crate) struct Mirror {
    pub(crate) revision: u64,
    pub(crate) groups: BTreeMap<u64, MirrorGroup>,
    pub(crate) failed: Vec<v1::Element>,
    /// Digest of the topology that they are of; empty if the TIC does not say.
    topology_sha256: Vec<u8>,
    dirty: BTreeSet<u64>,
    failed_changed: bool,
    /// Groups may have ended whose MGIDs the TIC still holds back.
    pub(crate) mgids_held_back: bool,
}

/// What changed since the last call of [`Mirror::take_changes`].
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// GNs of groups that are new, changed or gone, ascending.
    pub(crate) groups: Vec<u64>,
    /// Whether the failed parts of the fabric changed.
    pub(crate) failed: bool,
}

impl Mirror {
    /// Takes over one message of the watch.
    ///
    /// Snapshot messages go into a fresh mirror; what is missing in the snapshot is gone.
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
                // Our own route reports come back as group records; they are no news.
                let news = group.mgid != record.mgid
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
                if news {
                    self.dirty.insert(record.gn);
                }
            }
            Kind::DeletedGn(gn) => {
                self.groups.remove(&gn);
                self.dirty.insert(gn);
                self.mgids_held_back = true;
            }
            Kind::Joined(v1::MemberChange { gn, member: Some(member) }) => {
                let group = self.groups.entry(gn).or_default();
                group.endpoints.insert(member.pn, member.endpoint);
                group.joined.insert(member.pn, member.joined_revision);
                self.dirty.insert(gn);
            }
            Kind::Left(v1::MemberChange { gn, member: Some(member) }) => {
                if let Some(group) = self.groups.get_mut(&gn) {
                    group.endpoints.remove(&member.pn);
                    group.joined.remove(&member.pn);
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

    /// Replaces the records by those of a snapshot; everything that differs counts as changed.
    pub(crate) fn replace_with(&mut self, snapshot: Self) {
        let gone: Vec<u64> = self.groups.keys().copied().collect();
        self.dirty.extend(gone);
        self.dirty.extend(snapshot.groups.keys());
        self.failed_changed = true;
        self.mgids_held_back = true;
        self.revision = snapshot.revision;
        self.groups = snapshot.groups;
        self.failed = snapshot.failed;
        self.topology_sha256 = snapshot.topology_sha256;
    }

    /// Tells whether the records are of another topology than that with this digest.
    pub(crate) fn is_of_other_topology(&self, sha256: &[u8]) -> bool {
        !self.topology_sha256.is_empty() && self.topology_sha256 != sha256
    }

    /// Hands over what changed and forgets it.
    pub(crate) fn take_changes(&mut self) -> Changes {
        Changes {
            groups: std::mem::take(&mut self.dirty).into_iter().collect(),
            failed: std::mem::take(&mut self.failed_changed),
        }
    }

    /// The group of that name.
    pub(crate) fn find(&self, name: &str) -> Option<(u64, &MirrorGroup)> {
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
        let mut mirror = Mirror::default();
        mirror.apply(message(3, vec![group(1, 3), Kind::Joined(member(1, 0, "a"))]));
        assert_eq!(mirror.take_changes().groups, [1]);
        assert_eq!(mirror.take_changes(), Changes::default());
        mirror.apply(message(4, vec![Kind::Left(member(1, 0, "a"))]));
        assert!(mirror.groups[&1].endpoints.is_empty());
        assert_eq!((mirror.take_changes().groups, mirror.revision), (vec![1], 4));
    }

    #[test]
    fn a_route_report_that_comes_back_is_no_change() {
        let mut mirror = Mirror::default();
        mirror.apply(message(3, vec![group(1, 3)]));
        mirror.take_changes();
        mirror.apply(message(4, vec![group(1, 3)]));
        assert_eq!(mirror.take_changes(), Changes::default());
    }

    #[test]
    fn a_group_missing_in_a_new_snapshot_is_a_change() {
        let mut mirror = Mirror::default();
        mirror.apply(message(3, vec![group(1, 3)]));
        mirror.take_changes();
        mirror.replace_with(Mirror::default());
        assert_eq!(mirror.take_changes(), Changes { groups: vec![1], failed: true });
        assert!(mirror.groups.is_empty());
    }
}
