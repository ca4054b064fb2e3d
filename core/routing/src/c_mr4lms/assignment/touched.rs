//! Groups whose place pass 2 has to find again.

use fixedbitset::FixedBitSet;

use crate::c_mr4lms::numbers::{EndpointSlot, GroupIndex};
use crate::c_mr4lms::registry::Memberships;

/// The groups of which something changed that pass 2 looks at, other than the groups on a spanning
/// tree.
#[derive(Clone, Debug, Default)]
pub(in crate::c_mr4lms) struct Touched {
    all: bool,
    groups: FixedBitSet,
}

impl Touched {
    /// Adds all groups.
    pub(in crate::c_mr4lms) const fn add_all(&mut self) {
        self.all = true;
    }

    /// Adds a group that changed.
    pub(in crate::c_mr4lms) fn add(&mut self, index: GroupIndex) {
        self.groups.grow_and_insert(index.index());
    }

    /// Adds the groups with a member among these slots; all groups, without lists of memberships.
    pub(in crate::c_mr4lms) fn add_near(
        &mut self,
        memberships: Option<&Memberships>,
        slots: &[EndpointSlot],
    ) {
        let Some(lists) = memberships.filter(|_| !self.all) else { return self.add_all() };
        for index in slots.iter().flat_map(|slot| lists.groups_of(slot.index())) {
            self.add(index);
        }
    }

    pub(super) const fn all(&self) -> bool {
        self.all
    }

    pub(super) fn contains(&self, index: GroupIndex) -> bool {
        self.all || self.groups.contains(index.index())
    }

    pub(super) fn clear(&mut self) {
        self.all = false;
        self.groups.clear();
    }
}
