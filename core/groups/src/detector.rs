//! Failure detector: decides which of the watched peers have failed.
//!
//! Peers report at fixed intervals. A peer is suspected, and probed, if its report is overdue, its
//! connection has closed, or another party reports its failure. It is declared dead only after it
//! has answered none of the probes, unless the policy is to expel an overdue peer at once. A report
//! is overdue after a fixed timeout or, with [`Adaptive`], after a shorter one that follows the
//! peer's report intervals. The time from a failure to its detection is therefore bounded (G5) by
//! [`DetectorConfig::worst_case`].
//!
//! Call `watch`, `heard`, `hint_closed`, `doubt` and `probe_answered` on events, and `poll` at
//! [`Detector::next_deadline`]; drain [`Detector::poll_output`] after each call.
//!
//! Invariants
//! - DET-1: a peer that answers a probe in time is not declared dead (G5).
//! - DET-2: a closed connection alone never makes a peer dead.
//! - DET-3: a peer is declared dead once and stays dead until it is watched again.
//! - DET-4: no timeout for a report is longer than the fixed one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::ids::Moment;

mod pace;
#[cfg(test)]
mod tests;

use pace::Pace;
pub use pace::{Adaptive, PHI};

/// A failure detector over peers named by `K`. Cost of each call: logarithmic in the peers.
#[derive(Clone, Debug)]
pub struct Detector<K> {
    config: DetectorConfig,
    peers: BTreeMap<K, Peer>,
    deadlines: BTreeSet<(Moment, K)>, // when to look at each peer that is not dead
    alive: usize,                     // of the peers
    next_probe: u64,
    output: VecDeque<DetectorOutput<K>>,
}

/// Timeouts and policy of a detector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetectorConfig {
    /// Time after the last sign of life at which a report is overdue at the latest.
    pub report_timeout: Duration,
    /// Shorter timeouts that follow the peer's report intervals; `None` uses the fixed one only.
    pub adaptive: Option<Adaptive>,
    /// Policy for a peer whose report is overdue.
    pub policy: Policy,
    /// Timing of probes.
    pub probing: Probing,
}

impl DetectorConfig {
    /// Creates a configuration with fixed timeouts and probes.
    pub const fn new(report_timeout: Duration, probing: Probing) -> Self {
        Self { report_timeout, adaptive: None, policy: Policy::Probe, probing }
    }

    /// Returns the longest time from a peer's last sign of life to the verdict.
    pub fn worst_case(&self) -> Duration {
        match self.policy {
            Policy::Probe => self.report_timeout + self.probing.worst_case(),
            Policy::ExpelAtOnce => self.report_timeout,
        }
    }
}

/// Policy for a peer that seems to have failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Probe it first.
    Probe,
    /// Declare it dead without a probe.
    ExpelAtOnce,
}

/// Timing of probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probing {
    /// Timeout of one probe.
    pub timeout: Duration,
    /// Consecutive probes without an answer that make a peer dead; 0 counts as 1.
    pub attempts: u32,
}

impl Probing {
    /// Returns the time from the first probe to the verdict if none is answered.
    pub fn worst_case(&self) -> Duration {
        self.timeout * self.attempts.max(1)
    }
}

/// State of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It reports in time.
    Alive,
    /// It has been probed and has not answered yet.
    Suspect,
    /// It has failed.
    Dead,
}

/// Output of a detector, to be carried out by its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DetectorOutput<K> {
    /// Probe the peer, and pass its answer to [`Detector::probe_answered`].
    Probe {
        /// Peer to probe.
        peer: K,
        /// Number of the probe.
        probe: u64,
    },
    /// The peer is dead.
    Dead {
        /// Key of the peer.
        peer: K,
    },
}

#[derive(Clone, Debug)]
struct Peer {
    health: Health,
    deadline: Moment,        // meaningless once dead
    look_at: Option<Moment>, // its place in `deadlines`, at most `deadline`
    probes_left: u32,        // unsent ones of the present suspicion
    first_probe: u64,        // of the present suspicion; answers to earlier ones are ignored
    heard: Moment,           // its last report, or the beginning of the watch
    pace: Pace,
}

/// Event of a watched peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Heard,
    Closed,
    Doubted,
    Answered,
    TimeUp { probes_left: bool },
}

/// Reaction to an event, besides the peer's new state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Nothing,
    AwaitNext,
    AwaitReport,
    SendProbe,
    GiveUp,
}

