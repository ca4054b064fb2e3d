//! C-MR4LMS with the fixed root and merging: groups in, a [`Plan`] out, change by change.
//!
//! Source: C-MR4LMS §3. The plan is a pure function of the fabric, its faults and the groups;
//! the engine only saves work: after a change it computes again what the change can touch. As long as every
//! group is on the spanning tree of its MGID, that is the tree of one virtual group, which is mended
//! ([`mend`]) where few members come or go; otherwise whole spanning trees.
//!
//! Invariants
//! - R3: the plan equals [`Engine::plan_from_scratch`] after every call, whatever the history.
//! - A refused batch changes nothing.
//!
//! With [`EngineOptions::stay_after_healing`] the plan is a function of the homes of groups, too: where
//! a dead link sends a group becomes its home, until the group is deleted.
//!
//! Departures from the paper: lanes (see [`crate::Layout`]); groups that cannot use their spanning tree
//! (a dead link, a color in use by a member elsewhere) move to another, by a rule that
//! depends on groups and faults only; members that cannot be reached are left out and reported.

mod change;
mod dynamic;
mod fabric;
mod footprint;
mod marks;
mod mend;
mod pending;
mod placement;
mod registry;
mod restore;
mod sets;
mod settle;
mod staging;
mod tree;
mod weave;

use std::sync::Arc;

use fabricast_topology::{EndpointId, FatTree, Faults, Graph};

use crate::engines::{EngineKind, EngineOptions, RecordedChoice, RestoreError, RoutingEngine};
use crate::group_tree::GroupTree;
use crate::mgid::Mgid;
use crate::plan::Plan;
use crate::spt::{Layout, LayoutError, MgidSpace};
pub use change::{Change, ChangeError, ChangeProblem};
pub use dynamic::{DynamicEngine, RootScope};
use fabric::Fabric;
use mend::Mender;
use pending::Pending;
use placement::Placement;
use registry::{Memberships, Registry, Replaced};
use staging::{Staged, stage};
use tree::group_trees;
use weave::Loom;

/// From this many groups in one batch on, whole rounds are settled instead of group by group.
const BULK: usize = 64;

/// Keeps groups and their trees on one fabric.
#[derive(Clone, Debug)]
pub struct Engine {
    layout: Layout,
    fabric: Fabric,
    registry: Registry,
    memberships: Option<Memberships>, // built when first needed
    placement: Placement,
    loom: Loom,
    mender: Mender,
    rounds: Pending, // to settle again
    trees: Pending,  // to weave again
    plan: Plan,
    stays_after_healing: bool,
}

impl Engine {
    /// Makes an engine without groups or faults.
    ///
    /// # Errors
    ///
    /// [`LayoutError`] if the colors are out of range, or the fabric has no spanning tree or, with fault
    /// tolerance, no second one.
    pub fn new(
        graph: Arc<Graph>,
        fat_tree: Arc<FatTree>,
        options: EngineOptions,
    ) -> Result<Self, LayoutError> {
        let number = if options.fault_tolerant { Layout::dual } else { Layout::new };
        let layout = number(fat_tree.params(), options.colors, options.tables)?;
        let fabric = Fabric::new(graph, fat_tree, &layout);
        let space = *layout.space();
        Ok(Self {
            registry: Registry::new(space),
            memberships: None,
            placement: Placement::new(space),
            loom: Loom::new(&fabric, options.tables),
            mender: Mender::new(&fabric, options.tables),
            rounds: Pending::new(space.rounds()),
            trees: Pending::new(space.total()),
            plan: Plan::numbered(space),
            stays_after_healing: options.stay_after_healing,
            layout,
            fabric,
        })
    }

    /// Gives the numbering of spanning trees.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Gives the current plan; a copy of it is cheap.
    #[must_use]
    pub const fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Gives the faults the plan goes round.
    #[must_use]
    pub const fn faults(&self) -> &Faults {
        &self.fabric.faults
    }

