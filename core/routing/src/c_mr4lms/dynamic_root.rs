//! C-MR4LMS with dynamic roots: fewer merges than with the fixed root, at the price of history.
//!
//! Source: C-MR4LMS §3, "dynamic". A group has the spanning tree of its MGID, but may hang from
//! any root in a [`RootScope`]; which one depends on the groups that were there before. The plan is
//! therefore a function of the fabric, its faults, the groups and the [`RecordedChoice`]s.
//!
//! With fault tolerance the spanning tree is a pair, joined anew in every color
//! ([`Layout::with_mixed_pairs`]); both trees of it hang from the same choice of
//! root in their own TN groups, and one choice is recorded for both. While one tree of a group is
//! live, no failure moves it.
//!
//! The *hybrid* engine ([`DynamicRootEngine::hybrid`]) merges groups only where nothing else is
//! left. A group hangs from the fixed root of its home if it is alone there: then its tree is a
//! function of its MGID and members. A group that would be merged there looks for a place of its
//! own as MR4LMS does, among all roots of all spanning trees, those of its home first, then where
//! the fewest groups cross the links of its leaves and CNs. If there is none, it is merged where
//! that makes the smallest virtual group, and no other group changes its root. Groups that have a
//! place stay there until their members change or their tree breaks.
//!
//! Which rules hold: R1, R2 and R4 as with the fixed root. R3 does not: a group that comes can give
//! the groups it is merged with another root (lemma 1 fails), from scratch or in another order the
//! plan can be another, and groups that were merged stay so until one of them that held them
//! together changes. Kept is that no other group moves, and that failures move only groups that are
//! hit and those they have to be merged with. R5 is up to the reconciler.

mod place_owners;
mod placing;
mod restore;
mod root_search;
mod roots;
mod row_loads;
mod virtual_groups;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_topology::{EndpointId, FatTree, Faults, Graph, Mgid, TableKind};

use crate::c_mr4lms::fabric::{Fabric, NONE};
use crate::c_mr4lms::footprint::Footprint;
use crate::c_mr4lms::group_trees::group_trees;
use crate::c_mr4lms::numbers::{GroupIndex, Round, TreeNumber};
use crate::c_mr4lms::pending::Pending;
use crate::c_mr4lms::registry::{Memberships, Registry};
use crate::c_mr4lms::staging::{Staged, stage};
use crate::c_mr4lms::tree_builder::{GroupOnTree, TreeBuilder};
use crate::change::{Change, ChangeError};
use crate::group_tree::GroupTree;
use crate::plan::{Displacement, Moved, Part, Plan, Unrouted};
use crate::root_choice::{PortLoads, RootChooser};
use crate::routing_engine::{
    BuildError, EngineEntry, EngineKind, EngineOptions, RecordedChoice, RestoreError, RootScope,
    RoutingEngine,
};
use crate::spt::{Layout, MgidSpace, SpanningTree};
use root_search::{PlaceError, RootChange};
use roots::Trees;
use virtual_groups::{Context, VirtualGroups};

/// The engine in the list of engines.
pub(crate) const ENTRY: EngineEntry = EngineEntry {
    needs_fat_tree: true,
    has_root_scopes: true,
    fault_tolerance: true,
    groups_hang_together: true,
    ..EngineEntry::new("c-mr4lms-dynamic", |mut input| {
        let fat_tree = input.fat_tree()?;
        Ok(Box::new(DynamicRootEngine::new(input.graph, fat_tree, input.options)?))
    })
};

/// Keeps groups and their trees on one fabric, each tree with a root of its own.
#[derive(Clone, Debug)]
pub struct DynamicRootEngine {
    layout: Layout,
    fabric: Fabric,
    registry: Registry,
    memberships: Option<Memberships>, // built when first needed
    virtual_groups: VirtualGroups,
    /// Groups that are not on the spanning tree of their MGID, by MGID.
    displaced: BTreeMap<Mgid, Displaced>,
    /// Their indices by the spanning tree they are on, if any.
    displaced_on: BTreeMap<TreeNumber, BTreeMap<Mgid, GroupIndex>>,
    trees: Pending<TreeNumber>, // to build again
    builder: TreeBuilder,
    plan: Plan,
    search: Search,
}