/// The transitions, complete. Their table is `tests/golden/detector.txt`.
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
    /// Creates a detector without peers.
    pub fn new(config: DetectorConfig) -> Self {
        Self {
            config,
            peers: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            alive: 0,
            next_probe: 0,
            output: VecDeque::new(),
        }
    }

    /// Replaces the configuration. Every peer that is not dead gets the full new timeout, as if it
    /// had just reported.
    pub fn reconfigure(&mut self, now: Moment, config: DetectorConfig) {
        self.config = config;
        let is_open = |peer: &&K| self.health(peer) != Some(Health::Dead);
        let open: Vec<K> = self.peers().filter(is_open).cloned().collect();
        for peer in open {
            self.watch(peer, now);
        }
    }

    /// Starts to watch a peer, as if it had just reported; an earlier verdict is void.
    pub fn watch(&mut self, peer: K, now: Moment) {
        self.unwatch(&peer);
        let deadline = now.after(self.config.report_timeout);
        self.deadlines.insert((deadline, peer.clone()));
        let state = Peer {
            health: Health::Alive,
            deadline,
            look_at: Some(deadline),
            probes_left: 0,
            first_probe: 0,
            heard: now,
            pace: Pace::default(),
        };
        self.peers.insert(peer, state);
        self.alive += 1;
    }

    /// Stops watching a peer.
    pub fn unwatch(&mut self, peer: &K) {
        if let Some(state) = self.peers.remove(peer) {
            self.alive -= usize::from(state.health == Health::Alive);
            self.forget(state.look_at, peer);
        }
        if self.peers.is_empty() {
            self.peers.clear(); // an emptied map keeps a node
            self.deadlines.clear();
        }
    }

    fn forget(&mut self, look_at: Option<Moment>, peer: &K) {
        if let Some(look_at) = look_at {
            self.deadlines.remove(&(look_at, peer.clone()));
        }
    }

    /// Returns the state of a peer; `None` if it is not watched.
    pub fn health(&self, peer: &K) -> Option<Health> {
        self.peers.get(peer).map(|state| state.health)
    }

    /// Returns how many of the watched peers are alive, and how many are not: silent ones that have
    /// not answered yet, and dead ones.
    pub fn counts(&self) -> (usize, usize) {
        (self.alive, self.peers.len() - self.alive)
    }

    /// Returns the watched peers, in order.
    pub fn peers(&self) -> impl Iterator<Item = &K> {
        self.peers.keys()
    }

    /// Records a report or another sign of life.
    pub fn heard(&mut self, peer: &K, now: Moment) {
        self.handle(peer, Event::Heard, now);
    }

    /// Records that a connection to the peer has closed, which is a reason to probe it at once.
    pub fn hint_closed(&mut self, peer: &K, now: Moment) {
        self.handle(peer, Event::Closed, now);
    }

    /// Records that another party reports the peer as failed: it is probed at once, whatever the
    /// policy.
    pub fn doubt(&mut self, peer: &K, now: Moment) {
        self.handle(peer, Event::Doubted, now);
    }

    /// Records the answer to a probe; an answer to a probe of an earlier suspicion is ignored.
    pub fn probe_answered(&mut self, peer: &K, probe: u64, now: Moment) {
        if self.peers.get(peer).is_some_and(|state| probe >= state.first_probe) {
            self.handle(peer, Event::Answered, now);
        }
    }

    /// Handles everything that is due at `now`.
    pub fn poll(&mut self, now: Moment) {
        while self.deadlines.first().is_some_and(|(look_at, _)| *look_at <= now)
            && let Some((_, peer)) = self.deadlines.pop_first()
        {
            let Some(state) = self.peers.get_mut(&peer) else { continue };
            if state.deadline > now {
                // It has reported since: reports do not move its place.
                state.look_at = Some(state.deadline);
                self.deadlines.insert((state.deadline, peer));
                continue;
            }
            state.look_at = None;
            let probes_left = state.probes_left > 0;
            self.handle(&peer, Event::TimeUp { probes_left }, now);
        }
    }

    /// Returns the next output; call it until it returns `None`.
    pub fn poll_output(&mut self) -> Option<DetectorOutput<K>> {
        self.output.pop_front()
    }

    /// Returns when to call [`Detector::poll`] next, at the latest. It may have nothing to do then:
    /// a report does not move the time at which a peer is looked at.
    pub fn next_deadline(&self) -> Option<Moment> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    fn handle(&mut self, peer: &K, event: Event, now: Moment) {
        let Some(state) = self.peers.get_mut(peer) else { return };
        let (health, action) = step(state.health, event, self.config.policy);
        let fresh = state.health != health;
        self.alive -= usize::from(state.health == Health::Alive);
        self.alive += usize::from(health == Health::Alive);
        state.health = health;
        if action == Action::Nothing {
            return;
        }
        match action {
            Action::Nothing => {}
            Action::AwaitNext => {
                let fixed = self.config.report_timeout;
                // A pace takes more memory than the rest of a peer, and fixed timeouts need none.
                let timeout = self.config.adaptive.map_or(fixed, |how| {
                    state.pace.note(now.since(state.heard), fixed);
                    state.pace.timeout(how, fixed)
                });
                state.heard = now;
                state.deadline = now.after(timeout);
            }
            // Its reports are late: until the next one it gets the full timeout.
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
        let (deadline, look_at) = (state.deadline, state.look_at);
        if health == Health::Dead {
            state.look_at = None;
            self.forget(look_at, peer);
        } else if look_at.is_none_or(|look_at| deadline < look_at) {
            state.look_at = Some(deadline);
            self.forget(look_at, peer);
            self.deadlines.insert((deadline, peer.clone()));
        }
    }
}
