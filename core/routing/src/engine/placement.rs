//! Decides which spanning trees each group is on: a pure function of groups and faults.
//!
//! Pass 1 keeps a group on the spanning tree of its MGID if all links its tree needs are live and
//! no member has the color already in use on another spanning tree by a group with a smaller MGID.
//! It looks at one round (color) at a time, so a change redoes the rounds it touches.
//!
//! Pass 2 takes the displaced groups in MGID order; each takes the first feasible spanning tree,
//! other rounds first and its own last, in each of them starting at the tree next to its home's.
//! It sees all groups, so it is redone whenever anything changes while groups are displaced.
//!
//! With fault tolerance a group has two trees, each in its own half of a color's trees. One that lacks a
//! link moves inside its half and the other stays where it is. Where both have one color, a member's packet goes up
//! both, so what a color means at an endpoint is a *claim*: which trees of the two halves it leads up.
//! All groups that use the color there must claim the same.

mod elsewhere;

use std::collections::BTreeMap;

use fabricast_topology::TableKind;

use crate::engine::fabric::{Fabric, NONE, dense};
use crate::engine::footprint::Footprint;
use crate::engine::registry::{Memberships, Registry};
use crate::mgid::Mgid;
use crate::plan::{Displacement, Moved, Unrouted};
use crate::spt::Numbering;

/// Claims to a color that a pair of trees can make at home: both, the first, the second.
const CLAIMS: u32 = 3;

/// Where groups are that cannot be at home, and scratch memory to find out.
#[derive(Clone, Debug)]
pub(super) struct Placement {
    numbering: Numbering,
    /// Displaced groups by the spanning tree they are on, rising by MGID.
    pub(super) guests: BTreeMap<u32, Vec<u32>>,
    displaced_in_round: Vec<u32>, // groups
    displaced: usize,
    unsettled: bool,
    footprint: Footprint,
    holders: Holders,
    order: Vec<(Mgid, u32, u32)>,
}

/// What the color of the round means at each seat.
#[derive(Clone, Debug, Default)]
struct Holders {
    by_seat: Vec<u32>, // base + code of a claim
    base: u32,
    step: u32,
}

impl Holders {
    fn start_round(&mut self, seats: usize, codes: u32) {
        if self.by_seat.len() != seats || self.base > u32::MAX - 2 * codes {
            self.by_seat = vec![0; seats];
            (self.base, self.step) = (1, 0);
        }
        self.base += self.step;
        self.step = codes;
    }

    fn other_than(&self, seat: u32, code: u32) -> Option<u32> {
        let holder = self.by_seat[seat as usize];
        (holder >= self.base && holder != self.base + code).then(|| holder - self.base)
    }

    fn hold(&mut self, seat: u32, code: u32) {
        self.by_seat[seat as usize] = self.base + code;
    }
}

/// The outcome of pass 2.
#[derive(Debug, Default)]
pub(super) struct Displaced {
    pub(super) moved: Vec<Moved>,
    pub(super) unrouted: Vec<Unrouted>,
    pub(super) unprotected: Vec<Unrouted>,
}

impl Placement {
    pub(super) fn new(numbering: Numbering) -> Self {
        Self {
            numbering,
            guests: BTreeMap::new(),
            displaced_in_round: vec![0; numbering.space().rounds() as usize],
            displaced: 0,
            unsettled: false,
            footprint: Footprint::default(),
            holders: Holders::default(),
            order: Vec::new(),
        }
    }

    /// Gives the round of a number of the space.
    pub(super) fn round(&self, spt: u32) -> u32 {
        spt / self.numbering.space().trees_per_color()
    }

    /// Gives the round of a spanning tree.
    fn round_of_tree(&self, tree: u32) -> u32 {
        self.round(self.numbering.number(tree).0)
    }

    /// Tells whether all groups whose home is in a round are at home.
    pub(super) fn round_is_settled(&self, round: u32) -> bool {
        self.displaced_in_round[round as usize] == 0
    }

    /// Forgets a displaced group that was removed.
    pub(super) fn forget_displaced(&mut self, round: u32) {
        self.displaced_in_round[round as usize] -= 1;
        self.displaced -= 1;
        self.unsettled = true;
    }

    fn homes(&self, spt: u32) -> impl Iterator<Item = (usize, u32)> + Clone + use<> {
        let homes = self.numbering.trees(spt).into_iter().enumerate();
        homes.filter(|(_, tree)| *tree != NONE)
    }

    /// Tells whether all spanning trees of a number of the space have all their links.
    pub(super) fn homes_are_whole(&self, fabric: &Fabric, spt: u32) -> bool {
        self.homes(spt).all(|(_, tree)| fabric.tree_is_whole(tree))
    }

