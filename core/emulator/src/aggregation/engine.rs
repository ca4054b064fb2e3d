//! Contributions, packets hop by hop, partial results.

use std::sync::Arc;

use fabricast_topology::{AggregationNode, Peer, PortId, SwitchId};

use super::operation::{Operation, Part, Partial, combine, values_fit};
use super::table::AggregationPlace;
use super::{
    Aggregation, Contribution, ContributionError, Failure, Finished, OPERATIONS_KEPT, Work,
};
use crate::emulator::Emulator;

/// Tree and sequence number.
pub(super) type Key = (u32, u64);

/// A packet between two hops.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    pub(super) key: Key,
    pub(super) at: AggregationPlace,
    from: AggregationNode,
    to: AggregationNode,
    /// Whether it goes to the root or comes from there.
    up: bool,
    part: Arc<Part>,
}

impl Emulator {
    /// Takes a process's contribution and sends it on its way.
    ///
    /// # Errors
    ///
    /// [`ContributionError`]; nothing was sent.
    pub fn contribute(&mut self, contribution: Contribution) -> Result<(), ContributionError> {
        let Contribution { tree, sequence, process, endpoint, processes, to, work, values } =
            contribution;
        let own = AggregationPlace::Adapter(endpoint);
        if !(self.has_place(own) && self.has_place(AggregationPlace::of(to))) {
            return Err(ContributionError::Unknown);
        }
        if !values_fit(work, process, values.as_ref()) {
            return Err(ContributionError::Values);
        }
        let port = self.graph.attachment(endpoint);
        if !port.is_some_and(|port| self.live[port.index()]) {
            return Err(ContributionError::CutOff);
        }
        let key = (tree, sequence);
        let operations = &mut self.aggregation.operations;
        if operations.len() >= OPERATIONS_KEPT && !operations.contains_key(&key) {
            return Err(ContributionError::Busy);
        }
        let operation = operations.entry(key).or_insert_with(|| Operation::new(work, processes));
        if let Some(failure) = operation.failure {
            return Err(ContributionError::Failed(failure));
        }
        if (operation.work, operation.processes) != (work, processes) {
            return Err(ContributionError::Disagreement);
        }
        if operation.ended {
            return Err(ContributionError::Ended);
        }
        if !operation.contributed.insert(process) {
            return Err(ContributionError::Twice);
        }
        operation.waiting.insert(process, endpoint);
        operation.packets += 1;
        self.aggregation.packets.push_back(Packet {
            key,
            at: own,
            from: AggregationNode::Process { process, endpoint },
            to,
            up: true,
            part: Arc::new(Part { processes: 1, values }),
        });
        Ok(())
    }

    /// Lets packets travel until none is left; counts the links they went over.
    pub fn run_aggregation(&mut self) -> u64 {
        let mut hops = 0;
        while let Some(hop) = self.step_aggregation() {
            hops += u64::from(hop);
        }
        hops
    }

    /// Lets one packet go one hop, or be handled where it has come: true if it went over a link. None
    /// if no packet is under way.
    pub fn step_aggregation(&mut self) -> Option<bool> {
        let mut packet = self.aggregation.packets.pop_front()?;
        if packet.at == AggregationPlace::of(packet.to) {
            let key = packet.key;
            if let Err(failure) = self.handle(packet) {
                self.lose(key, failure);
            }
            self.packet_ended(key);
            return Some(false);
        }
        match self.next_place(&packet) {
            Some(at) => {
                packet.at = at;
                self.aggregation.packets.push_back(packet);
                Some(true)
            }
            None => {
                self.lose(packet.key, Failure::NoWay { to: packet.to });
                self.packet_ended(packet.key);
                Some(false)
            }
        }
    }

    /// Takes the next end of an operation for a process, in the order they came.
    pub fn poll_finished(&mut self) -> Option<Finished> {
        self.aggregation.finished.pop_front()
    }

    /// Moves a packet one link further and counts it at the ports.
    fn next_place(&mut self, packet: &Packet) -> Option<AggregationPlace> {
        let bytes = packet.part.bytes();
        match packet.at {
            AggregationPlace::Adapter(endpoint) => {
                let port =
                    self.graph.attachment(endpoint).filter(|port| self.live[port.index()])?;
                self.counters[port.index()].receive(bytes);
                Some(AggregationPlace::Switch(self.graph.switch_of(port)))
            }
            AggregationPlace::Switch(switch) => {
                let out =
                    self.port_towards(switch, packet.to).filter(|port| self.live[port.index()])?;
                self.counters[out.index()].send(bytes);
                match self.graph.peer(out) {
                    Peer::Endpoint(endpoint) => Some(AggregationPlace::Adapter(endpoint)),
                    Peer::Switch(peer) => {
                        self.counters[peer.index()].receive(bytes);
                        Some(AggregationPlace::Switch(self.graph.switch_of(peer)))
                    }
                    Peer::None => None,
                }
            }
        }
    }

