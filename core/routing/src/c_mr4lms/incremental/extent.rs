//! The leaves, CNs and blocks of a group's members, and the difference between two such sets, read
//! off the rising lists of endpoint slots.
//!
//! Leaves, CNs and blocks have to be in order, so that the slots of each lie together.

use crate::c_mr4lms::fabric::{Fabric, NONE};
use crate::c_mr4lms::numbers::EndpointSlot;

/// Levels of links between switches: above leaves, CNs and blocks.
pub(super) const LINKS: usize = 3;

/// The members of a group on a whole fabric.
#[derive(Clone, Copy, Debug)]
pub(super) struct Extent<'a> {
    /// Endpoint slots, rising.
    pub(super) slots: &'a [EndpointSlot],
    /// Levels of switches in its tree; the tree has the links above level `l` if this is at least
    /// `l + 2`.
    pub(super) height: usize,
}

/// The places of one level, which a group uses if its tree is higher than `least`.
#[derive(Clone, Copy, Debug)]
pub(super) struct LevelPlaces {
    pub(super) level: usize,
    pub(super) least: usize,
}

/// Tells whether the slots of every leaf, CN and block lie together.
pub(super) fn is_in_order(fabric: &Fabric) -> bool {
    fabric.leaf_cn.is_sorted() && fabric.cn_block.is_sorted()
}

/// Gives the leaf, CN or block of a slot; all slots are in one place of the level above.
pub(super) fn place(fabric: &Fabric, level: usize, slot: EndpointSlot) -> u32 {
    let leaf = fabric.leaf_of(slot);
    let cn = |leaf: u32| fabric.leaf_cn[leaf as usize];
    match level {
        0 => leaf,
        1 => cn(leaf),
        2 => fabric.cn_block[cn(leaf) as usize],
        _ => 0,
    }
}

impl<'a> Extent<'a> {
    pub(super) fn of(fabric: &Fabric, slots: &'a [EndpointSlot]) -> Self {
        let height = match slots {
            [] | [_] => 0,
            [first, .., last] => {
                let differs = |level| place(fabric, level, *first) != place(fabric, level, *last);
                1 + (0..LINKS).rev().find(|level| differs(*level)).map_or(0, |level| level + 1)
            }
        };
        Self { slots, height }
    }

    pub(super) const fn has_tree(self) -> bool {
        self.height > 0
    }

    /// Tells whether all members are on one leaf.
    pub(super) const fn is_inner(self) -> bool {
        self.height == 1
    }

    /// Walks its places on a level, each once.
    pub(super) fn places(self, fabric: &'a Fabric, level: usize) -> impl Iterator<Item = u32> + 'a {
        let mut last = NONE;
        let places = self.slots.iter().map(move |slot| place(fabric, level, *slot));
        places.filter(move |at| std::mem::replace(&mut last, *at) != *at)
    }

    /// Lists the places of a level that a group has in use and has not any more with some of its
    /// slots only. `more` are the slots that
    /// `fewer` lacks.
    pub(super) fn places_beyond(
        self,
        fabric: &Fabric,
        fewer: Extent<'_>,
        more: &[EndpointSlot],
        places: LevelPlaces,
    ) -> Vec<u32> {
        let LevelPlaces { level, least } = places;
        if self.height <= least {
            return Vec::new();
        }
        if fewer.height <= least {
            return self.places(fabric, level).collect();
        }
        let more = Extent { slots: more, height: self.height };
        let mut places = Vec::new();
        let mut last = NONE;
        for slot in more.slots {
            let at = place(fabric, level, *slot);
            if at != last && !fewer.touches(fabric, level, *slot) {
                places.push(at);
            }
            last = at;
        }
        places
    }

    /// Tells whether a member is at the place of `slot`, which is not a member itself.
    fn touches(self, fabric: &Fabric, level: usize, slot: EndpointSlot) -> bool {
        let at = self.slots.partition_point(|other| *other < slot);
        let next = &self.slots[at.saturating_sub(1)..self.slots.len().min(at + 1)];
        let here = place(fabric, level, slot);
        next.iter().any(|other| place(fabric, level, *other) == here)
    }

    /// Gives the members that are in a leaf.
    fn within(self, fabric: &Fabric, leaf: u32) -> &'a [EndpointSlot] {
        let first = self.slots.partition_point(|slot| fabric.leaf_of(*slot) < leaf);
        let rest = &self.slots[first..];
        &rest[..rest.partition_point(|slot| fabric.leaf_of(*slot) == leaf)]
    }

    /// Tells whether two groups have a member in common in a leaf.
    pub(super) fn meets(self, fabric: &Fabric, other: Extent<'_>, leaf: u32) -> bool {
        let other = other.within(fabric, leaf);
        self.within(fabric, leaf).iter().any(|slot| other.binary_search(slot).is_ok())
    }
}
