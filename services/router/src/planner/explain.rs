//! Explains the route of a group: the answer to `route explain`, and the reasons in reports.

use std::collections::BTreeMap;

use fabricast_proto::v1;
use fabricast_routing::RouteReason;
use fabricast_topology::{Mgid, Peer, PortId};

use crate::directory_cache::{CachedGroup, DirectoryCache};
use crate::planner::Planner;

impl Planner {
    /// Explains the route of a group; `None` if there is no such group.
    pub(crate) fn explain(
        &self,
        directory: &DirectoryCache,
        name: &str,
    ) -> Option<v1::RouteExplanation> {
        let (gn, group) = directory.find(name)?;
        let plan = self.engine.plan();
        let mgid = Mgid(group.mgid);
        let mut explanation = v1::RouteExplanation {
            group: name.to_owned(),
            mgid: group.mgid,
            home_spanning_tree: plan.home(mgid).unwrap_or_default(),
            reason: self.special_reasons(mgid).text,
            ..Default::default()
        };
        let routed = plan.group(mgid).filter(|_| self.planned.mgid(gn).is_some());
        let shared = plan.virtual_group_of(mgid);
        let (Some(routed), Some(shared)) = (routed, shared) else {
            explanation.reason = self.refusal(gn, group).text;
            return Some(explanation);
        };
        explanation.color = plan.sender_colors(mgid).first().map(|color| u32::from(*color));
        if !routed.has_tree() || self.reach.missed(gn).is_some() {
            explanation.reason = self.route(gn, group).reason;
        }
        explanation.spanning_tree = Some(routed.part);
        explanation.virtual_group = Some(routed.virtual_group.0);
        explanation.cut_off_endpoints = self.cut_off(&routed);
        let names = names_by_mgid(directory);
        let others = shared.groups.iter().filter(|other| **other != mgid);
        explanation.shares_with =
            others.filter_map(|other| names.get(&other.0)).map(|name| (*name).clone()).collect();
        let trees = plan.virtual_group_trees(mgid);
        for (at, tree) in trees.iter().enumerate() {
            let is_listed = |port: &&PortId| {
                let is_endpoint = matches!(self.graph.peer(**port), Peer::Endpoint(_));
                is_endpoint && at > 0 && trees[0].ports.binary_search(port).is_ok()
            };
            let ports = tree.ports.iter().filter(|port| !is_listed(port));
            explanation.links.extend(ports.filter_map(|port| self.link(*port, tree.tree)));
        }
        let own = self.engine.group_trees(mgid);
        let root = own.first().map(|tree| self.graph.switch_name(tree.root).to_owned());
        explanation.root = root.unwrap_or_default();
        Some(explanation)
    }

    /// The link at a port of a tree. `None` where the link is listed elsewhere: links between
    /// switches only at their lower port.
    fn link(&self, port: PortId, tree: u8) -> Option<v1::TreeLink> {
        let graph = &self.graph;
        let switch_name = graph.switch_name(graph.switch_of(port)).to_owned();
        let (peer, peer_port) = match graph.peer(port) {
            Peer::Endpoint(endpoint) => (graph.endpoint_name(endpoint), 0),
            Peer::Switch(other) if port < other => {
                (graph.switch_name(graph.switch_of(other)), u32::from(graph.port_number(other)))
            }
            Peer::Switch(_) | Peer::None => return None,
        };
        let port = u32::from(graph.port_number(port));
        let tree = u32::from(tree);
        Some(v1::TreeLink { switch_name, port, peer: peer.to_owned(), peer_port, tree })
    }

    /// Reasons of a route that is not as the MGID says; empty if there are none.
    pub(super) fn special_reasons(&self, mgid: Mgid) -> ReportedReason {
        let plan = self.engine.plan();
        let moved = plan.moved();
        let found = moved.binary_search_by_key(&mgid, |moved| moved.mgid).ok();
        let moved = found.map(|at| RouteReason::Moved(moved[at]));
        let unprotected = plan.unprotected_of(mgid).first();
        let unprotected = unprotected.map(|one| RouteReason::Unprotected(*one));
        let reasons: Vec<RouteReason> = moved.into_iter().chain(unprotected).collect();
        self.reported(&reasons)
    }

    /// Reason of a group that has no route.
    pub(super) fn refusal(&self, gn: u64, group: &CachedGroup) -> ReportedReason {
        if let Some(reason) = self.refused.get(&gn) {
            return reason.clone();
        }
        let unrouted = self.engine.plan().unrouted();
        let found = unrouted.binary_search_by_key(&group.mgid, |one| one.mgid.0);
        let reason =
            found.map_or(RouteReason::NotPlanned, |at| RouteReason::Unrouted(unrouted[at]));
        self.reported(&[reason])
    }

    /// The form of some reasons in a report.
    pub(super) fn reported(&self, reasons: &[RouteReason]) -> ReportedReason {
        let code = reasons.first().map_or(v1::RouteReason::Unspecified, code);
        let texts: Vec<String> =
            reasons.iter().map(|reason| reason.display(&self.graph).to_string()).collect();
        ReportedReason { code, text: texts.join("; ") }
    }
}

/// Reasons of a route in a report: the code of the first, and the text of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReportedReason {
    pub(super) code: v1::RouteReason,
    pub(super) text: String,
}

impl ReportedReason {
    pub(super) fn set(self, route: &mut v1::Route) {
        route.set_reason_code(self.code);
        route.reason = self.text;
    }
}

const fn code(reason: &RouteReason) -> v1::RouteReason {
    match reason {
        RouteReason::WaitsForMembers => v1::RouteReason::WaitsForMembers,
        RouteReason::FewerThanTwoEndpoints => v1::RouteReason::FewerThanTwoEndpoints,
        RouteReason::WaitsForEntries => v1::RouteReason::WaitsForEntries,
        RouteReason::ExclusiveTreeShared { .. } => v1::RouteReason::ExclusiveTreeShared,
        RouteReason::Refused(_) => v1::RouteReason::Refused,
        RouteReason::Unrouted(_) => v1::RouteReason::Unrouted,
        RouteReason::Moved(_) => v1::RouteReason::Moved,
        RouteReason::Unprotected(_) => v1::RouteReason::Unprotected,
        RouteReason::MembersMissed(_) => v1::RouteReason::MembersMissed,
        RouteReason::NotPlanned => v1::RouteReason::NotPlanned,
    }
}

fn names_by_mgid(directory: &DirectoryCache) -> BTreeMap<u32, &String> {
    directory.groups.values().map(|group| (group.mgid, &group.name)).collect()
}
