//! Tests of the whole detector.
use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);
const PROBING: DetectorConfig =
    DetectorConfig::new(Duration::from_secs(3), Probing { timeout: SECOND, attempts: 2 });

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

/// Polls at each deadline until there is an output, and returns when that was.
fn first_output(detector: &mut Detector<u32>) -> Option<Moment> {
    loop {
        let due = detector.next_deadline()?;
        if !poll(detector, due).is_empty() {
            return Some(due);
        }
    }
}

#[test]
fn reports_do_not_move_the_time_of_the_next_look() {
    let mut detector = watching(PROBING);
    detector.heard(&7, at(1));
    detector.heard(&7, at(2));
    assert_eq!(detector.next_deadline(), Some(at(3)));
    assert_eq!(poll(&mut detector, at(3)), []);
    assert_eq!(detector.next_deadline(), Some(at(5)));
    assert_eq!(first_output(&mut detector), Some(at(5)));
}

#[test]
fn the_transitions_match_the_golden_table() {
    let mut table = String::from("policy, health, event -> health, action\n");
    for (name, policy) in [("probe", Policy::Probe), ("expel at once", Policy::ExpelAtOnce)] {
        for health in [Health::Alive, Health::Suspect, Health::Dead] {
            for event in [
                Event::Heard,
                Event::Closed,
                Event::Doubted,
                Event::Answered,
                Event::TimeUp { probes_left: true },
                Event::TimeUp { probes_left: false },
            ] {
                let (next, action) = step(health, event, policy);
                table += &format!("{name}, {health:?}, {event:?} -> {next:?}, {action:?}\n");
            }
        }
    }
    assert_eq!(table, include_str!("../../tests/golden/detector.txt"), "now:\n{table}");
}

#[test]
fn a_silent_peer_is_probed_and_then_dead() {
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
    assert_eq!(first_output(&mut detector), Some(at(7)));
}

#[test]
fn an_answer_from_an_earlier_suspicion_is_ignored() {
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
fn a_closed_connection_causes_a_probe_not_a_verdict() {
    let mut detector = watching(PROBING);
    detector.hint_closed(&7, at(1));
    assert_eq!(poll(&mut detector, at(1)), [DetectorOutput::Probe { peer: 7, probe: 0 }]);
    let mut blunt = watching(DetectorConfig { policy: Policy::ExpelAtOnce, ..PROBING });
    blunt.hint_closed(&7, at(1));
    assert_eq!(poll(&mut blunt, at(2)), []);
    assert_eq!(poll(&mut blunt, at(3)), [DetectorOutput::Dead { peer: 7 }]);
}

#[test]
fn a_doubted_peer_is_probed_under_every_policy() {
    for policy in [Policy::Probe, Policy::ExpelAtOnce] {
        let mut detector = watching(DetectorConfig { policy, ..PROBING });
        detector.doubt(&7, at(1));
        detector.doubt(&7, at(1));
        assert_eq!(poll(&mut detector, at(1)), [DetectorOutput::Probe { peer: 7, probe: 0 }]);
        detector.probe_answered(&7, 0, at(2));
        assert_eq!(detector.health(&7), Some(Health::Alive));
        detector.doubt(&7, at(3));
        let verdict = [1, 2].map(|probe| DetectorOutput::Probe { peer: 7, probe });
        assert_eq!(poll(&mut detector, at(3)), verdict[..1]);
        assert_eq!(poll(&mut detector, at(4)), verdict[1..]);
        assert_eq!(poll(&mut detector, at(5)), [DetectorOutput::Dead { peer: 7 }]);
    }
}

#[test]
fn a_regular_peer_is_overdue_earlier() {
    let adaptive = Adaptive::new(8.0, Duration::from_millis(1_500));
    let mut detector = watching(DetectorConfig { adaptive, ..PROBING });
    for second in 1..20 {
        detector.heard(&7, at(second));
    }
    let due = at(19).after(Duration::from_millis(1_500));
    assert_eq!(first_output(&mut detector), Some(due));
    detector.probe_answered(&7, 0, at(21));
    assert_eq!(first_output(&mut detector), Some(at(24)), "late, but it lives: the fixed time");
}

#[test]
fn events_of_unwatched_peers_are_ignored() {
    let mut detector = watching(PROBING);
    detector.heard(&8, at(1));
    detector.hint_closed(&8, at(1));
    detector.unwatch(&7);
    assert_eq!(poll(&mut detector, at(99)), []);
    assert_eq!((detector.health(&7), detector.health(&8)), (None, None));
}

proptest! {
    /// G5, DET-1, DET-2: silent peers are declared dead within the bound, reporting ones never.
    #[test]
    fn only_silent_peers_are_declared_dead_and_in_time(
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
