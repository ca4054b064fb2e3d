//! Records switches that held something else than they had confirmed.
//!
//! The route service reads all tables back periodically (`control_loop/readback.rs`). A difference
//! from what a switch has confirmed is a drift, unless the switch was in doubt: somebody else wrote
//! there, or the switch lost entries. It is recorded here; the next turn writes the difference, as
//! it does with every other.
//!
//! Invariants
//! - DRIFT-1: what was in doubt (a switch that was down, a write that was not confirmed, an agent
//!   that was never read) is no drift.

use std::collections::{BTreeSet, VecDeque};

use fabricast_groups::Moment;
use fabricast_proto::v1;
use fabricast_telemetry::audit;
use fabricast_topology::{Graph, SwitchId};
use serde_json::json;
use tracing::{info, warn};

use crate::table_state::{Difference, Tables, Write};

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
}

impl DriftLog {
    /// Notes that a switch may hold something else than it had confirmed, for a known reason.
    pub(crate) fn doubt(&mut self, switch: SwitchId) {
        self.doubtful.insert(switch);
    }

    /// Replaces what a switch is known to hold by what was read, and compares the two. Returns the
    /// switch, and whether it differs; `None` for a switch that is not in the topology.
    pub(crate) fn take_table(
        &mut self,
        graph: &Graph,
        tables: &mut Tables,
        table: &v1::SwitchTable,
        now: Moment,
    ) -> Option<(SwitchId, bool)> {
        let switch = graph.find_switch(&table.switch_name)?;
        let entries = table.entries.iter().filter_map(Write::from_wire);
        let difference = tables.replace_held(switch, entries);
        self.compare(graph, switch, difference, now);
        Some((switch, difference != Difference::default()))
    }

    fn compare(&mut self, graph: &Graph, switch: SwitchId, difference: Difference, now: Moment) {
        if self.doubtful.remove(&switch) {
            return;
        }
        self.compared += 1;
        self.last_compared = Some(now);
        if difference == Difference::default() {
            return;
        }
        let Difference { missing, extra, altered } = difference;
        let name = graph.switch_name(switch);
        warn!(switch = name, missing, extra, altered, "table drifted");
        self.count += 1;
        if self.drifts.len() == CAPACITY {
            self.drifts.pop_front();
        }
        self.drifts.push_back(Drift { switch, seen: now, repaired: None, difference });
    }

    /// Marks drifts as repaired whose switches hold what is desired.
    pub(crate) fn settle(&mut self, graph: &Graph, tables: &Tables, now: Moment) {
        for drift in self.drifts.iter_mut().filter(|drift| drift.repaired.is_none()) {
            if tables.difference(drift.switch) == Difference::default() {
                drift.repaired = Some(now);
                let Difference { missing, extra, altered } = drift.difference;
                let switch = graph.switch_name(drift.switch);
                info!(switch, "table repaired");
                let request = json!({
                    "switch": switch, "missing": missing, "extra": extra, "altered": altered
                });
                audit("router", "RepairTable", "OK", &request.to_string());
            }
        }
    }

    /// All drifts that are kept, and the counts.
    pub(crate) fn list(&self, graph: &Graph, now: Moment) -> v1::ListTableDriftsResponse {
        let ago = |then: Moment| prost_types::Duration::try_from(now.since(then)).ok();
        let drift = |drift: &Drift| v1::TableDrift {
            switch_name: graph.switch_name(drift.switch).to_owned(),
            seen_ago: ago(drift.seen),
            repaired_ago: drift.repaired.and_then(ago),
            missing_entries: drift.difference.missing,
            extra_entries: drift.difference.extra,
            altered_entries: drift.difference.altered,
        };
        v1::ListTableDriftsResponse {
            drifts: self.drifts.iter().map(drift).collect(),
            drift_count: self.count,
            compared_tables: self.compared,
            compared_ago: self.last_compared.and_then(ago),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table_state::TableState;
    use fabricast_topology::PortSet;
    use fabricast_topology::spec::TopologySpec;

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
        let spec = "kind = 'leaf-spine'\nleaves = 2\nspines = 1\nendpoints_per_leaf = 2\n";
        let graph = TopologySpec::parse(spec).unwrap().generate().unwrap();
        let (confirmed, found) =
            (state(&[(1, 2), (2, 2), (3, 3)]), state(&[(1, 2), (2, 3), (9, 1)]));
        let (mut log, switch) = (DriftLog::default(), SwitchId(0));
        let difference = confirmed.difference(&found, SwitchId(0));
        assert_eq!(difference, Difference { missing: 1, extra: 1, altered: 1 });
        log.doubt(SwitchId(0));
        log.compare(&graph, switch, difference, Moment(5));
        assert_eq!((log.count, log.compared), (0, 0), "DRIFT-1");
        log.compare(&graph, switch, difference, Moment(5));
        log.compare(&graph, switch, Difference::default(), Moment(6));
        log.settle(&graph, &Tables::new(found, confirmed.clone()), Moment(7));
        let listed = log.list(&graph, Moment(9));
        assert_eq!((listed.drift_count, listed.compared_tables), (1, 2));
        assert_eq!(listed.drifts[0].repaired_ago, None);
        log.settle(&graph, &Tables::new(confirmed.clone(), confirmed), Moment(8));
        assert!(log.list(&graph, Moment(9)).drifts[0].repaired_ago.is_some());
        for _ in 0..CAPACITY {
            log.compare(&graph, switch, difference, Moment(5));
        }
        assert_eq!((log.count, log.drifts.len()), (257, CAPACITY));
    }
}
