//! Requests that wait for the writer, in an order that is fair to their clients.
//!
//! Start-time fair queueing (Goyal, Vin, Cheng 1996): of all clients with requests, the one that
//! has used the least of the writer's time is next, so that a request waits for few others,
//! however many a client has. An idle client saves up nothing. Requests of one client keep their
//! order.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

/// Clients without requests are forgotten when there are twice as many as after the last time, and
/// at least this many.
const SWEEP: usize = 1_024;
/// Least cost of a request, so that costs that cannot be measured count.
const LEAST: Duration = Duration::from_micros(1);

#[derive(Debug)]
pub(crate) struct FairQueue<T> {
    clients: HashMap<u64, Waiting<T>>,
    /// The clients that may be next, by the virtual time at which they are.
    ready: BTreeSet<(u64, u64)>,
    /// Virtual time: nanoseconds of the writer that the last client had used when it was next.
    now: u64,
    /// Virtual time at which the last of all requests is done.
    done: u64,
    count: usize,
    sweep_at: usize,
}

/// The requests of one client.
#[derive(Debug)]
struct Waiting<T> {
    requests: VecDeque<T>,
    /// Virtual time at which its last request was or will be done.
    done: u64,
    /// One of its requests is being decided.
    is_served: bool,
}

impl<T> Default for FairQueue<T> {
    fn default() -> Self {
        Self {
            clients: HashMap::new(),
            ready: BTreeSet::new(),
            now: 0,
            done: 0,
            count: 0,
            sweep_at: SWEEP,
        }
    }
}

impl<T> FairQueue<T> {
    /// Number of requests that wait.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Number of requests of a client that wait.
    pub(crate) fn of(&self, client: u64) -> usize {
        self.clients.get(&client).map_or(0, |waiting| waiting.requests.len())
    }

    pub(crate) fn push(&mut self, client: u64, request: T) {
        if self.clients.len() >= self.sweep_at {
            let now = self.now;
            self.clients.retain(|_, waiting| {
                waiting.is_served || !waiting.requests.is_empty() || waiting.done > now
            });
            self.sweep_at = (2 * self.clients.len()).max(SWEEP);
        }
        let new = || Waiting { requests: VecDeque::new(), done: 0, is_served: false };
        let waiting = self.clients.entry(client).or_insert_with(new);
        if waiting.requests.is_empty() && !waiting.is_served {
            self.ready.insert((waiting.done.max(self.now), client));
        }
        waiting.requests.push_back(request);
        self.count += 1;
    }

    /// Takes the next request, of this client. [`FairQueue::spent`] has to follow before the next.
    pub(crate) fn pop(&mut self) -> Option<(u64, T)> {
        let (start, client) = self.ready.pop_first()?;
        let waiting = self.clients.get_mut(&client)?;
        let request = waiting.requests.pop_front()?;
        (self.now, waiting.done, waiting.is_served) = (start, start, true);
        self.count -= 1;
        Some((client, request))
    }

    /// Notes the time that the writer has spent on the last request of a client.
    pub(crate) fn spent(&mut self, client: u64, time: Duration) {
        let Some(waiting) = self.clients.get_mut(&client) else { return };
        let time = u64::try_from(time.max(LEAST).as_nanos()).unwrap_or(u64::MAX);
        waiting.done = waiting.done.saturating_add(time);
        waiting.is_served = false;
        self.done = self.done.max(waiting.done);
        if !waiting.requests.is_empty() {
            self.ready.insert((waiting.done, client));
        }
        if self.ready.is_empty() {
            self.now = self.done; // nobody has waited for what was served until now
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves so many requests, each of which costs as many milliseconds as it is told.
    fn serve(queue: &mut FairQueue<u64>, count: usize) -> Vec<u64> {
        let one = |_| {
            let (client, cost) = queue.pop()?;
            queue.spent(client, Duration::from_millis(cost));
            Some(client)
        };
        (0..count).filter_map(one).collect()
    }

    #[test]
    fn a_request_waits_for_one_of_a_client_that_has_many() {
        let mut queue = FairQueue::default();
        (0..1_000).for_each(|_| queue.push(1, 5));
        assert_eq!(serve(&mut queue, 10), [1; 10]);
        queue.push(2, 5);
        assert_eq!((queue.len(), queue.of(1), queue.of(2)), (991, 990, 1));
        assert_eq!(serve(&mut queue, 3)[..2], [2, 1]);
    }

    #[test]
    fn the_writers_time_is_shared_and_not_its_requests() {
        let mut queue = FairQueue::default();
        for _ in 0..1_000 {
            queue.push(1, 10);
            queue.push(2, 1);
        }
        let served = serve(&mut queue, 550);
        let cheap = served.iter().filter(|client| **client == 2).count();
        assert!((495..=505).contains(&cheap), "{cheap}");
    }

    #[test]
    fn a_client_that_was_idle_has_saved_up_nothing_and_one_that_was_costly_still_owes() {
        let mut queue = FairQueue::default();
        (0..100).for_each(|_| queue.push(1, 10));
        serve(&mut queue, 50);
        (0..100).for_each(|_| queue.push(2, 10));
        let served = serve(&mut queue, 20);
        assert_eq!(served.iter().filter(|client| **client == 2).count(), 10);
        // Of a client that sends its next request when the last is answered, each one waits.
        let mut queue = FairQueue::default();
        queue.push(1, 40);
        (0..8).for_each(|_| queue.push(2, 10));
        serve(&mut queue, 2);
        queue.push(1, 40);
        assert_eq!(serve(&mut queue, 3), [2, 2, 2]);
    }

    #[test]
    fn clients_without_requests_are_forgotten() {
        let mut queue = FairQueue::default();
        for client in 0..20 * SWEEP as u64 {
            queue.push(client, 1);
            serve(&mut queue, 1);
        }
        assert!(queue.clients.len() <= 2 * SWEEP, "{} clients", queue.clients.len());
        assert_eq!((queue.len(), queue.pop()), (0, None));
    }
}
