//! Positions in unicast trees on their way to the members' nodes: many in a call, and without a
//! call to the nodes of this process.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fabricast_group::GroupAgentHost as _;
use fabricast_groups::ids::{Gn, Moment, Pn};
use fabricast_groups::message::PositionUpdate;
use fabricast_groups::names::{Address, NodeName};
use fabricast_groups::operating::Oa;
use fabricast_proto::v1;
use fabricast_telemetry::traces::Origin;
use fabricast_wire::encode_position;
use parking_lot::Mutex;
use tracing::debug;

use crate::runtime::Runtime;
use crate::runtime::batch_queue::BatchQueue;
use crate::runtime::channels::within;

/// Positions in one call.
const PER_CALL: usize = 2000;
/// Positions that nodes of this process take at once.
const AT_ONCE: usize = 256;
/// A call is given up after this; the agents send again each position that is not confirmed.
const DEADLINE: Duration = Duration::from_secs(2);

/// A position, and the node whose group agent sends it.
#[derive(Debug)]
pub(crate) struct SentPosition {
    pub(crate) agent: NodeName,
    pub(crate) update: PositionUpdate,
}

type Queue = BatchQueue<Address, (Gn, Pn), SentPosition>;

/// Sends positions; clones share the queue, which holds the newest position of each member.
#[derive(Clone, Debug)]
pub(crate) struct Positions {
    runtime: Runtime,
    queue: Arc<Mutex<Queue>>,
}

impl Positions {
    pub(crate) fn new(runtime: Runtime) -> Self {
        Self { runtime, queue: Arc::new(Mutex::new(BatchQueue::new(PER_CALL))) }
    }

    /// Sends a position soon, unless a newer one of the member waits.
    pub(crate) fn send(&self, address: Address, position: SentPosition) {
        let key = (position.update.gn, position.update.pn);
        let age = |position: &SentPosition| (position.update.epoch, position.update.version);
        let mut queue = self.queue.lock();
        if queue.waiting(&address, &key).is_some_and(|waiting| age(waiting) > age(&position)) {
            return;
        }
        if queue.push(address.clone(), key, position, Origin::kept()) {
            self.runtime.tasks.spawn(self.clone().work(address));
        }
    }

    async fn work(self, address: Address) {
        loop {
            let batch = {
                let mut queue = self.queue.lock();
                let batch = queue.take(&address);
                queue.answered(&address); // a newer position may be queued during the call
                batch
            };
            let Some(batch) = batch else { return };
            let span = batch.span("place_members");
            if address.as_str() == self.runtime.nodes.address() {
                self.give_here(&batch.entries).await;
                continue;
            }
            let Ok(mut agents) = self.runtime.channels.operating_agents_at(address.as_str()) else {
                continue;
            };
            let positions = batch.entries.iter().map(|(_, sent)| encode_position(&sent.update));
            let request = v1::UpdatePositionsRequest { positions: positions.collect() };
            let call = within(DEADLINE, agents.update_positions(request));
            match span.origin().cover(call).await {
                Ok(answer) => {
                    let refused = answer.refused.iter().map(|one| (Gn(one.gn), Pn(one.pn)));
                    let refused: BTreeSet<(Gn, Pn)> = refused.collect();
                    self.note_taken(&batch.entries, &refused);
                }
                Err(error) => {
                    debug!(peer = %address, error = %error.message(), "positions not sent");
                }
            }
        }
    }

    /// Gives positions to nodes of this process. A group agent speaks for its own node only.
    async fn give_here(&self, sent: &[((Gn, Pn), SentPosition)]) {
        for sent in sent.chunks(AT_ONCE) {
            let inputs = sent.iter().map(|(_, one)| (one.update.node.clone(), one)).collect();
            let take = |_: &NodeName, node: &mut Oa, now: Moment, one: &SentPosition| {
                node.position(now, &one.update, |agent| *agent == one.agent).is_ok()
            };
            let taken = self.runtime.nodes.input_many(inputs, take);
            let refused = sent.iter().zip(taken).filter(|(_, taken)| *taken != Some(true));
            let refused: BTreeSet<(Gn, Pn)> = refused.map(|(one, _)| one.0).collect();
            self.note_taken(sent, &refused);
            tokio::task::yield_now().await;
        }
    }

    /// Tells the agents which positions need not be sent again.
    fn note_taken(&self, sent: &[((Gn, Pn), SentPosition)], refused: &BTreeSet<(Gn, Pn)>) {
        for sent in sent.chunk_by(|(_, a), (_, b)| a.agent == b.agent) {
            // The agents may be gone by now.
            let _ = self.runtime.nodes.with_agents(&sent[0].1.agent, |agents, _| {
                for (_, one) in sent.iter().filter(|(key, _)| !refused.contains(key)) {
                    agents.position_taken(&one.update);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::agent;
    use fabricast_groups::ids::{Epoch, Version};
    use tokio::net::TcpListener;

    fn position(pn: u32, epoch: u64, version: u64) -> SentPosition {
        let update = PositionUpdate {
            gn: Gn(1),
            epoch: Epoch(epoch),
            pn: Pn(pn),
            node: NodeName::new("n1").unwrap(),
            tree: Default::default(),
            parent: None,
            children: Vec::new(),
            route: None,
            version: Version(version),
            enrolment: None,
        };
        SentPosition { agent: NodeName::new("n0").unwrap(), update }
    }

    #[tokio::test]
    async fn the_newest_position_of_a_member_waits_even_during_a_call() {
        let test = agent();
        let positions = &test.agent.positions;
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = Address::new(&silent.local_addr().unwrap().to_string()).unwrap();
        positions.send(address.clone(), position(1, 1, 5));
        let _held = silent.accept().await.unwrap();
        for (epoch, version) in [(2, 1), (1, 6), (2, 0)] {
            positions.send(address.clone(), position(1, epoch, version));
        }
        let queue = positions.queue.lock();
        let waiting = queue.waiting(&address, &(Gn(1), Pn(1))).unwrap();
        let waiting = &waiting.update;
        assert_eq!((waiting.epoch, waiting.version), (Epoch(2), Version(1)));
    }

    #[tokio::test]
    async fn nodes_of_this_process_get_positions_without_a_call() {
        let test = agent(); // nobody listens at its address
        test.node_up();
        let nodes = &test.agent.runtime.nodes;
        let waits = || nodes.read(&test.node, |agent| agent.next_deadline()).flatten();
        assert_eq!(waits(), None);
        let address = nodes.read(&test.node, |agent| agent.identity().address.clone()).unwrap();
        let update = PositionUpdate { node: test.node.clone(), ..position(0, 1, 1).update };
        test.agent.positions.send(address, SentPosition { agent: test.node.clone(), update });
        let asks = async {
            while waits().is_none() {
                tokio::task::yield_now().await;
            }
        };
        let asks = tokio::time::timeout(Duration::from_secs(10), asks).await;
        asks.expect("the node asks for the group that it does not know");
    }

    #[tokio::test]
    async fn a_process_that_does_not_answer_delays_no_other() {
        let test = agent();
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address =
            |at: &TcpListener| Address::new(&at.local_addr().unwrap().to_string()).unwrap();
        test.agent.positions.send(address(&silent), position(0, 1, 1));
        let _held = silent.accept().await.unwrap();
        test.agent.positions.send(address(&other), position(0, 1, 1));
        let _told = other.accept().await.unwrap();
    }
}
