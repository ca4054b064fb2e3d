//! Unicast along a fat tree: up to the nearest common ancestor, chosen by the destination, then
//! down.
//!
//! The up-ports of a switch are dealt out to destinations in turn, lowest digit first (*d-mod-k*):
//! all packets to one endpoint meet at one root and come down one way, and two endpoints share as
//! little of it as can be. Nothing depends on load or chance. Round dead links the next port is
//! taken from which there is a live way, as a subnet manager would route unicast anew.

use fabricast_topology::{EndpointId, FatTree, Graph, Peer, Place, PortId, SwitchId};

use crate::slab::NONE;

/// Next ports of unicast packets.
#[derive(Clone, Debug)]
pub(crate) struct Unicast<'a> {
    graph: &'a Graph,
    tree: &'a FatTree,
    ways: Vec<Way>, // by destination
}

/// Place of an endpoint, and the ports by which packets to it go up and come down.
#[derive(Clone, Copy, Debug)]
struct Way {
    leaf: u32, // NONE if it hangs on none
    cn: u32,
    block: u32,
    slot: u32,
    u: u32,
    v: u32,
    lanes: [u32; 3],
}

impl<'a> Unicast<'a> {
    pub(crate) fn new(graph: &'a Graph, tree: &'a FatTree) -> Self {
        let params = tree.params();
        let widths = [params.leaf_up_ports(), params.l1_up_ports(), params.l2_up_ports()];
        let [slots, us, vs] = widths.map(|width| width.max(1));
        let ways = graph.endpoints().map(|to| {
            let leaf = tree.leaf_of_endpoint(to).unwrap_or(NONE);
            let cn = if leaf == NONE { NONE } else { tree.cn_of_leaf(leaf) };
            let (slot, u, v) = (to.0 % slots, to.0 / slots % us, to.0 / slots / us % vs);
            Way {
                leaf,
                cn,
                block: if leaf == NONE { NONE } else { tree.block_of_cn(cn) },
                slot,
                u,
                v,
                lanes: [
                    slot % params.lanes0.max(1),
                    u / params.tns_per_group.max(1),
                    v / params.l3_per_tn.max(1),
                ],
            }
        });
        Self { graph, tree, ways: ways.collect() }
    }

    /// Gives the port by which a packet leaves a switch; [`NONE`] if the fabric lacks a link it
    /// needs.
    pub(crate) fn next(&self, switch: u32, to: EndpointId) -> u32 {
        self.option(SwitchId(switch), to, 0).map_or(NONE, |port| port.0)
    }

    /// The same round dead links: the first port from the usual one on from which there is a live
    /// way.
    pub(crate) fn next_around(&self, switch: u32, to: EndpointId, dead: &[bool]) -> u32 {
        let options = self.options(SwitchId(switch));
        let live = (0..options).filter_map(|turn| self.option(SwitchId(switch), to, turn));
        let leads_there = |port: &PortId| {
            !dead[port.index()]
                && match self.graph.peer(*port) {
                    Peer::None => false,
                    Peer::Endpoint(end) => end == to,
                    Peer::Switch(far) => {
                        self.next_around(self.graph.switch_of(far).0, to, dead) != NONE
                    }
                }
        };
        live.into_iter().find(leads_there).map_or(NONE, |port| port.0)
    }

    /// Counts the turns after which the ports of a switch are tried again.
    fn options(&self, switch: SwitchId) -> u32 {
        let params = self.tree.params();
        match self.tree.place(switch) {
            Place::Outside => 0,
            Place::Leaf { .. } => params.leaf_up_ports().max(1),
            Place::L1 { .. } => params.l1_up_ports().max(params.lanes0),
            Place::L2 { .. } => params.l2_up_ports().max(params.lanes1),
            Place::L3 { .. } => params.lanes2,
        }
    }

    /// Gives the port of a switch towards an endpoint, or the one `turn` places after it.
    fn option(&self, switch: SwitchId, to: EndpointId, turn: u32) -> Option<PortId> {
        let (tree, way) = (self.tree, &self.ways[to.index()]);
        if way.leaf == NONE {
            return None;
        }
        let params = tree.params();
        let turned = |at: u32, of: u32| if turn == 0 { at } else { (at + turn) % of.max(1) };
        match tree.place(switch) {
            Place::Outside => None,
            Place::Leaf { leaf } if leaf == way.leaf => self.graph.attachment(to),
            Place::Leaf { leaf } => tree.leaf_up(leaf, turned(way.slot, params.leaf_up_ports())),
            Place::L1 { cn, g } if cn == way.cn => {
                let lane = turned(way.lanes[0], params.lanes0);
                self.far(tree.leaf_up(way.leaf, g * params.lanes0 + lane)?)
            }
            Place::L1 { cn, g } => tree.l1_up(cn, g, turned(way.u, params.l1_up_ports())),
            Place::L2 { tn, block } if block == way.block => {
                let (tns, lane) = (params.tns_per_group, turned(way.lanes[1], params.lanes1));
                self.far(tree.l1_up(way.cn, tn / tns, lane * tns + tn % tns)?)
            }
            Place::L2 { tn, block } => tree.l2_up(tn, block, turned(way.v, params.l2_up_ports())),
            Place::L3 { tn, x } => {
                let lane = turned(way.lanes[2], params.lanes2);
                self.far(tree.l2_up(tn, way.block, lane * params.l3_per_tn + x)?)
            }
        }
    }

    fn far(&self, port: PortId) -> Option<PortId> {
        match self.graph.peer(port) {
            Peer::Switch(far) => Some(far),
            Peer::None | Peer::Endpoint(_) => None,
        }
    }
}