/// Order in which a group looks for its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Search {
    /// On the spanning tree of its MGID, merged with others or not, and on others only where that
    /// one cannot serve it.
    HomeFirst,
    /// Wherever it is merged with the fewest groups: on the fixed root of its home, then on other
    /// roots there, then on other spanning trees.
    LeastMerged,
}

impl DynamicRootEngine {
    /// Makes an engine without groups or faults.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if the colors are out of range, the fabric has no spanning tree or, with
    /// fault tolerance, no second one, or the roots are to be in all of a TN group and the tables
    /// are per switch.
    pub fn new(
        graph: Arc<Graph>,
        fat_tree: Arc<FatTree>,
        options: EngineOptions,
    ) -> Result<Self, BuildError> {
        Self::with_search(graph, fat_tree, options, Search::HomeFirst)
    }

    /// Makes the hybrid engine without groups or faults.
    ///
    /// # Errors
    ///
    /// As [`DynamicRootEngine::new`].
    pub fn hybrid(
        graph: Arc<Graph>,
        fat_tree: Arc<FatTree>,
        options: EngineOptions,
    ) -> Result<Self, BuildError> {
        Self::with_search(graph, fat_tree, options, Search::LeastMerged)
    }

    fn with_search(
        graph: Arc<Graph>,
        fat_tree: Arc<FatTree>,
        options: EngineOptions,
        search: Search,
    ) -> Result<Self, BuildError> {
        let scope = options.effective_root_scope();
        if scope == RootScope::TnGroup && options.tables == TableKind::PerSwitch {
            return Err(BuildError::ScopeNeedsPerPortTables);
        }
        let number = if options.fault_tolerant { Layout::dual } else { Layout::new };
        let layout = number(fat_tree.params(), options.colors, options.tables)?;
        let layout = layout.with_mixed_pairs(&fat_tree);
        let fabric = Fabric::new(graph, fat_tree, &layout);
        let space = *layout.space();
        let chooser = RootChooser::new(options.root_policy);
        Ok(Self {
            registry: Registry::new(space),
            memberships: None,
            virtual_groups: VirtualGroups::new(&fabric, &layout, scope, chooser),
            displaced: BTreeMap::new(),
            displaced_on: BTreeMap::new(),
            trees: Pending::new(space.total()),
            builder: TreeBuilder::new(&fabric, options.tables),
            plan: Plan::numbered(space),
            layout,
            fabric,
            search,
        })
    }

    /// Gives the numbering of spanning trees.
    #[must_use]
    pub const fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Gives the spanning tree of an MGID.
    const fn home(&self, mgid: Mgid) -> TreeNumber {
        TreeNumber(self.layout.space().spt(mgid))
    }

    /// Takes groups from where they are.
    fn take_out(&mut self, indices: &[GroupIndex]) -> Vec<Unplaced> {
        let context = Context { fabric: &self.fabric, registry: &self.registry };
        let roots = self.virtual_groups.take_out(context, indices);
        indices.iter().zip(roots).map(|(index, root)| self.note_unplaced(*index, root)).collect()
    }

    fn note_unplaced(&mut self, index: GroupIndex, root: u32) -> Unplaced {
        let group = self.registry.get_mut(index);
        let nowhere = TreeNumber(NONE);
        let (mgid, placed) = (group.mgid, std::mem::replace(&mut group.placed, nowhere));
        self.trees.add(placed);
        if self.displaced.remove(&mgid).is_some() && placed != nowhere {
            let displaced = self
                .displaced_on
                .get_mut(&placed)
                .expect("displaced groups are listed where they are");
            displaced.remove(&mgid);
        }
        Unplaced { mgid, index, tree_before: placed, root_before: root }
    }

    /// Notes where a group is now.
    fn put(&mut self, index: GroupIndex, spt: TreeNumber) {
        let group = self.registry.get_mut(index);
        let (mgid, home) = (group.mgid, self.layout.space().spt(group.mgid));
        group.placed = spt;
        self.trees.add(spt);
        if spt.0 == home {
            self.displaced.remove(&mgid);
        } else {
            self.displaced.insert(mgid, Displaced { index, ..Displaced::default() });
            self.displaced_on.entry(spt).or_default().insert(mgid, index);
        }
    }

