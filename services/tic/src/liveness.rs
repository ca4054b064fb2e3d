//! Watches over the nodes, and has failed ones expelled.
//!
//! [`NodeWatch`] decides; this task feeds it from the [`LivenessInbox`], probes the nodes that it
//! suspects, and has the writer expel those that it gives up.
//!
//! Probes travel over the management network, as all calls do. An answer shows that the node's
//! agent lives, not that its ports work: docs/adr/0016-the-tic-asks-before-it-expels.md says what
//! then holds.

pub(crate) mod contacts;
pub(crate) mod hints;
pub(crate) mod inbox;
pub(crate) mod peers;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::ids::Moment;
use fabricast_groups::watch::{
    Blocks, Cause, NodeIncarnation, NodeWatch, WatchConfig, WatchOutput,
};
use fabricast_rpc::{Backoff, ScheduledClock, joined};
use fabricast_telemetry::metrics::{TIC_EXPELLED, TIC_HELD, TIC_HELD_BLOCKS};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior};
use tokio_util::sync::CancellationToken;

use crate::audit;
use crate::clock::wall_clock;
use crate::liveness::inbox::{CutOff, LivenessInbox, Pending};
use crate::liveness::peers::NodePeers;
use crate::records::Records;
use crate::writer::directory::{Decided, NodeFailed};
use crate::writer::error::WriteError;
use crate::writer::queue::WriterQueue;

/// The task that watches over the nodes.
#[derive(Debug)]
pub(crate) struct Liveness {
    inbox: Arc<LivenessInbox>,
    records: Arc<Records>,
    queue: WriterQueue,
    peers: Arc<NodePeers>,
    watch: NodeWatch,
    /// Changes of `config`.
    settings: watch::Receiver<WatchConfig>,
    config: WatchConfig,
    clock: ScheduledClock,
}

/// Factor by which the answer to a probe may come later than the suspicion lasts.
const LATE: u32 = 8;

/// Outcome of a call of this task.
enum Outcome {
    Probed { incarnation: NodeIncarnation, probe: u64, alive: bool },
    Expelled { incarnation: NodeIncarnation },
}

impl Liveness {
    pub(crate) fn new(
        inbox: Arc<LivenessInbox>,
        records: Arc<Records>,
        queue: WriterQueue,
        peers: Arc<NodePeers>,
        mut settings: watch::Receiver<WatchConfig>,
    ) -> Self {
        // A node that was cut off before is probed, not expelled: it may have been expelled for
        // that already, and have come back.
        inbox.all_changed();
        let nodes = records.nodes_up();
        let CutOff { mut some, all } = records.cut_off();
        some.extend(all);
        inbox.cut_off(CutOff { some, all: BTreeSet::new() });
        let config = *settings.borrow_and_update();
        let (mut watch, clock) = (NodeWatch::new(config), ScheduledClock::default());
        // They report to this TIC now, or are gone.
        let now = Moment(0).after(clock.now());
        nodes.iter().for_each(|incarnation| watch.expect_report(now, incarnation));
        Self { inbox, records, queue, peers, watch, settings, config, clock }
    }

    /// Sets the blocks of nodes that may be cut off together.
    pub(crate) fn with_blocks(self, blocks: Blocks) -> Self {
        Self { watch: self.watch.with_blocks(blocks), ..self }
    }

