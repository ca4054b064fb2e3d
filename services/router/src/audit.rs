//! Remembers where switches held something else than they had confirmed.
//!
//! The route service reads all tables back again and again (`pace.rs`). Whatever differs from what a switch has
//! confirmed, and that nobody had a reason to doubt, is a drift: somebody else wrote there, or the
//! switch forgot. It is noted here; the next turn writes the difference, as it does with every other.
//!
//! Invariants
//! - DRIFT-1: what was in doubt (a switch that was down, a write that was not confirmed, an agent that was never
//!   read) is no drift.

use std::collections::{BTreeSet, VecDeque};

use fabricast_groups::Moment;
use fabricast_proto::v1;
use fabricast_telemetry::audit;
use fabricast_topology::{Graph, SwitchId};
use serde_json::json;
use tracing::{info, warn};

use crate::image::{Difference, Image};
use crate::programmer::entry_to_write;

/// Drifts that are kept.
const KEPT: usize = 256;

/// One switch that did not hold what it had confirmed.
#[derive(Clone, Debug)]
struct Drift {
    switch: SwitchId,
    seen: Moment,
    repaired: Option<Moment>,
    difference: Difference,
}

/// Drifts, newest last.
#[derive(Debug, Default)]
pub(crate) struct Audit {
    drifts: VecDeque<Drift>,
    count: u64,
    compared: u64,
    last_compared: Option<Moment>,
    /// Switches whose next reading says nothing, as they are in doubt.
    doubtful: BTreeSet<SwitchId>,
}

impl Audit {
    /// Notes that a switch may hold something else than it had confirmed, for a known reason.
    pub(crate) fn doubt(&mut self, switch: SwitchId) {
        self.doubtful.insert(switch);
    }

    /// Takes in what a switch was found to hold, beside what it had confirmed; gives which one it is, and whether
    /// that differs. Of a switch that is not in the topology nothing is taken.
    pub(crate) fn take_table(
        &mut self,
        (graph, held): (&Graph, &mut Image),
        table: &v1::SwitchTable,
        now: Moment,
    ) -> Option<(SwitchId, bool)> {
        let switch = graph.find_switch(&table.switch_name)?;
        let confirmed = held.take(switch);
        held.replace(switch, table.entries.iter().filter_map(entry_to_write));
        let difference = confirmed.difference(held, switch);
        self.compare((graph, switch), difference, now);
        Some((switch, difference != Difference::default()))
    }

    fn compare(
        &mut self,
        (graph, switch): (&Graph, SwitchId),
        difference: Difference,
        now: Moment,
    ) {
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
        if self.drifts.len() == KEPT {
            self.drifts.pop_front();
        }
        self.drifts.push_back(Drift { switch, seen: now, repaired: None, difference });
    }

    /// Notes which switches hold what they ought to.
    pub(crate) fn settle(&mut self, graph: &Graph, (held, desired): (&Image, &Image), now: Moment) {
        for drift in self.drifts.iter_mut().filter(|drift| drift.repaired.is_none()) {
            if held.difference(desired, drift.switch) == Difference::default() {
                drift.repaired = Some(now);
                let Difference { missing, extra, altered } = drift.difference;
                let switch = graph.switch_name(drift.switch);
                info!(switch, "table repaired");
                let what = json!({ "switch": switch, "missing": missing, "extra": extra, "altered": altered });
                audit("router", "RepairTable", "OK", &what.to_string());
            }
        }
    }

    /// Lists all that is remembered.
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
    use crate::image::Write;
    use fabricast_topology::PortSet;
    use fabricast_topology::spec::TopologySpec;

    fn image(entries: &[(u16, u8)]) -> Image {
        let mut image = Image::default();
        for (color, out) in entries {
            let write = Write { in_port: 1, color: *color, out: PortSet::single(*out) };
            image.record_all(SwitchId(0), &[write]);
        }
        image
    }

    #[test]
    fn what_differs_is_counted_kept_and_repaired() {
        let spec = "kind = 'leaf-spine'\nleaves = 2\nspines = 1\nendpoints_per_leaf = 2\n";
        let graph = TopologySpec::parse(spec).unwrap().generate().unwrap();
        let (confirmed, found) =
            (image(&[(1, 2), (2, 2), (3, 3)]), image(&[(1, 2), (2, 3), (9, 1)]));
        let (mut audit, at) = (Audit::default(), (&graph, SwitchId(0)));
        let difference = confirmed.difference(&found, SwitchId(0));
        assert_eq!(difference, Difference { missing: 1, extra: 1, altered: 1 });
        audit.doubt(SwitchId(0));
        audit.compare(at, difference, Moment(5));
        assert_eq!((audit.count, audit.compared), (0, 0), "DRIFT-1");
        audit.compare(at, difference, Moment(5));
        audit.compare(at, Difference::default(), Moment(6));
        audit.settle(&graph, (&found, &confirmed), Moment(7));
        let listed = audit.list(&graph, Moment(9));
        assert_eq!((listed.drift_count, listed.compared_tables), (1, 2));
        assert_eq!(listed.drifts[0].repaired_ago, None);
        audit.settle(&graph, (&confirmed, &confirmed), Moment(8));
        assert!(audit.list(&graph, Moment(9)).drifts[0].repaired_ago.is_some());
        for _ in 0..KEPT {
            audit.compare(at, difference, Moment(5));
        }
        assert_eq!((audit.count, audit.drifts.len()), (257, KEPT));
    }
}
