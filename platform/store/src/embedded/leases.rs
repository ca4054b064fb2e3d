//! Deadlines of leases. Time is an argument.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::lease::LeaseId;

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
    pub(crate) fn start(&mut self, lease: LeaseId, ttl: Duration, now: Duration) {
        let deadline = now.saturating_add(ttl);
        self.leases.insert(lease, Lease { ttl, deadline });
        self.by_deadline.insert((deadline, lease));
    }

    /// Restarts the time of a lease; returns `false` if it has ended or expired.
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

    /// Ends a lease; returns `false` if there is none.
    pub(crate) fn end(&mut self, lease: LeaseId) -> bool {
        let Some(known) = self.leases.remove(&lease) else { return false };
        self.by_deadline.remove(&(known.deadline, lease));
        true
    }

    /// Returns whether the lease has not ended.
    pub(crate) fn contains(&self, lease: LeaseId) -> bool {
        self.leases.contains_key(&lease)
    }

    /// Returns the leases that have expired, earliest first.
    pub(crate) fn due(&self, now: Duration) -> Vec<LeaseId> {
        self.by_deadline
            .iter()
            .take_while(|(deadline, _)| *deadline <= now)
            .map(|(_, lease)| *lease)
            .collect()
    }

    /// Returns the time at which the next lease expires.
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
