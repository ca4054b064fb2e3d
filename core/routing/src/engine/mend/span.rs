//! Where the members of a group are, asked of the list of their seats; and what one list has that another lacks.
//!
//! Leaves, CNs and blocks have to be in order, so that the seats of each lie together.

use crate::engine::fabric::{Fabric, NONE};

/// Levels of links between switches: above leaves, CNs and blocks.
pub(super) const LINKS: usize = 3;

/// The members of a group on a whole fabric.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span<'a> {
    /// Seats, rising.
    pub(super) seats: &'a [u32],
    /// Levels of switches in its tree; the tree has the links above level `l` if this is at least `l + 2`.
    pub(super) height: usize,
}

/// Tells whether the seats of every leaf, CN and block lie together.
pub(super) fn is_in_order(fabric: &Fabric) -> bool {
    fabric.leaf_cn.is_sorted() && fabric.cn_block.is_sorted()
}

/// Gives the leaf, CN or block of a seat; all seats are in one place of the level above.
pub(super) fn place(fabric: &Fabric, level: usize, seat: u32) -> u32 {
    let leaf = fabric.leaf_of(seat);
    let cn = |leaf: u32| fabric.leaf_cn[leaf as usize];
    match level {
        0 => leaf,
        1 => cn(leaf),
        2 => fabric.cn_block[cn(leaf) as usize],
        _ => 0,
    }
}

impl<'a> Span<'a> {
    pub(super) fn of(fabric: &Fabric, seats: &'a [u32]) -> Self {
        let height = match seats {
            [] | [_] => 0,
            [first, .., last] => {
                let differs = |level| place(fabric, level, *first) != place(fabric, level, *last);
                1 + (0..LINKS).rev().find(|level| differs(*level)).map_or(0, |level| level + 1)
            }
        };
        Self { seats, height }
    }

    pub(super) const fn has_tree(self) -> bool {
        self.height > 0
    }

    /// Tells whether all of it is in one leaf.
    pub(super) const fn is_inner(self) -> bool {
        self.height == 1
    }

    /// Walks its places on a level, each once.
    pub(super) fn places(self, fabric: &'a Fabric, level: usize) -> impl Iterator<Item = u32> + 'a {
        let mut last = NONE;
        let places = self.seats.iter().map(move |seat| place(fabric, level, *seat));
        places.filter(move |at| std::mem::replace(&mut last, *at) != *at)
    }

    /// Lists the places of a level that a group has in use and has not any more with some of its seats only;
    /// it uses a level if its height is more than `least`. `more` are the seats that `fewer` lacks.
    pub(super) fn places_beyond(
        self,
        fabric: &Fabric,
        fewer: Span<'_>,
        more: &[u32],
        (level, least): (usize, usize),
    ) -> Vec<u32> {
        if self.height <= least {
            return Vec::new();
        }
        if fewer.height <= least {
            return self.places(fabric, level).collect();
        }
        let more = Span { seats: more, height: self.height };
        let mut places = Vec::new();
        let mut last = NONE;
        for seat in more.seats {
            let at = place(fabric, level, *seat);
            if at != last && !fewer.touches(fabric, level, *seat) {
                places.push(at);
            }
            last = at;
        }
        places
    }

    /// Tells whether a member is where a seat is that is not itself a member.
    fn touches(self, fabric: &Fabric, level: usize, seat: u32) -> bool {
        let at = self.seats.partition_point(|other| *other < seat);
        let next = &self.seats[at.saturating_sub(1)..self.seats.len().min(at + 1)];
        let here = place(fabric, level, seat);
        next.iter().any(|other| place(fabric, level, *other) == here)
    }

    /// Gives the members that are in a leaf.
    fn within(self, fabric: &Fabric, leaf: u32) -> &'a [u32] {
        let first = self.seats.partition_point(|seat| fabric.leaf_of(*seat) < leaf);
        let rest = &self.seats[first..];
        &rest[..rest.partition_point(|seat| fabric.leaf_of(*seat) == leaf)]
    }

    /// Tells whether two groups have a member in common in a leaf.
    pub(super) fn meets(self, fabric: &Fabric, other: Span<'_>, leaf: u32) -> bool {
        let other = other.within(fabric, leaf);
        self.within(fabric, leaf).iter().any(|seat| other.binary_search(seat).is_ok())
    }
}
