//! Explains the route of a group: the answer to `route explain`, and the reasons in reports.

use std::collections::BTreeMap;

use fabricast_groups::ids::{Gn, Revision};
use fabricast_groups::names::EndpointName;
use fabricast_groups::record::{self, Route, RouteState};
use fabricast_routing::{RouteReason, TreeLink, special_reasons, tree_links, unrouted_reason};
use fabricast_topology::{Mgid, SwitchId};

use crate::directory_cache::{CachedGroup, DirectoryCache};
use crate::planner::Planner;

/// Reason why a group is routed as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteExplanation {
    /// Name of the group.
    pub group: String,
    /// MGID of the group.
    pub mgid: u32,
    /// Color of its packets; `None` if it has no tree.
    pub color: Option<u16>,
    /// Spanning tree that its MGID stands for; 0 if MGIDs stand for none.
    pub home_spanning_tree: u32,
    /// Spanning tree that it is on; `None` also if MGIDs stand for none.
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
        explanation.spanning_tree = plan.home(mgid).map(|_| routed.part);
        explanation.virtual_group = Some(routed.virtual_group.0);
        explanation.cut_off = self.cut_off(&routed);
        let names = names_by_mgid(directory);
        let others = shared.groups.iter().filter(|other| **other != mgid);
        explanation.shares_with =
            others.filter_map(|other| names.get(other)).map(|name| (*name).to_owned()).collect();
        explanation.links = tree_links(&self.graph, plan, mgid);
        explanation.root = self.engine.group_trees(mgid).first().map(|tree| tree.root);
        Some(explanation)
    }

    /// Reasons of a route that is not as the MGID says; empty if there are none.
    pub(super) fn special_reasons(&self, mgid: Mgid) -> ReportedReason {
        self.reported(&special_reasons(self.engine.plan(), mgid))
    }

    /// Reason of a group that has no route.
    pub(super) fn refusal(&self, gn: Gn, group: &CachedGroup) -> ReportedReason {
        if let Some(reason) = self.refused.get(&gn) {
            return reason.clone();
        }
        let reason = unrouted_reason(self.engine.plan(), group.mgid);
        self.reported(&[reason.unwrap_or(RouteReason::NotPlanned)])
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
