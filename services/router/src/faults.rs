//! Plans the groups with other faults, and encodes what changes.

use std::collections::BTreeMap;

use fabricast_proto::v1;
use fabricast_reconciler::FailedElement;
use fabricast_routing::{
    FaultPreview, Plan, PlannedFabric, PreviewError, RouteReason, metrics, preview_faults,
};
use fabricast_topology::{Faults, Graph, Mgid, Peer, PortId};
use thiserror::Error;

use crate::wire::{decode_element, encode_link};

/// Most changes of an answer.
const MOST_CHANGES: usize = 1_000;

/// The groups as they are planned, and their names in the same order.
#[derive(Debug)]
pub(crate) struct FaultQuery {
    pub(crate) now: PlannedFabric,
    pub(crate) names: Vec<String>,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub(crate) enum FaultsError {
    /// The topology does not have a part.
    #[error("failed, healed: the topology has no such part")]
    UnknownElement,
    /// The plan cannot be made again.
    #[error(transparent)]
    Preview(#[from] PreviewError),
}

impl FaultQuery {
    /// Plans the groups; takes up to some seconds.
    pub(crate) fn answer(
        self,
        request: &v1::PlanFaultsRequest,
    ) -> Result<v1::PlanFaultsResponse, FaultsError> {
        let graph = &self.now.graph;
        let mut faults = self.now.faults.clone();
        for (elements, fails) in [(&request.healed, false), (&request.failed, true)] {
            for element in elements {
                let element = decode_element(graph, element).ok_or(FaultsError::UnknownElement)?;
                change(graph, &mut faults, element, fails);
            }
        }
        let preview = preview_faults(&self.now, faults)?;
        let homes = self.now.groups.iter().map(|group| group.home);
        let names: BTreeMap<Mgid, &str> =
            homes.zip(self.names.iter().map(String::as_str)).collect();
        let mut changed: Vec<Mgid> = preview.changed.clone();
        changed.sort_by_key(|mgid| names.get(mgid));
        let encode = |mgid: &Mgid| {
            let explain = |plan: &Plan| {
                let name = names.get(mgid).copied().unwrap_or_default();
                let has_links = name == request.links_of;
                explanation(
                    graph,
                    plan,
                    *mgid,
                    v1::RouteExplanation {
                        group: name.to_owned(),
                        links: if has_links { links(graph, plan, *mgid) } else { Vec::new() },
                        ..Default::default()
                    },
                )
            };
            let (before, mut after) = (explain(&preview.before), explain(&preview.after));
            if let Some(kept) = preview.kept_out.iter().find(|kept| kept.mgid == *mgid) {
                let trees = preview.after.part_counts();
                let reason = RouteReason::ExclusiveTreeShared { others: kept.others, trees };
                after.reason = reason.display(graph).to_string();
            }
            v1::RouteChange { before: Some(before), after: Some(after) }
        };
        let changes = changed.iter().take(MOST_CHANGES).map(encode).collect();
        let FaultPreview { before, after, .. } = &preview;
        Ok(v1::PlanFaultsResponse {
            changes,
            changed_groups: u32::try_from(changed.len()).unwrap_or(u32::MAX),
            before: Some(figures(graph, before)),
            after: Some(figures(graph, after)),
        })
    }
}

fn change(graph: &Graph, faults: &mut Faults, element: FailedElement, fails: bool) {
    match (element, fails) {
        (FailedElement::Link(port), true) => faults.fail_link(graph, port),
        (FailedElement::Link(port), false) => faults.heal_link(graph, port),
        (FailedElement::Switch(switch), true) => faults.fail_switch(switch),
        (FailedElement::Switch(switch), false) => faults.heal_switch(switch),
        (FailedElement::Endpoint(endpoint), true) => faults.fail_endpoint(endpoint),
        (FailedElement::Endpoint(endpoint), false) => faults.heal_endpoint(endpoint),
    };
}

/// Fills in the route of a group in a plan.
///
/// - `named`: its name, and the links if they are wanted.
fn explanation(
    graph: &Graph,
    plan: &Plan,
    mgid: Mgid,
    named: v1::RouteExplanation,
) -> v1::RouteExplanation {
    let mut reasons: Vec<RouteReason> = Vec::new();
    let find = |moved: &[fabricast_routing::Moved]| {
        moved.binary_search_by_key(&mgid, |moved| moved.mgid).ok()
    };
    reasons.extend(find(plan.moved()).map(|at| RouteReason::Moved(plan.moved()[at])));
    reasons.extend(plan.unprotected_of(mgid).first().map(|one| RouteReason::Unprotected(*one)));
    let unrouted = plan.unrouted().binary_search_by_key(&mgid, |one| one.mgid).ok();
    reasons.extend(unrouted.map(|at| RouteReason::Unrouted(plan.unrouted()[at])));
    let reasons: Vec<String> =
        reasons.iter().map(|reason| reason.display(graph).to_string()).collect();
    let found = plan.group(mgid).filter(|group| group.has_tree());
    let root = found.and_then(|_| plan.virtual_group_of(mgid)?.root);
    let cut_off = plan.group(mgid).map_or(&[][..], |group| group.cut_off);
    v1::RouteExplanation {
        mgid: mgid.0,
        color: found.and_then(|_| plan.sender_colors(mgid).first().copied()).map(u32::from),
        home_spanning_tree: plan.home(mgid).unwrap_or_default(),
        spanning_tree: found.map(|group| group.part),
        virtual_group: found.map(|group| group.virtual_group.0),
        root: root.map(|root| graph.switch_name(root).to_owned()).unwrap_or_default(),
        cut_off_endpoints: cut_off
            .iter()
            .map(|cut| graph.endpoint_name(cut.endpoint).to_owned())
            .collect(),
        reason: reasons.join("; "),
        ..named
    }
}

/// Lists the links of the trees of a group, each once.
fn links(graph: &Graph, plan: &Plan, mgid: Mgid) -> Vec<v1::TreeLink> {
    let trees = plan.virtual_group_trees(mgid);
    let mut links = Vec::new();
    for (at, tree) in trees.iter().enumerate() {
        let is_listed = |port: &PortId| match graph.peer(*port) {
            Peer::Endpoint(_) => at > 0 && trees[0].ports.binary_search(port).is_ok(),
            Peer::Switch(other) => other < *port,
            Peer::None => true,
        };
        let ports = tree.ports.iter().copied().filter(|port| !is_listed(port));
        links.extend(ports.filter_map(|port| encode_link(graph, port, tree.tree)));
    }
    links
}

fn figures(graph: &Graph, plan: &Plan) -> v1::PlanFigures {
    let found = metrics(graph, plan);
    v1::PlanFigures {
        routed_groups: found.groups,
        max_efi: found.switch_links.max_efi,
        mean_efi: found.switch_links.mean_efi,
        max_tfi: found.max_tfi,
        mean_tfi: found.mean_tfi,
        used_entries: found.max_entries,
    }
}
