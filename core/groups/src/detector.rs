//! Decides which of the watched peers have failed.
//!
//! Peers report at fixed intervals. A peer whose report is overdue, whose connection has closed, or of
//! which somebody else says that it has failed, is suspect and is asked (probed); only silence to
//! every probe is a verdict, unless the policy is to give up at once who is overdue. A report is
//! overdue after a fixed time or, if so configured, after one that follows the peer's own pace
//! ([`Adaptive`]) and is never longer. So the time from a failure to its verdict is bounded (G5):
//! [`DetectorConfig::worst_case`].
//!
//! Call `watch`, `heard`, `hint_closed`, `doubt` and `probe_answered` as things happen, `poll` when
//! [`Detector::next_deadline`] has come, and drain [`Detector::poll_output`] after each.
//!
//! Invariants
//! - DET-1: a peer that answers a probe within its time is not given up (G5).
//! - DET-2: a closed connection alone is never a verdict.
//! - DET-3: a verdict is given once and stays until the peer is watched anew.
//! - DET-4: a report is never waited for longer than the fixed timeout, however the peer reports.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::ids::Moment;

mod pace;
#[cfg(test)]
mod tests;

use pace::Pace;
pub use pace::{Adaptive, PHI};

/// Watches peers named by `K`.
#[derive(Clone, Debug)]
pub struct Detector<K> {
    config: DetectorConfig,
    peers: BTreeMap<K, Peer>,
    deadlines: BTreeSet<(Moment, K)>,
    next_probe: u64,
    output: VecDeque<DetectorOutput<K>>,
}

/// How long to wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetectorConfig {
    /// A report is overdue this long after the last sign of life, at the latest.
    pub report_timeout: Duration,
    /// How it may be overdue earlier; `None` keeps to the time above.
    pub adaptive: Option<Adaptive>,
    /// What to do about a peer whose report is overdue.
    pub policy: Policy,
    /// How a suspect peer is asked.
    pub probing: Probing,
}

impl DetectorConfig {
    /// Fixed timeouts, and nobody is given up unasked.
    pub const fn new(report_timeout: Duration, probing: Probing) -> Self {
        Self { report_timeout, adaptive: None, policy: Policy::Probe, probing }
    }

    /// Answers the longest time from a peer's last sign of life to the verdict.
    pub fn worst_case(&self) -> Duration {
        match self.policy {
            Policy::Probe => self.report_timeout + self.probing.worst_case(),
            Policy::ExpelAtOnce => self.report_timeout,
        }
    }
}

/// What to do about a peer that seems to have failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Ask it first.
    Probe,
    /// Give it up without asking.
    ExpelAtOnce,
}

/// How a peer is asked whether it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probing {
    /// How long to wait for the answer to one probe.
    pub timeout: Duration,
    /// How many probes may stay unanswered, one after the other; 0 counts as 1.
    pub attempts: u32,
}

impl Probing {
    /// Answers the time from the first probe to the verdict on a peer that answers none.
    pub fn worst_case(&self) -> Duration {
        self.timeout * self.attempts.max(1)
    }
}

/// What is held of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Its reports come.
    Alive,
    /// It has been asked and has not answered yet.
    Suspect,
    /// It has failed.
    Dead,
}

/// What the owner of a detector has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DetectorOutput<K> {
    /// Ask the peer, and hand its answer in with the probe's number.
    Probe {
        /// Whom to ask.
        peer: K,
        /// The number of the probe.
        probe: u64,
    },
    /// The peer has failed.
    Dead {
        /// Which.
        peer: K,
    },
}

#[derive(Clone, Debug)]
struct Peer {
    health: Health,
    deadline: Moment, // meaningless once dead
    probes_left: u32, // unsent ones of the present suspicion
    first_probe: u64, // of the present suspicion; answers to earlier ones prove nothing
    heard: Moment,    // its last report, or the beginning of the watch
    pace: Pace,
}

/// What can happen to a watched peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Heard,
    Closed,
    Doubted,
    Answered,
    TimeUp { probes_left: bool },
}

/// What follows from an event, beside the peer's new health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Nothing,
    AwaitNext,
    AwaitReport,
    SendProbe,
    GiveUp,
}

/// The state machine, whole. Its table is `tests/golden/detector.txt`.
fn step(health: Health, event: Event, policy: Policy) -> (Health, Action) {
    use {Action as A, Event as E, Health as H};
    match (health, event, policy) {
        (H::Alive | H::Suspect, E::Heard, _) => (H::Alive, A::AwaitNext),
        (H::Alive, E::Answered, _) => (H::Alive, A::Nothing),
        (H::Alive, E::Closed, Policy::ExpelAtOnce) => (H::Alive, A::Nothing),
        (H::Alive, E::TimeUp { .. }, Policy::ExpelAtOnce) => (H::Dead, A::GiveUp),
        (H::Alive, E::Closed | E::TimeUp { .. }, Policy::Probe) => (H::Suspect, A::SendProbe),
        (H::Alive, E::Doubted, _) => (H::Suspect, A::SendProbe),
        (H::Suspect, E::Answered, _) => (H::Alive, A::AwaitReport),
        (H::Suspect, E::Closed | E::Doubted, _) => (H::Suspect, A::Nothing),
        (H::Suspect, E::TimeUp { probes_left: true }, _) => (H::Suspect, A::SendProbe),
        (H::Suspect, E::TimeUp { probes_left: false }, _) => (H::Dead, A::GiveUp),
        (H::Dead, _, _) => (H::Dead, A::Nothing),
    }
}

