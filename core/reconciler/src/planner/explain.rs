//! Explains the route of a group: the answer to `route explain`, and the reasons in reports.

use std::collections::BTreeMap;

use fabricast_groups::ids::{Gn, Revision};
use fabricast_groups::names::EndpointName;
use fabricast_groups::record::{self, Route, RouteState};
use fabricast_routing::RouteReason;
use fabricast_topology::{Mgid, Peer, PortId, SwitchId};

use crate::directory_cache::{CachedGroup, DirectoryCache};
use crate::planner::Planner;

/// Why a group is routed as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteExplanation {
    /// Name of the group.
    pub group: String,
    /// Its MGID.
    pub mgid: u32,
    /// Color of its packets; `None` if it has no tree.
    pub color: Option<u16>,
    /// Spanning tree that its MGID stands for.
    pub home_spanning_tree: u32,
    /// Spanning tree that it is on.
    pub spanning_tree: Option<u32>,
    /// Highest switch of its tree.
    pub root: Option<SwitchId>,
    /// Number of its virtual group.
    pub virtual_group: Option<u32>,
    /// Names of the other groups in it.
    pub shares_with: Vec<String>,
    /// Member endpoints that the tree leaves out.
    pub cut_off: Vec<EndpointName>,
    /// Links of its trees.
    pub links: Vec<TreeLink>,
    /// Reason why it is on another tree than its MGID says, or has none; empty otherwise.
    pub reason: String,
}

/// A link of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeLink {
    /// Its port; of two switches the lower one.
    pub port: PortId,
    /// Number of the tree: 0, or 1 for the second tree of fault tolerance.
    pub tree: u8,
}

impl Planner {
    /// Explains the route of a group; `None` if there is no such group.
    pub(crate) fn explain(
        &self,
        directory: &DirectoryCache,
        name: &str,
    ) -> Option<RouteExplanation> {
        let (gn, group) = directory.find(name)?;
        let plan = self.engine.plan();
        let mgid = group.mgid;
        let mut explanation = RouteExplanation {
            group: name.to_owned(),
            mgid: mgid.0,
            home_spanning_tree: plan.home(mgid).unwrap_or_default(),
            reason: self.special_reasons(mgid).text,
            ..RouteExplanation::default()
        };
        let routed = plan.group(mgid).filter(|_| self.planned.mgid(gn).is_some());
        let shared = plan.virtual_group_of(mgid);
        let (Some(routed), Some(shared)) = (routed, shared) else {
            explanation.reason = self.refusal(gn, group).text;
            return Some(explanation);
        };
        explanation.color = plan.sender_colors(mgid).first().copied();
        if !routed.has_tree() || self.reach.missed(gn).is_some() {
            explanation.reason = self.route(gn, group).reason;
        }
        explanation.spanning_tree = Some(routed.part);
        explanation.virtual_group = Some(routed.virtual_group.0);
        explanation.cut_off = self.cut_off(&routed);
        let names = names_by_mgid(directory);
        let others = shared.groups.iter().filter(|other| **other != mgid);
        explanation.shares_with =
            others.filter_map(|other| names.get(other)).map(|name| (*name).to_owned()).collect();
        let trees = plan.virtual_group_trees(mgid);
        for (at, tree) in trees.iter().enumerate() {
            let is_listed = |port: &PortId| match self.graph.peer(*port) {
                Peer::Endpoint(_) => at > 0 && trees[0].ports.binary_search(port).is_ok(),
                Peer::Switch(other) => other < *port,
                Peer::None => true,
            };
            let ports = tree.ports.iter().copied().filter(|port| !is_listed(port));
            explanation.links.extend(ports.map(|port| TreeLink { port, tree: tree.tree }));
        }
        explanation.root = self.engine.group_trees(mgid).first().map(|tree| tree.root);
        Some(explanation)
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
    pub(super) fn refusal(&self, gn: Gn, group: &CachedGroup) -> ReportedReason {
        if let Some(reason) = self.refused.get(&gn) {
            return reason.clone();
        }
        let unrouted = self.engine.plan().unrouted();
        let found = unrouted.binary_search_by_key(&group.mgid, |one| one.mgid);
        let reason =
            found.map_or(RouteReason::NotPlanned, |at| RouteReason::Unrouted(unrouted[at]));
        self.reported(&[reason])
    }

    /// The form of some reasons in a report.
    pub(super) fn reported(&self, reasons: &[RouteReason]) -> ReportedReason {
        let code = reasons.first().map_or(record::RouteReason::Unspecified, code);
        let texts: Vec<String> =
            reasons.iter().map(|reason| reason.display(&self.graph).to_string()).collect();
        ReportedReason { code, text: texts.join("; ") }
    }
}

/// Reasons of a route in a report: the code of the first, and the text of all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ReportedReason {
    pub(super) code: record::RouteReason,
    pub(super) text: String,
}

impl ReportedReason {
    /// A route for these reasons, without a tree.
    pub(super) fn route(self, revision: Revision) -> Route {
        Route {
            revision,
            state: RouteState::UnicastOnly,
            reason: self.text,
            reason_code: self.code,
            cut_off: Vec::new(),
        }
    }
}

const fn code(reason: &RouteReason) -> record::RouteReason {
    match reason {
        RouteReason::WaitsForMembers => record::RouteReason::WaitsForMembers,
        RouteReason::FewerThanTwoEndpoints => record::RouteReason::FewerThanTwoEndpoints,
        RouteReason::WaitsForEntries => record::RouteReason::WaitsForEntries,
        RouteReason::ExclusiveTreeShared { .. } => record::RouteReason::ExclusiveTreeShared,
        RouteReason::Refused(_) => record::RouteReason::Refused,
        RouteReason::Unrouted(_) => record::RouteReason::Unrouted,
        RouteReason::Moved(_) => record::RouteReason::Moved,
        RouteReason::Unprotected(_) => record::RouteReason::Unprotected,
        RouteReason::MembersMissed(_) => record::RouteReason::MembersMissed,
        RouteReason::NotPlanned => record::RouteReason::NotPlanned,
    }
}

fn names_by_mgid(directory: &DirectoryCache) -> BTreeMap<Mgid, &str> {
    directory.groups.values().map(|group| (group.mgid, group.name())).collect()
}
