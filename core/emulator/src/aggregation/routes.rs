//! Unicast routes between the nodes of aggregation trees.
//!
//! Stands for a subnet manager that keeps every switch's unicast table on shortest ways over what is
//! alive: of several, the one that leaves by the lowest port. Ways are found when they are needed.

use std::collections::{BTreeMap, VecDeque};

use fabricast_topology::{Graph, Peer, PortId, SwitchId};

/// Targets whose routes are kept; of a fabric of 10 000 switches 10 MB.
const TARGETS_KEPT: usize = 256;
/// No way.
const NONE: u32 = u32::MAX;

/// Ways to some switches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Routes {
    /// By target, by switch: the port that leads there.
    ways: BTreeMap<SwitchId, Vec<u32>>,
}

impl Routes {
    /// Forgets everything, because something failed or healed.
    pub(crate) fn forget(&mut self) {
        self.ways.clear();
    }

    /// The port by which a switch other than the target sends to it.
    pub(crate) fn next(
        &mut self,
        (graph, live): (&Graph, &[bool]),
        from: SwitchId,
        target: SwitchId,
    ) -> Option<PortId> {
        if self.ways.len() >= TARGETS_KEPT && !self.ways.contains_key(&target) {
            self.ways.clear();
        }
        let ways = self.ways.entry(target).or_insert_with(|| search(graph, live, target));
        let port = ways[from.index()];
        (port != NONE).then_some(PortId(port))
    }
}

/// Breadth-first search from the target.
fn search(graph: &Graph, live: &[bool], target: SwitchId) -> Vec<u32> {
    let mut hops = vec![NONE; graph.switch_count()];
    let mut ways = vec![NONE; graph.switch_count()];
    hops[target.index()] = 0;
    let mut queue = VecDeque::from([target]);
    while let Some(switch) = queue.pop_front() {
        let near = hops[switch.index()] + 1;
        for port in graph.ports(switch).filter(|port| live[port.index()]) {
            let Peer::Switch(peer) = graph.peer(port) else { continue };
            let other = graph.switch_of(peer).index();
            if hops[other] == NONE {
                hops[other] = near;
                queue.push_back(graph.switch_of(peer));
            }
            if hops[other] == near {
                ways[other] = ways[other].min(peer.0);
            }
        }
    }
    ways
}
