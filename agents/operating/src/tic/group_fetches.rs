//! Groups fetched from the TIC, many in a call.

use std::collections::BTreeSet;
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
use tokio::time::Instant;
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

/// A group with more members is fetched apart from smaller ones, whose requesters would wait for
/// it.
const LARGE: usize = 256;

type Key = (NodeName, Gn);

/// Requests that share calls to the TIC, one call at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    requester: Requester,
    /// True if the groups were large when they were last fetched.
    is_large: bool,
}

/// Fetches groups for operating agents and group agents; clones share the queue.
#[derive(Clone, Debug)]
pub(crate) struct GroupFetches {
    runtime: Runtime,
    /// By class, so that large answers do not hold up small ones.
    queue: Arc<Mutex<BatchQueue<Class, Key, ()>>>,
    large: Arc<Mutex<BTreeSet<(Requester, Key)>>>,
}

impl GroupFetches {
    pub(crate) fn new(runtime: Runtime) -> Self {
        let queue = Arc::new(Mutex::new(BatchQueue::new(GROUPS_PER_CALL)));
        Self { runtime, queue, large: Arc::default() }
    }

    /// Fetches a group soon; a node's state machine gets the answer.
    pub(crate) fn fetch(&self, requester: Requester, node: NodeName, gn: Gn) {
        let key = (node, gn);
        let is_large = self.large.lock().contains(&(requester, key.clone()));
        let class = Class { requester, is_large };
        if self.queue.lock().push(class, key, (), Origin::kept()) {
            self.runtime.tasks.spawn(self.clone().work(class));
        }
    }

    async fn work(self, class: Class) {
        let least = match class.requester {
            Requester::GroupAgent => DEBOUNCE,
            Requester::OperatingAgent => Duration::ZERO,
        };
        let mut pause = least;
        loop {
            if !pause.is_zero() {
                tokio::time::sleep(pause).await; // a millisecond at least
            }
            let batch = self.queue.lock().take(&class);
            let Some(batch) = batch else { return };
            let span = batch.span("fetch_groups");
            let mut keys: Vec<Key> = batch.entries.into_iter().map(|(key, ())| key).collect();
            let begun = Instant::now();
            while !keys.is_empty() {
                keys = span.origin().cover(self.fetch_batch(class, keys)).await;
            }
            if class.is_large {
                // A large group may change as often as it is fetched: other work has its time, too.
                pause = least.max(begun.elapsed());
            }
        }
    }

    /// Fetches groups. Returns those for which there was no room in the answer: they go before
    /// others that wait.
    async fn fetch_batch(&self, class: Class, keys: Vec<Key>) -> Vec<Key> {
        let requester = class.requester;
        let (answers, revision) = match self.get_many(requester, &keys).await {
            Ok((answers, revision)) => (Ok(answers), revision),
            Err(error) => (Err(error), Revision(0)),
        };
        self.queue.lock().answered(&class);
        let answered = answers.as_ref().map_or(keys.len(), Vec::len);
        for (key, answer) in keys.iter().zip(one_by_one(answers)).take(answered) {
            self.take_group(requester, key, answer, revision);
            // A group with all its members is some work; other tasks get their turn in between.
            tokio::task::yield_now().await;
        }
        keys.into_iter().skip(answered).collect()
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

    /// Notes whether a group is large; one that is not found, or has its agent elsewhere, is not.
    fn note_size(
        &self,
        requester: Requester,
        key: &Key,
        answer: Result<&v1::GetGroupResponse, &RpcError>,
    ) {
        let found = match answer {
            Ok(found) if found.members_left_out => return, // as large as before
            Ok(found) => found.group.as_ref(),
            Err(error) if error.code() == Code::NotFound => None,
            Err(_) => return, // nothing is known
        };
        // An agent that has moved away does not fetch the group any more.
        let is_asked_for = |group: &&v1::Group| {
            requester == Requester::OperatingAgent || group.agent_node == key.0.as_str()
        };
        let members = found.filter(is_asked_for).map_or(0, |group| group.members.len());
        let known = (requester, key.clone());
        let mut large = self.large.lock();
        if members > LARGE {
            large.insert(known);
        } else {
            large.remove(&known);
        }
    }

    fn take_group(
        &self,
        requester: Requester,
        key: &Key,
        answer: Result<v1::GetGroupResponse, RpcError>,
        revision: Revision,
    ) {
        let (node, gn) = (&key.0, key.1);
        self.note_size(requester, key, answer.as_ref());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::agent;

    #[tokio::test]
    async fn large_groups_keep_no_smaller_one_waiting() {
        let test = agent();
        let fetches = &test.agent.fetches;
        let key = |gn| (test.node.clone(), Gn(gn));
        let note = |gn, agent_node: &str, members| {
            let members = vec![v1::Member::default(); members];
            let agent_node = agent_node.to_owned();
            let group = v1::Group { agent_node, members, ..v1::Group::default() };
            let found = v1::GetGroupResponse { group: Some(group), ..Default::default() };
            fetches.note_size(Requester::GroupAgent, &key(gn), Ok(&found));
        };
        note(1, test.node.as_str(), LARGE + 1);
        note(2, test.node.as_str(), LARGE);
        for gn in 1..=2 {
            fetches.fetch(Requester::GroupAgent, test.node.clone(), Gn(gn));
        }
        for (is_large, gn) in [(true, 1), (false, 2)] {
            let class = Class { requester: Requester::GroupAgent, is_large };
            assert!(fetches.queue.lock().waiting(&class, &key(gn)).is_some(), "group {gn}");
        }
        let silent = unavailable("the TIC does not answer");
        fetches.note_size(Requester::GroupAgent, &key(1), Err(&silent));
        assert_eq!(fetches.large.lock().len(), 1, "nothing is known");
        note(1, "another", LARGE + 1);
        assert!(fetches.large.lock().is_empty(), "its agent is elsewhere");
    }
}
