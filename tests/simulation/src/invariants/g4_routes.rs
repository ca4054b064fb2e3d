//! G4, the route service's part: an older term never changes a table that a newer one has read, and within a term
//! an older generation changes nothing after a newer one. At every write. An agent passes on no older term either, so
//! that a switch that has lost power and with it all fences is safe, too.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use fabricast_proto::v1::Fence;
use fabricast_topology::SwitchId;

/// The newest fences by switch.
#[derive(Debug, Default)]
pub(crate) struct Fences(BTreeMap<SwitchId, (u64, u64)>);

impl Fences {
    /// A switch has obeyed a write; a reader of a newer term has shown its fence by one.
    pub(crate) fn obeyed(&mut self, switch: SwitchId, fence: Fence) {
        let offered = (fence.term, fence.generation);
        let newest = self.0.entry(switch).or_default();
        assert!(offered >= *newest, "G4: {switch:?} obeys {offered:?} after {newest:?}");
        *newest = offered;
    }

    /// A switch has lost power; it has forgotten.
    pub(crate) fn lost(&mut self, switch: SwitchId) {
        self.0.remove(&switch);
    }
}

/// The newest term that one life of an agent has passed on to its switches.
#[derive(Debug, Default)]
pub(crate) struct Terms(AtomicU64);

impl Terms {
    /// The agent passes a write on.
    pub(crate) fn passed_on(&self, term: u64) {
        let newest = self.0.fetch_max(term, Ordering::Relaxed);
        assert!(term >= newest, "G4: an agent passes on term {term} after {newest}");
    }
}
