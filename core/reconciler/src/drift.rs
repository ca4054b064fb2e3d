//! Records switches that held something else than they had confirmed.
//!
//! The route service reads all tables back periodically (`pace.rs`). A difference
//! from what a switch has confirmed is a drift, unless the switch was in doubt: somebody else wrote
//! there, or the switch lost entries. It is recorded here; the next turn writes the difference, as
//! it does with every other.
//!
//! Invariants
//! - DRIFT-1: what was in doubt (a switch that was down, a write that was not confirmed, an agent
//!   that was never read) is no drift.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use fabricast_groups::Moment;
use fabricast_topology::SwitchId;

use crate::interface::{Event, SwitchTable};
use crate::table_state::{Difference, Tables};

/// Most drifts that are kept; the oldest goes first.
const CAPACITY: usize = 256;

/// A difference found at one switch.
#[derive(Clone, Debug)]
struct Drift {
    switch: SwitchId,
    seen: Moment,
    repaired: Option<Moment>,
    difference: Difference,
}

/// Drifts, newest last, and the number of comparisons.
#[derive(Debug, Default)]
pub(crate) struct DriftLog {
    drifts: VecDeque<Drift>,
    count: u64,
    compared: u64,
    last_compared: Option<Moment>,
    /// Switches in doubt: their next reading is no comparison (DRIFT-1).
    doubtful: BTreeSet<SwitchId>,
    /// Facts for the log.
    pub(crate) events: Vec<Event>,
}

impl DriftLog {
    /// Notes that a switch may hold something else than it had confirmed, for a known reason.
    pub(crate) fn doubt(&mut self, switch: SwitchId) {
        self.doubtful.insert(switch);
    }

    /// Replaces what a switch is known to hold by what was read, and compares the two. Returns
    /// whether it differs.
    pub(crate) fn take_table(
        &mut self,
        tables: &mut Tables,
        table: SwitchTable,
        now: Moment,
    ) -> bool {
        let difference = tables.replace_held(table.switch, table.entries);
        self.compare(table.switch, difference, now);
        difference != Difference::default()
    }

    fn compare(&mut self, switch: SwitchId, difference: Difference, now: Moment) {
        if self.doubtful.remove(&switch) {
            return;
        }
        self.compared += 1;
        self.last_compared = Some(now);
        if difference == Difference::default() {
            return;
        }
        self.events.push(Event::TableDrifted { switch, difference });
        self.count += 1;
        if self.drifts.len() == CAPACITY {
            self.drifts.pop_front();
        }
        self.drifts.push_back(Drift { switch, seen: now, repaired: None, difference });
    }

    /// Takes over the drifts and counts of another log.
    pub(crate) fn take_over(&mut self, other: &mut Self) {
        self.drifts = std::mem::take(&mut other.drifts);
        (self.count, self.compared) = (other.count, other.compared);
        self.last_compared = other.last_compared;
    }

    /// Marks drifts as repaired whose switches hold what is desired.
    pub(crate) fn settle(&mut self, tables: &Tables, now: Moment) {
        let Self { drifts, events, .. } = self;
        for drift in drifts.iter_mut().filter(|drift| drift.repaired.is_none()) {
            if tables.difference(drift.switch) == Difference::default() {
                drift.repaired = Some(now);
                let Drift { switch, difference, .. } = *drift;
                events.push(Event::TableRepaired { switch, difference });
            }
        }
    }

    /// All drifts that are kept, and the counts.
    pub(crate) fn list(&self, now: Moment) -> DriftList {
        let drift = |drift: &Drift| TableDrift {
            switch: drift.switch,
            seen_ago: now.since(drift.seen),
            repaired_ago: drift.repaired.map(|then| now.since(then)),
            difference: drift.difference,
        };
        DriftList {
            drifts: self.drifts.iter().map(drift).collect(),
            count: self.count,
            compared: self.compared,
            compared_ago: self.last_compared.map(|then| now.since(then)),
        }
    }
}

/// Drifts that were found, oldest first, and how many tables were compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriftList {
    /// The latest drifts.
    pub drifts: Vec<TableDrift>,
    /// Number of all drifts.
    pub count: u64,
    /// Number of comparisons.
    pub compared: u64,
    /// Time since the last comparison; `None` before the first.
    pub compared_ago: Option<Duration>,
}

/// A switch that held something else than it had confirmed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableDrift {
    /// Switch that had drifted.
    pub switch: SwitchId,
    /// Time since it was seen.
    pub seen_ago: Duration,
    /// Time since the switch holds what it ought to again.
    pub repaired_ago: Option<Duration>,
    /// Difference from what it had confirmed.
    pub difference: Difference,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table_state::{TableState, Write};
    use fabricast_topology::PortSet;

    fn state(entries: &[(u16, u8)]) -> TableState {
        let mut state = TableState::default();
        for (color, out) in entries {
            let write = Write { in_port: 1, color: *color, out: PortSet::single(*out) };
            state.record_all(SwitchId(0), &[write]);
        }
        state
    }

    #[test]
    fn a_difference_is_counted_listed_and_marked_as_repaired() {
        let (confirmed, found) =
            (state(&[(1, 2), (2, 2), (3, 3)]), state(&[(1, 2), (2, 3), (9, 1)]));
        let (mut log, switch) = (DriftLog::default(), SwitchId(0));
        let difference = confirmed.difference(&found, SwitchId(0));
        assert_eq!(difference, Difference { missing: 1, extra: 1, altered: 1 });
        log.doubt(SwitchId(0));
        log.compare(switch, difference, Moment(5));
        assert_eq!((log.count, log.compared), (0, 0), "DRIFT-1");
        log.compare(switch, difference, Moment(5));
        log.compare(switch, Difference::default(), Moment(6));
        log.settle(&Tables::new(found, confirmed.clone()), Moment(7));
        let listed = log.list(Moment(9));
        assert_eq!((listed.count, listed.compared), (1, 2));
        assert_eq!(listed.drifts[0].repaired_ago, None);
        log.settle(&Tables::new(confirmed.clone(), confirmed), Moment(8));
        assert!(log.list(Moment(9)).drifts[0].repaired_ago.is_some());
        for _ in 0..CAPACITY {
            log.compare(switch, difference, Moment(5));
        }
        assert_eq!((log.count, log.drifts.len()), (257, CAPACITY));
    }
}
