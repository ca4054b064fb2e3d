//! The queue of future events, as a small trait with two implementations.
//!
//! An event is a time and its content, packed into one word by the simulator. Events of one time
//! may come in any order: the simulator handles all of them before it decides anything (SIM-6), so
//! that results do not depend on the implementation.

mod wheel;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

pub use wheel::TimingWheel;

/// Future events, removed in order of time.
pub trait EventQueue {
    /// Adds an event. `at` is in picoseconds and not before the moment of the last one taken out.
    fn push(&mut self, at: u64, event: u64);

    /// Gives the moment of the next event.
    fn next_at(&mut self) -> Option<u64>;

    /// Takes an event out if there is one at a moment, which is that of the next event or earlier.
    fn pop_at(&mut self, at: u64) -> Option<u64>;
}

/// The plain implementation: a binary heap, O(log n) for each event.
#[derive(Clone, Debug, Default)]
pub struct HeapQueue {
    heap: BinaryHeap<Reverse<(u64, u64)>>,
}

impl EventQueue for HeapQueue {
    fn push(&mut self, at: u64, event: u64) {
        self.heap.push(Reverse((at, event)));
    }

    fn next_at(&mut self) -> Option<u64> {
        self.heap.peek().map(|Reverse((at, _))| *at)
    }

    fn pop_at(&mut self, at: u64) -> Option<u64> {
        let due = self.next_at()? == at;
        if due { self.heap.pop().map(|Reverse((_, event))| event) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Drains a queue moment by moment; the events of one moment are sorted.
    fn drain(queue: &mut impl EventQueue) -> Vec<(u64, Vec<u64>)> {
        let mut moments = Vec::new();
        while let Some(at) = queue.next_at() {
            let mut events: Vec<u64> = std::iter::from_fn(|| queue.pop_at(at)).collect();
            events.sort_unstable();
            moments.push((at, events));
        }
        moments
    }

    proptest! {
        /// The wheel gives what the heap gives, also for events far beyond its span and
        /// for those added while earlier ones are taken out.
        #[test]
        fn wheel_and_heap_agree(
            first in proptest::collection::vec((0u64..1 << 26, 0u64..100), 0..60),
            then in proptest::collection::vec((0u64..1 << 24, 0u64..100), 0..60),
        ) {
            let (mut wheel, mut heap) = (TimingWheel::default(), HeapQueue::default());
            for (at, event) in first {
                wheel.push(at, event);
                heap.push(at, event);
            }
            for (delay, event) in then {
                let now = heap.next_at();
                prop_assert_eq!(wheel.next_at(), now);
                let Some(now) = now else { break };
                let mut taken = (Vec::new(), Vec::new());
                taken.0.extend(std::iter::from_fn(|| wheel.pop_at(now)));
                taken.1.extend(std::iter::from_fn(|| heap.pop_at(now)));
                taken.0.sort_unstable();
                taken.1.sort_unstable();
                prop_assert_eq!(taken.0, taken.1);
                wheel.push(now + delay, event);
                heap.push(now + delay, event);
            }
            prop_assert_eq!(drain(&mut wheel), drain(&mut heap));
        }
    }
}
