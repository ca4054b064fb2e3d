//! Groups fetched from the TIC, many in a call.

use std::sync::Arc;
use std::time::Duration;

use fabricast_group::GroupAgentHost;
use fabricast_groups::ids::{Gn, Revision};
use fabricast_groups::names::NodeName;
use fabricast_proto::v1;
use fabricast_rpc::RpcError;
use fabricast_telemetry::traces::Origin;
use fabricast_wire::{decode_refusal, decode_snapshot};
use parking_lot::Mutex;
use tonic::Code;
use tracing::debug;

use crate::nodes::effect::Requester;
use crate::runtime::Runtime;
use crate::runtime::batch_queue::BatchQueue;
use crate::runtime::channels::{one_by_one, unavailable, within};

/// Groups in one call: a few milliseconds of work.
const GROUPS_PER_CALL: usize = 256;
/// Hints that a group changed are gathered for this long before it is fetched for its agent.
const DEBOUNCE: Duration = Duration::from_millis(5);
/// A call is given up after this; the state machines ask again.
const DEADLINE: Duration = Duration::from_secs(5);

type Key = (NodeName, Gn);

/// Fetches groups for operating agents and group agents; clones share the queue.
#[derive(Clone, Debug)]
pub(crate) struct GroupFetches {
    runtime: Runtime,
    /// By requester, so that the agents' large answers do not hold up the members' small ones.
    queue: Arc<Mutex<BatchQueue<Requester, Key, ()>>>,
}

impl GroupFetches {
    pub(crate) fn new(runtime: Runtime) -> Self {
        Self { runtime, queue: Arc::new(Mutex::new(BatchQueue::new(GROUPS_PER_CALL))) }
    }

    /// Fetches a group soon; a node's state machine gets the answer.
    pub(crate) fn fetch(&self, requester: Requester, node: NodeName, gn: Gn) {
        if self.queue.lock().push(requester, (node, gn), (), Origin::kept()) {
            self.runtime.tasks.spawn(self.clone().work(requester));
        }
    }

    async fn work(self, requester: Requester) {
        loop {
            if requester == Requester::GroupAgent {
                tokio::time::sleep(DEBOUNCE).await;
            }
            let batch = self.queue.lock().take(&requester);
            let Some(batch) = batch else { return };
            let span = batch.span("fetch_groups");
            let keys: Vec<Key> = batch.entries.into_iter().map(|(key, ())| key).collect();
            span.origin().cover(self.fetch_batch(requester, keys)).await;
        }
    }

    async fn fetch_batch(&self, requester: Requester, keys: Vec<Key>) {
        let (answers, revision) = match self.get_many(requester, &keys).await {
            Ok((answers, revision)) => (Ok(answers), revision),
            Err(error) => (Err(error), Revision(0)),
        };
        self.queue.lock().answered(&requester);
        let answered = answers.as_ref().map_or(keys.len(), Vec::len);
        for (key, answer) in keys.iter().zip(one_by_one(answers)).take(answered) {
            self.take_group(requester, key, answer, revision);
            // A group with all its members is some work; other tasks get their turn in between.
            tokio::task::yield_now().await;
        }
        for (node, gn) in keys.into_iter().skip(answered) {
            self.fetch(requester, node, gn); // there was no room for it in the answer
        }
    }

    /// Gets groups; the TIC may leave out the last ones.
    async fn get_many(
        &self,
        requester: Requester,
        keys: &[Key],
    ) -> Result<(Vec<Result<v1::GetGroupResponse, RpcError>>, Revision), RpcError> {
        let get = |(node, gn): &Key| match requester {
            Requester::OperatingAgent => v1::GetGroupRequest {
                gn: gn.0,
                members_on_node: node.to_string(),
                ..Default::default()
            },
            Requester::GroupAgent => {
                let known = self.runtime.nodes.read_agents(node, |agents| agents.whole_at(*gn));
                let unless_members_revision = known.flatten().map_or(0, |revision| revision.0);
                v1::GetGroupRequest {
                    gn: gn.0,
                    unless_members_revision,
                    with_vouchers: true,
                    ..Default::default()
                }
            }
        };
        let request = v1::GetManyRequest { gets: keys.iter().map(get).collect() };
        let mut tic = self.runtime.channels.tic_batches();
        let answer = within(DEADLINE, tic.get_many(request)).await?;
        if answer.answers.is_empty() {
            return Err(unavailable("the TIC answered nothing"));
        }
        Ok((answer.answers.into_iter().map(read_answer).collect(), Revision(answer.revision)))
    }

    fn take_group(
        &self,
        requester: Requester,
        key: &Key,
        answer: Result<v1::GetGroupResponse, RpcError>,
        revision: Revision,
    ) {
        let (node, gn) = (&key.0, key.1);
        let members_unchanged = answer.as_ref().is_ok_and(|answer| answer.members_left_out);
        let snapshot = match answer.and_then(|answer| Ok(decode_snapshot(&answer)?)) {
            Ok(snapshot) => Some(snapshot),
            Err(error) if error.code() == Code::NotFound => None,
            Err(error) => {
                debug!(group = gn.0, error = %error.message(), "group not fetched");
                return;
            }
        };
        let nodes = &self.runtime.nodes;
        match requester {
            Requester::OperatingAgent => nodes.input(node, |agent, now| match &snapshot {
                Some(snapshot) => agent.group(now, snapshot),
                None => agent.no_group(gn, revision),
            }),
            Requester::GroupAgent => nodes.with_agents(node, |agents, now| match &snapshot {
                Some(snapshot) if members_unchanged => {
                    agents.same_members(now, snapshot.revision, &snapshot.group);
                }
                Some(snapshot) => agents.snapshot(now, snapshot),
                None => agents.gone(gn),
            }),
        };
    }
}

fn read_answer(answer: v1::GetAnswer) -> Result<v1::GetGroupResponse, RpcError> {
    match answer.answer {
        Some(v1::get_answer::Answer::Found(found)) => Ok(found),
        Some(v1::get_answer::Answer::Refusal(refusal)) => Err(decode_refusal(&refusal)),
        None => Err(unavailable("the TIC did not answer for this group")),
    }
}
