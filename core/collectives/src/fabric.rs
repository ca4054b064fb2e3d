//! The fabric as switch trees use it: levels, upward links, and which of them are live.
//!
//! In a fat tree, links lead upwards and downwards. In any other fabric, such as a dragonfly, all
//! switches are on level 0, and every link leads both ways.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use fabricast_topology::{EndpointId, FatTree, Faults, Graph, Peer, Place, PortId, SwitchId};

/// Level of a switch that is not part of the fat tree.
const OUTSIDE: u8 = u8::MAX;

/// A fabric with its faults.
#[derive(Clone, Debug)]
pub struct Fabric {
    graph: Arc<Graph>,
    fat_tree: Option<Arc<FatTree>>,
    faults: Faults,
    /// Level of each switch.
    levels: Vec<u8>,
    /// By switch: the lowest switch of its cluster; of a fat tree, which has midplanes, empty.
    clusters: Vec<u32>,
    /// Hops from the first switch to the farthest; of a fat tree, whose levels say more, 0.
    reach: u32,
    /// By port: true if packets pass.
    live: Vec<bool>,
    /// By switch: index of its first entry in `up`, with one more at the end.
    first_up: Vec<u32>,
    /// Ports that lead one level up, and the ports at the other end.
    up: Vec<(PortId, SwitchId)>,
}

impl Fabric {
    /// Creates a fabric without faults. `fat_tree` is the fat-tree view of `graph`, if it has one.
    ///
    /// Cost: O(ports), without a fat tree O(links * ports of a switch).
    #[must_use]
    pub fn new(graph: Arc<Graph>, fat_tree: Option<Arc<FatTree>>) -> Self {
        let level = |switch| match fat_tree.as_ref().map(|tree| tree.place(switch)) {
            Some(Place::Outside) => OUTSIDE,
            Some(Place::Leaf { .. }) | None => 0,
            Some(Place::L1 { .. }) => 1,
            Some(Place::L2 { .. }) => 2,
            Some(Place::L3 { .. }) => 3,
        };
        let levels: Vec<u8> = graph.switches().map(level).collect();
        let step = u8::from(fat_tree.is_some());
        let mut first_up = vec![0];
        let mut up = Vec::new();
        for switch in graph.switches() {
            let level = levels[switch.index()];
            for port in graph.ports(switch) {
                if let Peer::Switch(peer) = graph.peer(port) {
                    let other = graph.switch_of(peer);
                    let leads_up = level != OUTSIDE && levels[other.index()] == level + step;
                    if leads_up && other != switch {
                        up.push((port, other));
                    }
                }
            }
            first_up.push(u32::try_from(up.len()).expect("ports have 32-bit numbers"));
        }
        let clusters = if fat_tree.is_some() { Vec::new() } else { clusters(&graph) };
        let reach = if fat_tree.is_some() { 0 } else { reach(&graph) };
        let faults = Faults::new();
        let ports = graph.switches().flat_map(|switch| graph.ports(switch));
        let live = ports.map(|port| faults.port_is_live(&graph, port)).collect();
        Self { graph, fat_tree, faults, levels, clusters, reach, live, first_up, up }
    }

    /// Creates a fabric without faults, a fat tree if it is found to be one.
    #[must_use]
    pub fn detect(graph: Arc<Graph>) -> Self {
        let fat_tree = FatTree::detect(&graph).ok().map(Arc::new);
        Self::new(graph, fat_tree)
    }

    /// Returns the graph.
    #[must_use]
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// Returns the fat tree, if the fabric is one.
    #[must_use]
    pub fn fat_tree(&self) -> Option<&Arc<FatTree>> {
        self.fat_tree.as_ref()
    }

    /// Returns the lowest switch of a switch's cluster, in a fabric that is no fat tree: switches
    /// that are linked with one another rather than with others, as the group of a dragonfly.
    pub(crate) fn cluster_of(&self, switch: SwitchId) -> u32 {
        self.clusters.get(switch.index()).copied().unwrap_or(switch.0)
    }

    /// Returns the hops from the first switch to the farthest, in a fabric that is no fat tree: of
    /// one that looks the same from everywhere, such as a dragonfly or torus, the most between any
    /// two switches.
    pub(crate) fn reach(&self) -> u32 {
        self.reach
    }

    /// Returns whether every switch has at most one way down to each leaf switch, apart from
    /// parallel links.
    pub(crate) fn has_one_way_down(&self) -> bool {
        let Some(tree) = &self.fat_tree else { return false };
        self.graph.switches().all(|switch| {
            let mut below: Vec<(u32, SwitchId)> = self
                .graph
                .ports(switch)
                .filter_map(|port| match self.graph.peer(port) {
                    Peer::Switch(peer) => Some(self.graph.switch_of(peer)),
                    Peer::Endpoint(_) | Peer::None => None,
                })
                .filter_map(|other| match (tree.place(switch), tree.place(other)) {
                    (Place::L2 { .. }, Place::L1 { cn, .. }) => Some((cn, other)),
                    (Place::L3 { .. }, Place::L2 { block, .. }) => Some((block, other)),
                    _ => None,
                })
                .collect();
            below.sort_unstable();
            below.dedup();
            below.windows(2).all(|pair| pair[0].0 != pair[1].0)
        })
    }

