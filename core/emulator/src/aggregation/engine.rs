//! Operations in progress: contributions, packets hop by hop, partial results, and their end.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use fabricast_topology::{AggregationEntry, AggregationNode, Graph, Peer, PortId, SwitchId};

use super::contribution::{Contribution, ContributionError, Failure, Finished, Work};
use super::fabric::{AggregationPlace, FabricState};
use super::operation::{Operation, Part, Partial, combine, values_fit};
use super::routes::Routes;
use super::table::{AggregationError, AggregationLimits, AggregationTables, AggregationWrite};
use crate::packet::PortCounters;
use crate::table::Fence;

/// Ended operations that are remembered, so that late and repeated contributions are refused.
const ENDED_KEPT: usize = 1_024;

/// Most operations in progress or remembered.
const OPERATIONS_KEPT: usize = 65_536;

/// Tree and sequence number of an operation.
type Key = (u32, u64);

/// State of all aggregation engines of the fabric.
#[derive(Clone, Debug)]
pub(crate) struct Aggregation {
    tables: AggregationTables,
    operations: BTreeMap<Key, Operation>,
    /// The ended ones of `operations`, oldest first.
    ended: VecDeque<Key>,
    packets: VecDeque<Packet>,
    finished: VecDeque<Finished>,
    routes: Routes,
}

/// A packet between two hops.
#[derive(Clone, Debug)]
struct Packet {
    key: Key,
    at: AggregationPlace,
    from: AggregationNode,
    to: AggregationNode,
    direction: Direction,
    part: Arc<Part>,
}

/// Direction of a packet along its tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    /// A contribution, to the root.
    Up,
    /// The result, to the processes.
    Down,
}

impl Aggregation {
    pub(crate) fn new(graph: &Graph) -> Self {
        Self {
            tables: AggregationTables::new(graph),
            operations: BTreeMap::new(),
            ended: VecDeque::new(),
            packets: VecDeque::new(),
            finished: VecDeque::new(),
            routes: Routes::default(),
        }
    }

    pub(crate) fn set_limits(&mut self, limits: AggregationLimits) {
        self.tables.limits = limits;
    }

    pub(crate) fn write(
        &mut self,
        fabric: FabricState<'_>,
        place: AggregationPlace,
        fence: Fence,
        writes: &[AggregationWrite],
    ) -> Result<(), AggregationError> {
        for (tree, holder) in self.tables.write(fabric, place, fence, writes)? {
            let was_in_entry = |key: Key, node| key.0 == tree && node == holder;
            self.lose_partials(was_in_entry, Failure::EntryRemoved);
        }
        Ok(())
    }

    pub(crate) fn read(
        &self,
        fabric: FabricState<'_>,
        place: AggregationPlace,
    ) -> Result<Vec<AggregationEntry>, AggregationError> {
        self.tables.read(fabric, place)
    }

    pub(crate) fn fence(
        &self,
        fabric: FabricState<'_>,
        place: AggregationPlace,
    ) -> Result<Fence, AggregationError> {
        self.tables.fence(fabric, place)
    }

    /// Drops all routes after a port went up or down.
    pub(crate) fn forget_routes(&mut self) {
        self.routes.forget();
    }

    pub(crate) fn contribute(
        &mut self,
        fabric: FabricState<'_>,
        contribution: Contribution,
    ) -> Result<(), ContributionError> {
        let Contribution { tree, sequence, process, endpoint, processes, to, work, values } =
            contribution;
        let own = AggregationPlace::Adapter(endpoint);
        if !(fabric.has_place(own) && fabric.has_place(AggregationPlace::of(to))) {
            return Err(ContributionError::Unknown);
        }
        if !values_fit(work, process, values.as_ref()) {
            return Err(ContributionError::Values);
        }
        let port = fabric.graph.attachment(endpoint);
        if !port.is_some_and(|port| fabric.live[port.index()]) {
            return Err(ContributionError::CutOff);
        }
        let key = (tree, sequence);
        let operations = &mut self.operations;
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
        self.packets.push_back(Packet {
            key,
            at: own,
            from: AggregationNode::Process { process, endpoint },
            to,
            direction: Direction::Up,
            part: Arc::new(Part { processes: 1, values }),
        });
        Ok(())
    }

