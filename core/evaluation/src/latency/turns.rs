//! Groups whose members multicast in turn: MR4LMS's own measurement of tables 1 and 2.
//!
//! A member sends as soon as it has received the message before, so every group has one message
//! under way at a time. A message takes from there until the last member has it.

use std::collections::VecDeque;

use fabricast_simulator::{Chance, Delivery, Offer, Packet, Route, TreeId, Workload};
use fabricast_topology::EndpointId;

/// The messages sent, and their costs outside the network.
#[derive(Clone, Copy, Debug)]
pub(super) struct TurnsSpec {
    /// Bytes of a packet, header included.
    pub(super) packet_bytes: u32,
    /// Picoseconds a message takes in the hosts.
    pub(super) host_ps: u64,
    /// Mean picoseconds of an exponential delay on top of it.
    pub(super) noise_ps: u64,
    /// Messages of every group.
    pub(super) messages: u32,
    /// Source of random numbers.
    pub(super) seed: u64,
}

/// The workload that is running.
#[derive(Clone, Debug)]
pub(super) struct Turns {
    spec: TurnsSpec,
    groups: Vec<Group>,
    group_of: Vec<Option<u32>>, // by endpoint
    latencies_ps: Vec<u64>,
}

#[derive(Clone, Debug)]
struct Group {
    members: Vec<EndpointId>,
    tree: TreeId,
    begun: u32,
    due_ps: Option<u64>, // of the message that waits to be sent
    open: VecDeque<Message>,
    chance: Chance,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    number: u32,
    begun_ps: u64,
    missing: usize,
}

impl Turns {
    /// Prepares groups that share no endpoint, each with its tree.
    pub(super) fn new(
        spec: TurnsSpec,
        groups: Vec<(Vec<EndpointId>, TreeId)>,
        endpoints: usize,
    ) -> Self {
        let mut group_of = vec![None; endpoints];
        let mut made = Vec::with_capacity(groups.len());
        for (number, (members, tree)) in (0u32..).zip(groups) {
            members.iter().for_each(|member| group_of[member.index()] = Some(number));
            let chance = Chance::new(spec.seed, number.into());
            let mut group =
                Group { members, tree, begun: 0, due_ps: None, open: VecDeque::new(), chance };
            group.begin(0, &spec);
            made.push(group);
        }
        Self { spec, groups: made, group_of, latencies_ps: Vec::new() }
    }

    /// Lists what every message took.
    pub(super) fn latencies_ps(&self) -> &[u64] {
        &self.latencies_ps
    }
}

impl Group {
    fn sender(&self, number: u32) -> EndpointId {
        self.members[number as usize % self.members.len()]
    }

    /// The member whose turn it is starts its message.
    fn begin(&mut self, now_ps: u64, spec: &TurnsSpec) {
        if self.begun == spec.messages {
            return;
        }
        let missing = self.members.len() - 1;
        self.open.push_back(Message { number: self.begun, begun_ps: now_ps, missing });
        self.due_ps = Some(now_ps + spec.host_ps + self.chance.wait_ps(spec.noise_ps));
        self.begun += 1;
    }
}

impl Workload for Turns {
    fn next(&mut self, now_ps: u64, from: EndpointId, _channel: u8) -> Offer {
        let Some(number) = self.group_of[from.index()] else { return Offer::Nothing };
        let group = &mut self.groups[number as usize];
        let Some(due_ps) = group.due_ps else { return Offer::Nothing };
        let message = group.begun - 1;
        if group.sender(message) != from {
            return Offer::Nothing;
        }
        if due_ps > now_ps {
            return Offer::At(due_ps);
        }
        group.due_ps = None;
        Offer::Send(Packet {
            route: Route::Tree(group.tree),
            bytes: self.spec.packet_bytes,
            born_ps: now_ps,
            tag: u64::from(number) << 32 | u64::from(message),
        })
    }

    fn delivered(&mut self, now_ps: u64, delivery: &Delivery) {
        let Some(number) = self.group_of[delivery.to.index()] else { return };
        if delivery.tag >> 32 != u64::from(number) {
            return; // of another group on the same tree
        }
        let group = &mut self.groups[number as usize];
        let is_it =
            |message: &&mut Message| u64::from(message.number) == delivery.tag & 0xFFFF_FFFF;
        let Some(message) = group.open.iter_mut().find(is_it) else { return };
        message.missing -= 1;
        let Message { number, begun_ps, missing } = *message;
        if missing == 0 {
            self.latencies_ps.push(now_ps - begun_ps);
            group.open.retain(|other| other.number != number);
        }
        if number + 1 == group.begun && group.sender(number + 1) == delivery.to {
            group.begin(now_ps, &self.spec);
        }
    }
}

#[cfg(test)]
mod tests {
    use fabricast_simulator::{Network, Routes, Simulator, m_port_n_tree};
    use fabricast_topology::{FatTree, Graph, Peer, PortId};

    use super::super::model::model;
    use super::*;
    use crate::hardware::Hardware;

    /// The ports at a leaf to four endpoints of it.
    fn ports(graph: &Graph, members: &[EndpointId]) -> Vec<PortId> {
        let mut ports: Vec<PortId> =
            members.iter().filter_map(|member| graph.attachment(*member)).collect();
        ports.sort_unstable();
        assert!(ports.iter().all(|port| matches!(graph.peer(*port), Peer::Endpoint(_))));
        ports
    }

    /// Without noise every message takes the host time and the closed form of one switch, whoever
    /// sends it.
    #[test]
    fn a_message_takes_the_host_time_and_the_closed_form() {
        let graph = m_port_n_tree(8, 2).unwrap();
        let fat_tree = FatTree::detect(&graph).unwrap();
        let members: Vec<EndpointId> = (0..4).map(EndpointId).collect();
        let mut routes = Routes::new();
        let tree = routes.add_tree(&graph, &ports(&graph, &members)).unwrap();
        let spec =
            TurnsSpec { packet_bytes: 64, host_ps: 500_000, noise_ps: 0, messages: 9, seed: 1 };
        let turns = Turns::new(spec, vec![(members, tree)], graph.endpoint_count());
        let network = Network { graph: &graph, fat_tree: &fat_tree, routes: &routes };
        let model = model(&Hardware::ours().latency);
        let mut simulator = Simulator::new(network, model, turns).unwrap();
        simulator.run_until(u64::MAX).unwrap();
        let expected = 500_000 + model.zero_load_ps(1, 64);
        assert_eq!(simulator.workload().latencies_ps(), vec![expected; 9]);
    }
}
