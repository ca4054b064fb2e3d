//! When leases end. Pure: time is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::store::LeaseId;

/// The deadlines of all live leases.
#[derive(Debug, Default)]
pub(crate) struct LeaseTimer {
    leases: BTreeMap<LeaseId, Lease>,
    by_deadline: BTreeSet<(Duration, LeaseId)>,
}

#[derive(Debug)]
struct Lease {
    ttl: Duration,
    deadline: Duration,
}

impl LeaseTimer {
    /// Starts a lease.
    pub(crate) fn start(&mut self, lease: LeaseId, ttl: Duration, now: Duration) {
        let deadline = now.saturating_add(ttl);
        self.leases.insert(lease, Lease { ttl, deadline });
        self.by_deadline.insert((deadline, lease));
    }

    /// Gives a lease its full time again; `false` if it is gone or its time was already up.
    pub(crate) fn extend(&mut self, lease: LeaseId, now: Duration) -> bool {
        let Some(known) = self.leases.get_mut(&lease) else { return false };
        if known.deadline <= now {
            return false;
        }
        self.by_deadline.remove(&(known.deadline, lease));
        known.deadline = known.deadline.max(now.saturating_add(known.ttl));
        self.by_deadline.insert((known.deadline, lease));
        true
    }

    /// Ends a lease; `false` if there is none.
    pub(crate) fn end(&mut self, lease: LeaseId) -> bool {
        let Some(known) = self.leases.remove(&lease) else { return false };
        self.by_deadline.remove(&(known.deadline, lease));
        true
    }

    /// Is the lease known and not yet ended?
    pub(crate) fn contains(&self, lease: LeaseId) -> bool {
        self.leases.contains_key(&lease)
    }

    /// The leases whose time is up, earliest first.
    pub(crate) fn due(&self, now: Duration) -> Vec<LeaseId> {
        self.by_deadline
            .iter()
            .take_while(|(deadline, _)| *deadline <= now)
            .map(|(_, lease)| *lease)
            .collect()
    }

    /// When the next lease ends.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        self.by_deadline.first().map(|(deadline, _)| *deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_lease_kept_alive_outlives_its_first_deadline() {
        let mut timer = LeaseTimer::default();
        timer.start(LeaseId(1), 10 * SECOND, SECOND);
        assert!(timer.extend(LeaseId(1), 9 * SECOND));
        assert!(timer.due(18 * SECOND).is_empty());
        assert_eq!(timer.due(19 * SECOND), [LeaseId(1)]);
    }

    #[test]
    fn a_keep_alive_after_the_deadline_comes_too_late() {
        let mut timer = LeaseTimer::default();
        timer.start(LeaseId(1), SECOND, Duration::ZERO);
        assert!(!timer.extend(LeaseId(1), SECOND));
    }

    #[test]
    fn an_older_keep_alive_never_shortens_a_lease() {
        let mut timer = LeaseTimer::default();
        timer.start(LeaseId(1), 10 * SECOND, 5 * SECOND);
        assert!(timer.extend(LeaseId(1), SECOND));
        assert_eq!(timer.next_deadline(), Some(15 * SECOND));
    }

    #[test]
    fn an_ended_lease_leaves_no_deadline_behind() {
        let mut timer = LeaseTimer::default();
        timer.start(LeaseId(1), SECOND, Duration::ZERO);
        assert!(timer.end(LeaseId(1)));
        assert!(!timer.end(LeaseId(1)));
        assert_eq!(timer.next_deadline(), None);
    }
}
