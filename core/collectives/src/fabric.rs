//! The fabric as switch trees use it: levels, upward links, and which of them are live.

use std::sync::Arc;

use fabricast_topology::{EndpointId, FatTree, Faults, Graph, Peer, Place, PortId, SwitchId};

/// Level of a switch that is not part of the fat tree.
const OUTSIDE: u8 = u8::MAX;

/// A fat tree with its faults.
#[derive(Clone, Debug)]
pub struct Fabric {
    graph: Arc<Graph>,
    fat_tree: Arc<FatTree>,
    faults: Faults,
    /// Level of each switch.
    levels: Vec<u8>,
    /// By port: true if packets pass.
    live: Vec<bool>,
    /// By switch: index of its first entry in `up`, with one more at the end.
    first_up: Vec<u32>,
    /// Ports that lead one level up, and the ports at the other end.
    up: Vec<(PortId, SwitchId)>,
}

impl Fabric {
    /// Creates a fabric without faults. Cost: O(ports).
    #[must_use]
    pub fn new(graph: Arc<Graph>, fat_tree: Arc<FatTree>) -> Self {
        let levels: Vec<u8> = graph
            .switches()
            .map(|switch| match fat_tree.place(switch) {
                Place::Outside => OUTSIDE,
                Place::Leaf { .. } => 0,
                Place::L1 { .. } => 1,
                Place::L2 { .. } => 2,
                Place::L3 { .. } => 3,
            })
            .collect();
        let mut first_up = vec![0];
        let mut up = Vec::new();
        for switch in graph.switches() {
            let level = levels[switch.index()];
            for port in graph.ports(switch) {
                if let Peer::Switch(peer) = graph.peer(port) {
                    let other = graph.switch_of(peer);
                    if level != OUTSIDE && levels[other.index()] == level + 1 {
                        up.push((port, other));
                    }
                }
            }
            first_up.push(u32::try_from(up.len()).expect("ports have 32-bit numbers"));
        }
        let live = vec![false; graph.port_count()];
        let mut fabric =
            Self { graph, fat_tree, faults: Faults::new(), levels, live, first_up, up };
        fabric.set_faults(Faults::new());
        fabric
    }

    /// Returns the graph.
    #[must_use]
    pub fn graph(&self) -> &Arc<Graph> {
        &self.graph
    }

    /// Returns the fat tree.
    #[must_use]
    pub fn fat_tree(&self) -> &Arc<FatTree> {
        &self.fat_tree
    }

    /// Returns the faults.
    #[must_use]
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Replaces the faults. Cost: O(ports).
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
        for (port, live) in (0_u32..).map(PortId).zip(&mut self.live) {
            *live = self.faults.port_is_live(&self.graph, port);
        }
    }

    /// Returns whether packets pass a port.
    pub(crate) fn is_live(&self, port: PortId) -> bool {
        self.live[port.index()]
    }

    /// Returns the leaf switch that an endpoint can reach; `None` if there is none or no such
    /// endpoint.
    pub(crate) fn leaf_of(&self, endpoint: EndpointId) -> Option<SwitchId> {
        let known = endpoint.index() < self.graph.endpoint_count();
        let port = known.then(|| self.graph.attachment(endpoint)).flatten()?;
        let switch = self.graph.switch_of(port);
        (self.is_live(port) && self.level(switch) == Some(0)).then_some(switch)
    }

    /// Returns the level of a switch, from 0 for leaf switches; `None` outside the fat tree.
    pub(crate) fn level(&self, switch: SwitchId) -> Option<u8> {
        let level = self.levels[switch.index()];
        (level != OUTSIDE).then_some(level)
    }

    /// Returns the live links of a switch to the level above.
    pub(crate) fn up(&self, switch: SwitchId) -> impl Iterator<Item = (PortId, SwitchId)> + '_ {
        let at = switch.index();
        let links = &self.up[self.first_up[at] as usize..self.first_up[at + 1] as usize];
        links.iter().copied().filter(|(port, _)| self.is_live(*port))
    }

    /// Returns the live links of a switch to the level below: the lower port and the lower switch.
    pub(crate) fn down(&self, switch: SwitchId) -> impl Iterator<Item = (PortId, SwitchId)> + '_ {
        let level = self.levels[switch.index()];
        self.graph.ports(switch).filter_map(move |port| match self.graph.peer(port) {
            Peer::Switch(peer) if self.is_live(port) => {
                let other = self.graph.switch_of(peer);
                let below = self.levels[other.index()];
                (below != OUTSIDE && below + 1 == level).then_some((peer, other))
            }
            Peer::Switch(_) | Peer::Endpoint(_) | Peer::None => None,
        })
    }
}
