//! Pass 2: finds a place for every displaced group, or keeps it.

use fabricast_topology::{Mgid, TableKind};

use crate::c_mr4lms::assignment::TreeAssignment;
use crate::c_mr4lms::assignment::candidates::{Held, MOST};
use crate::c_mr4lms::assignment::tree_users::{OneTree, list_places, place_count};
use crate::c_mr4lms::fabric::{Fabric, NONE, Touched as TouchedParts};
use crate::c_mr4lms::footprint::Footprint;
use crate::c_mr4lms::numbers::{GroupIndex, Round, TreeNumber};
use crate::c_mr4lms::pending::Pending;
use crate::c_mr4lms::registry::{Memberships, Registry};
use crate::plan::{Moved, Unrouted};

/// The outcome of pass 2.
pub(in crate::c_mr4lms) struct Displaced {
    pub(in crate::c_mr4lms) moved: Vec<Moved>,
    pub(in crate::c_mr4lms) unrouted: Vec<Unrouted>,
}

/// The place that pass 2 found for a group, and the spanning trees whose users it looked at.
#[derive(Clone, Copy, Debug)]
pub(super) struct Decision {
    place: Result<TreeNumber, [u32; 2]>,
    seen: [TreeNumber; MOST],
    seen_count: u8,
}

impl Decision {
    const NONE: Self = Self { place: Err([0, 0]), seen: [TreeNumber(NONE); MOST], seen_count: 0 };

    fn see(&mut self, spt: TreeNumber) {
        self.seen[usize::from(self.seen_count)] = spt;
        self.seen_count += 1;
    }

    fn seen(&self) -> &[TreeNumber] {
        &self.seen[..usize::from(self.seen_count)]
    }
}

/// Inputs and scratch memory of pass 2.
struct Pass<'a> {
    fabric: &'a Fabric,
    registry: &'a mut Registry,
    memberships: &'a Memberships,
    dirty: &'a mut Pending<TreeNumber>,
    places: Vec<u32>,             // of the group that looks for a place
    other: (Footprint, Vec<u32>), // of a group on a spanning tree
}

impl TreeAssignment {
    /// Does pass 2; adds every spanning tree on which it changes something to `dirty`, which has
    /// those on which something else changed.
    pub(in crate::c_mr4lms) fn place_displaced(
        &mut self,
        fabric: &Fabric,
        registry: &mut Registry,
        memberships: &Memberships,
        dirty: &mut Pending<TreeNumber>,
    ) -> Displaced {
        let displaced = self.list_displaced(registry);
        self.forget_placed(registry);
        self.users.clear(self.space.total());
        let mut pass = Pass {
            fabric,
            registry,
            memberships,
            dirty,
            places: Vec::new(),
            other: (Footprint::default(), Vec::new()),
        };
        let mut outcome = Displaced { moved: Vec::new(), unrouted: Vec::new() };
        for (mgid, index) in displaced {
            let mut decision = self.decisions[index.index()];
            let is_kept = !self.touched.contains(index)
                && !decision.seen().iter().any(|spt| pass.dirty.contains(*spt));
            if !is_kept {
                decision = self.decide(&mut pass, index);
                self.decisions[index.index()] = decision;
                self.put(&mut pass, mgid, index, decision.place.unwrap_or(TreeNumber(NONE)));
            }
            let why = pass.registry.get(index).displaced.expect("only displaced groups are listed");
            let from = self.space.spt(mgid);
            match decision.place {
                Ok(to) if to == pass.registry.home(mgid) => {} // no pair is whole
                Ok(TreeNumber(to)) => outcome.moved.push(Moved { mgid, from, to, why }),
                Err([broken, held]) => outcome.unrouted.push(Unrouted { mgid, why, broken, held }),
            }
        }
        self.unsettled = false;
        self.touched.clear();
        outcome
    }

    /// Notes the displaced groups that are at a link which died or came back.
    pub(in crate::c_mr4lms) fn touch_hit(
        &mut self,
        fabric: &Fabric,
        registry: &Registry,
        hit: &TouchedParts,
    ) {
        if self.displaced == 0 || self.touched.all() {
            return;
        }
        for (_, index) in self.list_displaced(registry) {
            self.footprint.trace(fabric, &registry.get(index).members);
            if hit.meets_places(self.footprint.places()) {
                self.touched.add(index);
            }
        }
    }

    /// Lists the displaced groups by MGID.
    fn list_displaced(&mut self, registry: &Registry) -> Vec<(Mgid, GroupIndex)> {
        let mut displaced = Vec::with_capacity(self.displaced);
        for (round, _) in (0u32..).zip(&self.displaced_in_round).filter(|(_, count)| **count > 0) {
            let groups = self.trees(Round(round)).flat_map(|spt| registry.at_home(spt));
            displaced.extend(groups.filter(|(_, index)| registry.get(*index).displaced.is_some()));
        }
        displaced.sort_unstable();
        let most = displaced.iter().map(|(_, index)| index.index() + 1).max().unwrap_or(0);
        self.decisions.resize(self.decisions.len().max(most), Decision::NONE);
        displaced
    }

