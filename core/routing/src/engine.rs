//! C-MR4LMS with the fixed root and merging: groups in, a [`Plan`] out, change by change.
//!
//! Source: C-MR4LMS §3. The plan is a pure function of the fabric, its faults and the groups;
//! the engine only saves work: after a change it computes again what the change can touch, which is
//! one spanning tree as long as every group is on the tree of its MGID.
//!
//! Invariants
//! - R3: the plan equals [`Engine::plan_from_scratch`] after every call, whatever the history.
//! - A refused batch changes nothing.
//!
//! Departures from the paper: lanes (see [`crate::Layout`]); groups that cannot use their spanning tree
//! (a dead link, a color in use by a member elsewhere) move to another, by a rule that
//! depends on groups and faults only; members that cannot be reached are left out and reported.

mod change;
mod dynamic;
mod fabric;
mod footprint;
mod marks;
mod pending;
mod placement;
mod registry;
mod sets;
mod staging;
mod tree;
mod weave;

use std::sync::Arc;

use fabricast_topology::{EndpointId, FatTree, Faults, Graph};

use crate::engines::{EngineKind, EngineOptions, RoutingEngine};
use crate::group_tree::GroupTree;
use crate::mgid::Mgid;
use crate::plan::{Part, Plan};
use crate::spt::{Layout, LayoutError, MgidSpace};
pub use change::{Change, ChangeError, ChangeProblem};
pub use dynamic::{DynamicEngine, RootScope};
use fabric::Fabric;
use pending::Pending;
use placement::Placement;
use registry::{Memberships, Registry};
use staging::{Staged, stage};
use tree::group_tree;
use weave::{Loom, Strand};

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
    rounds: Pending, // to settle again
    trees: Pending,  // to weave again
    plan: Plan,
}

impl Engine {
    /// Makes an engine without groups or faults.
    ///
    /// # Errors
    ///
    /// [`LayoutError`] if the colors are out of range or the fabric has no spanning tree.
    pub fn new(
        graph: Arc<Graph>,
        fat_tree: Arc<FatTree>,
        options: EngineOptions,
    ) -> Result<Self, LayoutError> {
        let layout = Layout::new(fat_tree.params(), options.colors, options.tables)?;
        let fabric = Fabric::new(graph, fat_tree, &layout);
        let space = *layout.space();
        Ok(Self {
            registry: Registry::new(space),
            memberships: None,
            placement: Placement::new(space),
            loom: Loom::new(&fabric, options.tables),
            rounds: Pending::new(space.rounds()),
            trees: Pending::new(space.total()),
            plan: Plan::numbered(space),
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

    /// Gives the tree of one group; none if it does not exist, is not routed or has fewer than two live members.
    #[must_use]
    pub fn group_tree(&self, mgid: Mgid) -> Option<GroupTree> {
        let planned = self.plan.group(mgid).filter(|group| group.has_tree())?;
        let members = &self.registry.get(self.registry.find(mgid)?).members;
        group_tree(&self.fabric, self.fabric.tree(planned.part), members)
    }

    /// Lists all groups, spanning tree by spanning tree.
    pub fn groups(&self) -> impl Iterator<Item = Mgid> + '_ {
        self.registry.iter().map(|(_, group)| group.mgid)
    }

    /// Makes a batch of changes, in order, and brings the plan up to date.
    ///
    /// Cost: the memberships of the spanning trees that the batch touches.
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
                rounds.add(placement.round(self.layout.space().spt(group.mgid)));
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
            registry: Registry::new(space),
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

    /// Takes over a checked change and notes what has to be computed again.
    fn commit(&mut self, mgid: Mgid, staged: Staged, bulk: bool) {
        let spt = self.layout.space().spt(mgid);
        let round = self.placement.round(spt);
        let was_settled = self.placement.round_is_settled(round);
        self.trees.add(spt);
        match (staged.slot, staged.members) {
            (None, None) => {}
            (Some(slot), None) => {
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
                self.trees.add(self.registry.get(slot).placed);
                let lists = self.memberships.as_mut();
                let gained = self.registry.replace_members(slot, members, lists);
                if bulk || !was_settled || self.may_displace(mgid, &gained) {
                    self.rounds.add(round);
                }
            }
        }
    }

    /// Looks whether a changed group on its home tree could be displaced or displace another.
    /// Cheap and careful: false only if that is impossible.
    fn may_displace(&mut self, mgid: Mgid, gained: &[u32]) -> bool {
        let spt = self.layout.space().spt(mgid);
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

    fn settle(&mut self) {
        let Self { fabric, registry, placement, rounds, trees, .. } = self;
        while let Some(round) = rounds.pop() {
            placement.settle_round(fabric, registry, round, |spt| trees.add(spt));
        }
        if self.placement.needs_pass_2() {
            self.index_members();
            let lists = self.memberships.as_ref().expect("built in the line above");
            let Self { fabric, registry, placement, trees, .. } = self;
            let outcome = placement.place_displaced(fabric, registry, lists, |spt| trees.add(spt));
            self.plan.moved = Arc::new(outcome.moved);
            self.plan.unrouted = Arc::new(outcome.unrouted);
        }
        while let Some(spt) = self.trees.pop() {
            self.plan.parts[spt as usize] = self.weave(spt).map(Arc::new);
        }
    }

    fn weave(&mut self, spt: u32) -> Option<Part> {
        let registry = &self.registry;
        let at_home = registry.at_home(spt);
        let tree = self.fabric.tree(spt);
        let mut strands: Vec<Strand<'_>> = Vec::with_capacity(at_home.len());
        for (_, slot) in at_home {
            let group = registry.get(*slot);
            if group.displaced.is_none() {
                strands.push(group.strand(tree));
            }
        }
        if let Some(guests) = self.placement.guests.get(&spt) {
            strands.extend(guests.iter().map(|slot| registry.get(*slot).strand(tree)));
            strands.sort_unstable_by_key(|strand| strand.mgid);
        }
        (!strands.is_empty()).then(|| self.loom.weave(&self.fabric, tree, &strands))
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

    fn group_tree(&self, mgid: Mgid) -> Option<GroupTree> {
        Self::group_tree(self, mgid)
    }
}
