//! Registrations of members with the agents of their groups, many in a call.

use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::ids::{Epoch, Gn, Incarnation, Pn};
use fabricast_groups::message::{AgentRefusal, PositionUpdate, Register};
use fabricast_groups::names::{Address, NodeName};
use fabricast_proto::v1;
use fabricast_rpc::{Reason, RpcError, give_turn};
use fabricast_telemetry::traces::Origin;
use fabricast_wire::{decode_position, decode_refusal, encode_member_view};
use parking_lot::Mutex;
use tracing::debug;

use crate::runtime::Runtime;
use crate::runtime::batch_queue::BatchQueue;
use crate::runtime::channels::{one_by_one, unavailable, within};

/// Registrations in one call: a few milliseconds of work.
const PER_CALL: usize = 256;
/// A call is given up after this; the state machines ask again.
const DEADLINE: Duration = Duration::from_secs(5);

/// A registration of a member in an epoch of its group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    node: NodeName,
    incarnation: Incarnation,
    gn: Gn,
    pn: Pn,
    epoch: Epoch,
}

/// Registers members; clones share the queue.
#[derive(Clone, Debug)]
pub(crate) struct MemberRegistrations {
    runtime: Runtime,
    queue: Arc<Mutex<BatchQueue<Address, Key, v1::RegisterMemberRequest>>>,
}

impl MemberRegistrations {
    pub(crate) fn new(runtime: Runtime) -> Self {
        Self { runtime, queue: Arc::new(Mutex::new(BatchQueue::new(PER_CALL))) }
    }

    /// Registers a member soon; its node's state machine gets the answer.
    ///
    /// - `agent`: the node of the group's agent.
    pub(crate) fn register(
        &self,
        node: NodeName,
        agent: &NodeName,
        address: Address,
        register: &Register,
    ) {
        let key = Key {
            node,
            incarnation: register.member.incarnation,
            gn: register.gn,
            pn: register.member.member.pn,
            epoch: register.epoch,
        };
        let request = v1::RegisterMemberRequest {
            agent_node: agent.to_string(),
            gn: register.gn.0,
            epoch: register.epoch.0,
            member: Some(v1::Member {
                voucher: register.voucher.map(|voucher| voucher.0),
                ..encode_member_view(&register.member)
            }),
        };
        if self.queue.lock().push(address.clone(), key, request, Origin::kept()) {
            self.runtime.tasks.spawn(self.clone().work(address));
        }
    }

    async fn work(self, address: Address) {
        loop {
            let batch = self.queue.lock().take(&address);
            let Some(batch) = batch else { return };
            let span = batch.span("register_members");
            span.origin().cover(self.register_batch(&address, batch.entries)).await;
        }
    }

    async fn register_batch(
        &self,
        address: &Address,
        batch: Vec<(Key, v1::RegisterMemberRequest)>,
    ) {
        let Ok(mut agents) = self.runtime.channels.group_agents_at(address.as_str()) else {
            return;
        };
        let (keys, members): (Vec<Key>, Vec<_>) = batch.into_iter().unzip();
        let request = v1::RegisterMembersRequest { members };
        let answer = within(DEADLINE, agents.register_members(request)).await;
        let answers = answer.map(|answer| answer.answers.into_iter().map(read_answer).collect());
        self.queue.lock().answered(address);
        for (index, (key, answer)) in keys.into_iter().zip(one_by_one(answers)).enumerate() {
            // Other tasks get their turn in between.
            give_turn(index).await;
            let answer = match answer {
                Ok(position) => Ok(position),
                Err(error) => match agent_refusal(&key, &error) {
                    Some(refusal) => Err(refusal),
                    None => {
                        debug!(group = key.gn.0, error = %error.message(), "member not registered");
                        continue;
                    }
                },
            };
            self.runtime.nodes.input(&key.node, |agent, now| {
                agent.member_registered(now, key.gn, key.pn, answer);
            });
        }
    }
}

fn read_answer(answer: v1::RegisterAnswer) -> Result<PositionUpdate, RpcError> {
    match answer.answer {
        Some(v1::register_answer::Answer::Position(position)) => Ok(decode_position(&position)?),
        Some(v1::register_answer::Answer::Refusal(refusal)) => Err(decode_refusal(&refusal)),
        None => Err(unavailable("the agent did not answer this registration")),
    }
}

/// The agent's refusal; `None` if it did not answer, or not in terms known here.
fn agent_refusal(key: &Key, error: &RpcError) -> Option<AgentRefusal> {
    let Key { gn, pn, epoch, .. } = *key;
    match error.reason()? {
        Reason::StaleEpoch => {
            Some(AgentRefusal::StaleEpoch { gn, given: epoch, known: Epoch(epoch.0 + 1) })
        }
        Reason::NotAMember => Some(AgentRefusal::UnknownMember { gn, pn }),
        Reason::NotHostedHere => Some(AgentRefusal::NotHosted { gn, epoch }),
        _ => None,
    }
}
