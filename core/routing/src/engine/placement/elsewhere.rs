//! Pass 2: finds other spanning trees for displaced groups.

use fabricast_topology::TableKind;

use crate::engine::fabric::{Fabric, NONE};
use crate::engine::placement::{Displaced, Placement};
use crate::engine::registry::{Group, Memberships, Registry};
use crate::mgid::Mgid;
use crate::plan::{Moved, Unrouted};

/// The trees that packets of one color go up from an endpoint, or [`NONE`].
type Claim = [u32; 2];

/// A displaced group on its way.
struct Wanderer {
    mgid: Mgid,
    slot: u32,
    /// Where it was.
    before: [u32; 2],
}

/// What groups and places are.
#[derive(Clone, Copy)]
struct Ground<'a> {
    fabric: &'a Fabric,
    memberships: &'a Memberships,
}

impl Placement {
    /// Tells whether pass 2 has anything to do or to undo.
    pub(in crate::engine) fn needs_pass_2(&self) -> bool {
        self.displaced > 0 || self.unsettled
    }

    /// Does pass 2; calls `dirty` with every spanning tree on which it changes something.
    pub(in crate::engine) fn place_displaced(
        &mut self,
        fabric: &Fabric,
        registry: &mut Registry,
        memberships: &Memberships,
        mut dirty: impl FnMut(u32),
    ) -> Displaced {
        let wanderers = self.collect(registry);
        let mut outcome = Displaced::default();
        self.guests.clear();
        self.unsettled = false;
        for one in wanderers {
            self.place(Ground { fabric, memberships }, registry, &one, &mut outcome);
            for (before, now) in one.before.into_iter().zip(registry.get(one.slot).placed) {
                if before != now {
                    dirty(before);
                    dirty(now);
                }
            }
        }
        outcome
    }

    /// Takes all displaced trees from where they are, by MGID.
    fn collect(&self, registry: &mut Registry) -> Vec<Wanderer> {
        let space = self.numbering.space();
        let mut wanderers: Vec<Wanderer> = Vec::with_capacity(self.displaced);
        for (round, _) in (0u32..).zip(&self.displaced_in_round).filter(|(_, count)| **count > 0) {
            let first = round * space.trees_per_color();
            let end = (first + space.trees_per_color()).min(space.total());
            let groups = (first..end).flat_map(|spt| registry.at_home(spt));
            wanderers.extend(groups.filter_map(|(mgid, slot)| {
                let group = registry.get(*slot);
                let before = group.placed;
                group.is_displaced().then_some(Wanderer { mgid: *mgid, slot: *slot, before })
            }));
        }
        wanderers.sort_unstable_by_key(|one| one.mgid);
        for one in &wanderers {
            let group = registry.get_mut(one.slot);
            for (placed, displaced) in group.placed.iter_mut().zip(&group.displaced) {
                if displaced.is_some() {
                    *placed = NONE;
                }
            }
        }
        wanderers
    }

    fn place(
        &mut self,
        ground: Ground<'_>,
        registry: &mut Registry,
        one: &Wanderer,
        outcome: &mut Displaced,
    ) {
        let group = registry.get(one.slot);
        self.footprint.trace(ground.fabric, &group.members);
        let held = self.claims(ground, registry, one.slot);
        let (home, why) = (self.numbering.space().spt(one.mgid), group.displaced);
        let lost: Vec<usize> = (0..2).filter(|which| why[*which].is_some()).collect();
        let group = registry.get_mut(one.slot);
        let mut missing = None;
        // Two lost trees go together if they can, so that they keep one color.
        let together =
            if lost.len() == 2 { self.find(ground.fabric, &held, group, &lost).ok() } else { None };
        for which in lost {
            let found = match together {
                Some(spt) => Ok(spt),
                None => self.find(ground.fabric, &held, group, &[which]),
            };
            let (mgid, tree) = (one.mgid, u32::try_from(which).expect("0 or 1"));
            let why = why[which].expect("only lost trees are listed");
            match found {
                Ok(spt) => {
                    let to = self.numbering.tree(spt, tree);
                    let from = self.numbering.tree(home, tree);
                    group.placed[which] = to;
                    self.guests.entry(to).or_default().push(one.slot);
                    outcome.moved.push(Moved { mgid, tree, from, to, why });
                }
                Err([broken, held]) => {
                    missing = missing.or(Some(Unrouted { mgid, tree, why, broken, held }));
                }
            }
        }
        if let Some(missing) = missing {
            let has_none = group.placed == [NONE; 2];
            let list = if has_none { &mut outcome.unrouted } else { &mut outcome.unprotected };
            list.push(missing);
        }
    }

    /// Finds the first feasible number of the space for some trees of a group, or counts those without a link and
    /// without a color.
    fn find(
        &self,
        fabric: &Fabric,
        held: &[Held],
        group: &Group,
        trees: &[usize],
    ) -> Result<u32, [u32; 2]> {
        let (mut broken, mut taken) = (0, 0);
        for spt in self.numbering.space().search_order(self.numbering.space().spt(group.mgid)) {
            let homes = self.numbering.trees(spt);
            let mut placed = group.placed;
            trees.iter().for_each(|which| placed[*which] = homes[*which]);
            let round = self.round(spt);
            let is_live = |which: &usize| {
                let tree = homes[*which];
                fabric.tree_is_whole(tree)
                    || fabric.broken_link(fabric.tree(tree), self.footprint.places()).is_none()
            };
            if held[round as usize].bars(self.claim(placed, round)) {
                taken += 1;
            } else if trees.iter().all(is_live) {
                return Ok(spt);
            } else {
                broken += 1;
            }
        }
        Err([broken, taken])
    }

    /// The trees that the color of a round leads up, for a group that is on these.
    fn claim(&self, placed: [u32; 2], round: u32) -> Claim {
        placed.map(|tree| {
            let is_here = tree != NONE && self.round_of_tree(tree) == round;
            if is_here { tree } else { NONE }
        })
    }

    /// Finds out what each color means where a group has members.
    fn claims(&self, ground: Ground<'_>, registry: &Registry, slot: u32) -> Vec<Held> {
        let Ground { fabric, memberships } = ground;
        let mut held = vec![Held::Free; self.numbering.space().rounds() as usize];
        if self.numbering.space().tables() == TableKind::PerSwitch {
            return held;
        }
        for seat in self.footprint.live(&registry.get(slot).members) {
            let leaf_has_up = fabric.leaf_has_up(fabric.seat_leaf[*seat as usize]);
            for other in memberships.groups_of(*seat).filter(|other| *other != slot) {
                let other = registry.get(other);
                if other.has_tree && (leaf_has_up || !other.spans) {
                    for tree in other.placed.into_iter().filter(|tree| *tree != NONE) {
                        let round = self.round_of_tree(tree);
                        held[round as usize].add(self.claim(other.placed, round));
                    }
                }
            }
        }
        held
    }
}

/// How a color is used by the members of a group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    Free,
    For(Claim),
    ForSeveral,
}

impl Held {
    fn add(&mut self, claim: Claim) {
        *self = match *self {
            Self::Free => Self::For(claim),
            Self::For(same) if same == claim => Self::For(claim),
            Self::For(_) | Self::ForSeveral => Self::ForSeveral,
        };
    }

    fn bars(self, claim: Claim) -> bool {
        match self {
            Self::Free => false,
            Self::For(held) => held != claim,
            Self::ForSeveral => true,
        }
    }
}
