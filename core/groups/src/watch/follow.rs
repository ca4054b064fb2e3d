//! Follows the records: which nodes are up, and which host group agents.

use std::collections::BTreeSet;

use super::NodeWatch;
use crate::directory::Directory;
use crate::ids::{Gn, Incarnation, Moment};
use crate::names::{EndpointName, NodeName};
use crate::record::{Change, NodeRecord, NodeState};

#[cfg(test)]
mod tests;

/// Most nodes of one page.
const PAGE: usize = 1_024;

/// A node in one of its incarnations.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeIncarnation {
    /// Name of the node.
    pub node: NodeName,
    /// Number of the incarnation.
    pub number: Incarnation,
}

impl NodeIncarnation {
    /// Returns the present incarnation of a node.
    pub fn of(node: &NodeRecord) -> Self {
        Self { node: node.name.clone(), number: node.incarnation }
    }
}

/// The records that a [`NodeWatch`] looks up, a little at a time: they may change in between, so
/// that nobody has to keep them for all that it does.
pub trait NodeLookup {
    /// Returns whether a node is up in this incarnation.
    fn is_up(&self, incarnation: &NodeIncarnation) -> bool;

    /// Returns whether a node hosts group agents in this incarnation.
    fn hosts_agents(&self, incarnation: &NodeIncarnation) -> bool;

    /// Returns whether a node has memberships.
    fn is_member(&self, node: &NodeName) -> bool;

    /// Returns the first endpoint of a node.
    fn first_endpoint(&self, node: &NodeName) -> Option<EndpointName>;

    /// Returns a page of the nodes that are up and follow `after` by name; none at their end.
    fn up_after(&self, after: Option<&NodeName>) -> Vec<NodeIncarnation>;

    /// Returns a page of the nodes that host group agents and follow `after` by name; none at their
    /// end.
    fn hosts_after(&self, after: Option<&NodeName>) -> Vec<NodeIncarnation>;
}

impl NodeLookup for Directory {
    fn is_up(&self, incarnation: &NodeIncarnation) -> bool {
        let node = self.node(&incarnation.node).filter(|node| node.state == NodeState::Up);
        node.is_some_and(|node| node.incarnation == incarnation.number)
    }

    fn hosts_agents(&self, incarnation: &NodeIncarnation) -> bool {
        let node = self.node(&incarnation.node).filter(|node| self.is_host(&node.name));
        node.is_some_and(|node| node.incarnation == incarnation.number)
    }

    fn is_member(&self, node: &NodeName) -> bool {
        self.memberships(node).next().is_some()
    }

    fn first_endpoint(&self, node: &NodeName) -> Option<EndpointName> {
        self.node(node)?.endpoints.first().cloned()
    }

    fn up_after(&self, after: Option<&NodeName>) -> Vec<NodeIncarnation> {
        let up = self.nodes_after(after).filter(|node| node.state == NodeState::Up);
        up.map(NodeIncarnation::of).take(PAGE).collect()
    }

    fn hosts_after(&self, after: Option<&NodeName>) -> Vec<NodeIncarnation> {
        let hosts = self.host_names_after(after).filter_map(|name| self.node(name));
        hosts.map(NodeIncarnation::of).take(PAGE).collect()
    }
}

/// Returns the incarnations of nodes that a change is about, for which [`NodeWatch::follow`] is
/// called once it is made.
///
/// - `directory`: the records without the change.
pub fn affected_incarnations(directory: &Directory, change: &Change) -> Vec<NodeIncarnation> {
    let incarnation = |node: &NodeName| directory.node(node).map(NodeIncarnation::of);
    let agent = |gn: Gn| directory.group(gn)?.agent.as_ref();
    match change {
        Change::GroupPut(group) => {
            let (before, after) = (agent(group.gn), group.agent.as_ref());
            let changed = before.into_iter().chain(after).filter(|_| before != after);
            changed.filter_map(incarnation).collect()
        }
        Change::GroupDeleted(gn) => agent(*gn).and_then(incarnation).into_iter().collect(),
        Change::NodePut(node) => {
            incarnation(&node.name).into_iter().chain([NodeIncarnation::of(node)]).collect()
        }
        Change::NodeRemoved(name) => incarnation(name).into_iter().collect(),
        Change::MemberPut(_)
        | Change::MemberDeleted(_)
        | Change::MgidRetired(..)
        | Change::MgidReleased(_)
        | Change::JobPut(_)
        | Change::JobDeleted(_)
        | Change::RequestPut(_)
        | Change::RequestDeleted(_)
        | Change::NextGnPut(_)
        | Change::FirstIncarnationPut(_)
        | Change::RevisionPut(_) => Vec::new(),
    }
}

impl NodeWatch {
    /// Follows a change of the records that is about an incarnation of a node: it is watched with
    /// the detector if it hosts group agents or is suspected, and only then. Cost: logarithmic.
    pub fn follow(
        &mut self,
        now: Moment,
        incarnation: &NodeIncarnation,
        directory: &impl NodeLookup,
    ) {
        let (is_up, is_host) = (directory.is_up(incarnation), directory.hosts_agents(incarnation));
        if is_host || !is_up {
            self.suspects.remove(incarnation);
        }
        if !is_up {
            self.disruption.forget(incarnation);
            self.block_holds.kept.remove(incarnation);
        }
        let is_watched = self.detector.health(incarnation).is_some();
        if is_host && !is_watched {
            self.detector.watch(incarnation.clone(), now);
        } else if is_watched && !is_host && !self.suspects.contains(incarnation) {
            self.disruption.release(incarnation);
            self.detector.unwatch(incarnation);
        }
    }

    /// The same of all nodes, as at the start. Cost: the hosts, and those that it knows.
    pub fn follow_hosts(&mut self, now: Moment, directory: &impl NodeLookup) {
        let mut incarnations = self.known();
        let mut after: Option<NodeName> = None;
        loop {
            let page = directory.hosts_after(after.as_ref());
            let Some(last) = page.last() else { break };
            after = Some(last.node.clone());
            incarnations.extend(page);
        }
        incarnations.iter().for_each(|incarnation| self.follow(now, incarnation, directory));
    }

    /// All incarnations that it keeps something of, but for deadlines of reports.
    fn known(&self) -> BTreeSet<NodeIncarnation> {
        let disruption = &self.disruption;
        let suspected = self.suspects.iter().chain(&disruption.held).chain(&disruption.again);
        let kept = disruption.answered.keys().chain(self.block_holds.kept.keys());
        self.detector.peers().chain(suspected).chain(kept).cloned().collect()
    }
}