    /// Takes groups off the lists that are not displaced any more, and all if all are to be placed
    /// again.
    fn forget_placed(&mut self, registry: &Registry) {
        let all = self.touched.all();
        self.displaced_on.retain(|spt, groups| {
            groups.retain(|(mgid, index)| {
                let group = registry.get(*index);
                !all && group.mgid == *mgid && group.displaced.is_some() && group.placed == *spt
            });
            !groups.is_empty()
        });
    }

    /// Puts a displaced group where it belongs now.
    fn put(&mut self, pass: &mut Pass<'_>, mgid: Mgid, index: GroupIndex, to: TreeNumber) {
        let group = pass.registry.get_mut(index);
        let before = std::mem::replace(&mut group.placed, to);
        if to != before {
            pass.dirty.add(to);
            pass.dirty.add(before);
            self.touched.add_near(Some(pass.memberships), &group.members);
            if let Some(groups) = self.displaced_on.get_mut(&before) {
                groups.retain(|(_, other)| *other != index);
            }
        }
        if to == TreeNumber(NONE) {
            return;
        }
        let groups = self.displaced_on.entry(to).or_default();
        let at = groups.partition_point(|(other, _)| *other < mgid);
        if groups.get(at).is_none_or(|(other, _)| *other != mgid) {
            groups.insert(at, (mgid, index));
        }
        let users = self.users.tree(to);
        if users.is_current_to(at) {
            users.add(&pass.places);
            users.displaced += 1;
        }
    }

    /// Finds a place for a group: of its candidates the one of least cost, and of equals the first.
    fn decide(&mut self, pass: &mut Pass<'_>, index: GroupIndex) -> Decision {
        let group = pass.registry.get(index);
        let (mgid, home) = (group.mgid, pass.registry.home(group.mgid));
        self.footprint.trace(pass.fabric, &group.members);
        self.list_colors_held(pass, index);
        self.find_candidates(pass.fabric, mgid, home);
        list_places(pass.fabric, self.space.tables(), self.footprint.places(), &mut pass.places);
        let mut decision = Decision::NONE;
        let mut least = u64::MAX;
        for at in 0..self.candidates.trees().len() {
            let (_, spt) = self.candidates.trees()[at];
            self.bring_up_to(pass, spt, mgid);
            decision.see(spt);
            // A member that is on the tree with another group has it merged, whatever its links.
            let is_shared = self.candidates.held[self.round(spt).index()] == Held::On(spt);
            let cost = self.users.tree(spt).cost(&pass.places).max(u64::from(is_shared));
            if cost < least {
                (least, decision.place) = (cost, Ok(spt));
            }
            if cost == 0 {
                break;
            }
        }
        if decision.seen().is_empty() {
            decision.place = Err(self.count_obstacles());
        }
        decision
    }

    /// Adds to the users of a spanning tree the groups that are at home there, and the displaced
    /// ones before an MGID.
    fn bring_up_to(&mut self, pass: &mut Pass<'_>, spt: TreeNumber, mgid: Mgid) {
        let Pass { fabric, registry, other: (footprint, places), .. } = pass;
        let tables = self.space.tables();
        let users = self.users.tree(spt);
        let mut add = |users: &mut OneTree, index: GroupIndex| {
            let group = registry.get(index);
            footprint.trace(fabric, &group.members);
            list_places(fabric, tables, footprint.places(), places);
            users.add(places);
        };
        if users.start(place_count(fabric)) {
            for (_, index) in registry.at_home(spt) {
                let group = registry.get(*index);
                if group.has_tree && group.displaced.is_none() {
                    add(users, *index);
                }
            }
        }
        let groups = self.displaced_on.get(&spt).map_or(&[][..], |groups| groups);
        for (_, index) in groups[users.displaced..].iter().take_while(|(other, _)| *other < mgid) {
            add(users, *index);
            users.displaced += 1;
        }
    }

    /// Lists by round the spanning trees on which the members of a group use the color already:
    /// groups at home and displaced ones with a smaller MGID.
    fn list_colors_held(&mut self, pass: &Pass<'_>, index: GroupIndex) {
        let Pass { fabric, registry, memberships, .. } = pass;
        let trees = self.space.trees_per_color();
        let held = &mut self.candidates.held;
        held.clear();
        held.resize(self.space.rounds() as usize, Held::Free);
        if self.space.tables() == TableKind::PerSwitch {
            return;
        }
        let group = registry.get(index);
        for slot in self.footprint.live(&group.members) {
            let leaf = fabric.leaf_of(*slot);
            let is_cut_off = !fabric.leaves_whole() && !fabric.leaf_has_up(leaf);
            let component = if is_cut_off { leaf } else { NONE };
            for other in memberships.groups_of(slot.index()).map(|other| registry.get(other)) {
                let comes_before = other.displaced.is_none() || other.mgid < group.mgid;
                if other.has_tree
                    && comes_before
                    && other.component == component
                    && other.placed != TreeNumber(NONE)
                {
                    held[(other.placed.0 / trees) as usize].add(other.placed);
                }
            }
        }
    }
}
