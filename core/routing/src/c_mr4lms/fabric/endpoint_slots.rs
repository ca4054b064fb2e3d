//! Numbers for endpoints that say where they are.

use fabricast_topology::{EndpointId, FatTree, Graph};

use super::{NONE, dense};
use crate::c_mr4lms::numbers::EndpointSlot;

/// Slots of all endpoints.
pub(super) struct EndpointSlots {
    pub(super) bits: u32,
    pub(super) endpoints: Vec<u32>,            // by slot
    pub(super) ports: Vec<u32>,                // by slot; none off the leaves
    pub(super) of_endpoint: Vec<EndpointSlot>, // by endpoint
}

impl EndpointSlots {
    pub(super) fn new(graph: &Graph, fat_tree: &FatTree) -> Self {
        let place = |endpoint: EndpointId| {
            let leaf = fat_tree.leaf_of_endpoint(endpoint);
            let port = graph.attachment(endpoint).filter(|_| leaf.is_some());
            (leaf.unwrap_or(NONE), port.map_or(NONE, |port| port.0), endpoint.0)
        };
        let mut order: Vec<_> = graph.endpoints().map(place).collect();
        order.sort_unstable();
        let of_leaf = |a: &(u32, u32, u32), b: &(u32, u32, u32)| a.0 == b.0 && a.0 != NONE;
        let most = order.chunk_by(of_leaf).map(<[_]>::len).max().unwrap_or(1);
        let bits = most.next_power_of_two().trailing_zeros();
        let off_leaf = fat_tree.leaf_count() << bits;
        let strays = order.iter().filter(|(leaf, ..)| *leaf == NONE).count();
        let mut slots = Self {
            bits,
            endpoints: vec![NONE; off_leaf + strays],
            ports: vec![NONE; off_leaf + strays],
            of_endpoint: vec![EndpointSlot(NONE); order.len()],
        };
        let mut stray = off_leaf;
        for same in order.chunk_by(of_leaf) {
            let first = if same[0].0 == NONE { stray } else { (same[0].0 as usize) << bits };
            stray += usize::from(same[0].0 == NONE);
            for (slot, (_, port, endpoint)) in (first..).zip(same) {
                slots.endpoints[slot] = *endpoint;
                slots.ports[slot] = *port;
                slots.of_endpoint[*endpoint as usize] = EndpointSlot(dense(slot));
            }
        }
        slots
    }
}
