//! Plans the groups with other faults, and encodes what changes.

use std::collections::BTreeMap;

use fabricast_proto::v1;
use fabricast_proto::v1::element::Kind;
use fabricast_reconciler::{FailedElement, GroupLabel};
use fabricast_routing::{
    FaultPreview, Plan, PlannedFabric, PreviewError, RouteReason, metrics, preview_faults,
    special_reasons, tree_links, unrouted_reason,
};
use fabricast_topology::{EndpointNameError, Faults, Graph, Mgid, Peer, SwitchId};
use thiserror::Error;

use crate::wire::{encode_link, switch_name};

/// Most changes of an answer.
const MOST_CHANGES: usize = 1_000;

/// The groups as they are planned, and their labels, in the same order.
#[derive(Debug)]
pub(crate) struct FaultQuery {
    pub(crate) now: PlannedFabric,
    pub(crate) labels: Vec<GroupLabel>,
}

/// Reason why there is no answer.
#[derive(Debug, Error)]
pub(crate) enum FaultsError {
    /// The topology does not have a part.
    #[error("failed, healed: the fabric has no {part}")]
    UnknownPart {
        /// Kind and name of the part.
        part: String,
    },
    /// No endpoint has the name, or several have it.
    #[error("failed, healed: {0}")]
    Endpoint(EndpointNameError),
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
                change(graph, &mut faults, find(graph, element)?, fails);
            }
        }
        let preview = preview_faults(&self.now, faults)?;
        let homes = self.now.groups.iter().map(|group| group.home);
        let labels: BTreeMap<Mgid, &GroupLabel> = homes.zip(&self.labels).collect();
        let name_of = |mgid: &Mgid| labels.get(mgid).map_or("", |label| label.name.as_str());
        let mut changed: Vec<Mgid> = preview.changed.clone();
        changed.sort_by_key(name_of);
        let first = changed.partition_point(|mgid| name_of(mgid) <= request.after_group.as_str());
        let listed = &changed[first..changed.len().min(first + MOST_CHANGES)];
        let is_wanted = |mgid: &&Mgid| match request.links_of.as_str() {
            "" => preview.after.group(**mgid).is_some_and(|group| group.has_tree()),
            group => name_of(mgid) == group,
        };
        let wanted = listed.iter().find(is_wanted).copied();
        let encode = |mgid: &Mgid| {
            let name = name_of(mgid);
            let has_links = wanted == Some(*mgid);
            let explain = |plan: &Plan, roots: &BTreeMap<Mgid, SwitchId>| {
                let explanation = explanation(graph, plan, *mgid);
                let links = has_links.then(|| encoded_links(graph, plan, *mgid));
                v1::RouteExplanation {
                    group: name.to_owned(),
                    root: roots
                        .get(mgid)
                        .map_or_else(String::new, |root| switch_name(graph, *root)),
                    links: links.unwrap_or_default(),
                    ..explanation
                }
            };
            let before = explain(&preview.before, &preview.roots_before);
            let mut after = explain(&preview.after, &preview.roots_after);
            if let Some(kept) = preview.kept_out.iter().find(|kept| kept.mgid == *mgid) {
                let trees = preview.after.part_counts();
                let reason = RouteReason::ExclusiveTreeShared { others: kept.others, trees };
                after.reason = reason.display(graph).to_string();
            }
            let members = labels.get(mgid).map_or(0, |label| label.member_count);
            let member_count = u32::try_from(members).unwrap_or(u32::MAX);
            v1::RouteChange { before: Some(before), after: Some(after), member_count }
        };
        let changes = listed.iter().map(encode).collect();
        let FaultPreview { before, after, .. } = &preview;
        Ok(v1::PlanFaultsResponse {
            changes,
            changed_groups: u32::try_from(changed.len()).unwrap_or(u32::MAX),
            before: Some(figures(graph, before)),
            after: Some(figures(graph, after)),
        })
    }
}

/// Finds a part of the fabric; an endpoint may also be named by the GUID of its port.
fn find(graph: &Graph, element: &v1::Element) -> Result<FailedElement, FaultsError> {
    let (found, part) = match &element.kind {
        Some(Kind::Link(end)) => {
            let switch = graph.find_switch(&end.switch_name);
            let number = u8::try_from(end.port).ok();
            let port = switch.zip(number).and_then(|(switch, number)| graph.port(switch, number));
            let link = port.filter(|port| graph.peer(*port) != Peer::None);
            (link.map(FailedElement::Link), format!("link at {}:{}", end.switch_name, end.port))
        }
        Some(Kind::SwitchName(name)) => {
            (graph.find_switch(name).map(FailedElement::Switch), format!("switch '{name}'"))
        }
        Some(Kind::Endpoint(name)) => {
            let found = graph.resolve_endpoint(name).map_err(FaultsError::Endpoint)?;
            return Ok(FailedElement::Endpoint(found));
        }
        None => (None, "part without a name".to_owned()),
    };
    found.ok_or(FaultsError::UnknownPart { part })
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

/// The route of a group in a plan, without its name, root and links.
fn explanation(graph: &Graph, plan: &Plan, mgid: Mgid) -> v1::RouteExplanation {
    let mut reasons = special_reasons(plan, mgid);
    reasons.extend(unrouted_reason(plan, mgid));
    let reasons: Vec<String> =
        reasons.iter().map(|reason| reason.display(graph).to_string()).collect();
    let found = plan.group(mgid).filter(|group| group.has_tree());
    let cut_off = plan.group(mgid).map_or(&[][..], |group| group.cut_off);
    v1::RouteExplanation {
        mgid: mgid.0,
        color: found.and_then(|_| plan.sender_colors(mgid).first().copied()).map(u32::from),
        home_spanning_tree: plan.home(mgid).unwrap_or_default(),
        spanning_tree: found.and_then(|group| plan.home(mgid).map(|_| group.part)),
        virtual_group: found.map(|group| group.virtual_group.0),
        cut_off_endpoints: cut_off
            .iter()
            .map(|cut| graph.endpoint_name(cut.endpoint).to_owned())
            .collect(),
        reason: reasons.join("; "),
        ..v1::RouteExplanation::default()
    }
}

fn encoded_links(graph: &Graph, plan: &Plan, mgid: Mgid) -> Vec<v1::TreeLink> {
    let links = tree_links(graph, plan, mgid);
    links.iter().filter_map(|link| encode_link(graph, link)).collect()
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
