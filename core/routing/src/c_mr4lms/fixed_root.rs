//! C-MR4LMS with the fixed root and merging: groups in, a [`Plan`] out, change by change.
//!
//! Source: C-MR4LMS §3. The plan is a pure function of the fabric, its faults and the groups. After
//! a change the engine computes again only what the change can touch: the tree of one virtual group
//! (see [`incremental`](super::incremental)) if every group is on the spanning tree of its MGID and
//! few members come or go, else whole spanning trees.
//!
//! Invariants
//! - R3: the plan equals [`FixedRootEngine::plan_from_scratch`] after every call, whatever the
//!   history.
//! - A refused batch changes nothing.
//!
//! With [`EngineOptions::stay_after_healing`] the plan also depends on the homes of groups: the
//! spanning tree to which a dead link sends a group becomes its home until the group is deleted.
//!
//! Departures from the paper: lanes (see [`crate::Layout`]); a group that cannot use its spanning
//! tree (a dead link, or a color in use by a member elsewhere) moves to another by a rule that
//! depends on groups and faults only; members that cannot be reached are left out and reported.

use std::collections::BTreeMap;
use std::sync::Arc;

use fabricast_topology::{EndpointId, FatTree, Faults, Graph, Mgid};

use crate::c_mr4lms::assignment::{Context, TreeAssignment};
use crate::c_mr4lms::fabric::Fabric;
use crate::c_mr4lms::group_trees::group_trees;
use crate::c_mr4lms::incremental::{Change as TreeChange, IncrementalUpdate};
use crate::c_mr4lms::numbers::{EndpointSlot, GroupIndex, Round, TreeNumber};
use crate::c_mr4lms::pending::Pending;
use crate::c_mr4lms::registry::{Memberships, Registry, Replaced};
use crate::c_mr4lms::staging::{Staged, stage};
use crate::c_mr4lms::tree_builder::{GroupOnTree, TreeBuilder};
use crate::change::{Change, ChangeError};
use crate::group_tree::GroupTree;
use crate::plan::{Displacement, Moved, Part, Plan};
use crate::routing_engine::{
    EngineEntry, EngineKind, EngineOptions, RecordedChoice, RestoreError, RestoreProblem,
    RoutingEngine,
};
use crate::spt::{Layout, LayoutError, MgidSpace};

/// The engine in the list of engines.
pub(crate) const ENTRY: EngineEntry = EngineEntry {
    needs_fat_tree: true,
    chooses_roots: false,
    fault_tolerance: true,
    stay_after_healing: true,
    plan_depends_on_history: false,
    groups_hang_together: true,
    ..EngineEntry::new("c-mr4lms-fixed", |mut input| {
        let fat_tree = input.fat_tree()?;
        Ok(Box::new(FixedRootEngine::new(input.graph, fat_tree, input.options)?))
    })
};

/// From this many groups in one batch on, whole rounds are settled instead of group by group.
const BULK: usize = 64;

/// Keeps groups and their trees on one fabric.
#[derive(Clone, Debug)]
pub struct FixedRootEngine {
    layout: Layout,
    fabric: Fabric,
    registry: Registry,
    memberships: Option<Memberships>, // built when first needed
    assignment: TreeAssignment,
    builder: TreeBuilder,
    incremental: IncrementalUpdate,
    rounds: Pending<Round>,     // to settle again
    trees: Pending<TreeNumber>, // to build again
    plan: Plan,
    stays_after_healing: bool,
}