    /// Returns the faults.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Replaces the faults. Cost: O(faults), and O(ports) of the parts that fail or are repaired.
    pub fn set_faults(&mut self, faults: Faults) {
        let before = std::mem::replace(&mut self.faults, faults);
        for port in self.faults.differing_ports(&self.graph, &before) {
            self.live[port.index()] = self.faults.port_is_live(&self.graph, port);
        }
    }

    /// Returns whether packets pass a port.
    pub(crate) fn is_live(&self, port: PortId) -> bool {
        self.live[port.index()]
    }

    /// Returns the switch that an endpoint can reach, in a fat tree a leaf switch; `None` if there
    /// is none or no such endpoint.
    #[must_use]
    pub fn leaf_of(&self, endpoint: EndpointId) -> Option<SwitchId> {
        let known = endpoint.index() < self.graph.endpoint_count();
        let port = known.then(|| self.graph.attachment(endpoint)).flatten()?;
        let switch = self.graph.switch_of(port);
        (self.is_live(port) && self.level(switch) == Some(0)).then_some(switch)
    }

    /// Returns the level of a switch, from 0 for leaf switches; `None` outside the fat tree. In a
    /// fabric that is none every level is 0.
    pub(crate) fn level(&self, switch: SwitchId) -> Option<u8> {
        let level = self.levels[switch.index()];
        (level != OUTSIDE).then_some(level)
    }

    /// Returns the live links of a switch to the level above; without a fat tree to all others.
    pub(crate) fn up(&self, switch: SwitchId) -> impl Iterator<Item = (PortId, SwitchId)> + '_ {
        let at = switch.index();
        let links = &self.up[self.first_up[at] as usize..self.first_up[at + 1] as usize];
        links.iter().copied().filter(|(port, _)| self.is_live(*port))
    }

    /// Returns the live links of a switch to the level below, without a fat tree to all others: the
    /// lower port and the lower switch.
    pub(crate) fn down(&self, switch: SwitchId) -> impl Iterator<Item = (PortId, SwitchId)> + '_ {
        let level = self.levels[switch.index()];
        let step = u8::from(self.fat_tree.is_some());
        self.graph.ports(switch).filter_map(move |port| match self.graph.peer(port) {
            Peer::Switch(peer) if self.is_live(port) => {
                let other = self.graph.switch_of(peer);
                let below = self.levels[other.index()];
                let leads_down = below != OUTSIDE && below + step == level;
                (leads_down && other != switch).then_some((peer, other))
            }
            Peer::Switch(_) | Peer::Endpoint(_) | Peer::None => None,
        })
    }
}

/// Finds the cluster of each switch, named by its lowest switch: linked switches are of one cluster
/// if a third is around both, and more than half of those around one of them, itself included.
fn clusters(graph: &Graph) -> Vec<u32> {
    let around = |switch: SwitchId| -> BTreeSet<SwitchId> {
        let others = graph.ports(switch).filter_map(|port| match graph.peer(port) {
            Peer::Switch(peer) => Some(graph.switch_of(peer)),
            Peer::Endpoint(_) | Peer::None => None,
        });
        others.chain([switch]).collect()
    };
    let around: Vec<BTreeSet<SwitchId>> = graph.switches().map(around).collect();
    let mut cluster = vec![u32::MAX; around.len()];
    for first in graph.switches() {
        if cluster[first.index()] != u32::MAX {
            continue;
        }
        cluster[first.index()] = first.0;
        let mut waiting = vec![first];
        while let Some(switch) = waiting.pop() {
            let own = &around[switch.index()];
            for other in own.iter().filter(|other| cluster[other.index()] == u32::MAX) {
                let theirs = &around[other.index()];
                let common = own.intersection(theirs).count();
                if common > 2 && 2 * common > own.len().min(theirs.len()) {
                    waiting.push(*other);
                }
            }
            for other in &waiting {
                cluster[other.index()] = first.0;
            }
        }
    }
    cluster
}

/// Returns the hops from the first switch to the farthest that it reaches.
fn reach(graph: &Graph) -> u32 {
    let hops = graph.switches().next().map(|first| hops_from(graph, first)).unwrap_or_default();
    hops.into_iter().filter(|hops| *hops != u32::MAX).max().unwrap_or(0)
}

/// Returns the hops from a switch to each, by switch; `u32::MAX` for those that it does not reach.
pub(crate) fn hops_from(graph: &Graph, first: SwitchId) -> Vec<u32> {
    let mut hops = vec![u32::MAX; graph.switch_count()];
    hops[first.index()] = 0;
    let mut queue = VecDeque::from([first]);
    while let Some(switch) = queue.pop_front() {
        for port in graph.ports(switch) {
            let Peer::Switch(peer) = graph.peer(port) else { continue };
            let other = graph.switch_of(peer);
            if hops[other.index()] == u32::MAX {
                hops[other.index()] = hops[switch.index()] + 1;
                queue.push_back(other);
            }
        }
    }
    hops
}