    /// Places groups again that have been taken out, in the order of their MGIDs.
    fn place_all(&mut self, mut unplaced: Vec<Unplaced>, mut root_change: RootChange) {
        unplaced.sort_unstable_by_key(|one| one.mgid);
        if self.search == Search::LeastMerged {
            root_change = RootChange::Forbidden;
            unplaced.retain(|one| !self.place_on_fixed_root(one));
        }
        for one in unplaced {
            let found = self.place(&one, root_change);
            if !found && root_change == RootChange::Forbidden {
                self.place(&one, RootChange::Allowed);
            }
        }
    }

    /// Brings displaced groups home where that pushes nobody, and looks again for a place for those
    /// that have none, until none of them moves any more: each that does can make room for others.
    /// A group whose home's color has not changed anywhere need not be asked. The hybrid engine
    /// leaves those that have a place where they are.
    fn retry_displaced(&mut self) {
        let trees = self.layout.space().trees_per_color();
        let round = |spt: TreeNumber| Round(spt.0 / trees);
        let mut changed: BTreeSet<Round> = self.trees.iter().map(round).collect();
        loop {
            let asked = |(mgid, one): (&Mgid, &Displaced)| {
                let home = self.home(*mgid);
                let unrouted = self.registry.get(one.index).placed == TreeNumber(NONE);
                let may_go_home =
                    self.search == Search::HomeFirst && changed.contains(&round(home));
                (unrouted || may_go_home).then_some((one.index, home))
            };
            let asked: Vec<(GroupIndex, TreeNumber)> =
                self.displaced.iter().filter_map(asked).collect();
            changed.clear();
            for (index, home) in asked {
                let moved = self.retry(index, home).into_iter().flatten();
                changed.extend(moved.filter(|spt| *spt != TreeNumber(NONE)).map(round));
            }
            if changed.is_empty() {
                return;
            }
        }
    }

    /// Gives a displaced group a better place, if there is one, and says from where to where it
    /// went.
    fn retry(&mut self, index: GroupIndex, home: TreeNumber) -> Option<[TreeNumber; 2]> {
        let unplaced = self.take_out(&[index]);
        let Unplaced { tree_before: before, root_before: root, .. } = unplaced[0];
        if before == TreeNumber(NONE) {
            self.place_all(unplaced, RootChange::Forbidden);
            let now = self.registry.get(index).placed;
            return (now != TreeNumber(NONE)).then_some([before, now]);
        }
        let context = Context { fabric: &self.fabric, registry: &self.registry };
        let candidate = self.virtual_groups.candidate(context, index);
        let mut candidate = candidate.expect("a group without a tree is at home");
        let places = self.virtual_groups.footprint.places();
        let trees = self.virtual_groups.roots.trees(self.fabric.trees(before), root);
        candidate.whole_pair = self.fabric.missing_link_of_any(&trees, places).is_none();
        match self.virtual_groups.place(context, candidate, home, RootChange::Forbidden) {
            Ok(()) => {
                self.put(index, home);
                Some([before, home])
            }
            Err((back, _)) => {
                self.virtual_groups.attach(&self.fabric, back, before, root);
                self.put(index, before);
                None
            }
        }
    }

    fn settle(&mut self) {
        self.retry_displaced();
        while let Some(spt) = self.trees.pop() {
            let mut parts = self.build(spt).into_iter().map(Arc::new);
            self.plan.parts[spt.index()] = parts.next();
            if let Some(twin) = self.plan.twins.get_mut(spt.index()) {
                *twin = parts.next();
            }
        }
        let (mut moved, mut unrouted) = (Vec::new(), Vec::new());
        for (mgid, one) in &mut self.displaced {
            let Displaced { index, broken, held, why } = *one;
            let mgid = *mgid;
            let (from, to) = (self.layout.space().spt(mgid), self.registry.get(index).placed);
            let context = Context { fabric: &self.fabric, registry: &self.registry };
            let home = TreeNumber(from);
            let why = why.unwrap_or_else(|| match self.search {
                Search::HomeFirst => self.virtual_groups.obstacle(context, index, home),
                Search::LeastMerged => self.virtual_groups.broken_or_shared(context, index, home),
            });
            // Of the hybrid engine the reason is that of members and faults alone.
            one.why = Some(why).filter(|_| self.search == Search::LeastMerged);
            if to == TreeNumber(NONE) {
                unrouted.push(Unrouted { mgid, why, broken, held });
            } else {
                moved.push(Moved { mgid, from, to: to.0, why });
            }
        }
        self.plan.moved = Arc::new(moved);
        self.plan.unrouted = Arc::new(unrouted);
    }

