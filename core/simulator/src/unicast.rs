//! Unicast along a fat tree: up to the nearest common ancestor, chosen by the destination, then down.
//!
//! The up-ports of a switch are dealt out to destinations in turn, lowest digit first (*d-mod-k*): all
//! packets to one endpoint meet at one root and come down one way, and two endpoints share as little of
//! it as can be. Nothing depends on load or chance.

use fabricast_topology::{EndpointId, FatTree, Graph, Peer, Place, PortId, SwitchId};

use crate::slab::NONE;

/// Next ports of unicast packets.
#[derive(Clone, Debug)]
pub(crate) struct Unicast<'a> {
    graph: &'a Graph,
    tree: &'a FatTree,
    ways: Vec<Way>, // by destination
}

/// Where an endpoint hangs and by which ports packets to it go up and come down.
#[derive(Clone, Copy, Debug)]
struct Way {
    leaf: u32, // NONE if it hangs on none
    cn: u32,
    block: u32,
    slot: u32,
    lane0: u32,
    u: u32,
    lane1: u32, // times TNs of a group
    v: u32,
    lane2: u32, // times level-3 switches of a TN
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
                lane0: slot % params.lanes0.max(1),
                u,
                lane1: u - u % params.tns_per_group.max(1),
                v,
                lane2: v - v % params.l3_per_tn.max(1),
            }
        });
        Self { graph, tree, ways: ways.collect() }
    }

    /// Gives the port by which a packet leaves a switch; [`NONE`] if the fabric lacks a link it needs.
    pub(crate) fn next(&self, switch: u32, to: EndpointId) -> u32 {
        self.next_port(SwitchId(switch), to).map_or(NONE, |port| port.0)
    }

    fn next_port(&self, switch: SwitchId, to: EndpointId) -> Option<PortId> {
        let (tree, way) = (self.tree, &self.ways[to.index()]);
        if way.leaf == NONE {
            return None;
        }
        match tree.place(switch) {
            Place::Outside => None,
            Place::Leaf { leaf } if leaf == way.leaf => self.graph.attachment(to),
            Place::Leaf { leaf } => tree.leaf_up(leaf, way.slot),
            Place::L1 { cn, g } if cn == way.cn => {
                let slot = g * tree.params().lanes0 + way.lane0;
                self.far(tree.leaf_up(way.leaf, slot)?)
            }
            Place::L1 { cn, g } => tree.l1_up(cn, g, way.u),
            Place::L2 { tn, block } if block == way.block => {
                let tns = tree.params().tns_per_group;
                self.far(tree.l1_up(way.cn, tn / tns, way.lane1 + tn % tns)?)
            }
            Place::L2 { tn, block } => tree.l2_up(tn, block, way.v),
            Place::L3 { tn, x } => self.far(tree.l2_up(tn, way.block, way.lane2 + x)?),
        }
    }

    fn far(&self, port: PortId) -> Option<PortId> {
        match self.graph.peer(port) {
            Peer::Switch(far) => Some(far),
            Peer::None | Peer::Endpoint(_) => None,
        }
    }
}
