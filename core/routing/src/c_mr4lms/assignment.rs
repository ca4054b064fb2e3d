//! Decides which spanning tree each group is on: a pure function of groups and faults.
//!
//! Pass 1 keeps a group on the spanning tree of its MGID if all links its tree needs are live and
//! no member has the color already in use on another spanning tree by a group with a smaller MGID.
//! With fault tolerance both trees of the pair have to exist, and one to be live: the death of one
//! tree moves nobody. Pass 2 prefers whole pairs likewise, and where none serves takes pairs of
//! which one tree is live.
//! It looks at one round (color) at a time, so a change redoes the rounds it touches.
//!
//! Pass 2 takes the displaced groups in MGID order. Each has four candidates, chosen by a hash of
//! MGID and spanning tree among those that serve it in the rounds nearest to its home's
//! ([`candidates`]), and takes the one where it adds the fewest groups to the links in use
//! ([`tree_users`]). It sees the groups at home and the displaced ones with smaller MGIDs.
//! A group keeps its place without a look at it, unless it changed, a group with a common member
//! changed or moved, a link at its leaves, CNs or blocks died or came back, or a spanning tree at
//! which it looked has other groups ([`displaced`]).

mod candidates;
mod color_holders;
mod displaced;
mod touched;
mod tree_users;

use std::collections::BTreeMap;

use fabricast_topology::{Mgid, TableKind};

use crate::c_mr4lms::fabric::{Fabric, NONE};
use crate::c_mr4lms::footprint::Footprint;
use crate::c_mr4lms::numbers::{EndpointSlot, GroupIndex, Round, TreeNumber};
use crate::c_mr4lms::registry::{Memberships, Registry};
use crate::plan::{BrokenLink, Displacement};
use crate::spt::MgidSpace;
use candidates::Candidates;
pub(super) use candidates::Held;
use color_holders::ColorHolders;
use displaced::Decision;
pub(super) use touched::Touched;
use tree_users::TreeUsers;

/// The groups that are not at home, and scratch memory to place them.
#[derive(Clone, Debug)]
pub(super) struct TreeAssignment {
    space: MgidSpace,
    whole_pairs: bool,
    /// Displaced groups by the spanning tree they are on, rising by MGID.
    pub(super) displaced_on: BTreeMap<TreeNumber, Vec<(Mgid, GroupIndex)>>,
    displaced_in_round: Vec<u32>,
    displaced: usize,
    unsettled: bool,
    pub(super) touched: Touched,
    decisions: Vec<Decision>, // by group
    users: TreeUsers,
    candidates: Candidates,
    footprint: Footprint,
    color_holders: ColorHolders,
    order: Vec<(Mgid, GroupIndex, TreeNumber)>,
    taken: [Vec<u64>; 2], // a bit for each slot: by earlier trees of a round, by the present one
}

/// Inputs of pass 1 besides the groups.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) memberships: Option<&'a Memberships>,
}

impl TreeAssignment {
    /// Makes an assignment without groups. With `whole_pairs` a group leaves its home if a tree of
    /// the pair lacks a link that has never been there.
    pub(super) fn new(space: MgidSpace, whole_pairs: bool) -> Self {
        Self {
            space,
            whole_pairs: whole_pairs && space.trees_per_group() > 1,
            displaced_on: BTreeMap::new(),
            displaced_in_round: vec![0; space.rounds() as usize],
            displaced: 0,
            unsettled: false,
            touched: Touched::default(),
            decisions: Vec::new(),
            users: TreeUsers::default(),
            candidates: Candidates::default(),
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
        Context { fabric, memberships }: Context<'_>,
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
            let before = registry.get(*index).state();
            let was_displaced = registry.get(*index).displaced.is_some();
            let now = self.try_home(fabric, registry, *index, *spt);
            displaced += u32::from(now.is_some());
            let group = registry.get_mut(*index);
            group.displaced = now;
            if group.state() != before {
                self.touched.add(*index);
                if self.displaced > 0 {
                    self.touched.add_near(memberships, &group.members);
                }
            }
            match (was_displaced, now.is_some()) {
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
                group.component = NONE;
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
            group.component = NONE;
            &group.members[..]
        } else {
            self.footprint.trace(fabric, &group.members);
            group.component = self.footprint.component;
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
        if self.whole_pairs
            && !fabric.tree_is_whole(spt)
            && let Some(link) = fabric.missing_from_any(spt, self.footprint.places())
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
    pub(super) fn settle_down(&mut self, from: TreeNumber) {
        self.forget_displaced(self.round(from));
        self.touched.add_all();
    }

    /// Tells whether groups are displaced, or were until now.
    pub(super) fn needs_pass_2(&self) -> bool {
        self.displaced > 0 || self.unsettled
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
