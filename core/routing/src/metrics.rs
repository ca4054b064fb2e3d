//! Measures how evenly a plan spreads groups: EFI, TFI and table entries.
//!
//! Source: C-MR4LMS §2, definitions 5 and 6. The *EFI* of a link is the number of groups whose
//! packets cross it; every packet of a group crosses the whole tree of its virtual group. The *TFI*
//! of a tree is the number of groups that use it, 1 if nothing was merged.
//!
//! Means of EFI are over links that carry at least one group. The papers' figures are those of
//! links between switches.

use fabricast_topology::{Graph, Peer, PortId, TableKind};

use crate::plan::{Plan, VirtualGroup};

/// Figures of one plan.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Metrics {
    /// Groups that have a tree.
    pub groups: u32,
    /// Trees: virtual groups that have one, twice those that have two.
    pub trees: u32,
    /// Largest number of groups merged into one tree.
    pub max_tfi: u32,
    /// Mean over trees.
    pub mean_tfi: f64,
    /// Links between switches.
    pub switch_links: LinkLoads,
    /// All links, those of endpoints included.
    pub all_links: LinkLoads,
    /// Most table entries that one table holds (a port's, or a switch's with per-switch tables), of
    /// C.
    pub max_entries: u32,
}

/// Loads of the links that carry at least one group.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkLoads {
    /// Links that carry a group.
    pub used: u32,
    /// The largest EFI of these links.
    pub max_efi: u32,
    /// Mean EFI over the used links.
    pub mean_efi: f64,
}

impl LinkLoads {
    fn of(loads: impl Iterator<Item = u32>) -> Self {
        let (mut used, mut max_efi, mut sum) = (0u32, 0u32, 0.0);
        for load in loads.filter(|load| *load > 0) {
            used += 1;
            max_efi = max_efi.max(load);
            sum += f64::from(load);
        }
        Self { used, max_efi, mean_efi: mean(sum, used) }
    }
}

/// Computes the figures of a plan.
#[must_use]
pub fn metrics(graph: &Graph, plan: &Plan) -> Metrics {
    let efi = efi_by_port(graph, plan);
    let (mut groups, mut trees, mut max_tfi) = (0, 0, 0);
    let mut uses = 0.0;
    for own in plan.trees_by_virtual_group() {
        let tfi = u32::try_from(own[0].groups.len()).expect("a group has a 32-bit MGID");
        groups += tfi;
        for _ in own {
            uses += f64::from(tfi);
            trees += 1;
        }
        max_tfi = max_tfi.max(tfi);
    }
    // A link between switches has two ports; its lower-numbered one stands for it.
    let loads = |with_endpoints: bool| {
        (0u32..).zip(&efi).filter_map(move |(port, load)| match graph.peer(PortId(port)) {
            Peer::Switch(other) => (port < other.0).then_some(*load),
            Peer::Endpoint(_) => with_endpoints.then_some(*load),
            Peer::None => None,
        })
    };
    Metrics {
        groups,
        trees,
        max_tfi,
        mean_tfi: mean(uses, trees),
        switch_links: LinkLoads::of(loads(false)),
        all_links: LinkLoads::of(loads(true)),
        max_entries: max_entries(graph, plan),
    }
}

/// Computes the EFI of the link at every switch port, by dense port number.
#[must_use]
pub fn efi_by_port(graph: &Graph, plan: &Plan) -> Vec<u32> {
    let mut efi = vec![0; graph.port_count()];
    for trees in plan.trees_by_virtual_group() {
        let tfi = u32::try_from(trees[0].groups.len()).expect("a group has a 32-bit MGID");
        for port in ports_once(graph, &trees) {
            efi[port.index()] += tfi;
        }
    }
    efi
}

/// Walks the ports of the trees of one virtual group, those of endpoints once: both trees have
/// them.
pub(crate) fn ports_once<'a>(
    graph: &'a Graph,
    trees: &'a [VirtualGroup<'_>],
) -> impl Iterator<Item = PortId> + 'a {
    let first = trees[0].ports;
    let is_shared = |port: &PortId| {
        matches!(graph.peer(*port), Peer::Endpoint(_)) && first.binary_search(port).is_ok()
    };
    let others = trees[1..].iter().flat_map(|one| one.ports);
    first.iter().chain(others.filter(move |port| !is_shared(port))).copied()
}

fn max_entries(graph: &Graph, plan: &Plan) -> u32 {
    let per_switch = plan.tables() == TableKind::PerSwitch;
    let tables = if per_switch { graph.switch_count() } else { graph.port_count() };
    let mut entries = vec![0u32; tables];
    for trees in plan.trees_by_virtual_group() {
        if !per_switch {
            // The two trees of a pair share the entry of an endpoint's port.
            ports_once(graph, &trees).for_each(|port| entries[port.index()] += 1);
            continue;
        }
        for one in trees {
            let mut last = None;
            for port in one.ports {
                let switch = graph.switch_of(*port).index();
                if last.replace(switch) != Some(switch) {
                    entries[switch] += 1;
                }
            }
        }
    }
    entries.into_iter().max().unwrap_or(0)
}

fn mean(sum: f64, count: u32) -> f64 {
    if count == 0 { 0.0 } else { sum / f64::from(count) }
}