    /// Counts the groups.
    #[must_use]
    pub fn group_count(&self) -> usize {
        self.registry.len()
    }

    /// Gives the members of a group, cut off or not, in the order of the ports they are plugged into.
    #[must_use]
    pub fn members(&self, mgid: Mgid) -> Option<Vec<EndpointId>> {
        self.registry.members(&self.fabric, mgid)
    }

    /// Gives the trees of one group: one, two with fault tolerance if this fabric has the links for both and the
    /// members are on several leaves; none if it does not exist, is not routed or has fewer than two live members.
    #[must_use]
    pub fn group_trees(&self, mgid: Mgid) -> Vec<GroupTree> {
        let planned = self.plan.group(mgid).filter(|group| group.has_tree());
        let (Some(planned), Some(slot)) = (planned, self.registry.find(mgid)) else {
            return Vec::new();
        };
        group_trees(&self.fabric, self.fabric.trees(planned.part), &self.registry.get(slot).members)
    }

    /// Lists all groups, spanning tree by spanning tree.
    pub fn groups(&self) -> impl Iterator<Item = Mgid> + '_ {
        self.registry.iter().map(|(_, group)| group.mgid)
    }

    /// Makes a batch of changes, in order, and brings the plan up to date.
    ///
    /// Cost: the members that come and go, where they are few and no group is displaced or would be (the first
    /// time on a spanning tree, its memberships); else the memberships of the spanning trees that the
    /// batch touches.
    ///
    /// # Errors
    ///
    /// [`ChangeError`] names the first change that cannot be made; then nothing has changed.
    pub fn apply(&mut self, changes: &[Change]) -> Result<(), ChangeError> {
        let staged = stage(&self.fabric, &self.registry, changes)?;
        let bulk = staged.len() >= BULK;
        if !bulk {
            self.index_members();
        }
        for (mgid, change) in staged {
            self.commit(mgid, change, bulk);
        }
        self.settle();
        Ok(())
    }

    /// Takes over the faults as they are now and reroutes what they touch.
    pub fn set_faults(&mut self, faults: Faults) {
        let touched = self.fabric.set_faults(faults);
        if !touched.seats.is_empty() {
            self.index_members();
        }
        let Self { fabric, registry, placement, rounds, trees, memberships, .. } = self;
        for spt in touched.trees {
            if self.plan.is_dual() {
                trees.add(spt); // who is protected may have changed
            }
            for (_, slot) in registry.at_home(spt) {
                let group = registry.get(*slot);
                let broken = placement.broken_at_home(fabric, spt, &group.members);
                if broken.is_some() || group.displaced.is_some() {
                    rounds.add(placement.round(spt));
                }
            }
        }
        for (seat, lists) in touched.seats.iter().zip(std::iter::repeat(&*memberships)) {
            for slot in lists.iter().flat_map(|lists| lists.groups_of(*seat)) {
                let group = registry.get(slot);
                rounds.add(placement.round(registry.home(group.mgid)));
                trees.add(group.placed);
            }
        }
        self.settle();
    }

    /// Computes the plan for the same groups and faults without using anything of the current one.
    #[must_use]
    pub fn plan_from_scratch(&self) -> Plan {
        let space: MgidSpace = *self.layout.space();
        let mut fresh = Self {
            registry: self.registry.emptied(),
            memberships: None,
            placement: Placement::new(space),
            plan: Plan::numbered(space),
            ..self.clone()
        };
        for (_, group) in self.registry.iter() {
            fresh.registry.insert(group.mgid, group.members.clone());
        }
        fresh.rounds.add_all();
        fresh.trees.add_all();
        fresh.settle();
        fresh.plan
    }

    /// Takes over a checked change and mends its tree or notes what has to be computed again.
    fn commit(&mut self, mgid: Mgid, staged: Staged, bulk: bool) {
        let spt = self.registry.home(mgid);
        let round = self.placement.round(spt);
        let was_settled = self.placement.round_is_settled(round);
        match (staged.slot, staged.members) {
            (None, None) => {}
            (Some(slot), None) => {
                let members = &self.registry.get(slot).members;
                let lost = Replaced {
                    before: members.clone(),
                    lost: members.clone(),
                    ..Replaced::default()
                };
                if bulk || !was_settled || !self.mend(slot, &lost, true) {
                    self.trees.add(spt);
                }
                let group = self.registry.remove(slot);
                if let Some(lists) = &mut self.memberships {
                    group.members.iter().for_each(|seat| lists.remove(*seat, slot));
                }
                if group.displaced.is_some() {
                    self.placement.forget_displaced(round);
                    self.trees.add(group.placed);
                }
                if !was_settled {
                    self.rounds.add(round);
                }
            }
            (slot, Some(members)) => {
                let slot = slot.unwrap_or_else(|| self.registry.insert(mgid, Vec::new()));
                let lists = self.memberships.as_mut();
                let replaced = self.registry.replace_members(slot, members, lists);
                let settle = bulk || !was_settled || self.may_displace(mgid, &replaced.gained);
                if settle {
                    self.rounds.add(round);
                }
                if settle || !self.mend(slot, &replaced, false) {
                    self.trees.add(spt);
                    self.trees.add(self.registry.get(slot).placed);
                }
            }
        }
    }

    /// Looks whether a changed group on its home tree could be displaced or displace another.
    /// Cheap and careful: false only if that is impossible.
    fn may_displace(&mut self, mgid: Mgid, gained: &[u32]) -> bool {
        let spt = self.registry.home(mgid);
        if !self.fabric.is_whole() || !self.fabric.tree_is_whole(spt) {
            return true;
        }
        let slot = self.registry.find(mgid).expect("the group was changed just now");
        let group = self.registry.get_mut(slot);
        let has_tree = group.members.len() >= 2;
        let had_tree = std::mem::replace(&mut group.has_tree, has_tree);
        let Some(lists) = &self.memberships else { return true };
        let group = self.registry.get(slot);
        let seats = if had_tree { gained } else { &group.members };
        has_tree && self.placement.breaches(&self.registry, lists, spt, seats)
    }

    fn index_members(&mut self) {
        if self.memberships.is_none() {
            self.memberships = Some(Memberships::of(&self.registry, self.fabric.seats()));
        }
    }
}

