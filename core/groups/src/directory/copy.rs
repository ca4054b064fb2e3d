//! Copies that share the records of a directory, for readers who take their time with them while
//! the directory changes.

use std::collections::btree_map;
use std::sync::Arc;

use super::Directory;
use crate::ids::{Gn, Pn, Revision};
use crate::job::JobRecord;
use crate::names::{JobName, NodeName};
use crate::record::{GroupRecord, MemberRecord, NodeRecord};

/// Nodes that are stepped over before one is looked up instead.
const STEPS: usize = 8;

/// All nodes, groups and members, as of one revision.
#[derive(Clone, Debug)]
pub struct DirectoryCopy {
    revision: Revision,
    nodes: Vec<Arc<NodeRecord>>,
    /// Each with the end of its members.
    groups: Vec<(Arc<GroupRecord>, usize)>,
    members: Vec<Arc<MemberRecord>>,
}

/// A group and its members with their nodes, as of one revision.
#[derive(Clone, Debug)]
pub struct GroupCopy {
    /// The revision of the records.
    pub revision: Revision,
    /// Record of the group.
    pub record: Arc<GroupRecord>,
    /// Node of its agent.
    pub agent: Option<Arc<NodeRecord>>,
    members: Vec<Arc<MemberRecord>>,
    /// By node, and not yet by PN.
    nodes: Vec<(Pn, Arc<NodeRecord>)>,
}

/// Copies a job.
pub fn copy_job(directory: &Directory, name: &JobName) -> Option<Arc<JobRecord>> {
    directory.jobs.get(name).map(Arc::clone)
}

/// Copies all nodes and jobs. Cost: some nanoseconds for each.
pub fn copy_jobs(directory: &Directory) -> (Vec<Arc<NodeRecord>>, Vec<Arc<JobRecord>>) {
    (directory.nodes.values().cloned().collect(), directory.jobs.values().cloned().collect())
}

/// Finds nodes whose names rise.
struct NodeCursor<'a> {
    directory: &'a Directory,
    next: Option<btree_map::Range<'a, NodeName, Arc<NodeRecord>>>,
}

impl<'a> NodeCursor<'a> {
    fn find(&mut self, name: &NodeName) -> Option<&'a Arc<NodeRecord>> {
        let mut near = self.next.iter_mut().flatten().take(STEPS);
        if let Some((at, node)) = near.find(|(at, _)| *at >= name)
            && at == name
        {
            return Some(node);
        }
        let mut next = self.directory.nodes.range(name..);
        let found = next.next();
        self.next = Some(next);
        found.filter(|(at, _)| *at == name).map(|(_, node)| node)
    }
}

impl DirectoryCopy {
    /// Copies all records. Cost: some nanoseconds for each node, group and membership.
    pub fn of(directory: &Directory) -> Self {
        let mut groups = Vec::with_capacity(directory.groups.len());
        let mut members = Vec::new();
        for group in directory.groups.values() {
            members.extend(group.members.values().cloned());
            groups.push((Arc::clone(&group.record), members.len()));
        }
        let nodes = directory.nodes.values().cloned().collect();
        Self { revision: directory.revision, nodes, groups, members }
    }

    /// Returns the revision of the records.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns all nodes by name.
    pub fn nodes(&self) -> &[Arc<NodeRecord>] {
        &self.nodes
    }

    /// Returns a node by its name.
    pub fn node(&self, name: &NodeName) -> Option<&NodeRecord> {
        let found = self.nodes.binary_search_by(|node| node.name.cmp(name)).ok()?;
        self.nodes.get(found).map(Arc::as_ref)
    }

    /// Returns the number of groups.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// Returns a group and its members by PN; groups are numbered from 0, ascending by GN.
    pub fn group(&self, index: usize) -> Option<(&GroupRecord, &[Arc<MemberRecord>])> {
        let begin = index.checked_sub(1).and_then(|before| self.groups.get(before));
        let begin = begin.map_or(0, |(_, end)| *end);
        let (record, end) = self.groups.get(index)?;
        Some((record, &self.members[begin..*end]))
    }
}

impl GroupCopy {
    /// Copies a group, also one with very many members; `None` if there is no such group. Cost:
    /// O(members).
    pub fn of(directory: &Directory, gn: Gn) -> Option<Self> {
        let group = directory.groups.get(&gn)?;
        let mut node = NodeCursor { directory, next: None };
        let mut last: Option<(&NodeName, Option<&Arc<NodeRecord>>)> = None;
        let nodes = group.processes.iter().filter_map(|member| {
            let name = &member.node;
            let found = match last {
                Some((known, found)) if known == name => found,
                _ => node.find(name),
            };
            last = Some((name, found));
            Some((member.pn, Arc::clone(found?)))
        });
        let nodes = nodes.collect();
        let agent = group.record.agent.as_ref().and_then(|agent| directory.nodes.get(agent));
        Some(Self {
            revision: directory.revision,
            record: Arc::clone(&group.record),
            agent: agent.map(Arc::clone),
            members: group.members.values().cloned().collect(),
            nodes,
        })
    }

    /// Returns the members by PN, each with its node.
    pub fn into_members(
        self,
    ) -> impl Iterator<Item = (Arc<MemberRecord>, Option<Arc<NodeRecord>>)> {
        let Self { members, mut nodes, .. } = self;
        nodes.sort_unstable_by_key(|(pn, _)| *pn);
        let mut nodes = nodes.into_iter().peekable();
        members.into_iter().map(move |member| {
            let node = nodes.next_if(|(pn, _)| *pn == member.pn).map(|(_, node)| node);
            (member, node)
        })
    }

    /// Returns the number of members.
    pub fn member_count(&self) -> usize {
        self.members.len()
    }
}
