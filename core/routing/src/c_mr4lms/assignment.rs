//! Decides which spanning tree each group is on: a pure function of groups and faults.
//!
//! Pass 1 keeps a group on the spanning tree of its MGID if all links its tree needs are live and
//! no member has the color already in use on another spanning tree by a group with a smaller MGID.
//! With fault tolerance the links of one tree of the pair suffice.
//! It looks at one round (color) at a time, so a change redoes the rounds it touches.
//!
//! Pass 2 takes the displaced groups in MGID order; each takes the first feasible spanning tree,
//! other rounds first and its own last, in each of them starting at the tree next to its home's.
//! It sees all groups, so it is redone whenever anything changes while groups are displaced.

mod color_holders;

use std::collections::BTreeMap;

use fabricast_topology::{Mgid, TableKind};

use crate::c_mr4lms::fabric::{Fabric, NONE};
use crate::c_mr4lms::footprint::Footprint;
use crate::c_mr4lms::numbers::{EndpointSlot, GroupIndex, Round, TreeNumber};
use crate::c_mr4lms::registry::{Memberships, Registry};
use crate::plan::{BrokenLink, Displacement, Moved, Unrouted};
use crate::spt::MgidSpace;
use color_holders::ColorHolders;

/// The groups that are not at home, and scratch memory to place them.
#[derive(Clone, Debug)]
pub(super) struct TreeAssignment {
    space: MgidSpace,
    /// Displaced groups by the spanning tree they are on, rising by MGID.
    pub(super) guests: BTreeMap<TreeNumber, Vec<GroupIndex>>,
    displaced_in_round: Vec<u32>,
    displaced: usize,
    unsettled: bool,
    footprint: Footprint,
    color_holders: ColorHolders,
    order: Vec<(Mgid, GroupIndex, TreeNumber)>,
    taken: [Vec<u64>; 2], // a bit for each slot: by earlier trees of a round, by the present one
}

/// The outcome of pass 2.
pub(super) struct Displaced {
    pub(super) moved: Vec<Moved>,
    pub(super) unrouted: Vec<Unrouted>,
}

impl TreeAssignment {
    pub(super) fn new(space: MgidSpace) -> Self {
        Self {
            space,
            guests: BTreeMap::new(),
            displaced_in_round: vec![0; space.rounds() as usize],
            displaced: 0,
            unsettled: false,
            footprint: Footprint::default(),
            color_holders: ColorHolders::default(),
            order: Vec::new(),
            taken: [Vec::new(), Vec::new()],
        }
    }

    pub(super) fn round(&self, spt: TreeNumber) -> Round {
        Round(spt.0 / self.space.trees_per_color())
    }

    /// Gives the number of the first spanning tree of a round.
    const fn first_tree(&self, round: Round) -> u32 {
        round.0 * self.space.trees_per_color()
    }

    /// Walks the spanning trees of a round.
    fn trees(&self, round: Round) -> impl Iterator<Item = TreeNumber> + Clone + use<> {
        let first = self.first_tree(round);
        let end = (first + self.space.trees_per_color()).min(self.space.total());
        (first..end).map(TreeNumber)
    }

    /// Tells whether all groups whose home is in a round are at home.
    pub(super) fn round_is_settled(&self, round: Round) -> bool {
        self.displaced_in_round[round.index()] == 0
    }

    /// Forgets a displaced group that was removed.
    pub(super) fn forget_displaced(&mut self, round: Round) {
        self.displaced_in_round[round.index()] -= 1;
        self.displaced -= 1;
        self.unsettled = true;
    }

    /// Finds the first dead or missing link that keeps a group from its home tree.
    pub(super) fn broken_at_home(
        &mut self,
        fabric: &Fabric,
        spt: TreeNumber,
        members: &[EndpointSlot],
    ) -> Option<BrokenLink> {
        if fabric.tree_is_whole(spt) {
            return None;
        }
        self.footprint.trace(fabric, members);
        if self.footprint.live(members).len() < 2 {
            return None;
        }
        fabric.obstacle(spt, self.footprint.places())
    }

