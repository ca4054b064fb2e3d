//! R1: where packets of two groups use the same row, the groups are on one spanning tree, so that
//! their shared part is a tree. Checked at every step; once a change is complete, [`r4`](super::r4)
//! demands that they are in one virtual group. Rows that lead to endpoints only are left to
//! [`r2`](super::r2), because two trees inside one leaf may need the same row.

use std::collections::BTreeMap;

use fabricast_groups::Gn;

use crate::routing::witness::{RowKey, Walk, Witness};

/// Groups whose packets use each row.
#[derive(Debug, Default)]
pub(crate) struct Users(BTreeMap<RowKey, Vec<Gn>>);

impl Users {
    /// Checks the walk of one packet.
    pub(crate) fn note(&mut self, witness: &Witness, gn: Gn, walk: &Walk) {
        for row in &walk.rows {
            let users = self.0.entry(*row).or_default();
            if users.contains(&gn) {
                continue;
            }
            for other in users.iter() {
                let together = witness.may_meet(gn, *other) || witness.leads_to_endpoints(row);
                assert!(
                    together,
                    "R1: groups {other} and {gn} share row {row:?} without a common tree"
                );
            }
            users.push(gn);
        }
    }
}