impl RoutingEngine for Engine {
    fn kind(&self) -> EngineKind {
        EngineKind::CMr4lmsFixed
    }

    fn graph(&self) -> &Arc<Graph> {
        &self.fabric.graph
    }

    fn space(&self) -> &MgidSpace {
        self.layout.space()
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), ChangeError> {
        Self::apply(self, changes)
    }

    fn set_faults(&mut self, faults: Faults) {
        Self::set_faults(self, faults);
    }

    fn faults(&self) -> &Faults {
        Self::faults(self)
    }

    fn plan(&self) -> &Plan {
        Self::plan(self)
    }

    fn groups(&self) -> Vec<Mgid> {
        Self::groups(self).collect()
    }

    fn group_count(&self) -> usize {
        Self::group_count(self)
    }

    fn members(&self, mgid: Mgid) -> Option<Vec<EndpointId>> {
        Self::members(self, mgid)
    }

    fn group_trees(&self, mgid: Mgid) -> Vec<GroupTree> {
        Self::group_trees(self, mgid)
    }

    /// Gives the homes of groups that stayed where a dead link had sent them.
    fn choices(&self) -> Vec<RecordedChoice> {
        let choice = |(mgid, part): (&Mgid, &u32)| RecordedChoice {
            mgid: *mgid,
            tree: 0,
            part: *part,
            root: 0,
            ports: Vec::new(),
        };
        self.registry.adopted().iter().map(choice).collect()
    }

    fn restore(&mut self, choices: &[RecordedChoice]) -> Result<(), RestoreError> {
        Self::restore(self, choices)
    }
}
