//! Facts about the route of a group that a plan tells by itself: its links, and its reasons.

use fabricast_topology::{Graph, Mgid, Peer, PortId};

use crate::plan::Plan;
use crate::route_reason::RouteReason;

/// A link of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeLink {
    /// Its port; of two switches the lower one.
    pub port: PortId,
    /// Number of the tree: 0, or 1 for the second tree of fault tolerance.
    pub tree: u8,
}

/// Lists the links of the trees that the packets of a group travel on, each once.
#[must_use]
pub fn tree_links(graph: &Graph, plan: &Plan, mgid: Mgid) -> Vec<TreeLink> {
    let trees = plan.virtual_group_trees(mgid);
    let mut links = Vec::new();
    for (at, tree) in trees.iter().enumerate() {
        let is_listed = |port: &PortId| match graph.peer(*port) {
            Peer::Endpoint(_) => at > 0 && trees[0].ports.binary_search(port).is_ok(),
            Peer::Switch(other) => other < *port,
            Peer::None => true,
        };
        let ports = tree.ports.iter().copied().filter(|port| !is_listed(port));
        links.extend(ports.map(|port| TreeLink { port, tree: tree.tree }));
    }
    links
}

/// Reasons of a route that is not as the MGID says; empty if there are none.
#[must_use]
pub fn special_reasons(plan: &Plan, mgid: Mgid) -> Vec<RouteReason> {
    let moved = plan.moved();
    let found = moved.binary_search_by_key(&mgid, |moved| moved.mgid).ok();
    let moved = found.map(|at| RouteReason::Moved(moved[at]));
    let unprotected = plan.unprotected_of(mgid).first();
    let unprotected = unprotected.map(|one| RouteReason::Unprotected(*one));
    moved.into_iter().chain(unprotected).collect()
}

/// Reason why the engine found no tree for a group; none if it did, or does not know the group.
#[must_use]
pub fn unrouted_reason(plan: &Plan, mgid: Mgid) -> Option<RouteReason> {
    let unrouted = plan.unrouted();
    let found = unrouted.binary_search_by_key(&mgid, |one| one.mgid).ok()?;
    Some(RouteReason::Unrouted(unrouted[found]))
}
