//! Packets from members to members, every copy counted.
//!
//! A packet carries its number. The fabric makes all copies of a packet while it forwards it, and
//! every process receives them in order. So once a later packet has arrived, no further copy of an
//! earlier one can.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use fabricast_proto::v1;
use parking_lot::{Mutex, MutexGuard};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::client::Client;
use crate::wait::eventually;

/// Pace of a flow, and of attempts to listen again.
const PACE: Duration = Duration::from_millis(2);
/// Most complaints that are listed.
const LISTED: usize = 8;

/// Node and process.
type Process = (String, String);

#[derive(Debug)]
struct Sent {
    group: String,
    sender: String,
    expected: BTreeSet<Process>,
}

#[derive(Debug, Default)]
struct Ledger {
    sent: BTreeMap<u64, Sent>,
    copies: BTreeMap<u64, BTreeMap<Process, u32>>,
    next: u64,
}

impl Ledger {
    fn complaints(&self) -> Vec<String> {
        self.sent.keys().flat_map(|number| self.complaints_about(*number)).collect()
    }

    fn complaints_about(&self, number: u64) -> Vec<String> {
        let mut complaints = Vec::new();
        let none = BTreeMap::new();
        if let Some(sent) = self.sent.get(&number) {
            let copies = self.copies.get(&number).unwrap_or(&none);
            let what = format!("{} #{number} from {}", sent.group, sent.sender);
            for process in &sent.expected {
                let count = copies.get(process).copied().unwrap_or(0);
                if count != 1 {
                    let who = format!("{}/{}", process.0, process.1);
                    complaints.push(format!("{what}: {who} got {count}"));
                }
            }
            for (process, _) in copies.iter().filter(|(who, _)| !sent.expected.contains(*who)) {
                let who = format!("{}/{}", process.0, process.1);
                complaints.push(format!("{what}: {who} got a stray copy"));
            }
        }
        complaints
    }

    fn missing(&self, number: u64) -> usize {
        let Some(sent) = self.sent.get(&number) else { return 0 };
        let copies = self.copies.get(&number);
        let arrived = |who: &&Process| copies.is_some_and(|copies| copies.contains_key(*who));
        sent.expected.iter().filter(|who| !arrived(who)).count()
    }
}

/// Listens at all operating agents and sends from members.
#[derive(Clone, Debug)]
pub struct Traffic {
    client: Client,
    ledger: Arc<Mutex<Ledger>>,
    _listening: Arc<JoinSet<()>>,
}

impl Traffic {
    /// Listens at every process, again and again if its stream breaks.
    pub async fn listen(client: &Client) -> Self {
        let ledger = Arc::new(Mutex::new(Ledger::default()));
        let mut listening = JoinSet::new();
        for mut host in client.hosts() {
            let request = v1::ReceivePacketsRequest::default();
            let mut stream =
                host.receive_packets(request).await.expect("the process answers").into_inner();
            let ledger = Arc::clone(&ledger);
            listening.spawn(async move {
                loop {
                    while let Ok(Some(message)) = stream.message().await {
                        note(&ledger, message.packets);
                    }
                    while let Err(_down) = host.receive_packets(request_all()).await.map(|answer| {
                        stream = answer.into_inner();
                    }) {
                        tokio::time::sleep(PACE).await;
                    }
                }
            });
        }
        Self { client: client.clone(), ledger, _listening: Arc::new(listening) }
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock()
    }

    /// Sends one packet. Returns its number.
    async fn send(&self, group: &v1::Group, sender: &v1::Member) -> Result<u64, Status> {
        let cut_off = group.route.clone().unwrap_or_default().cut_off_endpoints;
        let others = group.members.iter().filter(|member| {
            let receives = !member.sends_only && !cut_off.contains(&member.endpoint);
            receives && member.pn != sender.pn
        });
        let expected = others.map(|member| (member.node.clone(), member.process.clone())).collect();
        let number = {
            let mut ledger = self.ledger();
            ledger.next += 1;
            let number = ledger.next;
            ledger.sent.insert(
                number,
                Sent { group: group.name.clone(), sender: sender.node.clone(), expected },
            );
            number
        };
        let request = v1::SendPacketRequest {
            node: sender.node.clone(),
            group: group.name.clone(),
            process: sender.process.clone(),
            payload: number.to_be_bytes().to_vec(),
        };
        match self.client.home(&sender.node).send_packet(request).await {
            Ok(_) => Ok(number),
            Err(status) => {
                self.ledger().sent.remove(&number);
                Err(status)
            }
        }
    }

