//! Sends packets from members and compares what arrived with what must have.
//!
//! Every packet carries its number, every receiver is counted per packet, so that a missing, a
//! second and a stray copy each show up with the name of the receiver.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fabricast_proto::v1;
use fabricast_proto::v1::operating_agent_service_client::OperatingAgentServiceClient;
use fabricast_rpc::{Peer, RpcError};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::remote;

/// Most packets in flight to the agents.
const SENDS_AT_ONCE: usize = 128;
/// Most wrong copies that are listed.
const LISTED: usize = 5;

/// Node and name of a process that receives packets.
type Receiver = (String, String);

/// One packet of a round.
#[derive(Clone, Debug)]
struct Sent {
    group: String,
    sender: Receiver,
    expected: Vec<Receiver>,
}

/// Result of one round of packets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Round {
    pub(crate) packets: usize,
    pub(crate) expected: usize,
    pub(crate) delivered: usize,
    /// Descriptions of the first wrong copies.
    pub(crate) complaints: Vec<String>,
    pub(crate) wrong: usize,
    pub(crate) elapsed: Duration,
}

impl Round {
    /// True if every member received every packet exactly once, and no other process received any.
    pub(crate) fn held(&self) -> bool {
        self.wrong == 0
    }

    fn complain(&mut self, text: String) {
        self.wrong += 1;
        if self.complaints.len() < LISTED {
            self.complaints.push(text);
        }
    }
}

/// Waiting times of a round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    /// Time without arrivals after which the round ends.
    pub(crate) idle_timeout: Duration,
    /// Time after the last expected copy in which extra copies are still counted.
    pub(crate) quiet: Duration,
}

/// Waiting times long enough to notice late packets.
pub(crate) const THOROUGH: Waiting =
    Waiting { idle_timeout: Duration::from_secs(3), quiet: Duration::from_millis(60) };

/// Received copies by packet number and receiver.
#[derive(Debug, Default)]
struct ReceivedCopies {
    copies: BTreeMap<u64, BTreeMap<Receiver, u32>>,
    /// First packet of the present round; copies of earlier ones are ignored.
    first: u64,
    /// Copies of the present round.
    total: usize,
}

/// The listening processes of all operating agents.
#[derive(Debug)]
pub(crate) struct Traffic {
    agent_of_node: BTreeMap<String, Peer>,
    received: Arc<Mutex<ReceivedCopies>>,
    arrived: Arc<Notify>,
    next_packet: u64,
    _listening: JoinSet<()>,
}

impl Traffic {
    /// Opens a receiving stream to every operating agent.
    ///
    /// - `agent_of_node`: the agent of each node.
    pub(crate) async fn listen(
        agents: &[Peer],
        agent_of_node: BTreeMap<String, Peer>,
    ) -> Result<Self, RpcError> {
        let received = Arc::new(Mutex::new(ReceivedCopies::default()));
        let arrived = Arc::new(Notify::new());
        let mut listening = JoinSet::new();
        for agent in agents {
            let request = v1::ReceivePacketsRequest { node: String::new() };
            let mut client = OperatingAgentServiceClient::new(agent.channel());
            let mut stream = remote::answer(client.receive_packets(request)).await?;
            let (received, arrived) = (Arc::clone(&received), Arc::clone(&arrived));
            listening.spawn(async move {
                while let Ok(Some(message)) = stream.message().await {
                    note(&received, message.packets);
                    arrived.notify_one();
                }
            });
        }
        // Packet 0 is kept for probes that are not counted.
        Ok(Self { agent_of_node, received, arrived, next_packet: 1, _listening: listening })
    }

    /// Sends from up to `senders` members of every group, spread over the ranks, and counts.
    pub(crate) async fn round(
        &mut self,
        groups: &[v1::Group],
        senders: usize,
        waiting: Waiting,
    ) -> Round {
        let started = Instant::now();
        let first = self.next_packet;
        let plan = plan(groups, senders);
        self.next_packet += u64::try_from(plan.len()).expect("a count fits 64 bits");
        let mut round = Round {
            packets: plan.len(),
            expected: plan.iter().map(|sent| sent.expected.len()).sum(),
            ..Round::default()
        };
        *self.received() = ReceivedCopies { first, ..ReceivedCopies::default() };
        self.send_all(first, &plan, &mut round).await;
        self.wait_for(round.expected, waiting.idle_timeout).await;
        round.elapsed = started.elapsed();
        tokio::time::sleep(waiting.quiet).await;
        self.settle(first, plan, &mut round);
        round
    }