    pub(crate) fn step(
        &mut self,
        fabric: FabricState<'_>,
        counters: &mut [PortCounters],
    ) -> Option<bool> {
        let mut packet = self.packets.pop_front()?;
        if packet.at == AggregationPlace::of(packet.to) {
            let key = packet.key;
            if let Err(failure) = self.handle(packet) {
                self.lose(key, failure);
            }
            self.packet_ended(key);
            return Some(false);
        }
        match self.next_place(fabric, counters, &packet) {
            Some(at) => {
                packet.at = at;
                self.packets.push_back(packet);
                Some(true)
            }
            None => {
                self.lose(packet.key, Failure::NoRoute { to: packet.to });
                self.packet_ended(packet.key);
                Some(false)
            }
        }
    }

    pub(crate) fn poll_finished(&mut self) -> Option<Finished> {
        self.finished.pop_front()
    }

    /// Moves a packet over one link and counts it at both ports; `None` if the link is dead.
    fn next_place(
        &mut self,
        fabric: FabricState<'_>,
        counters: &mut [PortCounters],
        packet: &Packet,
    ) -> Option<AggregationPlace> {
        let FabricState { graph, live, .. } = fabric;
        let bytes = packet.part.bytes();
        match packet.at {
            AggregationPlace::Adapter(endpoint) => {
                let port = graph.attachment(endpoint).filter(|port| live[port.index()])?;
                counters[port.index()].receive(bytes);
                Some(AggregationPlace::Switch(graph.switch_of(port)))
            }
            AggregationPlace::Switch(switch) => {
                let out = self
                    .port_towards(fabric, switch, packet.to)
                    .filter(|port| live[port.index()])?;
                counters[out.index()].send(bytes);
                match graph.peer(out) {
                    Peer::Endpoint(endpoint) => Some(AggregationPlace::Adapter(endpoint)),
                    Peer::Switch(peer) => {
                        counters[peer.index()].receive(bytes);
                        Some(AggregationPlace::Switch(graph.switch_of(peer)))
                    }
                    Peer::None => None,
                }
            }
        }
    }

    fn port_towards(
        &mut self,
        fabric: FabricState<'_>,
        switch: SwitchId,
        to: AggregationNode,
    ) -> Option<PortId> {
        let graph = fabric.graph;
        let (target, last) = match to {
            AggregationNode::Switch(target) => (target, None),
            AggregationNode::Process { endpoint, .. } => {
                let port = graph.attachment(endpoint)?;
                (graph.switch_of(port), Some(port))
            }
        };
        if target == switch {
            return last;
        }
        self.routes.next(fabric, switch, target)
    }

    /// Handles a packet that has arrived at its target.
    fn handle(&mut self, packet: Packet) -> Result<(), Failure> {
        let Packet { key, from, to: node, direction, part, .. } = packet;
        if direction == Direction::Up {
            return self.gather(key, from, node, part);
        }
        let entry = self.tables.entry(key.0, node);
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

    /// Keeps a child's part, and combines all parts once the last one has come.
    fn gather(
        &mut self,
        key: Key,
        from: AggregationNode,
        node: AggregationNode,
        part: Arc<Part>,
    ) -> Result<(), Failure> {
        let Self { tables, operations, .. } = self;
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
            Some(parent) => {
                let at = AggregationPlace::of(node);
                let direction = Direction::Up;
                self.send(Packet { key, at, from: node, to: parent, direction, part: whole });
            }
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
            let (at, part) = (AggregationPlace::of(node), Arc::clone(part));
            let direction = Direction::Down;
            self.send(Packet { key, at, from: node, to: *child, direction, part });
        }
    }

