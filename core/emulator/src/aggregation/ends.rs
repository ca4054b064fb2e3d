//! How operations end: lost parts, lost places, and the last packet.

use fabricast_topology::AggregationNode;

use super::engine::Key;
use super::table::{AggregationPlace, AggregationTable};
use super::{ENDED_KEPT, Failure, Finished};
use crate::emulator::Emulator;

impl Emulator {
    /// Gives an operation up: whoever waits for its result is told, and whoever comes late. False if
    /// no process has contributed to it, or it has ended.
    pub fn abandon(&mut self, tree: u32, sequence: u64) -> bool {
        let key = (tree, sequence);
        let operation = self.aggregation.operations.get(&key);
        if operation.is_none_or(|operation| operation.ended) {
            return false;
        }
        self.lose(key, Failure::Abandoned);
        self.settle(key);
        true
    }

    /// An operation can no longer end well; whoever the result does not reach will hear of it.
    pub(super) fn lose(&mut self, key: Key, failure: Failure) {
        let operation = self.aggregation.operations.get_mut(&key).expect("it is under way");
        operation.partials.clear();
        operation.failure.get_or_insert(failure);
    }

    /// Counts a packet that is no longer under way.
    pub(super) fn packet_ended(&mut self, key: Key) {
        let operation = self.aggregation.operations.get_mut(&key).expect("it had a packet");
        operation.packets -= 1;
        self.settle(key);
    }

    /// Ends an operation that nothing travels for any more, if nothing can come (EMU-6).
    fn settle(&mut self, key: Key) {
        let aggregation = &mut self.aggregation;
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

    /// Fails the operations of which certain nodes have part.
    pub(super) fn lose_partials(
        &mut self,
        lost: impl Fn(Key, AggregationNode) -> bool,
        failure: Failure,
    ) {
        let operations = self.aggregation.operations.iter();
        let hit: Vec<Key> = operations
            .filter(|(key, operation)| operation.partials.keys().any(|node| lost(**key, *node)))
            .map(|(key, _)| *key)
            .collect();
        for key in hit {
            self.lose(key, failure);
            self.settle(key);
        }
    }

    /// A switch or adapter lost its power: what it held, and the packets in it.
    pub(crate) fn lose_place(&mut self, place: AggregationPlace) {
        match place {
            AggregationPlace::Switch(switch) => {
                self.aggregation.tables.switches[switch.index()] = AggregationTable::default();
            }
            AggregationPlace::Adapter(endpoint) => {
                self.aggregation.tables.adapters.remove(&endpoint);
            }
        }
        let operations = self.aggregation.operations.values();
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
        let packets = std::mem::take(&mut self.aggregation.packets);
        let (lost, rest) = packets.into_iter().partition(|packet| packet.at == place);
        self.aggregation.packets = rest;
        for packet in Vec::from(lost) {
            self.lose(packet.key, Failure::NodeFailed { node });
            self.packet_ended(packet.key);
        }
    }
}
