//! R1: where packets of two groups meet a row, the groups are on one spanning tree, so that what they share is a
//! tree. At every step; when a change is done, [`r4`](super::r4) demands that they are of one virtual group. A row that
//! leads to endpoints only is left to [`r2`](super::r2): two trees that do not leave a leaf may need the same.

use std::collections::BTreeMap;

use fabricast_groups::Gn;

use crate::routing::witness::{RowKey, Walk, Witness};

/// Which groups' packets meet each row.
#[derive(Debug, Default)]
pub(crate) struct Users(BTreeMap<RowKey, Vec<Gn>>);

impl Users {
    /// Looks at one packet's way.
    pub(crate) fn note(&mut self, witness: &Witness, gn: Gn, walk: &Walk) {
        for row in &walk.rows {
            let users = self.0.entry(*row).or_default();
            if users.contains(&gn) {
                continue;
            }
            for other in users.iter() {
                let together = witness.may_meet(gn, *other) || witness.leads_to_endpoints(row);
                assert!(together, "R1: groups {other} and {gn} meet row {row:?} and are strangers");
            }
            users.push(gn);
        }
    }
}