    /// Tells whether a link of a group's home trees is not to be had.
    pub(super) fn is_broken_at_home(&mut self, fabric: &Fabric, spt: u32, members: &[u32]) -> bool {
        if self.homes_are_whole(fabric, spt) {
            return false;
        }
        self.footprint.trace(fabric, members);
        let places = self.footprint.places();
        self.footprint.live(members).len() >= 2
            && self
                .homes(spt)
                .any(|(_, tree)| fabric.broken_link(fabric.tree(tree), places).is_some())
    }

    /// Does pass 1 for one round; calls `dirty` with every spanning tree on which it changes something.
    pub(super) fn settle_round(
        &mut self,
        fabric: &Fabric,
        registry: &mut Registry,
        round: u32,
        mut dirty: impl FnMut(u32),
    ) {
        let space = *self.numbering.space();
        let first = round * space.trees_per_color();
        let end = (first + space.trees_per_color()).min(space.total());
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        for spt in first..end {
            order.extend(registry.at_home(spt).iter().map(|(mgid, slot)| (*mgid, *slot, spt)));
        }
        order.sort_unstable();
        self.holders.start_round(fabric.seats(), space.trees_per_color() * CLAIMS);
        let mut displaced = 0;
        for (_, slot, spt) in &order {
            let before = registry.get(*slot).displaced;
            let now = self.try_home(fabric, registry, *slot, *spt);
            let group = registry.get_mut(*slot);
            group.displaced = now;
            displaced += u32::from(group.is_displaced());
            for (which, home) in self.homes(*spt) {
                match (before[which].is_some(), now[which].is_some()) {
                    (true, false) => {
                        dirty(group.placed[which]);
                        dirty(home);
                        group.placed[which] = home;
                    }
                    (false, true) => dirty(home),
                    (true, true) | (false, false) => {}
                }
            }
        }
        self.order = order;
        let before = std::mem::replace(&mut self.displaced_in_round[round as usize], displaced);
        self.displaced = self.displaced - before as usize + displaced as usize;
        self.unsettled |= before != 0;
    }

    /// Says what keeps each tree of a group from its home.
    fn try_home(
        &mut self,
        fabric: &Fabric,
        registry: &mut Registry,
        slot: u32,
        spt: u32,
    ) -> [Option<Displacement>; 2] {
        let group = registry.get_mut(slot);
        let homes_are_whole = self.homes_are_whole(fabric, spt);
        let live = if homes_are_whole && fabric.is_whole() {
            group.spans = false; // only asked for where leaves are cut off
            &group.members[..]
        } else {
            self.footprint.trace(fabric, &group.members);
            group.spans = self.footprint.spans;
            self.footprint.live(&group.members)
        };
        group.has_tree = live.len() >= 2;
        let mut displaced = [None; 2];
        if !group.has_tree {
            return displaced;
        }
        let homes = self.homes(spt);
        if !homes_are_whole {
            for (which, tree) in homes.clone() {
                let broken = fabric.broken_link(fabric.tree(tree), self.footprint.places());
                displaced[which] = broken.map(|link| Displacement::TreeBroken { link });
            }
        }
        let here = |(which, _): &(usize, u32)| displaced[*which].is_none();
        let Some((first, _)) = homes.clone().find(here) else { return displaced };
        if self.numbering.space().tables() == TableKind::PerSwitch {
            return displaced; // every spanning tree has an entry of its own
        }
        // The claims to a color at home: all trees, or one of them alone.
        let alone = displaced.iter().any(Option::is_some);
        let claim = if alone { 1 + dense(first) } else { 0 };
        let base = self.round(spt) * self.numbering.space().trees_per_color();
        let code = (spt - base) * CLAIMS + claim;
        for seat in live {
            if let Some(other) = self.holders.other_than(*seat, code) {
                let endpoint = fabric.endpoint_at(*seat);
                let by = self.numbering.tree(base + other / CLAIMS, u32::from(other % CLAIMS == 2));
                let why = Displacement::ColorHeld { endpoint, by };
                homes.for_each(|(which, _)| displaced[which] = displaced[which].or(Some(why)));
                return displaced;
            }
        }
        for seat in live {
            self.holders.hold(*seat, code);
        }
        displaced
    }

    /// Tells whether some of these seats have the color of a group's home in use for anything else.
    pub(super) fn breaches(
        &self,
        registry: &Registry,
        memberships: &Memberships,
        spt: u32,
        seats: &[u32],
    ) -> bool {
        let homes = self.numbering.trees(spt);
        self.numbering.space().tables() == TableKind::PerPort
            && seats.iter().flat_map(|seat| memberships.groups_of(*seat)).any(|other| {
                let other = registry.get(other);
                other.has_tree
                    && other.placed != homes
                    && other
                        .placed
                        .iter()
                        .any(|tree| *tree != NONE && self.round_of_tree(*tree) == self.round(spt))
            })
    }
}