    async fn send_all(&self, first: u64, plan: &[Sent], round: &mut Round) {
        let mut tasks = JoinSet::new();
        let mut answers = Vec::new();
        for (number, sent) in (first..).zip(plan) {
            let Some(peer) = self.agent_of_node.get(&sent.sender.0) else {
                round.complain(format!("no operating agent for {}", sent.sender.0));
                continue;
            };
            let mut client = OperatingAgentServiceClient::new(peer.channel());
            let request = v1::SendPacketRequest {
                node: sent.sender.0.clone(),
                group: sent.group.clone(),
                process: sent.sender.1.clone(),
                payload: number.to_be_bytes().to_vec(),
            };
            tasks.spawn(async move { client.send_packet(request).await.map(|_| ()) });
            if tasks.len() >= SENDS_AT_ONCE {
                answers.extend(tasks.join_next().await);
            }
        }
        while let Some(answer) = tasks.join_next().await {
            answers.push(answer);
        }
        for status in answers.into_iter().flatten().filter_map(Result::err) {
            round.complain(format!("send refused: {}", status.message()));
        }
    }

    /// Waits until `total` copies have arrived, or none arrive for a while.
    async fn wait_for(&self, total: usize, idle_timeout: Duration) {
        while self.received().total < total {
            if tokio::time::timeout(idle_timeout, self.arrived.notified()).await.is_err() {
                return;
            }
        }
    }

    fn settle(&self, first: u64, plan: Vec<Sent>, round: &mut Round) {
        let mut received = self.received();
        for (number, sent) in (first..).zip(plan) {
            let mut copies = received.copies.remove(&number).unwrap_or_default();
            let group = &sent.group;
            for receiver in sent.expected {
                let (node, process) = (&receiver.0, &receiver.1);
                match copies.remove(&receiver) {
                    Some(1) => round.delivered += 1,
                    Some(count) => {
                        round.complain(format!("{group}: {node}/{process} got {count} copies"));
                    }
                    None => round.complain(format!("{group}: {node}/{process} got nothing")),
                }
            }
            for (node, process) in copies.into_keys() {
                round.complain(format!("{group}: {node}/{process} must not get anything"));
            }
        }
    }

    fn received(&self) -> parking_lot::MutexGuard<'_, ReceivedCopies> {
        self.received.lock()
    }
}

/// Plans the packets of a round: sender and expected receivers.
fn plan(groups: &[v1::Group], senders: usize) -> Vec<Sent> {
    let mut plan = Vec::new();
    for group in groups {
        let count = group.members.len();
        let chosen = senders.min(count);
        for turn in 0..chosen {
            let index = turn * count / chosen;
            let sender = &group.members[index];
            let receiver = |member: &v1::Member| (member.node.clone(), member.process.clone());
            let others = group.members.iter().enumerate().filter(|(at, _)| *at != index);
            let sent = Sent {
                group: group.name.clone(),
                sender: receiver(sender),
                expected: others.map(|(_, member)| receiver(member)).collect(),
            };
            plan.push(sent);
        }
    }
    plan
}

fn note(received: &Mutex<ReceivedCopies>, packets: Vec<v1::ReceivedPacket>) {
    let mut received = received.lock();
    for packet in packets {
        let number = packet.payload.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        if number >= received.first.max(1) {
            received.total += 1;
            let receiver = (packet.node, packet.process);
            *received.copies.entry(number).or_default().entry(receiver).or_default() += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(members: u32) -> v1::Group {
        let member = |pn: u32| v1::Member {
            pn,
            node: format!("n{pn}"),
            process: "p0".to_owned(),
            ..Default::default()
        };
        v1::Group { members: (0..members).map(member).collect(), ..Default::default() }
    }

    #[test]
    fn senders_are_spread_over_the_ranks_and_do_not_hear_themselves() {
        let plan = plan(&[group(10)], 3);
        let senders: Vec<&str> = plan.iter().map(|sent| sent.sender.0.as_str()).collect();
        assert_eq!(senders, ["n0", "n3", "n6"]);
        assert!(plan.iter().all(|sent| sent.expected.len() == 9));
        assert!(plan.iter().all(|sent| !sent.expected.contains(&sent.sender)));
    }

    #[test]
    fn a_group_of_one_sends_to_nobody() {
        assert_eq!(plan(&[group(1)], 3).len(), 1);
        assert!(plan(&[group(0)], 3).is_empty());
    }
}
