//! Records the state before changes, so that they can be undone at the cost of what they change.

use std::collections::BTreeMap;

use fabricast_topology::SwitchId;

use super::ledger::{Holder, Ledger, Quota, Reservation, ReservationId};
use super::request::{Collective, CollectiveId};

/// The state before some changes, of what they have touched.
#[derive(Clone, Debug, Default)]
pub(super) struct Before {
    pub(super) next_tree: u32,
    pub(super) next_reservation: u32,
    pub(super) collectives: BTreeMap<CollectiveId, Option<Collective>>,
    /// Each with its switches.
    pub(super) reservations: BTreeMap<ReservationId, Option<(Reservation, Vec<SwitchId>)>>,
    pub(super) quotas: BTreeMap<Holder, Quota>,
    /// True if faults have changed, or collectives have followed them.
    pub(super) has_followed: bool,
}

/// Records changes, if anybody may undo them. A value is recorded before its first change.
#[derive(Clone, Debug, Default)]
pub(super) struct Journal(pub(super) Option<Before>);

impl Journal {
    pub(super) fn collective(
        &mut self,
        id: CollectiveId,
        before: impl FnOnce() -> Option<Collective>,
    ) {
        if let Some(all) = &mut self.0 {
            all.collectives.entry(id).or_insert_with(before);
        }
    }

    pub(super) fn reservation(&mut self, id: ReservationId, ledger: &Ledger) {
        let before = || Some((ledger.reservation(id)?.clone(), ledger.switches_of(id)));
        if let Some(all) = &mut self.0 {
            all.reservations.entry(id).or_insert_with(before);
        }
    }

    pub(super) fn quota(&mut self, holder: Holder, ledger: &Ledger) {
        if let Some(all) = &mut self.0 {
            all.quotas.entry(holder).or_insert_with(|| ledger.quota(holder));
        }
    }

    /// Records that faults change, or that collectives follow them.
    pub(super) fn following(&mut self) {
        if let Some(all) = &mut self.0 {
            all.has_followed = true;
        }
    }
}
