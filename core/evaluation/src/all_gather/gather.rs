//! Nodes that exchange blocks: each by multicast, from neighbor to neighbor, or to each one by one.

use std::collections::VecDeque;

use fabricast_simulator::{Chance, Delivery, Offer, Packet, Route, TreeId, Workload};
use fabricast_topology::EndpointId;

/// The way in which blocks get to all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    /// Every node sends its block once, on a tree to all others.
    Multicast,
    /// Every node sends what it has to the next node in the order of the leaf switches.
    RingInOrder,
    /// The same, in an order drawn by chance.
    RingByChance,
    /// Every node sends its block to each other one.
    Direct,
}

impl Scheme {
    pub(super) const ALL: [Self; 4] =
        [Self::Multicast, Self::RingInOrder, Self::RingByChance, Self::Direct];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Multicast => "multicast",
            Self::RingInOrder => "ring in the order of the leaf switches",
            Self::RingByChance => "ring in an order by chance",
            Self::Direct => "to each one by one",
        }
    }

    pub(super) const fn is_by_chance(self) -> bool {
        matches!(self, Self::RingByChance)
    }
}

/// The workload that is running.
#[derive(Clone, Debug)]
pub(super) struct Gather {
    is_ring: bool,
    /// In the order of the ring.
    nodes: Vec<EndpointId>,
    position: Vec<Option<u32>>, // by endpoint
    /// By position: packets to send, with the position whose block they are of.
    queues: Vec<VecDeque<(Route, u32)>>,
    bytes: u32,
    missing: u64,
    done_ps: u64,
}

impl Gather {
    /// Prepares blocks of so many packets of so many bytes. With [`Scheme::Multicast`] the
    /// nodes use the trees in turn.
    pub(super) fn new(
        scheme: Scheme,
        mut nodes: Vec<EndpointId>,
        trees: &[TreeId],
        [packets, bytes]: [u32; 2],
        seed: u64,
    ) -> Self {
        if scheme.is_by_chance() {
            Chance::new(seed, 0xA6).shuffle(&mut nodes);
        }
        let last = nodes.iter().map(|node| node.index()).max().unwrap_or(0);
        let mut position = vec![None; last + 1];
        for (node, at) in nodes.iter().zip(0u32..) {
            position[node.index()] = Some(at);
        }
        let queue = |at: usize| {
            let others = (1..nodes.len()).map(|step| nodes[(at + step) % nodes.len()]);
            let ways: Vec<Route> = match scheme {
                Scheme::Multicast => vec![Route::Tree(trees[at % trees.len()])],
                Scheme::RingInOrder | Scheme::RingByChance => {
                    others.take(1).map(Route::Unicast).collect()
                }
                Scheme::Direct => others.map(Route::Unicast).collect(),
            };
            let own = u32::try_from(at).expect("few nodes");
            let block = |way: Route| (0..packets).map(move |_| (way, own));
            ways.into_iter().flat_map(block).collect()
        };
        let count = nodes.len() as u64;
        Self {
            is_ring: matches!(scheme, Scheme::RingInOrder | Scheme::RingByChance),
            queues: (0..nodes.len()).map(queue).collect(),
            missing: count * count.saturating_sub(1) * u64::from(packets),
            nodes,
            position,
            bytes,
            done_ps: 0,
        }
    }

    /// Gives when all nodes had all blocks, in picoseconds; nothing if one has not.
    pub(super) fn done_ps(&self) -> Option<u64> {
        (self.missing == 0).then_some(self.done_ps)
    }

    fn position(&self, of: EndpointId) -> Option<u32> {
        self.position.get(of.index()).copied().flatten()
    }
}

impl Workload for Gather {
    fn next(&mut self, now_ps: u64, from: EndpointId, _channel: u8) -> Offer {
        let Some(at) = self.position(from) else { return Offer::Nothing };
        let Some((route, block)) = self.queues[at as usize].pop_front() else {
            return Offer::Nothing;
        };
        Offer::Send(Packet { route, bytes: self.bytes, born_ps: now_ps, tag: block.into() })
    }

    fn delivered(&mut self, now_ps: u64, delivery: &Delivery) {
        let Some(at) = self.position(delivery.to) else { return };
        let block = u32::try_from(delivery.tag).expect("a position");
        if block == at {
            return; // the node's own copy
        }
        self.missing -= 1;
        self.done_ps = now_ps;
        let next = (at as usize + 1) % self.nodes.len();
        if self.is_ring && next != block as usize {
            self.queues[at as usize].push_back((Route::Unicast(self.nodes[next]), block));
        }
    }
}
