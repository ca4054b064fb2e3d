//! Failover groups: packets of an endpoint take one of two trees, and the other one when the port
//! of the first is down.
//!
//! With fault tolerance and per-port tables, the entry of an endpoint's port leads up the two trees
//! of a group, for senders and receivers that number their packets. Programs of IP multicast do
//! not. So the bucket for the ways up is a group of type FAST_FAILOVER: the switch sends by its
//! first live port, and needs no controller for that.

use fabricast_topology::PortSet;

use super::{EntryKey, Mapping};
use crate::action::Action;
use crate::group::{ANY_GROUP, Bucket, GroupCommand, GroupDesc, GroupMod, GroupType};
use crate::message::Body;

/// Output ports of an entry, and of its two ways up the one to take first; without it, both.
type Content = (PortSet, Option<u8>);

/// The failover group of two ways, and the bucket that leads there.
pub(super) fn choice(group: u32, ways: [u8; 2]) -> (GroupDesc, Bucket) {
    let watching = |port: u8| Bucket { watch_port: port.into(), ..Bucket::output(port.into()) };
    let buckets = ways.map(watching).into();
    let leading = Bucket { actions: vec![Action::Group(group)], ..Bucket::output(0) };
    (GroupDesc { kind: GroupType::FastFailover, group, buckets }, leading)
}

/// Output ports of the group of an entry, and of its failover group the port that is first.
/// `None` if entries have no such groups.
pub(super) fn content(
    mapping: &Mapping,
    key: EntryKey,
    group: &GroupDesc,
    failover: Option<&GroupDesc>,
) -> Option<Content> {
    let mut out = PortSet::EMPTY;
    let mut insert = |port: u32| {
        let port = u8::try_from(port).ok().filter(|port| *port > 0 && !out.contains(*port))?;
        out.insert(port);
        Some(port)
    };
    let mut first = None;
    for bucket in &group.buckets {
        match bucket.actions[..] {
            [Action::Output(port)] => drop(insert(port)?),
            [Action::Group(id)] if first.is_none() && id == mapping.failover_group(key) => {
                let [preferred, other] = &failover?.buckets[..] else { return None };
                first = Some(insert(watched(preferred)?)?);
                insert(watched(other)?)?;
            }
            _ => return None,
        }
    }
    let is_whole = group.kind == GroupType::All && !out.is_empty();
    let is_choice = || {
        failover.is_some_and(|group| group.kind == GroupType::FastFailover)
            && mapping.ways(key, out).is_some()
    };
    (is_whole && (first.is_none() || is_choice())).then_some((out, first))
}

/// Changes of the groups of an entry: those that add and modify, with the new groups, and those
/// that remove, each in the order in which they are to be sent.
pub(crate) fn group_changes<'a>(
    was: &[GroupDesc],
    now: &'a [GroupDesc],
) -> (Vec<(&'a GroupDesc, Body)>, Vec<Body>) {
    let has = |groups: &[GroupDesc], group: u32| groups.iter().any(|one| one.group == group);
    let change = |one: &'a GroupDesc| {
        let is_known = has(was, one.group);
        let command = if is_known { GroupCommand::Modify } else { GroupCommand::Add };
        let (kind, group, buckets) = (one.kind, one.group, one.buckets.clone());
        (one, Body::GroupMod(GroupMod { command, kind, group, buckets }))
    };
    let gone = was.iter().rev().filter(|one| !has(now, one.group));
    (now.iter().map(change).collect(), gone.map(|one| group_removal(one.group)).collect())
}

/// Port of a bucket that watches it and sends there.
fn watched(bucket: &Bucket) -> Option<u32> {
    match bucket.actions[..] {
        [Action::Output(port)] if bucket.watch_port == port && bucket.watch_group == ANY_GROUP => {
            Some(port)
        }
        _ => None,
    }
}

pub(crate) fn group_removal(group: u32) -> Body {
    let (command, kind) = (GroupCommand::Delete, GroupType::All);
    Body::GroupMod(GroupMod { command, kind, group, buckets: Vec::new() })
}