    fn port_towards(&mut self, switch: SwitchId, to: AggregationNode) -> Option<PortId> {
        let (target, last) = match to {
            AggregationNode::Switch(target) => (target, None),
            AggregationNode::Process { endpoint, .. } => {
                let port = self.graph.attachment(endpoint)?;
                (self.graph.switch_of(port), Some(port))
            }
        };
        if target == switch {
            return last;
        }
        self.aggregation.routes.next((&self.graph, &self.live), switch, target)
    }

    /// A packet has come to the node it is for.
    fn handle(&mut self, packet: Packet) -> Result<(), Failure> {
        let Packet { key, from, to: node, up, part, .. } = packet;
        if up {
            return self.gather(key, from, node, part);
        }
        let entry = self.aggregation.tables.entry(key.0, node);
        let is_process = matches!(node, AggregationNode::Process { .. });
        match entry {
            Some(entry) if from != node => {
                if entry.parent != Some(from) {
                    return Err(Failure::Unexpected { node });
                }
                let children = entry.children.clone();
                self.send_down(key, node, &children, &part);
            }
            Some(_) | None if is_process => self.deliver(key, node, &part),
            Some(_) | None => return Err(Failure::NoEntry { node }),
        }
        Ok(())
    }

    /// Keeps a child's part, and combines all when it was the last.
    fn gather(
        &mut self,
        key: Key,
        from: AggregationNode,
        node: AggregationNode,
        part: Arc<Part>,
    ) -> Result<(), Failure> {
        let Aggregation { tables, operations, .. } = &mut self.aggregation;
        let entry = tables.entry(key.0, node).ok_or(Failure::NoEntry { node })?;
        let operation = operations.get_mut(&key).expect("it has a packet");
        if operation.failure.is_some() {
            return Ok(());
        }
        let child = entry.children.iter().position(|child| *child == from);
        let child = child.ok_or(Failure::Unexpected { node })?;
        let count = entry.children.len();
        let empty = || Partial { parts: vec![None; count], missing: count };
        let partial = operation.partials.entry(node).or_insert_with(empty);
        match partial.parts.get_mut(child) {
            Some(place @ None) => *place = Some(part),
            Some(Some(_)) | None => return Err(Failure::Unexpected { node }),
        }
        partial.missing -= 1;
        if partial.missing > 0 {
            return Ok(());
        }
        let partial = operation.partials.remove(&node).expect("it was just filled");
        let whole = Arc::new(combine(operation.work, partial.parts).ok_or(Failure::Disagreement)?);
        let (parent, children) = (entry.parent, entry.children.clone());
        match parent {
            Some(parent) => self.send(key, (node, parent), true, whole),
            None => {
                operation.returned = true;
                self.send_down(key, node, &children, &whole);
            }
        }
        Ok(())
    }

    fn send_down(
        &mut self,
        key: Key,
        node: AggregationNode,
        children: &[AggregationNode],
        part: &Arc<Part>,
    ) {
        for child in children {
            self.send(key, (node, *child), false, Arc::clone(part));
        }
    }

    fn send(
        &mut self,
        key: Key,
        (from, to): (AggregationNode, AggregationNode),
        up: bool,
        part: Arc<Part>,
    ) {
        let operation = self.aggregation.operations.get_mut(&key).expect("it has a packet");
        operation.packets += 1;
        let at = AggregationPlace::of(from);
        self.aggregation.packets.push_back(Packet { key, at, from, to, up, part });
    }

    /// The result has come to a process: it takes it if all are in it (EMU-5).
    fn deliver(&mut self, key: Key, node: AggregationNode, part: &Part) {
        let AggregationNode::Process { process, endpoint } = node else { return };
        let operation = self.aggregation.operations.get_mut(&key).expect("it has a packet");
        if operation.waiting.get(&process) != Some(&endpoint) {
            return;
        }
        operation.waiting.remove(&process);
        let (have, want) = (part.processes, operation.processes);
        let mine = match operation.work {
            Work::Reduce { root, .. } => root == process,
            Work::Barrier | Work::Broadcast { .. } | Work::AllReduce { .. } => true,
        };
        let values = part.values.as_ref().filter(|_| mine).cloned();
        let result =
            if have == want { Ok(values) } else { Err(Failure::Incomplete { have, want }) };
        let (tree, sequence) = key;
        self.aggregation.finished.push_back(Finished { tree, sequence, process, result });
    }
}
