//! Watches over the nodes, and has the dead ones expelled.
//!
//! The watch of `fabricast_groups` decides; this task feeds it and does what it asks for. What
//! others have to tell it gathers in an [`Inbox`], which holds each life of a node at most once for each
//! kind of news and so never overflows.
//!
//! Probes travel as all calls do, over the management network. An answer says that the node's agent
//! lives, not that its ports do: what then holds is in docs/adr/0016-the-tic-asks-before-it-expels.md.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fabricast_groups::command::Command;
use fabricast_groups::ids::Moment;
use fabricast_groups::watch::{Cause, Life, NodeWatch, WatchConfig, WatchOutput};
use fabricast_rpc::{BEAT, Backoff, Pace};
use fabricast_telemetry::metrics::TIC_EXPELLED;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tonic::Code;

use crate::audit;
use crate::orders::{Orders, Work};
use crate::peers::Peers;
use crate::records::Records;

/// What waits for the watch.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    letters: Mutex<Letters>,
    arrived: Notify,
}

#[derive(Debug, Default)]
struct Letters {
    heard: BTreeSet<Life>,
    reported: BTreeSet<Life>,
    cut_off: CutOff,
    hosts_changed: bool,
}

/// Nodes whose ports are down.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CutOff {
    /// Some of them, or all: they may have failed.
    pub(crate) some: BTreeSet<Life>,
    /// All of them: they cannot take part in anything that the fabric carries.
    pub(crate) all: BTreeSet<Life>,
}

impl Inbox {
    /// These nodes have reported.
    pub(crate) fn heard(&self, lives: impl IntoIterator<Item = Life>) {
        self.put(|letters| letters.heard.extend(lives));
    }

    /// A group agent cannot reach this node.
    pub(crate) fn reported(&self, life: Life) {
        self.put(|letters| letters.reported.extend([life]));
    }

    /// Ports of these nodes have gone down.
    pub(crate) fn cut_off(&self, nodes: CutOff) {
        if nodes != CutOff::default() {
            self.put(|letters| {
                letters.cut_off.some.extend(nodes.some);
                letters.cut_off.all.extend(nodes.all);
            });
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
    watch: NodeWatch,
    /// How to judge, which may change.
    settings: watch::Receiver<WatchConfig>,
    config: WatchConfig,
    pace: Pace,
}

/// An answer to a probe is waited for so many times longer than all probes of a suspicion may take.
const LATE: u32 = 8;

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
        mut settings: watch::Receiver<WatchConfig>,
    ) -> Self {
        // What the store held. Who was cut off before is asked, not condemned: it may have been expelled
        // for that already, and have come back.
        inbox.hosts_changed();
        let CutOff { mut some, all } = records.cut_off();
        some.extend(all);
        inbox.cut_off(CutOff { some, all: BTreeSet::new() });
        let config = *settings.borrow_and_update();
        let (watch, pace) = (NodeWatch::new(config), Pace::default());
        Self { inbox, records, orders, peers, watch, settings, config, pace }
    }

    /// Watches until told to stop.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut calls = JoinSet::new();
        let mut beats = tokio::time::interval(BEAT);
        beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            while let Some(outcome) = calls.try_join_next() {
                self.take(outcome.expect("a probe or an expulsion does not panic"));
            }
            self.read_inbox();
            self.judge(&mut calls);
            let wake = self.watch.next_deadline();
            let left = wake.map(|at| Duration::from_nanos(at.0).saturating_sub(self.pace.now()));
            let wake = left.map(|left| Instant::now() + left);
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.inbox.arrived.notified() => {}
                Ok(()) = self.settings.changed() => {
                    self.config = *self.settings.borrow_and_update();
                    self.watch.reconfigure(self.now(), self.config);
                }
                Some(outcome) = calls.join_next() => {
                    self.take(outcome.expect("a probe or an expulsion does not panic"));
                }
                () = sleep_until(wake) => {}
                _ = beats.tick() => self.pace.beat(),
            }
        }
    }

    fn now(&self) -> Moment {
        Moment(0).after(self.pace.now())
    }

    fn read_inbox(&mut self) {
        let now = self.now();
        let Letters { heard, reported, cut_off, hosts_changed } = self.inbox.take();
        let watch = &mut self.watch;
        for life in heard {
            watch.heard(now, &life);
        }
        self.records.read(|directory| {
            if hosts_changed {
                watch.follow_hosts(now, directory);
            }
            for life in reported {
                watch.reported(now, &life, directory);
            }
            for life in cut_off.some {
                watch.doubt(now, &life, directory);
            }
            for life in cut_off.all {
                watch.ports_down(now, &life, directory);
            }
        });
    }

    /// Lets time pass in the watch and does what it asks for.
    fn judge(&mut self, calls: &mut JoinSet<Outcome>) {
        let now = self.now();
        let late = self.watch.next_deadline().map_or(Duration::ZERO, |due| now.since(due));
        if late > self.config.detector.report_timeout {
            // It was this process that slept: reports and answers wait unread, so judge nobody.
            self.watch.start_over(now);
            let elapsed_ms = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
            tracing::warn!(elapsed_ms, "this process was paused, liveness starts over");
        }
        self.watch.poll(now);
        while let Some(output) = self.watch.poll_output() {
            match output {
                WatchOutput::Probe { life, probe } => {
                    calls.spawn(self.probe(life, probe));
                }
                WatchOutput::Expel { life, cause } => {
                    calls.spawn(expel(self.orders.clone(), life, cause));
                }
            }
        }
    }

    fn probe(&self, life: Life, probe: u64) -> impl Future<Output = Outcome> + use<> {
        let address = self.records.read(|directory| Some(directory.node(&life.0)?.address.clone()));
        // The verdict is the watch's, by its own clock; until then a late answer is as good as one in time.
        let probing = self.config.detector.probing;
        let patience = probing.timeout.saturating_mul(probing.attempts.saturating_mul(LATE));
        let peers = Arc::clone(&self.peers);
        async move {
            let alive = match address {
                Some(address) => {
                    let (address, node) = (address.as_str(), life.0.as_str());
                    peers.probe(address, node, life.1.0, patience).await
                }
                None => false,
            };
            Outcome::Probed { life, probe, alive }
        }
    }

    fn take(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Probed { life, probe, alive: true } => {
                self.watch.probe_answered(self.now(), &life, probe);
            }
            Outcome::Probed { life, alive: false, .. } => {
                tracing::debug!(member = %life.0, "probe not answered");
            }
            Outcome::Expelled { life } => self.watch.expelled(&life),
        }
    }
}

/// Has a dead node expelled, however long the writer needs.
async fn expel(orders: Orders, life: Life, cause: Cause) -> Outcome {
    let (node, incarnation) = (life.0.clone(), Some(life.1));
    let reason = match cause {
        Cause::Silent => "silent",
        Cause::Reported => "reported by a group agent",
        Cause::PortsDown => "all its ports are down",
    };
    tracing::warn!(member = %node, reason, "node has failed, expelling it");
    let mut backoff = Backoff::default();
    loop {
        let command = Command::NodeFailed { node: node.clone(), incarnation };
        match orders.place(Work::Decide(command)).await {
            Ok(_) => {
                TIC_EXPELLED.add(1);
                audit::expelled(&life, reason);
                break;
            }
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
