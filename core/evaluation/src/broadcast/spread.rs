//! Messages that spread over the members of a flow: by trees of switches, or from server to server.

use fabricast_simulator::{Delivery, Offer, Packet, Route, TreeId, Workload};
use fabricast_topology::EndpointId;

/// One rail of one job.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// Members, the source first.
    pub(super) members: Vec<EndpointId>,
    pub(super) ways: Ways,
}

/// Routes of the packets to the members.
#[derive(Clone, Debug)]
pub(super) enum Ways {
    /// The source sends packet i on every tree of entry i, in turn of the entries.
    Trees(Vec<Vec<TreeId>>),
    /// Every member sends on to its children what it has received, once that makes a chunk.
    Servers {
        /// Positions of each member's children.
        children: Vec<Vec<usize>>,
        /// Packets of a chunk.
        chunk: u32,
    },
}

/// The workload that is running.
#[derive(Clone, Debug)]
pub(super) struct Spread {
    flows: Vec<State>,
    packets: u32,
    bytes: u32,
    place: Vec<Option<(u32, usize)>>, // by endpoint: flow and position
}

#[derive(Clone, Debug)]
struct State {
    flow: Flow,
    /// By position: packets received, by chunk.
    received: Vec<Vec<u32>>,
    /// By position: packets sent, over all trees or children.
    sent: Vec<u32>,
    missing: u64,
    done_ps: u64,
}

impl Spread {
    /// Prepares flows that share no endpoint, of so many packets of so many bytes each.
    pub(super) fn new(flows: Vec<Flow>, packets: u32, bytes: u32, endpoints: usize) -> Self {
        let mut place = vec![None; endpoints];
        for (flow, number) in flows.iter().zip(0u32..) {
            for (position, member) in flow.members.iter().enumerate() {
                place[member.index()] = Some((number, position));
            }
        }
        let state = |flow: Flow| {
            let members = flow.members.len();
            let chunks = packets.div_ceil(flow.chunk(packets)) as usize;
            State {
                received: vec![vec![0; chunks]; members],
                sent: vec![0; members],
                missing: u64::from(packets) * (members as u64 - 1),
                done_ps: 0,
                flow,
            }
        };
        Self { flows: flows.into_iter().map(state).collect(), packets, bytes, place }
    }

    /// Lists when each flow had arrived everywhere, in picoseconds; nothing if one has not.
    pub(super) fn done_ps(&self) -> Option<Vec<u64>> {
        let done = |state: &State| (state.missing == 0).then_some(state.done_ps);
        self.flows.iter().map(done).collect()
    }
}

impl Flow {
    /// True if its packets have no tree to go by.
    pub(super) fn has_no_tree(&self) -> bool {
        match &self.ways {
            Ways::Trees(entries) => entries.iter().any(Vec::is_empty),
            Ways::Servers { .. } => false,
        }
    }

    fn chunk(&self, packets: u32) -> u32 {
        match &self.ways {
            Ways::Trees(_) => packets,
            Ways::Servers { chunk, .. } => (*chunk).clamp(1, packets),
        }
    }
}

impl State {
    /// Gives the next route of a member and the number of the packet that takes it.
    fn next(&self, position: usize, packets: u32) -> Option<(Route, u32)> {
        let sent = self.sent[position];
        match &self.flow.ways {
            Ways::Trees(entries) => {
                if position != 0 {
                    return None;
                }
                // Copies of a packet leave one after the other.
                let copies = u32::try_from(entries.first()?.len()).expect("few trees");
                let packet = sent / copies.max(1);
                let trees = &entries[packet as usize % entries.len()];
                let tree = trees[(sent % copies.max(1)) as usize];
                (packet < packets).then_some((Route::Tree(tree), packet))
            }
            Ways::Servers { children, .. } => {
                let children = &children[position];
                let chunk = self.flow.chunk(packets);
                let many = u32::try_from(children.len()).expect("few children");
                if many == 0 || sent >= packets * many {
                    return None;
                }
                // Chunk by chunk: all of it to the first child, then to the next one.
                let at = sent / (chunk * many);
                let (start, size) = (at * chunk, chunk.min(packets - at * chunk));
                let inside = sent - start * many;
                let is_ready = position == 0 || self.received[position][at as usize] == size;
                let child = children[(inside / size) as usize];
                let route = Route::Unicast(self.flow.members[child]);
                is_ready.then_some((route, start + inside % size))
            }
        }
    }
}

impl Workload for Spread {
    fn next(&mut self, now_ps: u64, from: EndpointId, _channel: u8) -> Offer {
        let Some((number, position)) = self.place[from.index()] else { return Offer::Nothing };
        let state = &mut self.flows[number as usize];
        let Some((route, packet)) = state.next(position, self.packets) else {
            return Offer::Nothing;
        };
        state.sent[position] += 1;
        let tag = u64::from(number) << 32 | u64::from(packet);
        Offer::Send(Packet { route, bytes: self.bytes, born_ps: now_ps, tag })
    }

    fn delivered(&mut self, now_ps: u64, delivery: &Delivery) {
        let Some((number, position)) = self.place[delivery.to.index()] else { return };
        if delivery.tag >> 32 != u64::from(number) || position == 0 {
            return; // of another job on a merged tree or under a prefix, or the source's own copy
        }
        let state = &mut self.flows[number as usize];
        let packet = u32::try_from(delivery.tag & 0xFFFF_FFFF).expect("32 bits");
        let chunk = packet / state.flow.chunk(self.packets);
        state.received[position][chunk as usize] += 1;
        state.missing -= 1;
        state.done_ps = now_ps;
    }
}

#[cfg(test)]
mod tests {
    use fabricast_simulator::{Model, Network, Routes, Simulator, m_port_n_tree};
    use fabricast_topology::FatTree;

    use super::*;

    /// Time of three members in a row on one leaf switch, in picoseconds.
    fn in_a_row(chunk: u32) -> u64 {
        let graph = m_port_n_tree(8, 2).unwrap();
        let fat_tree = FatTree::detect(&graph).unwrap();
        let members = (0..3).map(EndpointId).collect();
        let ways = Ways::Servers { children: vec![vec![1], vec![2], vec![]], chunk };
        let load = Spread::new(vec![Flow { members, ways }], 10, 100, graph.endpoint_count());
        let routes = Routes::new();
        let network = Network { graph: &graph, fat_tree: &fat_tree, routes: &routes };
        let mut simulator = Simulator::new(network, Model::dawning(), load).unwrap();
        simulator.run_until(u64::MAX).unwrap();
        simulator.workload().done_ps().unwrap()[0]
    }

    #[test]
    fn whole_messages_take_a_hop_after_the_other_and_chunks_overlap() {
        let model = Model::dawning();
        let hop = |packets: u64| (packets - 1) * model.sending_ps(100) + model.zero_load_ps(1, 100);
        assert_eq!(in_a_row(10), 2 * hop(10));
        assert_eq!(in_a_row(1), hop(10) + model.zero_load_ps(1, 100));
    }

    #[test]
    fn a_flow_that_lacks_packets_is_not_done() {
        let flow = Flow {
            members: vec![EndpointId(0), EndpointId(1)],
            ways: Ways::Trees(vec![vec![TreeId(0)]]),
        };
        assert_eq!(Spread::new(vec![flow], 1, 100, 2).done_ps(), None);
    }
}
