//! Watches the nodes that host group agents, and has the dead ones expelled.
//!
//! The detector of `fabricast_groups` decides; this task feeds it and does what it asks for. What
//! others have to tell it gathers in an [`Inbox`], which holds each node at most once and so never
//! overflows. A node that hosts no agent is watched by the agents of its groups; here it is only
//! probed when the fabric says that it may be cut off.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fabricast_groups::command::Command;
use fabricast_groups::detector::{Detector, DetectorConfig, DetectorOutput, Health, Policy};
use fabricast_groups::ids::{Incarnation, Moment};
use fabricast_groups::names::NodeName;
use fabricast_groups::record::NodeState;
use fabricast_rpc::Backoff;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::Code;

use crate::orders::{Orders, Work};
use crate::peers::Peers;
use crate::records::Records;

/// One life of a node.
type Life = (NodeName, Incarnation);

/// What waits for the watch.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    letters: Mutex<Letters>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Letters {
    heard: BTreeSet<Life>,
    suspects: BTreeSet<NodeName>,
    hosts_changed: bool,
}

impl Inbox {
    /// These nodes have reported.
    pub(crate) fn heard(&self, lives: impl IntoIterator<Item = Life>) {
        self.put(|letters| letters.heard.extend(lives));
    }

    /// These nodes may be cut off: ask them.
    pub(crate) fn suspect(&self, nodes: BTreeSet<NodeName>) {
        if !nodes.is_empty() {
            self.put(|letters| letters.suspects.extend(nodes));
        }
    }

    /// Other nodes than before may host group agents.
    pub(crate) fn hosts_changed(&self) {
        self.put(|letters| letters.hosts_changed = true);
    }

    fn put(&self, put: impl FnOnce(&mut Letters)) {
        put(&mut self.letters.lock().unwrap_or_else(PoisonError::into_inner));
        self.arrived.notify_one();
    }

