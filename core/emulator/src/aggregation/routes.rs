//! Unicast routes between the nodes of aggregation trees.
//!
//! They are those of a subnet manager that keeps the unicast tables of all switches on shortest
//! live paths; of several it takes the one with the lowest output port. A route is computed when it
//! is first needed.

use std::collections::{BTreeMap, VecDeque};

use fabricast_topology::{Graph, Peer, PortId, SwitchId};

use super::fabric::FabricState;

/// Most targets whose routes are kept: 10 MB for a fabric of 10 000 switches.
const TARGETS_KEPT: usize = 256;
/// Stands for no route.
const NONE: u32 = u32::MAX;

/// Routes to the switches that were asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Routes {
    /// For each target, indexed by switch: the output port.
    ports: BTreeMap<SwitchId, Vec<u32>>,
}

impl Routes {
    /// Drops all routes after a part failed or healed.
    pub(super) fn forget(&mut self) {
        self.ports.clear();
    }

    /// Finds the output port of `from`, which is not the target, on its route to `target`.
    pub(super) fn next(
        &mut self,
        fabric: FabricState<'_>,
        from: SwitchId,
        target: SwitchId,
    ) -> Option<PortId> {
        if self.ports.len() >= TARGETS_KEPT && !self.ports.contains_key(&target) {
            self.ports.clear();
        }
        let ways =
            self.ports.entry(target).or_insert_with(|| search(fabric.graph, fabric.live, target));
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
