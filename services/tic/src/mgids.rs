//! Chooses MGIDs for new groups that come without one.

use fabricast_groups::directory::NewGroup;
use fabricast_routing::Mgid;

/// The choice; it only remembers where it stopped.
#[derive(Debug, Default)]
pub(crate) struct MgidChoice {
    next: u32,
    limit: u32,
}

impl MgidChoice {
    pub(crate) fn new(limit: u32) -> Self {
        Self { next: 0, limit }
    }

    /// Gives the next free MGID; neighbours in number lie on different spanning trees.
    pub(crate) fn choose(&mut self, group: &NewGroup<'_>) -> Option<Mgid> {
        let found = (self.next..self.limit)
            .chain(0..self.next)
            .map(Mgid)
            .find(|mgid| (group.is_free)(*mgid))?;
        self.next = found.0 + 1;
        Some(found)
    }
}
