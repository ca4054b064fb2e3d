//! Registrations of nodes with the TIC.

use std::sync::Arc;

use fabricast_groups::TicRefusal;
use fabricast_groups::command::RegisterNode;
use fabricast_groups::names::NodeName;
use fabricast_groups::record::NodeRecord;
use fabricast_rpc::{RpcError, joined};
use fabricast_telemetry::traces::Origin;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tracing::debug;

use super::requests::{read_record, refusal, register_node_request};
use crate::runtime::Runtime;
use crate::runtime::batch_queue::BatchQueue;

/// Registrations in flight at one time; together they share the TIC's commits.
const REGISTRATIONS_AT_ONCE: usize = 256;

/// A node by its name and start.
type Key = (NodeName, u64);

/// Registers nodes with the TIC; clones share the queue.
#[derive(Clone, Debug)]
pub(crate) struct NodeRegistrations {
    runtime: Runtime,
    queue: Arc<Mutex<BatchQueue<(), Key, RegisterNode>>>,
}

impl NodeRegistrations {
    pub(crate) fn new(runtime: Runtime) -> Self {
        Self { runtime, queue: Arc::new(Mutex::new(BatchQueue::new(REGISTRATIONS_AT_ONCE))) }
    }

    /// Registers a node soon; its state machine gets the answer.
    pub(crate) fn register(&self, node: NodeName, request: RegisterNode) {
        let key = (node, request.start_id);
        if self.queue.lock().push((), key, request, Origin::kept()) {
            self.runtime.tasks.spawn(self.clone().work());
        }
    }

    async fn work(self) {
        loop {
            let batch = self.queue.lock().take(&());
            let Some(batch) = batch else { return };
            let mut calls = JoinSet::new();
            for (key, request) in batch.entries {
                let mut tic = self.runtime.channels.tic();
                calls.spawn(async move {
                    let answer = tic.register_node(register_node_request(&request)).await;
                    let record = answer.map_err(RpcError::from);
                    (key, record.and_then(|answer| read_record(&request, answer.into_inner())))
                });
            }
            while let Some(called) = calls.join_next().await {
                let (key, answer) = joined(called).await;
                self.queue.lock().answered_one(&(), &key);
                self.take_answer(&key.0, answer);
            }
        }
    }

    fn take_answer(&self, node: &NodeName, answer: Result<NodeRecord, RpcError>) {
        let answer = match answer {
            Ok(record) => Ok(record),
            Err(error) => {
                debug!(%node, error = %error.message(), "node not registered");
                match refusal(&error) {
                    Some(refusal @ TicRefusal::Final { .. }) => Err(refusal),
                    // The state machine registers again by itself.
                    Some(TicRefusal::StaleIncarnation) | None => return,
                }
            }
        };
        self.runtime.nodes.input(node, |agent, now| agent.registered(now, answer));
    }
}
