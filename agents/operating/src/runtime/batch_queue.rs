//! A queue of requests that go to their destinations in batches.
//!
//! A job launcher forms thousands of groups at once, and each of their agents fetches its own
//! group; when agents fail, members ask about every one of their groups. One call per request would
//! bury the process, and its signs of life, under tasks. Instead each destination has at most one
//! call in flight, and what waits meanwhile goes with the next.
//!
//! Use: [`BatchQueue::push`] returns true if the destination has no worker; the caller starts one.
//! The worker alternates [`BatchQueue::take`] and a call, and calls [`BatchQueue::answered`] before
//! it hands the answers on. It ends when `take` returns `None`.
//!
//! Invariants
//! - A destination has at most one worker, so at most one call in flight.
//! - A key waits, or is in flight, at most once: the queue holds no more than there are keys.
//! - A batch is bounded by the limit, but holds at least one entry.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_telemetry::traces::{Origin, Origins, Span};

/// Requests that wait, or are in flight, by destination.
#[derive(Debug)]
pub(crate) struct BatchQueue<D, K, V> {
    limit: usize,
    weight: fn(&V) -> usize,
    destinations: BTreeMap<D, Destination<K, V>>,
}

/// Requests of one call, ascending by key.
#[derive(Debug)]
pub(crate) struct Batch<K, V> {
    pub(crate) entries: Vec<(K, V)>,
    /// Traced requests that caused the entries.
    pub(crate) origins: Origins,
}

/// A destination is listed for as long as it has a worker.
#[derive(Debug)]
struct Destination<K, V> {
    waiting: BTreeMap<K, V>,
    in_flight: BTreeSet<K>,
    origins: Origins,
}

impl<D: Ord, K: Ord + Clone, V> BatchQueue<D, K, V> {
    /// - `limit`: most entries in a batch.
    pub(crate) fn new(limit: usize) -> Self {
        Self::weighed(limit, |_| 1)
    }

    /// - `limit`: most weight in a batch; a heavier entry goes alone.
    pub(crate) fn weighed(limit: usize, weight: fn(&V) -> usize) -> Self {
        Self { limit, weight, destinations: BTreeMap::new() }
    }

    /// Queues a value, in place of the one that waits under its key. Dropped if the key is in
    /// flight: the pusher repeats what is not answered.
    ///
    /// Returns true if the destination has no worker: the caller must start one.
    #[must_use]
    pub(crate) fn push(&mut self, destination: D, key: K, value: V, origin: Origin) -> bool {
        let mut is_idle = false;
        let to = self.destinations.entry(destination).or_insert_with(|| {
            is_idle = true;
            let (waiting, in_flight, origins) = Default::default();
            Destination { waiting, in_flight, origins }
        });
        if !to.in_flight.contains(&key) {
            to.waiting.insert(key, value);
            to.origins.add(origin);
        }
        is_idle
    }

    /// The value that waits under a key.
    pub(crate) fn waiting(&self, destination: &D, key: &K) -> Option<&V> {
        self.destinations.get(destination)?.waiting.get(key)
    }

    /// Takes the next batch; it is in flight until [`BatchQueue::answered`] or the next `take`.
    /// `None` ends the worker.
    pub(crate) fn take(&mut self, destination: &D) -> Option<Batch<K, V>> {
        let from = self.destinations.get_mut(destination)?;
        from.in_flight.clear();
        let mut weight = 0;
        let mut entries = Vec::new();
        while let Some(entry) = from.waiting.first_entry() {
            weight += (self.weight)(entry.get());
            if weight > self.limit && !entries.is_empty() {
                break;
            }
            entries.push(entry.remove_entry());
        }
        if entries.is_empty() {
            self.destinations.remove(destination);
            return None;
        }
        from.in_flight.extend(entries.iter().map(|(key, _)| key.clone()));
        Some(Batch { entries, origins: std::mem::take(&mut from.origins) })
    }

    /// Lets the keys in flight to a destination be pushed again. To be called before the answers
    /// are handed on: they may give rise to the same requests.
    pub(crate) fn answered(&mut self, destination: &D) {
        if let Some(at) = self.destinations.get_mut(destination) {
            at.in_flight.clear();
        }
    }

    /// The same for one key of a batch whose answers come one by one.
    pub(crate) fn answered_one(&mut self, destination: &D, key: &K) {
        if let Some(at) = self.destinations.get_mut(destination) {
            at.in_flight.remove(key);
        }
    }
}

impl<K, V> Batch<K, V> {
    /// Begins the span of the call; to be kept until the call has ended.
    pub(crate) fn span(&self, name: &'static str) -> Span {
        self.origins.span(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push<V>(queue: &mut BatchQueue<&'static str, u32, V>, key: u32, value: V) -> bool {
        queue.push("a", key, value, Origin::default())
    }

    fn taken<V>(queue: &mut BatchQueue<&'static str, u32, V>) -> Option<Vec<(u32, V)>> {
        queue.take(&"a").map(|batch| batch.entries)
    }

    #[test]
    fn a_key_waits_or_is_in_flight_once() {
        let mut queue = BatchQueue::new(10);
        assert!(push(&mut queue, 1, "a"), "a worker must start");
        assert!(!push(&mut queue, 1, "b"));
        assert!(!push(&mut queue, 2, "c"));
        assert_eq!(queue.waiting(&"a", &1), Some(&"b"));
        assert_eq!(taken(&mut queue), Some(vec![(1, "b"), (2, "c")]));
        assert!(!push(&mut queue, 1, "d"), "it is in flight");
        queue.answered_one(&"a", &2);
        assert!(!push(&mut queue, 2, "e"));
        queue.answered(&"a");
        assert!(!push(&mut queue, 1, "f"));
        assert_eq!(taken(&mut queue), Some(vec![(1, "f"), (2, "e")]));
        assert_eq!(taken(&mut queue), None);
        assert!(push(&mut queue, 3, "g"), "the worker has ended");
    }

    #[test]
    fn batches_are_bounded_and_leave_nothing_out() {
        let mut queue = BatchQueue::new(10);
        for number in 0..21 {
            let _ = push(&mut queue, number, ());
        }
        let batches: Vec<_> = std::iter::from_fn(|| taken(&mut queue)).collect();
        assert_eq!(batches.iter().map(Vec::len).collect::<Vec<_>>(), [10, 10, 1]);
        assert!(batches.iter().flatten().map(|(number, ())| *number).eq(0..21));
    }

    #[test]
    fn batches_are_bounded_by_weight_and_an_entry_too_heavy_goes_alone() {
        let mut queue = BatchQueue::weighed(20, |weight| *weight);
        for (key, weight) in [(0, 15), (1, 4), (2, 2), (3, 30), (4, 0)] {
            let _ = push(&mut queue, key, weight);
        }
        let batches: Vec<_> = std::iter::from_fn(|| taken(&mut queue)).collect();
        let weights = |batch: &Vec<(u32, usize)>| batch.iter().map(|(_, weight)| *weight).collect();
        let weights: Vec<Vec<usize>> = batches.iter().map(weights).collect();
        assert_eq!(weights, [vec![15, 4], vec![2], vec![30], vec![0]]);
    }

    #[test]
    fn destinations_do_not_wait_for_each_other() {
        let mut queue = BatchQueue::new(1);
        assert!(queue.push("a", 1, (), Origin::default()));
        assert!(queue.take(&"a").is_some());
        assert!(queue.push("b", 1, (), Origin::default()), "another worker");
        assert!(queue.take(&"b").is_some());
    }
}
