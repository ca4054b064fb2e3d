//! C-MR4LMS with dynamic roots: fewer merges than with the fixed root, at the price of history.
//!
//! Source: C-MR4LMS §3, "dynamic". A group has the spanning tree of its MGID, but may hang from
//! any root in a [`RootScope`]; which one depends on the groups that were there before. The plan is
//! therefore a function of the fabric, its faults, the groups and the [`RecordedChoice`]s.
//!
//! Which rules hold: R1, R2 and R4 as with the fixed root. R3 does not: a group that comes can give the
//! groups it is merged with another root (lemma 1 fails), from scratch or in another order the plan
//! can be another, and groups that were merged stay so until one of them that held them
//! together changes. Kept is that no other group moves, and that failures move only groups that are hit
//! and those they have to be merged with. R5 is up to whoever programs the switches.

mod families;
mod holdings;
mod restore;
mod roots;
mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_topology::{EndpointId, FatTree, Faults, Graph, TableKind};

use crate::engine::change::{Change, ChangeError};
use crate::engine::fabric::{Fabric, NONE};
use crate::engine::footprint::Footprint;
use crate::engine::pending::Pending;
use crate::engine::registry::{Memberships, Registry};
use crate::engine::staging::{Staged, stage};
use crate::engine::tree::group_tree;
use crate::engine::weave::Loom;
use crate::engines::{
    BuildError, EngineKind, EngineOptions, RecordedChoice, RestoreError, RoutingEngine,
};
use crate::group_tree::GroupTree;
use crate::mgid::Mgid;
use crate::plan::{Moved, Part, Plan, Unrouted};
use crate::root_choice::{PortLoads, RootChooser};
use crate::spt::{Layout, MgidSpace, SpanningTree};
use families::{Families, Ground};
pub use roots::RootScope;
use search::{Manners, Refusal};

/// Keeps groups and their trees on one fabric, each tree with a root of its own.
#[derive(Clone, Debug)]
pub struct DynamicEngine {
    layout: Layout,
    fabric: Fabric,
    registry: Registry,
    memberships: Option<Memberships>, // built when first needed
    families: Families,
    /// Groups that are not on the spanning tree of their MGID, by MGID.
    displaced: BTreeMap<Mgid, Displaced>,
    /// Their slots by the spanning tree they are on, if any.
    guests: BTreeMap<u32, BTreeMap<Mgid, u32>>,
    trees: Pending, // to weave again
    loom: Loom,
    plan: Plan,
}

