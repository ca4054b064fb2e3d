//! The status of the route service: the figures of its plan cost time, and the loop has none.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_proto::v1;
use fabricast_routing::{GroupPlan, Plan, efi_by_port, metrics};
use fabricast_topology::{Graph, Mgid, Peer, PortId, SwitchId};

/// The status of the route service, and the plan that its figures are computed from.
#[derive(Debug)]
pub(crate) struct PlanStatus {
    pub(super) status: v1::GetRouteStatusResponse,
    pub(super) graph: Arc<Graph>,
    pub(super) plan: Plan,
    /// Number of groups in the records.
    pub(super) groups: usize,
}

impl PlanStatus {
    /// Computes the figures of the plan.
    ///
    /// Cost: linear in the ports of all trees.
    pub(crate) fn complete(self) -> v1::GetRouteStatusResponse {
        let Self { mut status, graph, plan, groups } = self;
        let figures = metrics(&graph, &plan);
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        status.colors = u32::from(plan.colors());
        status.routed_groups = count(plan.groups().filter(GroupPlan::has_tree).count());
        status.unicast_only_groups = count(groups).saturating_sub(status.routed_groups);
        status.virtual_groups = count(plan.virtual_groups().filter(|one| one.tree == 0).count());
        status.fault_tolerant = plan.is_dual();
        let unprotected: BTreeSet<Mgid> = plan.unprotected().map(|one| one.mgid).collect();
        status.unprotected_groups = count(unprotected.len());
        status.max_efi = figures.switch_links.max_efi;
        status.mean_efi = figures.switch_links.mean_efi;
        status.max_tfi = figures.max_tfi;
        status.mean_tfi = figures.mean_tfi;
        status.used_entries = figures.max_entries;
        status
    }

    /// Counts the groups of each link that carries some; a link between switches is listed at its
    /// lower-numbered port.
    ///
    /// Cost: linear in the ports of all trees.
    pub(crate) fn link_loads(&self) -> v1::ListLinkLoadsResponse {
        let Self { graph, plan, .. } = self;
        let efi = efi_by_port(graph, plan);
        let is_listed = |port: &PortId| match graph.peer(*port) {
            Peer::Switch(other) => *port < other,
            Peer::Endpoint(_) => true,
            Peer::None => false,
        };
        let of = |switch: SwitchId| {
            let used = graph.ports(switch).filter(|port| efi[port.index()] > 0);
            let used: Vec<PortId> = used.filter(is_listed).collect();
            (!used.is_empty()).then(|| v1::SwitchLinkLoads {
                switch_name: graph.switch_name(switch).to_owned(),
                ports: used.iter().map(|port| graph.port_number(*port).into()).collect(),
                groups: used.iter().map(|port| efi[port.index()]).collect(),
            })
        };
        v1::ListLinkLoadsResponse { switches: graph.switches().filter_map(of).collect() }
    }
}
