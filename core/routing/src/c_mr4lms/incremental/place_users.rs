//! The groups that use each place of one spanning tree.
//!
//! Groups may share a *place* only if they are merged. With per-port tables it is the link above a
//! leaf, CN or block, with per-switch tables the switch there, or the root. With per-port
//! tables the groups that stay within a leaf share no such place, and are listed apart.

use fabricast_topology::TableKind;

use super::extent::{Extent, LINKS};
use crate::c_mr4lms::fabric::{Fabric, dense};
use crate::c_mr4lms::numbers::GroupIndex;
use crate::c_mr4lms::registry::Memberships;

/// Numbering of places, the same for all spanning trees of a fabric.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlaceNumbering {
    leaves: u32,
    /// The first place of a level above the leaves' among all of those.
    first: [u32; LINKS],
    end: u32,
    tables: TableKind,
}

impl PlaceNumbering {
    pub(super) fn new(fabric: &Fabric, tables: TableKind) -> Self {
        let (leaves, cns) = (dense(fabric.leaf_cn.len()), dense(fabric.cn_block.len()));
        let root = cns + dense(fabric.blocks());
        Self { leaves, first: [0, cns, root], end: root + 1, tables }
    }

    /// Gives the levels on which groups have places.
    pub(super) const fn levels(self) -> usize {
        match self.tables {
            TableKind::PerPort => LINKS,
            TableKind::PerSwitch => LINKS + 1,
        }
    }

    /// Gives the greatest height of trees that do not use a level.
    pub(super) const fn least(self, level: usize) -> usize {
        match self.tables {
            TableKind::PerPort => level + 1,
            TableKind::PerSwitch => level,
        }
    }

    /// Gives the list of the groups that stay within a leaf.
    const fn inner(self, leaf: u32) -> usize {
        (self.leaves + leaf) as usize
    }

    /// Tells whether groups that stay within a leaf are listed apart.
    pub(super) fn has_inner(self) -> bool {
        self.tables == TableKind::PerPort
    }
}

/// Lists of groups, by place. Each has a group once.
///
/// There are many leaves, most with few groups, and few places above them, most with many.
#[derive(Clone, Debug)]
pub(super) struct PlaceUsers {
    numbering: PlaceNumbering,
    leaves: Memberships, // leaves, and again leaves as the places of inner groups
    upper: Vec<Vec<GroupIndex>>,
    pub(super) inner_groups: u32,
}

impl PlaceUsers {
    pub(super) fn new(numbering: PlaceNumbering) -> Self {
        let PlaceNumbering { leaves, end, .. } = numbering;
        Self {
            numbering,
            leaves: Memberships::new(2 * leaves as usize),
            upper: vec![Vec::new(); end as usize],
            inner_groups: 0,
        }
    }

    /// Notes all places of a group.
    pub(super) fn add_group(&mut self, fabric: &Fabric, index: GroupIndex, extent: Extent<'_>) {
        let numbering = self.numbering;
        for level in (0..numbering.levels()).filter(|at| extent.height > numbering.least(*at)) {
            extent.places(fabric, level).for_each(|at| self.add(level, at, index));
        }
        if extent.is_inner() {
            self.add_inner(fabric.leaf_of(extent.slots[0]), index);
        }
    }

    pub(super) fn add(&mut self, level: usize, at: u32, index: GroupIndex) {
        match level.checked_sub(1) {
            None => self.leaves.insert(at as usize, index),
            Some(above) => self.upper[(self.numbering.first[above] + at) as usize].push(index),
        }
    }

    pub(super) fn remove(&mut self, level: usize, at: u32, index: GroupIndex) {
        let Some(above) = level.checked_sub(1) else {
            return self.leaves.remove(at as usize, index);
        };
        let list = &mut self.upper[(self.numbering.first[above] + at) as usize];
        if let Some(place) = list.iter().position(|other| *other == index) {
            list.swap_remove(place);
        }
    }

    /// Notes a group that stays within a leaf.
    pub(super) fn add_inner(&mut self, leaf: u32, index: GroupIndex) {
        if self.numbering.has_inner() {
            self.inner_groups += 1;
            self.leaves.insert(self.numbering.inner(leaf), index);
        }
    }

    pub(super) fn remove_inner(&mut self, leaf: u32, index: GroupIndex) {
        if self.numbering.has_inner() {
            self.inner_groups -= 1;
            self.leaves.remove(self.numbering.inner(leaf), index);
        }
    }

    /// Walks the groups that use a place.
    pub(super) fn at(&self, level: usize, at: u32) -> impl Iterator<Item = GroupIndex> {
        let above = level.checked_sub(1);
        let upper = above.map(|above| &self.upper[(self.numbering.first[above] + at) as usize]);
        let leaf = above.is_none().then(|| self.leaves.groups_of(at as usize));
        upper.into_iter().flatten().copied().chain(leaf.into_iter().flatten())
    }

    /// Walks the groups that stay within a leaf.
    pub(super) fn inner_at(&self, leaf: u32) -> impl Iterator<Item = GroupIndex> {
        self.leaves.groups_of(self.numbering.inner(leaf))
    }

    /// Walks the groups with members in a leaf.
    pub(super) fn in_leaf(&self, leaf: u32) -> impl Iterator<Item = GroupIndex> {
        self.at(0, leaf).chain(self.inner_at(leaf))
    }
}