    /// Does pass 1 for one round; calls `dirty` with every spanning tree on which it changes
    /// something.
    pub(super) fn settle_round(
        &mut self,
        fabric: &Fabric,
        registry: &mut Registry,
        round: Round,
        mut dirty: impl FnMut(TreeNumber),
    ) {
        if self.all_are_at_home(fabric, registry, round) {
            return;
        }
        let mut order = std::mem::take(&mut self.order);
        order.clear();
        for spt in self.trees(round) {
            order.extend(registry.at_home(spt).iter().map(|(mgid, index)| (*mgid, *index, spt)));
        }
        order.sort_unstable();
        self.color_holders.start_round(fabric.slots(), self.space.trees_per_color());
        let mut displaced = 0;
        for (_, index, spt) in &order {
            let before = registry.get(*index).displaced;
            let now = self.try_home(fabric, registry, *index, *spt);
            displaced += u32::from(now.is_some());
            let group = registry.get_mut(*index);
            group.displaced = now;
            match (before.is_some(), now.is_some()) {
                (true, false) => {
                    dirty(group.placed);
                    dirty(*spt);
                    group.placed = *spt;
                }
                (false, true) => dirty(*spt),
                (true, true) | (false, false) => {}
            }
        }
        self.order = order;
        let before = std::mem::replace(&mut self.displaced_in_round[round.index()], displaced);
        self.displaced = self.displaced - before as usize + displaced as usize;
        self.unsettled |= before != 0;
    }

    /// Tells whether nothing keeps any group of a round from its home, in whatever order they
    /// come.
    fn all_are_at_home(&mut self, fabric: &Fabric, registry: &mut Registry, round: Round) -> bool {
        let trees = self.trees(round);
        if !self.round_is_settled(round)
            || !fabric.is_whole()
            || !trees.clone().all(|spt| fabric.tree_is_whole(spt))
        {
            return false;
        }
        let [before, own] = &mut self.taken;
        before.clear();
        before.resize(fabric.slots().div_ceil(64), 0);
        for spt in trees {
            own.clear();
            own.resize(before.len(), 0);
            registry.each_at_home(spt, |group| {
                group.island = NONE;
                group.has_tree = group.members.len() >= 2;
                if group.has_tree {
                    for slot in &group.members {
                        own[slot.index() >> 6] |= 1 << (slot.0 & 63);
                    }
                }
            });
            // With per-switch tables every spanning tree has an entry of its own.
            if self.space.tables() == TableKind::PerPort {
                if before.iter().zip(&*own).any(|(before, own)| before & own != 0) {
                    return false;
                }
                before.iter_mut().zip(&*own).for_each(|(before, own)| *before |= own);
            }
        }
        true
    }

    fn try_home(
        &mut self,
        fabric: &Fabric,
        registry: &mut Registry,
        index: GroupIndex,
        spt: TreeNumber,
    ) -> Option<Displacement> {
        let group = registry.get_mut(index);
        let live = if fabric.is_whole() && fabric.tree_is_whole(spt) {
            group.island = NONE;
            &group.members[..]
        } else {
            self.footprint.trace(fabric, &group.members);
            group.island = self.footprint.island;
            self.footprint.live(&group.members)
        };
        group.has_tree = live.len() >= 2;
        if !group.has_tree {
            return None;
        }
        if !fabric.tree_is_whole(spt)
            && let Some(link) = fabric.obstacle(spt, self.footprint.places())
        {
            return Some(Displacement::TreeBroken { link });
        }
        if self.space.tables() == TableKind::PerSwitch {
            return None; // every spanning tree has an entry of its own
        }
        let first = self.first_tree(self.round(spt));
        let tree = spt.0 - first;
        for slot in live {
            if let Some(other) = self.color_holders.other_than(*slot, tree) {
                let endpoint = fabric.endpoint_at(*slot);
                return Some(Displacement::ColorHeld { endpoint, by: first + other });
            }
        }
        for slot in live {
            self.color_holders.hold(*slot, tree);
        }
        None
    }

    /// Notes that the spanning tree a displaced group is on is its home now.
    pub(super) fn settle_down(&mut self, from: TreeNumber, to: TreeNumber, index: GroupIndex) {
        let round = self.round(from);
        self.forget_displaced(round);
        if let Some(guests) = self.guests.get_mut(&to) {
            guests.retain(|guest| *guest != index);
        }
    }

    /// Tells whether groups are displaced, or were until now.
    pub(super) fn needs_pass_2(&self) -> bool {
        self.displaced > 0 || self.unsettled
    }

