//! Deadlines of the reports of all nodes, also of those that host no group agents.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::NodeIncarnation;
use crate::ids::Moment;

/// Time until the next report of a node that has not told it. Chosen so that a process that hosts
/// very many nodes, and reports them in turns, has told it for each of them before.
pub const UNTOLD: Duration = Duration::from_secs(30);
/// Longest time until the next report that a node may tell: a longer one would be no watch.
const LONGEST: Duration = Duration::from_secs(3_600);

/// Deadlines of the nodes' reports. Cost of each call: logarithmic in the nodes.
#[derive(Clone, Debug, Default)]
pub(super) struct ReportDeadlines {
    nodes: BTreeMap<NodeIncarnation, Deadline>,
    due: BTreeSet<(Moment, NodeIncarnation)>,
}

#[derive(Clone, Copy, Debug)]
struct Deadline {
    at: Moment,
    look_at: Moment, // its place in `due`, at most `at`: a report need not move it
    within: Duration,
}

impl ReportDeadlines {
    /// Expects the next report of a node.
    ///
    /// - `within`: time until the next report, as the node has told it.
    /// - `grace`: time after which a report that has not come by then is overdue.
    pub(super) fn expect(
        &mut self,
        now: Moment,
        incarnation: &NodeIncarnation,
        within: Duration,
        grace: Duration,
    ) {
        let within = within.min(LONGEST);
        let at = now.after(within + grace);
        match self.nodes.get_mut(incarnation) {
            Some(known) if known.look_at <= at => (known.at, known.within) = (at, within),
            known => {
                if let Some(known) = known {
                    self.due.remove(&(known.look_at, incarnation.clone()));
                }
                self.nodes.insert(incarnation.clone(), Deadline { at, look_at: at, within });
                self.due.insert((at, incarnation.clone()));
            }
        }
    }

    /// Returns a node whose report is overdue, and expects its next report anew, so that it is
    /// returned again if none comes.
    pub(super) fn pop_overdue(&mut self, now: Moment, grace: Duration) -> Option<NodeIncarnation> {
        while self.due.first().is_some_and(|(look_at, _)| *look_at <= now) {
            let (_, incarnation) = self.due.pop_first()?;
            let Some(known) = self.nodes.get_mut(&incarnation) else { continue };
            let is_overdue = known.at <= now;
            if is_overdue {
                known.at = now.after(known.within + grace);
            }
            known.look_at = known.at;
            self.due.insert((known.look_at, incarnation.clone()));
            if is_overdue {
                return Some(incarnation);
            }
        }
        None
    }

    /// Expects all reports anew, because this process did not run for a while.
    pub(super) fn start_over(&mut self, now: Moment, grace: Duration) {
        for known in self.nodes.values_mut() {
            known.at = now.after(known.within + grace);
        }
    }

    /// Expects no report of a node any more.
    pub(super) fn forget(&mut self, incarnation: &NodeIncarnation) {
        if let Some(known) = self.nodes.remove(incarnation) {
            self.due.remove(&(known.look_at, incarnation.clone()));
        }
    }

    /// Returns when a node is to be looked at next. It may not be overdue then.
    pub(super) fn next(&self) -> Option<Moment> {
        self.due.first().map(|(look_at, _)| *look_at)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ids::Incarnation;
    use crate::names::NodeName;

    const GRACE: Duration = Duration::from_secs(2);

    fn at(seconds: u64) -> Moment {
        Moment(seconds * 1_000_000_000)
    }

    fn incarnation(number: u64) -> NodeIncarnation {
        let node = NodeName::new("n").unwrap();
        NodeIncarnation { node, number: Incarnation(number) }
    }

    #[test]
    fn a_report_sooner_than_told_before_is_waited_for() {
        let mut deadlines = ReportDeadlines::default();
        deadlines.expect(at(0), &incarnation(1), UNTOLD, GRACE);
        deadlines.expect(at(1), &incarnation(1), Duration::from_secs(1), GRACE);
        assert_eq!(deadlines.next(), Some(at(4)));
        assert_eq!(deadlines.pop_overdue(at(3), GRACE), None);
        assert_eq!(deadlines.pop_overdue(at(4), GRACE), Some(incarnation(1)));
        assert_eq!(deadlines.pop_overdue(at(4), GRACE), None);
        assert_eq!(
            deadlines.pop_overdue(at(7), GRACE),
            Some(incarnation(1)),
            "again while it is silent"
        );
    }

    #[test]
    fn no_node_can_put_off_its_deadline_for_longer_than_an_hour() {
        let mut deadlines = ReportDeadlines::default();
        deadlines.expect(at(0), &incarnation(1), Duration::MAX, GRACE);
        assert_eq!(deadlines.next(), Some(at(3_602)));
    }

    proptest! {
        /// A node is overdue exactly when its last report is older than it had told.
        #[test]
        fn who_is_overdue_follows_from_the_last_report_alone(
            reports in proptest::collection::vec((0u64..4, 0u64..9, 0u64..5), 1..60),
        ) {
            let mut deadlines = ReportDeadlines::default();
            let mut model = BTreeMap::new();
            let mut now = 0;
            for (node, within, pause) in reports {
                deadlines.expect(at(now), &incarnation(node), Duration::from_secs(within), GRACE);
                model.insert(node, (now + within + 2, within));
                now += pause;
                let mut overdue = BTreeSet::new();
                while let Some(late) = deadlines.pop_overdue(at(now), GRACE) {
                    prop_assert!(overdue.insert(late.number.0), "each once");
                }
                let mut expected = BTreeSet::new();
                for (node, (deadline, within)) in &mut model {
                    if *deadline <= now {
                        expected.insert(*node);
                        *deadline = now + *within + 2;
                    }
                }
                prop_assert_eq!(overdue, expected);
            }
        }
    }
}
