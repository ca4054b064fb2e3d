//! Programs that join and leave groups at every node, and remember the answers.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_proto::v1::operating_agent_service_client::OperatingAgentServiceClient;
use fabricast_rpc::{Channel, request_id};
use fabricast_topology::SplitMix;
use parking_lot::Mutex;
use tokio::time::{sleep, timeout};
use tonic::Code;

use crate::parts::{AGENTS, Host, nodes_of, security};

/// Groups that programs join.
const GROUPS: u32 = 5;
/// Processes of a node that may be in a group.
const PROCESSES: u32 = 2;
/// Longer than an operating agent tries.
const PATIENCE: Duration = Duration::from_secs(15);

/// A process in a group: node, group, process.
pub(crate) type Key = (String, String, String);

/// Membership of a process as its program knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The last join was acknowledged.
    Joined,
    /// The last leave was acknowledged.
    Left,
    /// The last call failed, or has not been answered.
    Unclear,
}

/// The answers that programs got; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct History(Arc<Mutex<BTreeMap<Key, Answer>>>);

impl History {
    pub(crate) fn answers(&self) -> BTreeMap<Key, Answer> {
        self.0.lock().clone()
    }

    fn note(&self, key: &Key, answer: Answer) {
        self.0.lock().insert(key.clone(), answer);
    }
}

/// A client of the operating agent of a process.
pub(crate) fn agent(index: usize) -> OperatingAgentServiceClient<Channel> {
    let peer = security().peer(&Host::Agent(index).address()).expect("an address");
    OperatingAgentServiceClient::new(peer.channel())
}

/// Joins and leaves at all nodes until a time; returns the number of acknowledged calls.
pub(crate) async fn run(seed: u64, until: Duration, history: &History) -> u64 {
    let mut programs = tokio::task::JoinSet::new();
    let mut seeds = SplitMix::new(seed);
    for index in 0..AGENTS {
        for node in nodes_of(index) {
            let chance = SplitMix::new(seeds.bits());
            programs.spawn(run_program(index, node, chance, until, history.clone()));
        }
    }
    programs.join_all().await.into_iter().sum()
}

async fn run_program(
    index: usize,
    node: String,
    mut chance: SplitMix,
    until: Duration,
    history: History,
) -> u64 {
    let (mut agent, mut acknowledged) = (agent(index), 0);
    while turmoil::sim_elapsed().is_some_and(|now| now < until) {
        sleep(Duration::from_millis(u64::from(50 + chance.below(900)))).await;
        let [group, process] = [GROUPS, PROCESSES].map(|count| chance.below(count));
        let key = (node.clone(), format!("g{group}"), format!("p{process}"));
        let is_member = history.0.lock().get(&key) == Some(&Answer::Joined);
        history.note(&key, Answer::Unclear);
        let called = timeout(PATIENCE, call(&mut agent, &key, is_member)).await;
        if let Ok(answer @ (Answer::Joined | Answer::Left)) = called {
            history.note(&key, answer);
            acknowledged += 1;
        }
    }
    acknowledged
}

async fn call(
    agent: &mut OperatingAgentServiceClient<Channel>,
    (node, group, process): &Key,
    is_member: bool,
) -> Answer {
    let (node, group, process) = (node.clone(), group.clone(), process.clone());
    if is_member {
        let request_id = request_id();
        let request =
            v1::OperatingAgentServiceLeaveGroupRequest { node, group, process, request_id };
        return match agent.leave_group(request).await {
            Ok(_) => Answer::Left,
            Err(status) if status.code() == Code::NotFound => Answer::Left,
            Err(_) => Answer::Unclear,
        };
    }
    let request =
        v1::OperatingAgentServiceJoinGroupRequest { node, group, process, ..Default::default() };
    match agent.join_group(request).await {
        Ok(_) => Answer::Joined,
        Err(_) => Answer::Unclear,
    }
}