impl<K: Ord + Clone> Detector<K> {
    /// Creates a detector that watches nobody.
    pub fn new(config: DetectorConfig) -> Self {
        Self {
            config,
            peers: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            next_probe: 0,
            output: VecDeque::new(),
        }
    }

    /// Judges by another configuration from now on; every peer that is not given up has its time anew, as if it had just
    /// reported.
    pub fn reconfigure(&mut self, now: Moment, config: DetectorConfig) {
        self.config = config;
        let is_open = |peer: &&K| self.health(peer) != Some(Health::Dead);
        let open: Vec<K> = self.peers().filter(is_open).cloned().collect();
        for peer in open {
            self.watch(peer, now);
        }
    }

    /// Starts to watch a peer, as if it had just reported; forgets any earlier verdict on it.
    pub fn watch(&mut self, peer: K, now: Moment) {
        self.unwatch(&peer);
        let deadline = now.after(self.config.report_timeout);
        self.deadlines.insert((deadline, peer.clone()));
        let state = Peer {
            health: Health::Alive,
            deadline,
            probes_left: 0,
            first_probe: 0,
            heard: now,
            pace: Pace::default(),
        };
        self.peers.insert(peer, state);
    }

    /// Stops watching a peer.
    pub fn unwatch(&mut self, peer: &K) {
        if let Some(state) = self.peers.remove(peer) {
            self.deadlines.remove(&(state.deadline, peer.clone()));
        }
    }

    /// Answers what is held of a peer; `None` if it is not watched.
    pub fn health(&self, peer: &K) -> Option<Health> {
        self.peers.get(peer).map(|state| state.health)
    }

    /// Answers the watched peers, in order.
    pub fn peers(&self) -> impl Iterator<Item = &K> {
        self.peers.keys()
    }

    /// Notes a report or any other sign of life.
    pub fn heard(&mut self, peer: &K, now: Moment) {
        self.handle(peer, Event::Heard, now);
    }

    /// Notes that a connection to the peer has closed: a reason to ask at once.
    pub fn hint_closed(&mut self, peer: &K, now: Moment) {
        self.handle(peer, Event::Closed, now);
    }

    /// Notes that somebody else holds the peer for failed: a reason to ask at once, whatever the policy.
    pub fn doubt(&mut self, peer: &K, now: Moment) {
        self.handle(peer, Event::Doubted, now);
    }

    /// Notes the answer to a probe; one that belongs to an earlier suspicion proves nothing.
    pub fn probe_answered(&mut self, peer: &K, probe: u64, now: Moment) {
        if self.peers.get(peer).is_some_and(|state| probe >= state.first_probe) {
            self.handle(peer, Event::Answered, now);
        }
    }

    /// Draws the consequences of time passing.
    pub fn poll(&mut self, now: Moment) {
        while let Some((deadline, peer)) = self.deadlines.first().cloned() {
            if deadline > now {
                return;
            }
            let probes_left = self.peers.get(&peer).is_some_and(|state| state.probes_left > 0);
            self.handle(&peer, Event::TimeUp { probes_left }, now);
        }
    }

    /// Answers the next thing to do.
    pub fn poll_output(&mut self) -> Option<DetectorOutput<K>> {
        self.output.pop_front()
    }

    /// Answers when to call [`Detector::poll`] at the latest.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    fn handle(&mut self, peer: &K, event: Event, now: Moment) {
        let Some(state) = self.peers.get_mut(peer) else { return };
        let (health, action) = step(state.health, event, self.config.policy);
        let fresh = state.health != health;
        state.health = health;
        if action == Action::Nothing {
            return;
        }
        self.deadlines.remove(&(state.deadline, peer.clone()));
        match action {
            Action::Nothing => {}
            Action::AwaitNext => {
                let fixed = self.config.report_timeout;
                state.pace.note(now.since(state.heard), fixed);
                state.heard = now;
                let adaptive = self.config.adaptive;
                let timeout = adaptive.map_or(fixed, |how| state.pace.timeout(how, fixed));
                state.deadline = now.after(timeout);
            }
            // Its reports are late: until they come again, it has all the time there is.
            Action::AwaitReport => state.deadline = now.after(self.config.report_timeout),
            Action::GiveUp => self.output.push_back(DetectorOutput::Dead { peer: peer.clone() }),
            Action::SendProbe => {
                let Probing { timeout, attempts } = self.config.probing;
                let probe = self.next_probe;
                self.next_probe += 1;
                if fresh {
                    (state.first_probe, state.probes_left) = (probe, attempts.max(1));
                }
                state.probes_left -= 1;
                state.deadline = now.after(timeout);
                self.output.push_back(DetectorOutput::Probe { peer: peer.clone(), probe });
            }
        }
        if health != Health::Dead {
            self.deadlines.insert((state.deadline, peer.clone()));
        }
    }
}