    /// Does pass 2; calls `dirty` with every spanning tree on which it changes something.
    pub(super) fn place_displaced(
        &mut self,
        fabric: &Fabric,
        registry: &mut Registry,
        memberships: &Memberships,
        mut dirty: impl FnMut(TreeNumber),
    ) -> Displaced {
        let mut displaced: Vec<(Mgid, GroupIndex, TreeNumber)> = Vec::with_capacity(self.displaced);
        for (round, _) in (0u32..).zip(&self.displaced_in_round).filter(|(_, count)| **count > 0) {
            let groups = self.trees(Round(round)).flat_map(|spt| registry.at_home(spt));
            displaced.extend(groups.filter_map(|(mgid, index)| {
                let group = registry.get(*index);
                group.displaced.map(|_| (*mgid, *index, group.placed))
            }));
        }
        displaced.sort_unstable();
        for (_, index, _) in &displaced {
            registry.get_mut(*index).placed = TreeNumber(NONE);
        }
        let mut outcome = Displaced { moved: Vec::new(), unrouted: Vec::new() };
        self.guests.clear();
        self.unsettled = false;
        for (mgid, index, before) in displaced {
            let found = self.find_place(fabric, registry, memberships, index);
            let why = registry.get(index).displaced.expect("only displaced groups are listed");
            let to = found.as_ref().map_or(TreeNumber(NONE), |to| *to);
            registry.get_mut(index).placed = to;
            match found {
                Ok(to) => {
                    self.guests.entry(to).or_default().push(index);
                    let from = self.space.spt(mgid);
                    outcome.moved.push(Moved { mgid, from, to: to.0, why });
                }
                Err([broken, held]) => {
                    outcome.unrouted.push(Unrouted { mgid, why, broken, held });
                }
            }
            if to != before {
                dirty(to);
                dirty(before);
            }
        }
        outcome
    }

    /// Finds the first feasible spanning tree, or counts those without a link and without a color.
    fn find_place(
        &mut self,
        fabric: &Fabric,
        registry: &Registry,
        memberships: &Memberships,
        index: GroupIndex,
    ) -> Result<TreeNumber, [u32; 2]> {
        let group = registry.get(index);
        self.footprint.trace(fabric, &group.members);
        let held = self.colors_held(fabric, registry, memberships, index);
        let home = registry.home(group.mgid);
        let (mut broken, mut taken) = (0, 0);
        for spt in self.space.search_order(home.0).map(TreeNumber) {
            if held[self.round(spt).index()].bars(spt) {
                taken += 1;
            } else if !fabric.tree_is_whole(spt)
                && fabric.obstacle(spt, self.footprint.places()).is_some()
            {
                broken += 1;
            } else {
                return Ok(spt);
            }
        }
        Err([broken, taken])
    }

    /// Lists by round the spanning trees on which the members of a group use the color already.
    fn colors_held(
        &self,
        fabric: &Fabric,
        registry: &Registry,
        memberships: &Memberships,
        index: GroupIndex,
    ) -> Vec<Held> {
        let mut held = vec![Held::Free; self.space.rounds() as usize];
        if self.space.tables() == TableKind::PerSwitch {
            return held;
        }
        for slot in self.footprint.live(&registry.get(index).members) {
            let leaf = fabric.leaf_of(*slot);
            let is_island = !fabric.leaves_whole() && !fabric.leaf_has_up(leaf);
            let island = if is_island { leaf } else { NONE };
            for other in memberships.groups_of(slot.index()).map(|other| registry.get(other)) {
                if other.has_tree && other.island == island && other.placed != TreeNumber(NONE) {
                    held[self.round(other.placed).index()].add(other.placed);
                }
            }
        }
        held
    }

    /// Tells whether some of these slots have the color of a group's home in use on another
    /// spanning tree.
    pub(super) fn breaches(
        &self,
        registry: &Registry,
        memberships: &Memberships,
        spt: TreeNumber,
        slots: &[EndpointSlot],
    ) -> bool {
        self.space.tables() == TableKind::PerPort
            && slots.iter().flat_map(|slot| memberships.groups_of(slot.index())).any(|other| {
                let other = registry.get(other);
                other.has_tree
                    && other.placed != spt
                    && other.placed != TreeNumber(NONE)
                    && self.round(other.placed) == self.round(spt)
            })
    }
}

/// Use of one color by the members of a group.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Held {
    Free,
    On(TreeNumber),
    OnSeveral,
}

impl Held {
    fn add(&mut self, spt: TreeNumber) {
        *self = match *self {
            Self::Free => Self::On(spt),
            Self::On(same) if same == spt => Self::On(spt),
            Self::On(_) | Self::OnSeveral => Self::OnSeveral,
        };
    }

    fn bars(self, spt: TreeNumber) -> bool {
        match self {
            Self::Free => false,
            Self::On(held) => held != spt,
            Self::OnSeveral => true,
        }
    }
}
