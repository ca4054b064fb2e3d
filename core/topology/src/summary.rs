//! Summaries of a graph and of a fat tree.

use serde::Serialize;

use crate::fat_tree::{FatTree, FatTreeParams, Place};
use crate::graph::Graph;
use crate::ids::Peer;

/// Counts of the parts of a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GraphSummary {
    /// Number of switches.
    pub switches: usize,
    /// Ports of all switches, connected or not.
    pub switch_ports: usize,
    /// Number of adapters.
    pub adapters: usize,
    /// Endpoints, connected or only listed.
    pub endpoints: usize,
    /// Endpoints that are connected to a switch.
    pub connected_endpoints: usize,
    /// Links between two switches.
    pub switch_links: usize,
    /// Cables with both ends in one switch.
    pub loopback_cables: usize,
}

/// Counts of the parts of a fat tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FatTreeSummary {
    /// Sizes of the regular tree.
    pub params: FatTreeParams,
    /// Switches by level, as they are there.
    pub switches_by_level: [usize; 4],
    /// Switches that are not part of the tree.
    pub unused_switches: usize,
    /// Endpoints on leaf switches.
    pub endpoints_on_leaves: usize,
    /// Number of differences from the regular tree.
    pub irregularities: usize,
}

impl Graph {
    /// Counts the parts of the graph. Cost: its ports.
    #[must_use]
    pub fn summary(&self) -> GraphSummary {
        let mut summary = GraphSummary {
            switches: self.switch_count(),
            switch_ports: self.port_count(),
            adapters: self.adapter_count(),
            endpoints: self.endpoint_count(),
            ..GraphSummary::default()
        };
        for port in self.switches().flat_map(|switch| self.ports(switch)) {
            match self.peer(port) {
                Peer::Endpoint(_) => summary.connected_endpoints += 1,
                Peer::Switch(other) if port <= other => {
                    let loopback = self.switch_of(other) == self.switch_of(port);
                    let kind = if loopback {
                        &mut summary.loopback_cables
                    } else {
                        &mut summary.switch_links
                    };
                    *kind += 1;
                }
                Peer::None | Peer::Switch(_) => {}
            }
        }
        summary
    }
}

impl FatTree {
    /// Counts the parts of the tree. Cost: the switches and endpoints of the graph.
    #[must_use]
    pub fn summary(&self, graph: &Graph) -> FatTreeSummary {
        let mut summary = FatTreeSummary {
            params: *self.params(),
            irregularities: self.irregularities().len(),
            ..FatTreeSummary::default()
        };
        for switch in graph.switches() {
            let level = match self.place(switch) {
                Place::Leaf { .. } => 0,
                Place::L1 { .. } => 1,
                Place::L2 { .. } => 2,
                Place::L3 { .. } => 3,
                Place::Outside => {
                    summary.unused_switches += 1;
                    continue;
                }
            };
            summary.switches_by_level[level] += 1;
        }
        let on_leaf = |endpoint: &_| self.leaf_of_endpoint(*endpoint).is_some();
        summary.endpoints_on_leaves = graph.endpoints().filter(on_leaf).count();
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::TopologySpec;

    /// C-MR4LMS §4.1: 64 midplanes of 48 switches and 96 of 48, 40 448 nodes.
    #[test]
    fn the_papers_fabric_has_the_published_counts() {
        let graph = TopologySpec::paper().generate().unwrap();
        let summary = graph.summary();
        assert_eq!(summary.switches + summary.endpoints, 40_448);
        // Endpoints' own, leaf to L1, L1 to TN, L2 to L3.
        let links = 64 * 32 * 16 + 64 * 16 * 6 + 96 * 32 * 16;
        assert_eq!((summary.switch_links, summary.loopback_cables), (links, 0));
        let tree = FatTree::detect(&graph).unwrap().summary(&graph);
        assert_eq!(tree.switches_by_level, [2_048, 1_024, 3_072, 1_536]);
        assert_eq!((tree.unused_switches, tree.endpoints_on_leaves), (0, 32_768));
    }
}