    fn send(&mut self, packet: Packet) {
        let operation = self.operations.get_mut(&packet.key).expect("it has a packet");
        operation.packets += 1;
        self.packets.push_back(packet);
    }

    /// Gives the result to a process; an error if it does not cover all processes (EMU-5).
    fn deliver(&mut self, key: Key, node: AggregationNode, part: &Part) {
        let AggregationNode::Process { process, endpoint } = node else { return };
        let operation = self.operations.get_mut(&key).expect("it has a packet");
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
        self.finished.push_back(Finished { tree, sequence, process, result });
    }

    pub(crate) fn abandon(&mut self, tree: u32, sequence: u64) -> bool {
        let key = (tree, sequence);
        let operation = self.operations.get(&key);
        if operation.is_none_or(|operation| operation.ended) {
            return false;
        }
        self.lose(key, Failure::Abandoned);
        self.settle(key);
        true
    }

    /// Marks an operation as failed; processes that the result does not reach get the failure.
    fn lose(&mut self, key: Key, failure: Failure) {
        let operation = self.operations.get_mut(&key).expect("it is under way");
        operation.partials.clear();
        operation.failure.get_or_insert(failure);
    }

    /// Counts down the packets in flight of an operation.
    fn packet_ended(&mut self, key: Key) {
        let operation = self.operations.get_mut(&key).expect("it had a packet");
        operation.packets -= 1;
        self.settle(key);
    }

    /// Ends an operation without packets in flight if no more can come (EMU-6).
    fn settle(&mut self, key: Key) {
        let aggregation = self;
        let Some(operation) = aggregation.operations.get_mut(&key) else { return };
        if operation.packets > 0 {
            return;
        }
        if let Some(failure) = operation.dead_end() {
            operation.failure = Some(failure);
            let (tree, sequence) = key;
            for process in std::mem::take(&mut operation.waiting).into_keys() {
                let result = Err(failure);
                aggregation.finished.push_back(Finished { tree, sequence, process, result });
            }
        } else if !operation.returned {
            return;
        }
        operation.contributed.clear();
        if !std::mem::replace(&mut operation.ended, true) {
            aggregation.ended.push_back(key);
        }
        if aggregation.ended.len() > ENDED_KEPT
            && let Some(oldest) = aggregation.ended.pop_front()
        {
            aggregation.operations.remove(&oldest);
        }
    }

    /// Fails the operations of which a node that matches `lost` holds state.
    fn lose_partials(&mut self, lost: impl Fn(Key, AggregationNode) -> bool, failure: Failure) {
        let operations = self.operations.iter();
        let hit: Vec<Key> = operations
            .filter(|(key, operation)| operation.partials.keys().any(|node| lost(**key, *node)))
            .map(|(key, _)| *key)
            .collect();
        for key in hit {
            self.lose(key, failure);
            self.settle(key);
        }
    }

    /// Handles the loss of power at a place: its entries, its state and the packets in it are gone.
    pub(crate) fn lose_place(&mut self, place: AggregationPlace) {
        self.tables.clear(place);
        let operations = self.operations.values();
        let nodes = operations.flat_map(|operation| operation.partials.keys().copied());
        let here: Vec<AggregationNode> =
            nodes.filter(|node| AggregationPlace::of(*node) == place).collect();
        for node in here {
            self.lose_partials(|_, other| other == node, Failure::NodeFailed { node });
        }
        let node = match place {
            AggregationPlace::Switch(switch) => AggregationNode::Switch(switch),
            AggregationPlace::Adapter(endpoint) => {
                AggregationNode::Process { process: 0, endpoint }
            }
        };
        let packets = std::mem::take(&mut self.packets);
        let (lost, rest) = packets.into_iter().partition(|packet| packet.at == place);
        self.packets = rest;
        for packet in Vec::from(lost) {
            self.lose(packet.key, Failure::NodeFailed { node });
            self.packet_ended(packet.key);
        }
    }
}