impl DynamicEngine {
    /// Makes an engine without groups or faults.
    ///
    /// # Errors
    ///
    /// [`BuildError`] if the colors are out of range, the fabric has no spanning tree, or the roots are
    /// to be in all of a TN group and the tables are per switch.
    pub fn new(
        graph: Arc<Graph>,
        fat_tree: Arc<FatTree>,
        options: EngineOptions,
    ) -> Result<Self, BuildError> {
        if options.root_scope == RootScope::TnGroup && options.tables == TableKind::PerSwitch {
            return Err(BuildError::ScopeNeedsPerPortTables);
        }
        let layout = Layout::new(fat_tree.params(), options.colors, options.tables)?;
        let fabric = Fabric::new(graph, fat_tree, &layout);
        let space = *layout.space();
        let chooser = RootChooser::new(options.root_policy);
        Ok(Self {
            registry: Registry::new(space),
            memberships: None,
            families: Families::new(&fabric, &layout, options.root_scope, chooser),
            displaced: BTreeMap::new(),
            guests: BTreeMap::new(),
            trees: Pending::new(space.total()),
            loom: Loom::new(&fabric, options.tables),
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

    /// Takes groups from where they are.
    fn take_out(&mut self, slots: &[u32]) -> Vec<Homeless> {
        let ground = Ground { fabric: &self.fabric, registry: &self.registry };
        let roots = self.families.take_out(ground, slots);
        slots.iter().zip(roots).map(|(slot, root)| self.note_homeless(*slot, root)).collect()
    }

    fn note_homeless(&mut self, slot: u32, root: u32) -> Homeless {
        let group = self.registry.get_mut(slot);
        let (mgid, placed) = (group.mgid, std::mem::replace(&mut group.placed, NONE));
        self.trees.add(placed);
        if self.displaced.remove(&mgid).is_some() && placed != NONE {
            let guests = self.guests.get_mut(&placed).expect("guests are listed where they are");
            guests.remove(&mgid);
        }
        Homeless { mgid, slot, before: (placed, root) }
    }

    /// Notes where a group is now.
    fn put(&mut self, slot: u32, spt: u32) {
        let group = self.registry.get_mut(slot);
        let (mgid, home) = (group.mgid, self.layout.space().spt(group.mgid));
        group.placed = spt;
        self.trees.add(spt);
        if spt == home {
            self.displaced.remove(&mgid);
        } else {
            self.displaced.insert(mgid, Displaced { slot, ..Displaced::default() });
            self.guests.entry(spt).or_default().insert(mgid, slot);
        }
    }

    /// Finds a place for a group that has none: at home, else where it was before, else on the first
    /// spanning tree that will do, other rounds first.
    fn place(&mut self, slot: u32, (before, root): (u32, u32), manners: Manners) -> bool {
        let space = *self.layout.space();
        let mgid = self.registry.get(slot).mgid;
        let home = space.spt(mgid);
        let ground = Ground { fabric: &self.fabric, registry: &self.registry };
        let Some(mut candidate) = self.families.candidate(ground, slot) else {
            self.put(slot, home); // without a tree it is in nobody's way
            return true;
        };
        let mut tried = Displaced { slot, broken: 0, held: 0 };
        let before = Some(before).filter(|before| *before != NONE && *before != home);
        let elsewhere = space.search_order(home).filter(|spt| *spt != home);
        for spt in [home].into_iter().chain(before).chain(elsewhere) {
            candidate.before = if before == Some(spt) || spt == home { root } else { NONE };
            match self.families.place(ground, candidate, spt, manners) {
                Ok(()) => {
                    self.put(slot, spt);
                    return true;
                }
                Err((back, refusal)) => {
                    candidate = back;
                    match refusal {
                        Refusal::ColorHeld => tried.held += 1,
                        Refusal::NoRoot => tried.broken += 1,
                    }
                }
            }
        }
        self.registry.get_mut(slot).placed = NONE;
        self.displaced.insert(mgid, tried);
        false
    }

    /// Places groups again that have been taken out, in the order of their MGIDs.
    fn place_all(&mut self, mut homeless: Vec<Homeless>, manners: Manners) {
        homeless.sort_unstable_by_key(|one| one.mgid);
        for one in homeless {
            let found = self.place(one.slot, one.before, manners);
            if !found && manners == Manners::Gentle {
                self.place(one.slot, one.before, Manners::Pushing);
            }
        }
    }

    /// Brings displaced groups home where that pushes nobody, and looks again for a place for those that have
    /// none, until none of them moves any more: each that does can make room for others. A group whose
    /// home's color has not changed anywhere need not be asked.
    fn retry_displaced(&mut self) {
        let trees = self.layout.space().trees_per_color();
        let mut changed: BTreeSet<u32> = self.trees.iter().map(|spt| spt / trees).collect();
        loop {
            let asked = |(mgid, one): (&Mgid, &Displaced)| {
                let home = self.layout.space().spt(*mgid);
                let unrouted = self.registry.get(one.slot).placed == NONE;
                (unrouted || changed.contains(&(home / trees))).then_some((one.slot, home))
            };
            let asked: Vec<(u32, u32)> = self.displaced.iter().filter_map(asked).collect();
            changed.clear();
            for (slot, home) in asked {
                let moved = self.retry(slot, home).into_iter().flatten();
                changed.extend(moved.filter(|spt| *spt != NONE).map(|spt| spt / trees));
            }
            if changed.is_empty() {
                return;
            }
        }
    }

    /// Gives a displaced group a better place, if there is one, and says from where to where it went.
    fn retry(&mut self, slot: u32, home: u32) -> Option<[u32; 2]> {
        let homeless = self.take_out(&[slot]);
        let (before, root) = homeless[0].before;
        if before == NONE {
            self.place_all(homeless, Manners::Gentle);
            let now = self.registry.get(slot).placed;
            return (now != NONE).then_some([before, now]);
        }
        let ground = Ground { fabric: &self.fabric, registry: &self.registry };
        let candidate = self.families.candidate(ground, slot);
        let candidate = candidate.expect("a group without a tree is at home");
        match self.families.place(ground, candidate, home, Manners::Gentle) {
            Ok(()) => {
                self.put(slot, home);
                Some([before, home])
            }
            Err((back, _)) => {
                self.families.attach(&self.fabric, back, before, root);
                self.put(slot, before);
                None
            }
        }
    }

    fn settle(&mut self) {
        self.retry_displaced();
        while let Some(spt) = self.trees.pop() {
            self.plan.parts[spt as usize] = self.weave(spt).map(Arc::new);
        }
        let (mut moved, mut unrouted) = (Vec::new(), Vec::new());
        for (mgid, Displaced { slot, broken, held }) in &self.displaced {
            let (mgid, broken, held) = (*mgid, *broken, *held);
            let (from, to) = (self.layout.space().spt(mgid), self.registry.get(*slot).placed);
            let ground = Ground { fabric: &self.fabric, registry: &self.registry };
            let why = self.families.obstacle(ground, *slot, from);
            if to == NONE {
                unrouted.push(Unrouted { mgid, why, broken, held });
            } else {
                moved.push(Moved { mgid, from, to, why });
            }
        }
        self.plan.moved = Arc::new(moved);
        self.plan.unrouted = Arc::new(unrouted);
    }

    fn weave(&mut self, spt: u32) -> Option<Part> {
        let mut slots: Vec<(Mgid, u32)> = self.groups_on(spt).collect();
        slots.sort_unstable();
        let trees = slots.iter().map(|(_, slot)| self.families.tree(&self.fabric, *slot, spt));
        let trees: Vec<SpanningTree> = trees.collect();
        let strands = slots.iter().zip(&trees);
        let strands: Vec<_> =
            strands.map(|((_, slot), tree)| self.registry.get(*slot).strand(tree)).collect();
        let home = self.fabric.tree(spt);
        (!strands.is_empty()).then(|| self.loom.weave(&self.fabric, home, &strands))
    }

    /// Lists the groups on a spanning tree whose own tree lacks a link.
    fn list_broken(&self, spt: u32, hit: &mut BTreeSet<u32>) {
        let mut footprint = Footprint::default();
        for (_, slot) in self.groups_on(spt) {
            let tree = self.families.tree(&self.fabric, slot, spt);
            if !self.fabric.has_all_links(&tree) {
                footprint.trace(&self.fabric, &self.registry.get(slot).members);
                if self.fabric.broken_link(&tree, footprint.places()).is_some() {
                    hit.insert(slot);
                }
            }
        }
    }

    /// Walks the groups on a spanning tree, those at home first.
    fn groups_on(&self, spt: u32) -> impl Iterator<Item = (Mgid, u32)> {
        let at_home = self.registry.at_home(spt).iter().copied();
        let at_home = at_home.filter(move |(_, slot)| self.registry.get(*slot).placed == spt);
        let guests = self.guests.get(&spt).into_iter().flatten();
        at_home.chain(guests.map(|(mgid, slot)| (*mgid, *slot)))
    }

    fn index_members(&mut self) {
        if self.memberships.is_none() {
            self.memberships = Some(Memberships::of(&self.registry, self.fabric.seats()));
        }
    }
}

/// A displaced group, and for one that is nowhere, how often a color or a root was missing.
#[derive(Clone, Copy, Debug, Default)]
struct Displaced {
    slot: u32,
    broken: u32,
    held: u32,
}

/// A group that has been taken out of its place.
struct Homeless {
    mgid: Mgid,
    slot: u32,
    /// Spanning tree and root.
    before: (u32, u32),
}

impl RoutingEngine for DynamicEngine {
    fn kind(&self) -> EngineKind {
        EngineKind::CMr4lmsDynamic
    }

    fn graph(&self) -> &Arc<Graph> {
        &self.fabric.graph
    }

    fn space(&self) -> &MgidSpace {
        self.layout.space()
    }

    fn apply(&mut self, changes: &[Change]) -> Result<(), ChangeError> {
        let staged = stage(&self.fabric, &self.registry, changes)?;
        let known: Vec<u32> = staged.values().filter_map(|change| change.slot).collect();
        let mut homeless = self.take_out(&known);
        homeless.retain(|one| staged[&one.mgid].members.is_some());
        for (mgid, Staged { slot, members, .. }) in staged {
            let lists = self.memberships.as_mut();
            if let Some(members) = members {
                let found = slot.unwrap_or_else(|| self.registry.insert(mgid, Vec::new()));
                self.registry.replace_members(found, members, lists);
                if slot.is_none() {
                    homeless.push(Homeless { mgid, slot: found, before: (NONE, NONE) });
                }
            } else if let Some(slot) = slot {
                self.registry.replace_members(slot, Vec::new(), lists);
                self.registry.remove(slot);
            }
        }
        self.place_all(homeless, Manners::Pushing);
        self.settle();
        Ok(())
    }

    fn set_faults(&mut self, faults: Faults) {
        let touched = self.fabric.set_faults(faults);
        self.index_members();
        let mut hit: BTreeSet<u32> = BTreeSet::new();
        for spt in 0..self.fabric.tree_count() {
            let meets = |tree: &SpanningTree| touched.meets(&self.fabric, tree);
            if self.families.roots.any(self.fabric.tree(spt), meets) {
                self.trees.add(spt);
                self.list_broken(spt, &mut hit);
            }
        }
        let lists = self.memberships.as_ref().expect("built above");
        hit.extend(touched.seats.iter().flat_map(|seat| lists.groups_of(*seat)));
        let homeless = self.take_out(&hit.into_iter().collect::<Vec<_>>());
        self.place_all(homeless, Manners::Gentle);
        self.settle();
    }

    fn set_loads(&mut self, loads: Arc<PortLoads>) {
        self.families.chooser.set_loads(loads);
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
        let (Some(planned), Some(slot)) = (planned, self.registry.find(mgid)) else {
            return Vec::new();
        };
        let tree = self.families.tree(&self.fabric, slot, planned.part);
        group_tree(&self.fabric, &tree, &self.registry.get(slot).members).into_iter().collect()
    }

    fn choices(&self) -> Vec<RecordedChoice> {
        self.recorded()
    }

    fn restore(&mut self, choices: &[RecordedChoice]) -> Result<(), RestoreError> {
        *self = self.restored(choices)?;
        Ok(())
    }
}