    fn take(&self) -> Letters {
        std::mem::take(&mut self.letters.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The task's state.
#[derive(Debug)]
pub(crate) struct Liveness {
    inbox: Arc<Inbox>,
    records: Arc<Records>,
    orders: Orders,
    peers: Arc<Peers>,
    detector: Detector<Life>,
    probe_timeout: Duration,
    report_timeout: Duration,
    /// Nodes under suspicion that host no agent; watched until they have answered.
    guests: BTreeSet<Life>,
    started: Instant,
}

/// What a call of this task came to.
enum Outcome {
    Probed { life: Life, probe: u64, alive: bool },
    Expelled { life: Life },
}

impl Liveness {
    pub(crate) fn new(
        inbox: Arc<Inbox>,
        records: Arc<Records>,
        orders: Orders,
        peers: Arc<Peers>,
        config: DetectorConfig,
    ) -> Self {
        let probe_timeout = match config.policy {
            Policy::Probe { timeout, .. } => timeout,
            Policy::ExpelAtOnce => Duration::ZERO,
        };
        inbox.hosts_changed(); // what the store held
        Self {
            inbox,
            records,
            orders,
            peers,
            detector: Detector::new(config),
            probe_timeout,
            report_timeout: config.report_timeout,
            guests: BTreeSet::new(),
            started: Instant::now(),
        }
    }

    /// Watches until told to stop.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut calls = JoinSet::new();
        loop {
            while let Some(outcome) = calls.try_join_next() {
                self.take(outcome.expect("a probe or an expulsion does not panic"));
            }
            self.read_inbox();
            self.judge(&mut calls);
            let wake = self.detector.next_deadline();
            let wake = wake.map(|at| self.started + Duration::from_nanos(at.0));
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.inbox.arrived.notified() => {}
                Some(outcome) = calls.join_next() => {
                    self.take(outcome.expect("a probe or an expulsion does not panic"));
                }
                () = sleep_until(wake) => {}
            }
        }
    }

    fn now(&self) -> Moment {
        Moment(0).after(self.started.elapsed())
    }

    fn read_inbox(&mut self) {
        let now = self.now();
        let Letters { heard, suspects, hosts_changed } = self.inbox.take();
        for life in heard {
            self.detector.heard(&life, now);
        }
        if hosts_changed {
            self.follow_hosts(now);
        }
        for node in suspects {
            let up = self.records.read(|directory| {
                let node = directory.node(&node)?;
                (node.state == NodeState::Up).then_some(node.incarnation)
            });
            let Some(incarnation) = up else { continue };
            let life = (node, incarnation);
            if self.detector.health(&life).is_none() {
                self.detector.watch(life.clone(), now);
                self.guests.insert(life.clone());
            }
            self.detector.hint_closed(&life, now);
        }
    }

    /// Watches exactly the hosts, and the guests.
    fn follow_hosts(&mut self, now: Moment) {
        let hosts: BTreeSet<Life> = self.records.read(|directory| {
            let life = |node: &NodeName| Some((node.clone(), directory.node(node)?.incarnation));
            directory.hosts().filter_map(|(node, _)| life(node)).collect()
        });
        self.guests.retain(|guest| !hosts.contains(guest));
        let gone = |life: &&Life| !hosts.contains(*life) && !self.guests.contains(*life);
        let gone: Vec<Life> = self.detector.peers().filter(gone).cloned().collect();
        for life in gone {
            self.detector.unwatch(&life);
        }
        for life in hosts {
            if self.detector.health(&life).is_none() {
                self.detector.watch(life, now);
            }
        }
    }

    /// Lets time pass in the detector and does what it asks for.
    fn judge(&mut self, calls: &mut JoinSet<Outcome>) {
        let now = self.now();
        let late = self.detector.next_deadline().map_or(Duration::ZERO, |due| now.since(due));
        if late > self.report_timeout {
            // It was this process that slept: reports and answers wait unread, so judge nobody.
            let is_open = |life: &&Life| self.detector.health(life) != Some(Health::Dead);
            let open: Vec<Life> = self.detector.peers().filter(is_open).cloned().collect();
            for life in open {
                self.detector.watch(life, now);
            }
            let elapsed_ms = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
            tracing::warn!(elapsed_ms, "this process was paused, liveness starts over");
        }
        self.detector.poll(now);
        while let Some(output) = self.detector.poll_output() {
            match output {
                DetectorOutput::Probe { peer, probe } => {
                    calls.spawn(self.probe(peer, probe));
                }
                DetectorOutput::Dead { peer } => {
                    calls.spawn(expel(self.orders.clone(), peer));
                }
            }
        }
    }

    fn probe(&self, life: Life, probe: u64) -> impl Future<Output = Outcome> + use<> {
        let address = self.records.read(|directory| Some(directory.node(&life.0)?.address.clone()));
        let (peers, patience) = (Arc::clone(&self.peers), self.probe_timeout);
        async move {
            let alive = match address {
                Some(address) => peers.probe(address.as_str(), life.0.as_str(), patience).await,
                None => false,
            };
            Outcome::Probed { life, probe, alive }
        }
    }

    fn take(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Probed { life, probe, alive: true } => {
                self.detector.probe_answered(&life, probe, self.now());
                if self.detector.health(&life) == Some(Health::Alive) && self.guests.remove(&life) {
                    self.detector.unwatch(&life);
                }
            }
            Outcome::Probed { life, alive: false, .. } => {
                tracing::debug!(member = %life.0, "probe not answered");
            }
            Outcome::Expelled { life } => {
                self.guests.remove(&life);
                self.detector.unwatch(&life);
            }
        }
    }
}

/// Has a dead node expelled, however long the writer needs.
async fn expel(orders: Orders, life: Life) -> Outcome {
    let (node, incarnation) = (life.0.clone(), Some(life.1));
    tracing::warn!(member = %node, "node is silent and does not answer, expelling it");
    let mut backoff = Backoff::default();
    loop {
        let command = Command::NodeFailed { node: node.clone(), incarnation };
        match orders.place(Work::Decide(command)).await {
            Ok(_) => break,
            Err(status) if matches!(status.code(), Code::ResourceExhausted | Code::Internal) => {
                tracing::warn!(member = %node, error = status.message(), "node not expelled yet");
            }
            Err(_refused) => break, // it has a new life, or the TIC is stopping
        }
        tokio::time::sleep(backoff.next_delay()).await;
    }
    Outcome::Expelled { life }
}

async fn sleep_until(wake: Option<Instant>) {
    match wake {
        Some(wake) => tokio::time::sleep_until(wake).await,
        None => std::future::pending().await,
    }
}