    fn build(&mut self, spt: TreeNumber) -> Vec<Part> {
        let mut indices: Vec<(Mgid, GroupIndex)> = self.groups_on(spt).collect();
        indices.sort_unstable();
        let fabric = &self.fabric;
        let trees: Vec<Trees> = indices
            .iter()
            .map(|(_, index)| self.virtual_groups.trees(fabric, *index, spt))
            .collect();
        let on_half = |half: usize| -> Vec<GroupOnTree<'_>> {
            let inputs = indices.iter().zip(&trees);
            inputs
                .map(|((_, index), both)| self.registry.get(*index).on_tree(&both[half]))
                .collect()
        };
        match fabric.trees(spt) {
            _ if indices.is_empty() => Vec::new(),
            [home] => vec![self.builder.build(fabric, home, &on_half(0))],
            pair => self.builder.build_pair(fabric, pair, [&on_half(0), &on_half(1)]),
        }
    }

    /// Lists the groups on a spanning tree whose own tree lacks a link, or both trees of whose pair
    /// do.
    fn list_broken(&self, spt: TreeNumber, hit: &mut BTreeSet<GroupIndex>) {
        let mut footprint = Footprint::default();
        for (_, index) in self.groups_on(spt) {
            let trees = self.virtual_groups.trees(&self.fabric, index, spt);
            if !trees.iter().any(|tree| self.fabric.has_all_links(tree)) {
                footprint.trace(&self.fabric, &self.registry.get(index).members);
                if self.fabric.broken_link_of_all(&trees, footprint.places()).is_some() {
                    hit.insert(index);
                }
            }
        }
    }

    /// Tells whether other members of a group are live than the plan says.
    fn has_other_members(&self, index: GroupIndex, footprint: &mut Footprint) -> bool {
        let group = self.registry.get(index);
        let Some(planned) = self.plan.group(group.mgid) else { return true };
        footprint.trace(&self.fabric, &group.members);
        let now = footprint.cut_off.iter().map(|(slot, _)| self.fabric.endpoint_at(*slot));
        let now: BTreeSet<EndpointId> = now.collect();
        now != planned.cut_off.iter().map(|cut| cut.endpoint).collect()
    }

    /// Walks the groups on a spanning tree, those at home first.
    fn groups_on(&self, spt: TreeNumber) -> impl Iterator<Item = (Mgid, GroupIndex)> {
        let at_home = self.registry.at_home(spt).iter().copied();
        let at_home = at_home.filter(move |(_, index)| self.registry.get(*index).placed == spt);
        let displaced = self.displaced_on.get(&spt).into_iter().flatten();
        at_home.chain(displaced.map(|(mgid, index)| (*mgid, *index)))
    }

    fn index_members(&mut self) {
        if self.memberships.is_none() {
            self.memberships = Some(Memberships::of(&self.registry, self.fabric.slots()));
        }
    }
}

/// A displaced group, and for one that is nowhere, how often a color or a root was missing.
#[derive(Clone, Copy, Debug, Default)]
struct Displaced {
    index: GroupIndex,
    broken: u32,
    held: u32,
    /// The reason, where it is known already.
    why: Option<Displacement>,
}

impl Displaced {
    fn count(&mut self, error: PlaceError) {
        match error {
            PlaceError::ColorHeld => self.held += 1,
            PlaceError::NoRoot => self.broken += 1,
        }
    }
}

