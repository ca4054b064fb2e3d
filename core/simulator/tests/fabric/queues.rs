//! SIM-6: the event queue does not matter.

use fabricast_simulator::{EventQueue, HeapQueue, Model, MulticastPolicy, Simulator, TimingWheel};
use proptest::prelude::*;

use crate::support::{Fixture, mixed_load, model};

/// Gives the events of one moment the other way round.
#[derive(Default)]
struct Reversed(HeapQueue);

impl EventQueue for Reversed {
    fn push(&mut self, at: u64, event: u64) {
        self.0.push(at, !event);
    }

    fn next_at(&mut self) -> Option<u64> {
        self.0.next_at()
    }

    fn pop_at(&mut self, at: u64) -> Option<u64> {
        self.0.pop_at(at).map(|event| !event)
    }
}

fn history<Q: EventQueue>(policy: MulticastPolicy, channels: u8, seed: u64, queue: Q) -> String {
    let mut fixture = Fixture::m_port(4, 3);
    let (script, _) = mixed_load(&mut fixture, 200, channels, seed);
    let model = Model { multicast: policy, channels, buffer_bytes: 1_024, ..model() };
    let network = fixture.network();
    let mut simulator =
        Simulator::with_queue(network, model, script, queue).expect("a valid model");
    simulator.run_until(u64::MAX).expect("no deadlock");
    format!("{:?}\n{:?}", simulator.counters(), simulator.workload().deliveries)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(25))]

    #[test]
    fn results_are_identical_for_every_event_queue(seed: u64, policy in 0usize..4, channels in 1u8..3) {
        let policy = crate::support::POLICIES[policy];
        let wheel = history(policy, channels, seed, TimingWheel::default());
        prop_assert_eq!(&wheel, &history(policy, channels, seed, HeapQueue::default()));
        prop_assert_eq!(&wheel, &history(policy, channels, seed, Reversed::default()));
    }
}
