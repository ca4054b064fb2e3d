//! Decides which of the watched peers have failed.
//!
//! Peers report at fixed intervals. A peer whose report is overdue, or whose connection has
//! closed, is suspect and is asked (probed); only silence to every probe is a verdict. Timeouts
//! are fixed, so the time from a failure to its verdict is bounded (G5):
//! [`DetectorConfig::worst_case`].
//!
//! Call `watch`, `heard`, `hint_closed` and `probe_answered` as things happen, `poll` when
//! [`Detector::next_deadline`] has come, and drain [`Detector::poll_output`] after each.
//!
//! Invariants
//! - DET-1: a peer that answers a probe within its time is not given up (G5).
//! - DET-2: a closed connection alone is never a verdict.
//! - DET-3: a verdict is given once and stays until the peer is watched anew.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::ids::Moment;

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
    /// A report is overdue this long after the last sign of life.
    pub report_timeout: Duration,
    /// What to do about a peer whose report is overdue.
    pub policy: Policy,
}

impl DetectorConfig {
    /// Answers the longest time from a peer's last sign of life to the verdict.
    pub fn worst_case(&self) -> Duration {
        match self.policy {
            Policy::Probe { timeout, attempts } => self.report_timeout + timeout * attempts.max(1),
            Policy::ExpelAtOnce => self.report_timeout,
        }
    }
}

/// What to do about a peer whose report is overdue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Ask it first.
    Probe {
        /// How long to wait for the answer to one probe.
        timeout: Duration,
        /// How many probes may stay unanswered, one after the other; 0 counts as 1.
        attempts: u32,
    },
    /// Give it up without asking.
    ExpelAtOnce,
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
}

/// What can happen to a watched peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Heard,
    Closed,
    Answered,
    TimeUp { probes_left: bool },
}

/// What follows from an event, beside the peer's new health.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Nothing,
    AwaitReport,
    SendProbe,
    GiveUp,
}