/// A group that has been taken out of its place.
struct Unplaced {
    mgid: Mgid,
    index: GroupIndex,
    /// The spanning tree it was on, and its root there; [`NONE`] if nowhere.
    tree_before: TreeNumber,
    root_before: u32,
}

impl RoutingEngine for DynamicRootEngine {
    fn kind(&self) -> EngineKind {
        match self.search {
            Search::HomeFirst => EngineKind::CMr4lmsDynamic,
            Search::LeastMerged => EngineKind::CMr4lmsHybrid,
        }
    }

    fn graph(&self) -> &Arc<Graph> {
        &self.fabric.graph
    }

    fn space(&self) -> &MgidSpace {
        self.layout.space()
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), ChangeError> {
        let staged = stage(&self.fabric, &self.registry, changes)?;
        let known: Vec<GroupIndex> = staged.values().filter_map(|change| change.index).collect();
        let mut unplaced = self.take_out(&known);
        unplaced.retain(|one| staged[&one.mgid].members.is_some());
        for (mgid, Staged { index, members, .. }) in staged {
            let lists = self.memberships.as_mut();
            if let Some(members) = members {
                let found = index.unwrap_or_else(|| self.registry.insert(mgid, Vec::new()));
                self.registry.replace_members(found, members, lists);
                if index.is_none() {
                    unplaced.push(Unplaced {
                        mgid,
                        index: found,
                        tree_before: TreeNumber(NONE),
                        root_before: NONE,
                    });
                }
            } else if let Some(index) = index {
                self.registry.replace_members(index, Vec::new(), lists);
                self.registry.remove(index);
            }
        }
        self.place_all(unplaced, RootChange::Allowed);
        self.settle();
        Ok(())
    }

    fn set_faults(&mut self, faults: Faults) {
        let touched = self.fabric.set_faults(faults);
        self.displaced.values_mut().for_each(|one| one.why = None);
        self.index_members();
        let mut hit: BTreeSet<GroupIndex> = BTreeSet::new();
        for spt in self.fabric.tree_numbers() {
            let meets = |tree: &SpanningTree| touched.meets(&self.fabric, tree);
            if self.virtual_groups.roots.any(self.fabric.trees(spt), meets) {
                self.trees.add(spt);
                self.list_broken(spt, &mut hit);
            }
        }
        let lists = self.memberships.as_ref().expect("built above");
        let near: BTreeSet<GroupIndex> =
            touched.slots.iter().flat_map(|slot| lists.groups_of(slot.index())).collect();
        let mut footprint = Footprint::default();
        for index in near {
            if self.has_other_members(index, &mut footprint) {
                hit.insert(index);
            } else {
                self.trees.add(self.registry.get(index).placed); // for the reasons of those cut off
            }
        }
        let unplaced = self.take_out(&hit.into_iter().collect::<Vec<_>>());
        self.place_all(unplaced, RootChange::Forbidden);
        self.settle();
    }

    fn set_loads(&mut self, loads: Arc<PortLoads>) {
        self.virtual_groups.chooser.set_loads(loads);
    }

    fn faults(&self) -> &Faults {
        &self.fabric.faults
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn groups(&self) -> Vec<Mgid> {
        self.registry.iter().map(|(_, group)| group.mgid).collect()
    }

    fn group_count(&self) -> usize {
        self.registry.len()
    }

    fn members(&self, mgid: Mgid) -> Option<Vec<EndpointId>> {
        self.registry.members(&self.fabric, mgid)
    }

    fn group_trees(&self, mgid: Mgid) -> Vec<GroupTree> {
        let planned = self.plan.group(mgid).filter(|group| group.has_tree());
        let (Some(planned), Some(index)) = (planned, self.registry.find(mgid)) else {
            return Vec::new();
        };
        let trees = self.virtual_groups.trees(&self.fabric, index, TreeNumber(planned.part));
        group_trees(&self.fabric, &trees, &self.registry.get(index).members)
    }

    fn choices(&self) -> Vec<RecordedChoice> {
        self.recorded()
    }

    fn restore(&mut self, choices: &[RecordedChoice]) -> Result<(), RestoreError> {
        *self = self.restored(choices)?;
        Ok(())
    }
}