    /// Runs until told to stop.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut calls = JoinSet::new();
        let mut ticks = tokio::time::interval(ScheduledClock::TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            while let Some(outcome) = calls.try_join_next() {
                self.take(joined(outcome).await);
            }
            self.read_inbox();
            self.poll_watch(&mut calls);
            let deadline = self.watch.next_deadline();
            let left =
                deadline.map(|at| Duration::from_nanos(at.0).saturating_sub(self.clock.now()));
            let deadline = left.map(|left| Instant::now() + left);
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.inbox.arrived() => {}
                Ok(()) = self.settings.changed() => {
                    self.config = *self.settings.borrow_and_update();
                    self.watch.reconfigure(self.now(), self.config);
                }
                Some(outcome) = calls.join_next() => {
                    self.take(joined(outcome).await);
                }
                () = sleep_until(deadline) => {}
                _ = ticks.tick() => self.clock.tick(),
            }
        }
    }

    fn now(&self) -> Moment {
        Moment(0).after(self.clock.now())
    }

    fn read_inbox(&mut self) {
        let now = self.now();
        let Pending { registered, heard, reported, cut_off, changed, all_changed } =
            self.inbox.take();
        let (watch, records) = (&mut self.watch, &*self.records);
        for incarnation in registered {
            watch.expect_report(now, &incarnation);
        }
        for (incarnation, next) in heard {
            watch.heard(now, &incarnation, next);
        }
        if all_changed {
            watch.follow_hosts(now, records);
        }
        for incarnation in changed {
            watch.follow(now, &incarnation, records);
        }
        for incarnation in reported {
            watch.reported(now, &incarnation, records);
        }
        for incarnation in cut_off.some {
            watch.doubt(now, &incarnation, records);
        }
        for incarnation in cut_off.all {
            watch.ports_down(now, &incarnation, records);
        }
    }

    /// Advances the time of the watch and carries out what it decides.
    fn poll_watch(&mut self, calls: &mut JoinSet<Outcome>) {
        let now = self.now();
        let late = self.watch.next_deadline().map_or(Duration::ZERO, |due| now.since(due));
        if late > self.config.detector.report_timeout {
            // This process was paused: reports and answers wait unread, so no verdict is fair.
            self.watch.start_over(now);
            let elapsed_ms = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
            tracing::warn!(late_ms = elapsed_ms, "this process was paused, liveness starts over");
        }
        self.watch.poll(now, &*self.records);
        self.inbox.contacts.set_silent(self.watch.silent());
        self.note_held();
        while let Some(output) = self.watch.poll_output() {
            match output {
                WatchOutput::Probe { incarnation, probe } => {
                    calls.spawn(self.probe(incarnation, probe));
                }
                WatchOutput::Expel { incarnation, cause } => {
                    calls.spawn(expel_failed(self.queue.clone(), incarnation, cause));
                }
            }
        }
    }

    /// Shows how many nodes are kept only because too many are silent at once.
    fn note_held(&self) {
        let held = self.watch.held();
        let blocks = self.watch.held_blocks();
        let before = self.inbox.set_held(held, blocks);
        TIC_HELD.set(held as u64);
        TIC_HELD_BLOCKS.set(blocks as u64);
        if before == 0 && held > 0 {
            let percent = self.config.max_silent_percent;
            tracing::warn!(
                held,
                blocks,
                percent,
                "too many nodes are silent at once, they are kept"
            );
        } else if before > 0 && held == 0 {
            tracing::info!("no more silent nodes are kept");
        }
    }

    fn probe(
        &self,
        incarnation: NodeIncarnation,
        probe: u64,
    ) -> impl Future<Output = Outcome> + use<> {
        let address =
            self.records.read(|directory| Some(directory.node(&incarnation.node)?.address.clone()));
        // The watch gives the verdict by its own clock; before that a late answer still counts.
        let probing = self.config.detector.probing;
        let patience = probing.timeout.saturating_mul(probing.attempts.saturating_mul(LATE));
        let limits = [probing.timeout, patience];
        let peers = Arc::clone(&self.peers);
        async move {
            let alive = match address {
                Some(address) => {
                    let (address, node) = (address.as_str(), incarnation.node.as_str());
                    peers.probe(address, node, incarnation.number.0, limits).await
                }
                None => false,
            };
            Outcome::Probed { incarnation, probe, alive }
        }
    }

    fn take(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Probed { incarnation, probe, alive: true } => {
                self.inbox.contacts.note([&incarnation], wall_clock());
                self.watch.probe_answered(self.now(), &incarnation, probe);
            }
            Outcome::Probed { incarnation, alive: false, .. } => {
                tracing::debug!(node = %incarnation.node, "probe not answered");
            }
            Outcome::Expelled { incarnation } => {
                self.watch.expelled(&incarnation);
                // Also if its expulsion was void.
                self.watch.follow(self.now(), &incarnation, &*self.records);
            }
        }
    }
}

/// Has the writer expel a node, step by step; replies with the number of memberships that ended.
pub(crate) async fn expel(
    queue: &WriterQueue,
    failed: &NodeFailed,
) -> Result<Decided<usize>, WriteError> {
    let mut memberships = 0;
    loop {
        let Decided { answer, revision } = queue.write(failed.clone()).await?;
        memberships += answer.memberships;
        if answer.done {
            return Ok(Decided { answer: memberships, revision });
        }
    }
}

/// Has a failed node expelled; tries until that succeeds or is refused for good.
async fn expel_failed(queue: WriterQueue, incarnation: NodeIncarnation, cause: Cause) -> Outcome {
    let failed =
        NodeFailed { node: incarnation.node.clone(), incarnation: Some(incarnation.number) };
    let node = &failed.node;
    let reason = match cause {
        Cause::Silent => "silent",
        Cause::Reported => "reported by a group agent",
        Cause::PortsDown => "all its ports are down",
    };
    tracing::warn!(%node, reason, "node has failed, expelling it");
    let mut backoff = Backoff::default();
    loop {
        match expel(&queue, &failed).await {
            Ok(_) => {
                TIC_EXPELLED.inc();
                audit::expelled(&incarnation, reason);
                break;
            }
            Err(error) if error.is_transient() => {
                tracing::warn!(%node, %error, "node not expelled yet");
            }
            Err(_refused) => break, // it has a new incarnation, or the TIC is stopping
        }
        tokio::time::sleep(backoff.next_delay()).await;
    }
    Outcome::Expelled { incarnation }
}

async fn sleep_until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}