/// The state machine, whole. Its table is `tests/golden/detector.txt`.
fn step(health: Health, event: Event, policy: Policy) -> (Health, Action) {
    use {Action as A, Event as E, Health as H};
    match (health, event, policy) {
        (H::Alive, E::Heard, _) => (H::Alive, A::AwaitReport),
        (H::Alive, E::Answered, _) => (H::Alive, A::Nothing),
        (H::Alive, E::Closed, Policy::ExpelAtOnce) => (H::Alive, A::Nothing),
        (H::Alive, E::TimeUp { .. }, Policy::ExpelAtOnce) => (H::Dead, A::GiveUp),
        (H::Alive, E::Closed | E::TimeUp { .. }, Policy::Probe { .. }) => {
            (H::Suspect, A::SendProbe)
        }
        (H::Suspect, E::Heard | E::Answered, _) => (H::Alive, A::AwaitReport),
        (H::Suspect, E::Closed, _) => (H::Suspect, A::Nothing),
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

    /// Starts to watch a peer, as if it had just reported; forgets any earlier verdict on it.
    pub fn watch(&mut self, peer: K, now: Moment) {
        self.unwatch(&peer);
        let deadline = now.after(self.config.report_timeout);
        self.deadlines.insert((deadline, peer.clone()));
        let state = Peer { health: Health::Alive, deadline, probes_left: 0, first_probe: 0 };
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
            Action::AwaitReport => state.deadline = now.after(self.config.report_timeout),
            Action::GiveUp => self.output.push_back(DetectorOutput::Dead { peer: peer.clone() }),
            Action::SendProbe => {
                let (timeout, attempts) = match self.config.policy {
                    Policy::Probe { timeout, attempts } => (timeout, attempts.max(1)),
                    Policy::ExpelAtOnce => (Duration::ZERO, 1),
                };
                let probe = self.next_probe;
                self.next_probe += 1;
                if fresh {
                    (state.first_probe, state.probes_left) = (probe, attempts);
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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const PROBING: DetectorConfig = DetectorConfig {
        report_timeout: Duration::from_secs(3),
        policy: Policy::Probe { timeout: SECOND, attempts: 2 },
    };

    fn at(seconds: u64) -> Moment {
        Moment(seconds * 1_000_000_000)
    }

    fn watching(config: DetectorConfig) -> Detector<u32> {
        let mut detector = Detector::new(config);
        detector.watch(7, at(0));
        detector
    }

    fn poll(detector: &mut Detector<u32>, now: Moment) -> Vec<DetectorOutput<u32>> {
        detector.poll(now);
        std::iter::from_fn(|| detector.poll_output()).collect()
    }

    #[test]
    fn the_table_of_transitions_is_the_recorded_one() {
        let probe = Policy::Probe { timeout: SECOND, attempts: 2 };
        let mut table = String::from("policy, health, event -> health, action\n");
        for (name, policy) in [("probe", probe), ("expel at once", Policy::ExpelAtOnce)] {
            for health in [Health::Alive, Health::Suspect, Health::Dead] {
                for event in [
                    Event::Heard,
                    Event::Closed,
                    Event::Answered,
                    Event::TimeUp { probes_left: true },
                    Event::TimeUp { probes_left: false },
                ] {
                    let (next, action) = step(health, event, policy);
                    table += &format!("{name}, {health:?}, {event:?} -> {next:?}, {action:?}\n");
                }
            }
        }
        assert_eq!(table, include_str!("../tests/golden/detector.txt"), "now:\n{table}");
    }

    #[test]
    fn silence_is_probed_and_then_a_verdict() {
        let mut detector = watching(PROBING);
        assert_eq!(detector.next_deadline(), Some(at(3)));
        assert_eq!(poll(&mut detector, at(2)), []);
        let probe = |probe| DetectorOutput::Probe { peer: 7, probe };
        assert_eq!(poll(&mut detector, at(3)), [probe(0)]);
        assert_eq!(detector.health(&7), Some(Health::Suspect));
        assert_eq!(poll(&mut detector, at(4)), [probe(1)]);
        assert_eq!(poll(&mut detector, at(5)), [DetectorOutput::Dead { peer: 7 }]);
        assert_eq!(PROBING.worst_case(), Duration::from_secs(5));
        detector.heard(&7, at(6));
        assert_eq!(detector.health(&7), Some(Health::Dead));
        assert_eq!(detector.next_deadline(), None);
    }

    #[test]
    fn a_slow_peer_that_answers_the_probe_is_kept() {
        let mut detector = watching(PROBING);
        poll(&mut detector, at(3));
        poll(&mut detector, at(4));
        detector.probe_answered(&7, 0, at(4)); // the first probe, late but of this suspicion
        assert_eq!(detector.health(&7), Some(Health::Alive));
        assert_eq!(detector.next_deadline(), Some(at(7)));
    }

    #[test]
    fn an_answer_from_an_earlier_suspicion_proves_nothing() {
        let mut detector = watching(PROBING);
        poll(&mut detector, at(3));
        detector.heard(&7, at(3));
        poll(&mut detector, at(6));
        detector.probe_answered(&7, 0, at(6));
        assert_eq!(detector.health(&7), Some(Health::Suspect));
        detector.probe_answered(&7, 1, at(6));
        assert_eq!(detector.health(&7), Some(Health::Alive));
    }

    #[test]
    fn a_closed_connection_is_a_question_not_a_verdict() {
        let mut detector = watching(PROBING);
        detector.hint_closed(&7, at(1));
        assert_eq!(poll(&mut detector, at(1)), [DetectorOutput::Probe { peer: 7, probe: 0 }]);
        let mut blunt = watching(DetectorConfig { policy: Policy::ExpelAtOnce, ..PROBING });
        blunt.hint_closed(&7, at(1));
        assert_eq!(poll(&mut blunt, at(2)), []);
        assert_eq!(poll(&mut blunt, at(3)), [DetectorOutput::Dead { peer: 7 }]);
    }

    #[test]
    fn who_is_not_watched_is_not_judged() {
        let mut detector = watching(PROBING);
        detector.heard(&8, at(1));
        detector.hint_closed(&8, at(1));
        detector.unwatch(&7);
        assert_eq!(poll(&mut detector, at(99)), []);
        assert_eq!((detector.health(&7), detector.health(&8)), (None, None));
    }

    proptest! {
        /// G5, DET-1, DET-2: silent peers are given up within the bound, reporting ones never.
        #[test]
        fn only_silence_is_a_verdict_and_it_comes_in_time(
            reports in proptest::collection::vec(1u64..3, 0..20),
            closures in proptest::collection::btree_set(0u64..60, 0..10),
        ) {
            let mut detector = watching(PROBING);
            let mut heard: Vec<u64> = Vec::new();
            for gap in reports {
                heard.push(heard.last().copied().unwrap_or(0) + gap);
            }
            let last = heard.last().copied().unwrap_or(0);
            let mut died = None;
            for second in 0..80 {
                if heard.contains(&second) {
                    detector.heard(&7, at(second));
                }
                // Probes to a live peer are answered within their second, as its reports go on.
                if closures.contains(&second) {
                    detector.hint_closed(&7, at(second));
                }
                for output in poll(&mut detector, at(second)) {
                    match output {
                        DetectorOutput::Probe { probe, .. } if second < last => {
                            detector.probe_answered(&7, probe, at(second));
                        }
                        DetectorOutput::Probe { .. } => {}
                        DetectorOutput::Dead { .. } => {
                            prop_assert_eq!(died.replace(second), None);
                        }
                    }
                }
            }
            let died = died.expect("silence is a verdict");
            prop_assert!(died >= last && died <= last + PROBING.worst_case().as_secs());
        }
    }
}
