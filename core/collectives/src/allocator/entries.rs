//! Copies of the entries in use, for readers who take their time with them.

use fabricast_topology::SwitchId;

use super::ledger::{Holder, Holding, Ledger, Quota, Reservation, ReservationId, Usage};
use super::request::Owner;

/// Entries in use, reservations and limits, as of one moment.
#[derive(Clone, Debug)]
pub struct EntryLedger(pub(super) Ledger);

impl EntryLedger {
    /// Returns the holders of a switch's entries, by tree; empty for an unknown switch.
    #[must_use]
    pub fn holdings(&self, switch: SwitchId) -> &[Holding] {
        self.0.holdings(switch)
    }

    /// Returns the number of entries that a job could still get in a switch.
    #[must_use]
    pub fn free_entries(&self, switch: SwitchId, owner: Owner) -> u16 {
        self.0.free(switch, owner)
    }

    /// Iterates over the entries and collectives of jobs and tenants that have collectives.
    pub fn usages(&self) -> impl Iterator<Item = (Holder, Usage)> {
        self.0.usages()
    }

    /// Iterates over the limits, by holder.
    pub fn quotas(&self) -> impl Iterator<Item = (Holder, Quota)> {
        self.0.quotas()
    }

    /// Iterates over the reservations by id.
    pub fn reservations(&self) -> impl Iterator<Item = (ReservationId, &Reservation)> {
        self.0.reservations()
    }
}