    /// Sends a packet from every member of the groups that is not cut off, and waits for all
    /// copies. Earlier packets are not checked.
    ///
    /// # Errors
    ///
    /// A text with what is wrong. These packets do not count in later checks.
    pub async fn round(&self, groups: &[v1::Group]) -> Result<(), String> {
        let mut numbers = Vec::new();
        let mut refused = None;
        for group in groups {
            let cut_off = group.route.clone().unwrap_or_default().cut_off_endpoints;
            for member in group.members.iter().filter(|one| !cut_off.contains(&one.endpoint)) {
                match self.send(group, member).await {
                    Ok(number) => numbers.push(number),
                    Err(status) => refused = Some(format!("{}: {status}", group.name)),
                }
            }
        }
        let waited = tokio::time::timeout(Duration::from_secs(2), async {
            while numbers.iter().any(|number| self.ledger().missing(*number) > 0) {
                tokio::time::sleep(PACE).await;
            }
        });
        let complete = waited.await.is_ok() && refused.is_none();
        let mut ledger = self.ledger();
        let complaints: Vec<String> =
            numbers.iter().flat_map(|number| ledger.complaints_about(*number)).collect();
        if complete && complaints.is_empty() {
            return Ok(());
        }
        ledger.sent.retain(|number, _| !numbers.contains(number));
        Err(refused.unwrap_or_else(|| shown(&complaints)))
    }

    /// Sends rounds until one is right.
    pub async fn flows(&self, what: &str, groups: &[v1::Group]) {
        eventually(what, async || self.round(groups).await).await;
    }

    /// Sends from one member after the other until stopped.
    #[must_use]
    pub fn flow(&self, groups: &[v1::Group]) -> Flow {
        let (traffic, groups, stop) = (self.clone(), groups.to_vec(), CancellationToken::new());
        let stopped = stop.clone();
        let sent = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&sent);
        let task = tokio::spawn(async move {
            let mut pace = tokio::time::interval(PACE);
            loop {
                for group in &groups {
                    for member in &group.members {
                        if stopped.is_cancelled() {
                            return Ok(());
                        }
                        pace.tick().await;
                        traffic
                            .send(group, member)
                            .await
                            .map_err(|status| format!("{}: {status}", group.name))?;
                        counter.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        });
        Flow { stop, sent, task }
    }

    /// Waits until every copy of every packet sent so far has arrived, then checks that none came
    /// twice or to a process that is no member.
    ///
    /// - `groups`: live groups; one more packet from every member flushes late copies out.
    ///
    /// # Panics
    ///
    /// If a copy is missing, came twice or strayed.
    pub async fn all_arrived(&self, groups: &[v1::Group]) {
        let missing = async || {
            let ledger = self.ledger();
            let missing: usize = ledger.sent.keys().map(|number| ledger.missing(*number)).sum();
            if missing == 0 { Ok(()) } else { Err(shown(&ledger.complaints())) }
        };
        eventually("every copy has arrived", missing).await;
        self.round(groups).await.expect("the last packets arrive like all others");
        let complaints = self.ledger().complaints();
        assert!(complaints.is_empty(), "{}", shown(&complaints));
    }
}

/// A flow of packets.
#[derive(Debug)]
pub struct Flow {
    stop: CancellationToken,
    sent: Arc<AtomicUsize>,
    task: JoinHandle<Result<(), String>>,
}

impl Flow {
    /// Number of packets sent so far.
    #[must_use]
    pub fn sent(&self) -> usize {
        self.sent.load(Ordering::Relaxed)
    }

    /// Stops sending. Returns the number of packets that were sent.
    ///
    /// # Panics
    ///
    /// If one could not be sent.
    pub async fn stop(self) -> usize {
        self.stop.cancel();
        self.task.await.expect("no panic").expect("every packet could be sent");
        self.sent.load(Ordering::Relaxed)
    }
}

fn request_all() -> v1::ReceivePacketsRequest {
    v1::ReceivePacketsRequest::default()
}

fn note(ledger: &Mutex<Ledger>, packets: Vec<v1::ReceivedPacket>) {
    let mut ledger = ledger.lock();
    for packet in packets {
        let number = packet.payload.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes));
        let process = (packet.node, packet.process);
        *ledger.copies.entry(number).or_default().entry(process).or_default() += 1;
    }
}

fn shown(complaints: &[String]) -> String {
    let first = complaints.iter().take(LISTED).cloned().collect::<Vec<_>>().join("; ");
    format!("{} complaints: {first}", complaints.len())
}
