//! G4, the route service's part: an older term never changes a table that a newer one has read, and
//! within a term an older generation changes nothing after a newer one. Checked at every write. An
//! agent does not forward writes of an older term either, so a switch that has lost its fences
//! together with its power is protected as well.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use fabricast_proto::v1::Fence;
use fabricast_topology::SwitchId;

/// The newest fences by switch.
#[derive(Debug, Default)]
pub(crate) struct Fences(BTreeMap<SwitchId, (u64, u64)>);

impl Fences {
    /// Checks a write that a switch has carried out; a reader of a newer term has raised the fence
    /// by an empty write.
    pub(crate) fn obeyed(&mut self, switch: SwitchId, fence: Fence) {
        let offered = (fence.term, fence.generation);
        let newest = self.0.entry(switch).or_default();
        assert!(offered >= *newest, "G4: {switch:?} obeys {offered:?} after {newest:?}");
        *newest = offered;
    }

    /// Forgets the fence of a switch that has lost power.
    pub(crate) fn lost(&mut self, switch: SwitchId) {
        self.0.remove(&switch);
    }
}

/// The newest term that one incarnation of an agent has forwarded to its switches.
#[derive(Debug, Default)]
pub(crate) struct Terms(AtomicU64);

impl Terms {
    /// Checks a write that the agent forwards.
    pub(crate) fn passed_on(&self, term: u64) {
        let newest = self.0.fetch_max(term, Ordering::Relaxed);
        assert!(term >= newest, "G4: an agent passes on term {term} after {newest}");
    }
}
