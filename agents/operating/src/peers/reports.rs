//! Signs of life to the agents of the members' groups.
//!
//! Their cost grows with the number of processes, not of groups: all nodes of this process report
//! to all nodes of another in one call. To those of this process a node reports without a call, and
//! only after changes if all its groups have their agents here: they learn at once that it goes
//! down. Each address has its own call, so that a peer that does not answer delays only its own
//! reports; while one is in flight the next is left out.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::ids::{Gn, Pn};
use fabricast_groups::message::OaReportReply;
use fabricast_groups::names::{Address, NodeName};
use fabricast_proto::v1;
use fabricast_telemetry::traces::Origin;
use fabricast_wire::{decode_position, encode_report};
use parking_lot::Mutex;
use tracing::debug;

use crate::runtime::Runtime;
use crate::runtime::batch_queue::BatchQueue;
use crate::runtime::channels::within;

/// Memberships in one call, so that it stays far below the message limit.
const MEMBERSHIPS_PER_CALL: usize = 20_000;

/// Nodes that report at once.
const NODES_AT_ONCE: usize = 64;

/// Answers that are handed on at once.
const ANSWERS_AT_ONCE: usize = 256;

/// A report: the receiver handles those to one node of group agents together, so they are sorted by
/// it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    agent: NodeName,
    /// The reporting node.
    node: NodeName,
}

/// Reports to group agents; clones share the queue.
#[derive(Clone, Debug)]
pub(crate) struct AgentReports {
    runtime: Runtime,
    queue: Arc<Mutex<BatchQueue<Address, Key, v1::OperatingAgentStatus>>>,
}

impl AgentReports {
    pub(crate) fn new(runtime: Runtime) -> Self {
        let weight = |status: &v1::OperatingAgentStatus| status.memberships.len();
        let queue = BatchQueue::weighed(MEMBERSHIPS_PER_CALL, weight);
        Self { runtime, queue: Arc::new(Mutex::new(queue)) }
    }

    /// Reports all nodes to the agents of their members' groups.
    pub(crate) async fn report_all(&self, deadline: Duration) {
        for nodes in self.runtime.nodes.names().chunks(NODES_AT_ONCE) {
            for (agent, address, report) in self.runtime.nodes.report(nodes) {
                let status = encode_report(&agent, &report);
                let key = Key { agent, node: report.node };
                self.report(key, address, status, deadline);
            }
            tokio::task::yield_now().await;
        }
    }

    fn report(
        &self,
        key: Key,
        address: Address,
        status: v1::OperatingAgentStatus,
        deadline: Duration,
    ) {
        if self.queue.lock().push(address.clone(), key, status, Origin::default()) {
            self.runtime.tasks.spawn(self.clone().work(address, deadline));
        }
    }

    async fn work(self, address: Address, deadline: Duration) {
        loop {
            let batch = self.queue.lock().take(&address);
            let Some(batch) = batch else { return };
            let Ok(mut agents) = self.runtime.channels.group_agents_at(address.as_str()) else {
                continue;
            };
            let (keys, statuses): (Vec<Key>, Vec<_>) = batch.entries.into_iter().unzip();
            let request = v1::ReportOperatingAgentsRequest { statuses };
            match within(deadline, agents.report_operating_agents(request)).await {
                Ok(answer) => self.take_replies(&keys, answer),
                Err(error) => {
                    debug!(peer = %address, error = %error.message(), "report not taken");
                }
            }
        }
    }

    /// Hands the replies to the reporting nodes.
    fn take_replies(&self, keys: &[Key], answer: v1::ReportOperatingAgentsResponse) {
        let mut replies: BTreeMap<String, OaReportReply> = BTreeMap::new();
        for position in &answer.positions {
            if let Ok(update) = decode_position(position) {
                replies.entry(position.node.clone()).or_default().positions.push(update);
            }
        }
        for unknown in answer.unknown {
            let reply = replies.entry(unknown.node).or_default();
            reply.unknown.push((Gn(unknown.gn), Pn(unknown.pn)));
        }
        let absent = answer.absent_agent_nodes;
        let is_taken = |key: &&Key| !absent.iter().any(|absent| absent == key.agent.as_str());
        let taken: Vec<&Key> = keys.iter().filter(is_taken).collect();
        for keys in taken.chunks(ANSWERS_AT_ONCE) {
            // The replies of several agents to one node come with the first of them.
            let answers = keys.iter().map(|key| {
                (&key.node, &key.agent, replies.remove(key.node.as_str()).unwrap_or_default())
            });
            self.runtime.nodes.reports_answered(answers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::agent;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_peer_that_does_not_answer_delays_only_its_own_reports() {
        let test = agent();
        let reports = &test.agent.agent_reports;
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let report = |to: &TcpListener| {
            let address = Address::new(&to.local_addr().unwrap().to_string()).unwrap();
            let key = Key { agent: test.node.clone(), node: test.node.clone() };
            let status = v1::OperatingAgentStatus::default();
            reports.report(key.clone(), address.clone(), status, Duration::from_secs(60));
            let queue = reports.queue.lock();
            queue.waiting(&address, &key).is_some()
        };
        assert!(report(&silent), "the worker has not run yet");
        let _held = silent.accept().await.unwrap();
        assert!(!report(&silent), "one is in flight");
        assert!(report(&other));
        let _told = other.accept().await.unwrap();
        test.agent.runtime.tasks.stop().await;
    }
}
