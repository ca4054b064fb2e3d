//! The groups that the engine holds.

use std::collections::BTreeMap;

use fabricast_groups::ids::Gn;
use fabricast_topology::Mgid;

/// The groups that the engine holds: GN and MGID of each.
#[derive(Debug, Default)]
pub(super) struct PlannedGroups {
    pub(super) mgids: BTreeMap<Gn, Mgid>,
    gns: BTreeMap<Mgid, Gn>,
}

impl PlannedGroups {
    pub(super) fn insert(&mut self, gn: Gn, mgid: Mgid) {
        self.remove(gn);
        self.mgids.insert(gn, mgid);
        self.gns.insert(mgid, gn);
    }

    pub(super) fn remove(&mut self, gn: Gn) -> Option<Mgid> {
        let mgid = self.mgids.remove(&gn)?;
        // A newer group may have the MGID.
        if self.gns.get(&mgid) == Some(&gn) {
            self.gns.remove(&mgid);
        }
        Some(mgid)
    }

    pub(super) fn mgid(&self, gn: Gn) -> Option<Mgid> {
        self.mgids.get(&gn).copied()
    }

    pub(super) fn gn(&self, mgid: Mgid) -> Option<Gn> {
        self.gns.get(&mgid).copied()
    }
}