impl FixedRootEngine {
    /// Makes an engine without groups or faults.
    ///
    /// # Errors
    ///
    /// [`LayoutError`] if the colors are out of range, or the fabric has no spanning tree or, with
    /// fault tolerance, no second one.
    pub fn new(
        graph: Arc<Graph>,
        fat_tree: Arc<FatTree>,
        options: EngineOptions,
    ) -> Result<Self, LayoutError> {
        let number = if options.fault_tolerant { Layout::dual } else { Layout::new };
        let layout = number(fat_tree.params(), options.colors, options.tables)?;
        let layout = layout.with_mixed_pairs(&fat_tree);
        let fabric = Fabric::new(graph, fat_tree, &layout);
        let space = *layout.space();
        Ok(Self {
            registry: Registry::new(space),
            memberships: None,
            assignment: TreeAssignment::new(space, !options.stay_after_healing),
            builder: TreeBuilder::new(&fabric, options.tables),
            incremental: IncrementalUpdate::new(&fabric, options.tables),
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

    /// Gives the members of a group, cut off or not, in the order of the ports they are plugged
    /// into.
    #[must_use]
    pub fn members(&self, mgid: Mgid) -> Option<Vec<EndpointId>> {
        self.registry.members(&self.fabric, mgid)
    }

    /// Gives the trees of one group: one, two with fault tolerance if this fabric has the links for
    /// both and the members are on several leaves; none if it does not exist, is not routed or has
    /// fewer than two live members.
    #[must_use]
    pub fn group_trees(&self, mgid: Mgid) -> Vec<GroupTree> {
        let planned = self.plan.group(mgid).filter(|group| group.has_tree());
        let (Some(planned), Some(index)) = (planned, self.registry.find(mgid)) else {
            return Vec::new();
        };
        group_trees(
            &self.fabric,
            self.fabric.trees(TreeNumber(planned.part)),
            &self.registry.get(index).members,
        )
    }

    /// Lists all groups, spanning tree by spanning tree.
    pub fn groups(&self) -> impl Iterator<Item = Mgid> + '_ {
        self.registry.iter().map(|(_, group)| group.mgid)
    }

    /// Makes a batch of changes, in order, and brings the plan up to date.
    ///
    /// Cost: the members that come and go, where they are few and no group is displaced or would be
    /// (the first time on a spanning tree, its memberships); else the memberships of the spanning
    /// trees that the batch touches.
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
        if !touched.slots.is_empty() {
            self.index_members();
            self.assignment.touched.add_all();
        }
        self.assignment.touch_hit(&self.fabric, &self.registry, &touched);
        let Self { fabric, registry, assignment, rounds, trees, memberships, .. } = self;
        for spt in touched.trees {
            if self.plan.is_dual() {
                trees.add(spt); // who is protected may have changed
            }
            for (_, index) in registry.at_home(spt) {
                let group = registry.get(*index);
                let broken = assignment.broken_at_home(fabric, spt, &group.members);
                if broken.is_some() || group.displaced.is_some() {
                    rounds.add(assignment.round(spt));
                }
            }
        }
        for (slot, lists) in touched.slots.iter().zip(std::iter::repeat(&*memberships)) {
            for index in lists.iter().flat_map(|lists| lists.groups_of(slot.index())) {
                let group = registry.get(index);
                rounds.add(assignment.round(registry.home(group.mgid)));
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
            assignment: TreeAssignment::new(space, !self.stays_after_healing),
            plan: Plan::numbered(space),
            ..self.clone()
        };
        for (_, group) in self.registry.iter() {
            fresh.registry.insert(group.mgid, group.members.clone());
        }
        (0..space.rounds()).for_each(|round| fresh.rounds.add(Round(round)));
        self.fabric.tree_numbers().for_each(|spt| fresh.trees.add(spt));
        fresh.settle();
        fresh.plan
    }

    /// Takes over a checked change and updates its tree or notes what has to be computed again.
    fn commit(&mut self, mgid: Mgid, staged: Staged, bulk: bool) {
        let spt = self.registry.home(mgid);
        let round = self.assignment.round(spt);
        let was_settled = self.assignment.round_is_settled(round);
        match (staged.index, staged.members) {
            (None, None) => {}
            (Some(index), None) => {
                let members = &self.registry.get(index).members;
                let lost = Replaced {
                    before: members.clone(),
                    lost: members.clone(),
                    ..Replaced::default()
                };
                if bulk || !was_settled || !self.update_incrementally(index, &lost, true) {
                    self.trees.add(spt);
                }
                if self.assignment.needs_pass_2() {
                    let lists = self.memberships.as_ref();
                    self.assignment.touched.add_near(lists, &lost.lost);
                }
                let group = self.registry.remove(index);
                if let Some(lists) = &mut self.memberships {
                    group.members.iter().for_each(|slot| lists.remove(slot.index(), index));
                }
                if group.displaced.is_some() {
                    self.assignment.forget_displaced(round);
                    self.trees.add(group.placed);
                }
                if !was_settled {
                    self.rounds.add(round);
                }
            }
            (index, Some(members)) => {
                let index = index.unwrap_or_else(|| self.registry.insert(mgid, Vec::new()));
                let lists = self.memberships.as_mut();
                let replaced = self.registry.replace_members(index, members, lists);
                self.touch(index, &replaced);
                let settle = bulk || !was_settled || self.may_displace(mgid, &replaced.gained);
                if settle {
                    self.rounds.add(round);
                }
                if settle || !self.update_incrementally(index, &replaced, false) {
                    self.trees.add(spt);
                    self.trees.add(self.registry.get(index).placed);
                }
            }
        }
    }

    /// Notes for which groups pass 2 has to be done again when a group has other members.
    fn touch(&mut self, index: GroupIndex, replaced: &Replaced) {
        if !self.assignment.needs_pass_2() {
            return;
        }
        let (touched, lists) = (&mut self.assignment.touched, self.memberships.as_ref());
        let members = &self.registry.get(index).members;
        touched.add(index);
        touched.add_near(lists, &replaced.gained);
        touched.add_near(lists, &replaced.lost);
        if replaced.before.len() < 2 || members.len() < 2 {
            touched.add_near(lists, &replaced.before);
            touched.add_near(lists, members);
        }
    }

    /// Looks whether a changed group on its home tree could be displaced or displace another.
    /// Cheap and careful: false only if that is impossible.
    fn may_displace(&mut self, mgid: Mgid, gained: &[EndpointSlot]) -> bool {
        let spt = self.registry.home(mgid);
        if !self.fabric.is_whole() || !self.fabric.tree_is_whole(spt) {
            return true;
        }
        let index = self.registry.find(mgid).expect("the group was changed just now");
        let group = self.registry.get_mut(index);
        let has_tree = group.members.len() >= 2;
        let had_tree = std::mem::replace(&mut group.has_tree, has_tree);
        let Some(lists) = &self.memberships else { return true };
        let group = self.registry.get(index);
        let slots = if had_tree { gained } else { &group.members };
        has_tree && self.assignment.breaches(&self.registry, lists, spt, slots)
    }

    fn index_members(&mut self) {
        if self.memberships.is_none() {
            self.memberships = Some(Memberships::of(&self.registry, self.fabric.slots()));
        }
    }
}

impl FixedRootEngine {
    /// Brings the plan up to date where only one group on its home tree changes and nothing is in
    /// its way. False if the tree has to be built.
    pub(super) fn update_incrementally(
        &mut self,
        index: GroupIndex,
        members: &Replaced,
        goes: bool,
    ) -> bool {
        let spt = self.registry.home(self.registry.get(index).mgid);
        let is_whole = self.fabric.is_whole() && self.fabric.tree_is_whole(spt);
        if !is_whole
            || self.plan.is_dual()
            || self.assignment.needs_pass_2()
            || self.trees.contains(spt)
            || !self.incremental.suits(members)
        {
            return false;
        }
        let Self { fabric, registry, incremental, plan, .. } = self;
        let place = &mut plan.parts[spt.index()];
        let empty = || Arc::new(Part::empty(spt.0, fabric.tree(spt).color));
        let part = Arc::make_mut(place.get_or_insert_with(empty));
        let change = TreeChange { fabric, registry, index, spt, members };
        if goes {
            incremental.remove(part, &change);
            if part.groups.is_empty() {
                *place = None;
            }
        } else {
            incremental.change(part, &change);
        }
        true
    }
}

impl FixedRootEngine {
    pub(super) fn settle(&mut self) {
        let mut moved = None;
        loop {
            let Self { fabric, registry, memberships, assignment, rounds, trees, .. } = self;
            let context = Context { fabric, memberships: memberships.as_ref() };
            while let Some(round) = rounds.pop() {
                assignment.settle_round(context, registry, round, |spt| trees.add(spt));
            }
            if !self.assignment.needs_pass_2() {
                break;
            }
            self.index_members();
            let lists = self.memberships.as_ref().expect("built in the line above");
            let Self { fabric, registry, assignment, trees, .. } = self;
            let outcome = assignment.place_displaced(fabric, registry, lists, trees);
            self.plan.unrouted = Arc::new(outcome.unrouted);
            let has_adopted = self.stays_after_healing && self.adopt(&outcome.moved);
            moved = Some(outcome.moved);
            if !has_adopted {
                break;
            }
        }
        self.note_moved(moved);
        while let Some(spt) = self.trees.pop() {
            self.incremental.forget(spt);
            let mut parts = self.build(spt).into_iter().map(Arc::new);
            self.plan.parts[spt.index()] = parts.next();
            if let Some(twin) = self.plan.twins.get_mut(spt.index()) {
                *twin = parts.next();
            }
        }
    }

    /// Makes the spanning trees homes to which groups went from dead links. False if there are
    /// none.
    fn adopt(&mut self, moved: &[Moved]) -> bool {
        let mut any = false;
        for moved in moved.iter().filter(|one| matches!(one.why, Displacement::TreeBroken { .. })) {
            let index = self.registry.find(moved.mgid).expect("it was placed just now");
            let from = self.registry.home(moved.mgid);
            let to = TreeNumber(moved.to);
            self.assignment.settle_down(from);
            self.registry.get_mut(index).displaced = None;
            self.registry.adopt(index, to);
            self.rounds.add(self.assignment.round(to));
            any = true;
        }
        any
    }

    /// Lists the groups that are not on the spanning tree of their MGID: those that pass 2 has
    /// moved, if it was needed, and those that stayed.
    fn note_moved(&mut self, moved: Option<Vec<Moved>>) {
        let stayed = self.registry.adopted();
        let listed = self.plan.moved.iter().filter(|one| one.why == Displacement::Stayed);
        let listed = listed.map(|one| (one.mgid, one.to));
        if moved.is_none() && listed.eq(stayed.iter().map(|(mgid, to)| (*mgid, to.0))) {
            return;
        }
        let mut moved = moved.unwrap_or_default();
        for (mgid, to) in stayed {
            let at_home = self.registry.find(*mgid).map(|index| self.registry.get(index));
            if at_home.is_some_and(|group| group.displaced.is_none()) {
                let from = self.layout.space().spt(*mgid);
                moved.push(Moved { mgid: *mgid, from, to: to.0, why: Displacement::Stayed });
            }
        }
        moved.sort_unstable_by_key(|one| one.mgid);
        self.plan.moved = Arc::new(moved);
    }

    /// Builds the trees of all groups on a spanning tree; those on its twin, too, with fault
    /// tolerance.
    fn build(&mut self, spt: TreeNumber) -> Vec<Part> {
        let registry = &self.registry;
        let at_home = registry.at_home(spt);
        let tree = self.fabric.tree(spt);
        let mut inputs: Vec<GroupOnTree<'_>> = Vec::with_capacity(at_home.len());
        for (_, index) in at_home {
            let group = registry.get(*index);
            if group.displaced.is_none() {
                inputs.push(group.on_tree(tree));
            }
        }
        if let Some(displaced) = self.assignment.displaced_on.get(&spt) {
            inputs.extend(displaced.iter().map(|(_, index)| registry.get(*index).on_tree(tree)));
            inputs.sort_unstable_by_key(|input| input.mgid);
        }
        match self.fabric.trees(spt) {
            _ if inputs.is_empty() => Vec::new(),
            [tree] => vec![self.builder.build(&self.fabric, tree, &inputs)],
            pair => {
                let second = inputs.iter().map(|input| GroupOnTree { tree: &pair[1], ..*input });
                let second: Vec<_> = second.collect();
                self.builder.build_pair(&self.fabric, pair, [&inputs, &second])
            }
        }
    }
}

impl RoutingEngine for FixedRootEngine {
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
        let choice = |(mgid, home): (&Mgid, &TreeNumber)| RecordedChoice {
            mgid: *mgid,
            tree: 0,
            part: home.0,
            root: 0,
            ports: Vec::new(),
        };
        self.registry.adopted().iter().map(choice).collect()
    }

    fn restore(&mut self, choices: &[RecordedChoice]) -> Result<(), RestoreError> {
        Self::restore(self, choices)
    }
}

impl FixedRootEngine {
    /// Gives groups the homes of a record, and all others those of their MGIDs.
    pub(super) fn restore(&mut self, choices: &[RecordedChoice]) -> Result<(), RestoreError> {
        let mut homes: BTreeMap<Mgid, TreeNumber> = BTreeMap::new();
        for (index, choice) in choices.iter().enumerate() {
            self.check(choice, &homes).map_err(|problem| RestoreError {
                index,
                mgid: choice.mgid,
                problem,
            })?;
            homes.insert(choice.mgid, TreeNumber(choice.part));
        }
        let space = *self.layout.space();
        let back = self.registry.adopted().keys().filter(|mgid| !homes.contains_key(mgid));
        let back: Vec<_> = back.map(|mgid| (*mgid, TreeNumber(space.spt(*mgid)))).collect();
        for (mgid, home) in back.into_iter().chain(homes) {
            let index = self.registry.find(mgid).expect("checked above");
            let before = self.registry.home(mgid);
            self.rounds.add(self.assignment.round(before));
            self.rounds.add(self.assignment.round(home));
            let group = self.registry.get_mut(index);
            let placed = std::mem::replace(&mut group.placed, home);
            if group.displaced.take().is_some() {
                self.assignment.settle_down(before);
            }
            self.assignment.touched.add_all();
            self.registry.adopt(index, home);
            [before, placed, home].into_iter().for_each(|spt| self.trees.add(spt));
        }
        self.settle();
        Ok(())
    }

    fn check(
        &self,
        choice: &RecordedChoice,
        homes: &BTreeMap<Mgid, TreeNumber>,
    ) -> Result<(), RestoreProblem> {
        let RecordedChoice { mgid, tree, part, root, ports } = choice;
        if !self.stays_after_healing {
            return Err(RestoreProblem::NothingToChoose { engine: EngineKind::CMr4lmsFixed });
        }
        if self.registry.find(*mgid).is_none() {
            return Err(RestoreProblem::UnknownGroup);
        }
        if homes.contains_key(mgid) {
            return Err(RestoreProblem::Twice);
        }
        if *part >= self.layout.space().total() || (*tree, *root) != (0, 0) || !ports.is_empty() {
            return Err(RestoreProblem::UnknownTree);
        }
        Ok(())
    }
}
