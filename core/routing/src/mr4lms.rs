//! MR4LMS: multicast routing for a limited table size on any topology.
//!
//! Source: MR4LMS (Journal of Computer Research and Development 59(4), 2022). Every group gets a
//! tree of least height over lightly loaded links. Trees that do not meet may have one color; where
//! no color is left, groups are merged to a virtual group with one tree.
//!
//! The shape of a tree depends on the trees before it, so the plan depends on the order in which
//! groups come. The engine is deterministic for a given order; its choices can be recorded, and an
//! engine that restores them gives the same plans from then on.
//!
//! Invariants
//! - R1, R2, R4 hold after every call, and a refused batch changes nothing.
//! - A group whose members did not change keeps its tree, but for links that only others needed and
//!   unless the tree is broken or, if so configured, rebuilt for a merge. Where trees have to keep
//!   to an order of the switches, it may be rebuilt, too, if no tree can be merged otherwise.
//!
//! Departures from the paper
//! - Members come and go one by one, while §3.3.3, algorithm 6, and §4.1 wait for all members of a
//!   group and drop a tree only when all have left. A new member is connected to the tree over what
//!   is free of its color; if that fails, the group alone gets a new tree. When a member leaves,
//!   links that only it needed are removed, which can split a virtual group.
//! - After a fault a group is placed again only if its members are no longer connected in its tree.
//! - Path lengths are hops first and load second, see [`color_tree`].
//! - Trees can be kept to an order of the switches, so that packets on them cannot deadlock, see
//!   [`ordered_merge`]; the paper does not speak of deadlocks.
//! - With homes ([`Mr4lms::with_homes`]) a group has the tree that its MGID stands for if no link
//!   of it is dead or has its color for another tree, and all others are placed as without.
//! - Trees are built with lookahead and from several roots, see [`light_tree`] and [`place`], and
//!   what is merged is what has the fewest groups, see [`obstacles`].

mod center;
mod color_search;
mod color_tree;
mod distance;
pub(crate) mod fabric;
mod free_region;
mod light_tree;
pub(crate) mod loads;
pub(crate) mod member_hops;
mod obstacles;
mod occupancy;
mod ordered_merge;
mod place;
mod restore;
pub(crate) mod staging;
mod tree_index;
mod tree_store;
mod tree_walk;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_topology::{EndpointId, Faults, Graph, Mgid, PortId, SwitchId, TableKind};
use fixedbitset::FixedBitSet;
use serde::{Deserialize, Serialize};

use crate::c_mr4lms::HomeTrees;
use crate::change::{Change, ChangeError};
use crate::plan::{CutOff, Displacement, PartBuilder, Plan, PlannedTree, Unrouted};
use crate::root_choice::{PortLoads, RootChooser};
use crate::root_policy::RootPolicy;
use crate::routing_engine::{EngineEntry, EngineKind, RecordedChoice, RestoreError, RoutingEngine};
use crate::spt::{LayoutError, MgidSpace};
use crate::up_down::UpDown;
use fabric::Fabric;
use occupancy::Context;
pub use place::Turn;
use tree_index::TreeIndex;
use tree_store::{Tree, TreeStore};
use tree_walk::Subtree;

/// The engine in the list of engines.
pub(crate) const ENTRY: EngineEntry = EngineEntry {
    chooses_merges: true,
    ..EngineEntry::new("mr4lms", |input| {
        let usual = Mr4lmsOptions::new(input.options.colors, input.options.tables);
        let options = Mr4lmsOptions {
            root_policy: input.options.root_policy,
            merge_policy: input.options.merge_policy.unwrap_or(usual.merge_policy),
            merge_partner: input.options.merge_partner.unwrap_or(usual.merge_partner),
            deadlock_free: match input.options.deadlock_free {
                Some(is_wanted) => is_wanted,
                None => UpDown::of_levels(&input.graph).is_some(),
            },
            ..usual
        };
        Ok(Box::new(Mr4lms::new(input.graph, options)?))
    })
};

/// Routes groups one after the other, each as well as those before it allow.
#[derive(Clone, Debug)]
pub struct Mr4lms {
    options: Mr4lmsOptions,
    space: MgidSpace,
    homes: Option<Arc<HomeTrees>>,
    fabric: Fabric,
    store: TreeStore,
    turn: Turn,
    tools: Tools,
    plan: Plan,
}

/// Options of [`Mr4lms`], among them the choices that the paper leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mr4lmsOptions {
    /// Entries of a multicast table, 1 to [`crate::MAX_COLORS`].
    pub colors: u16,
    /// Kind of the switches' tables.
    pub tables: TableKind,
    /// Treatment of the trees of groups that are merged.
    pub merge_policy: MergePolicy,
    /// Choice of the tree that a group is merged with.
    pub merge_partner: MergePartner,
    /// After so many groups in a row that a color was found for first, trees are built first again.
    pub successes_in_a_row: u32,
    /// Chooses among equally high trees, where a tree is built first; none: the root
    /// with the least load by the engine's own count.
    pub root_policy: Option<RootPolicy>,
    /// Keeps trees to an order of the switches, so that packets on them cannot deadlock: that of
    /// the levels ([`UpDown::of_levels`]), else a spanning order ([`UpDown::spanning`]).
    pub deadlock_free: bool,
}

impl Mr4lmsOptions {
    /// Returns the options for tables of this size and kind, everything else as in the paper or
    /// better; trees are free of deadlocks only if asked for.
    #[must_use]
    pub const fn new(colors: u16, tables: TableKind) -> Self {
        Self {
            colors,
            tables,
            merge_policy: MergePolicy::Keep,
            merge_partner: MergePartner::FewestGroups,
            successes_in_a_row: 20,
            root_policy: None,
            deadlock_free: false,
        }
    }
}

/// Treatment of the trees of groups that are merged (MR4LMS §3.3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MergePolicy {
    /// They stay and branches are added.
    Keep,
    /// One new tree is made for all.
    Rebuild,
}

/// Choice of the trees that a group is merged with; the paper's are the latter two (MR4LMS
/// §3.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MergePartner {
    /// With what is in the way of one of its best trees, under the color where that has the fewest
    /// groups.
    FewestGroups,
    /// With the nearest tree, and with what is in the way if that is not enough.
    Nearest,
    /// With what is in the way under the color that has the fewest groups: cheaper.
    RarestColor,
}

/// Buffers that searches use again and again.
#[derive(Clone, Debug, Default)]
struct Tools {
    chooser: RootChooser,
    member_hops: member_hops::MemberHops,
    union_hops: member_hops::MemberHops,
    heights: ordered_merge::Heights,
    light_trees: light_tree::LightTreeBuilder,
    obstacles: obstacles::Obstacles,
    color_search: color_search::ColorSearch,
    color_trees: color_tree::ColorTreeBuilder,
    center: center::Center,
    walk: tree_walk::TreeWalk,
    distances: distance::Distances,
    targets: FixedBitSet,
}

impl Mr4lms {
    /// Makes an engine without groups or faults.
    ///
    /// Cost: that of [`crate::MinHops::new`].
    ///
    /// # Errors
    ///
    /// [`LayoutError`] if the colors are out of range.
    pub fn new(graph: Arc<Graph>, options: Mr4lmsOptions) -> Result<Self, LayoutError> {
        let space = MgidSpace::any(options.colors)?;
        let order = options
            .deadlock_free
            .then(|| UpDown::of_levels(&graph).unwrap_or_else(|| UpDown::spanning(&graph)));
        let fabric = Fabric::new(graph, options.tables, order);
        Ok(Self {
            options,
            space,
            homes: None,
            store: TreeStore::new(&fabric, options.colors),
            fabric,
            turn: Turn::BuildFirst,
            tools: Tools { chooser: RootChooser::new(options.root_policy), ..Tools::default() },
            plan: Plan::listed(options.colors, options.tables),
        })
    }

    /// Makes an engine where the MGID of a group stands for a tree, its home.
    ///
    /// # Errors
    ///
    /// [`LayoutError`] if the colors are out of range.
    pub(crate) fn with_homes(
        graph: Arc<Graph>,
        options: Mr4lmsOptions,
        homes: HomeTrees,
    ) -> Result<Self, LayoutError> {
        let (space, homes) = (*homes.space(), Some(Arc::new(homes)));
        Ok(Self { space, homes, ..Self::new(graph, options)? })
    }

    /// Returns the options it was made with.
    #[must_use]
    pub const fn options(&self) -> &Mr4lmsOptions {
        &self.options
    }

    fn add_tree(&mut self, tree: Tree) {
        let number = self.store.add_tree(&self.fabric, tree);
        self.tools.distances.forget(number);
    }

    fn remove_tree(&mut self, number: TreeIndex) -> Tree {
        self.store.remove_tree(&self.fabric, number)
    }

    fn share(&mut self, number: TreeIndex, mgid: Mgid) {
        self.store.share(&self.fabric, number, mgid);
        self.tools.distances.forget(number);
    }

    /// Updates the plan where trees or members have changed.
    fn write_plan(&mut self) {
        let touched = std::mem::take(&mut self.store.touched);
        self.store.touched = vec![false; touched.len()];
        for color in (0u16..).zip(touched).filter(|(_, touched)| *touched).map(|(color, _)| color) {
            let mut part = PartBuilder::new(u32::from(color), color);
            let served = |mgid: &Mgid| {
                let member_ports = self.store.group(*mgid).member_ports.len();
                (*mgid, u32::try_from(member_ports).expect("a graph has fewer than 2^32 endpoints"))
            };
            let mut note = |tree: PlannedTree| {
                for (mgid, _) in &tree.groups {
                    self.store.group(*mgid).cut_off.iter().for_each(|cut| part.cut_off(*cut));
                }
                part.add(tree);
            };
            for tree in self.store.trees_of(color) {
                note(PlannedTree {
                    root: Some(tree.root),
                    ports: tree.ports.clone(),
                    groups: tree.groups.iter().map(served).collect(),
                });
            }
            if color == 0 {
                // Here are the groups with nobody to send to, too.
                let unrouted = &self.store.unrouted;
                let alone = self
                    .store
                    .groups
                    .iter()
                    .filter(|(mgid, group)| group.tree.is_none() && !unrouted.contains(mgid));
                for (mgid, _) in alone {
                    let groups = vec![served(mgid)];
                    note(PlannedTree { root: None, ports: Vec::new(), groups });
                }
            }
            self.plan.set_part(u32::from(color), part);
        }
        self.write_unrouted();
    }

    /// Updates the plan's list of groups without a tree.
    fn write_unrouted(&mut self) {
        let colors = u32::from(self.options.colors);
        let unrouted = self.store.unrouted.iter().map(|mgid| Unrouted {
            mgid: *mgid,
            why: Displacement::NoSharedRoot,
            broken: 0,
            held: colors,
        });
        let unrouted: Vec<Unrouted> = unrouted.collect();
        if self.plan.unrouted() != unrouted {
            self.plan.set_unrouted(unrouted);
        }
    }
}

/// Changes of groups and faults.
impl Mr4lms {
    /// Gives groups their new members, none for one that goes; in this order where groups need
    /// trees. With its last group the engine forgets its past.
    fn change(&mut self, changes: Vec<(Mgid, Option<Vec<EndpointId>>)>) {
        let mut loose = BTreeSet::new();
        let mut gone = Vec::new();
        let mut left = Vec::new();
        for (mgid, members) in changes {
            if members.is_some() {
                left.push(mgid);
            } else {
                gone.push(mgid);
            }
            self.store.groups.entry(mgid).or_default().members = members.unwrap_or_default();
            loose.extend(self.update_live_members(mgid));
        }
        self.tidy(loose);
        for mgid in gone {
            self.store.groups.remove(&mgid);
            self.store.unrouted.remove(&mgid);
        }
        if self.store.groups.is_empty() {
            self.turn = Turn::BuildFirst;
        }
        self.settle_all(&left);
        // The trees in their way may be gone.
        for mgid in self.store.unrouted.clone() {
            self.settle(mgid);
        }
    }

    /// Sets the faults and places groups with broken trees again, by MGID.
    fn change_faults(&mut self, faults: Faults) {
        self.fabric.set_faults(faults);
        self.tools.distances.forget_all();
        let mgids: Vec<Mgid> = self.store.groups.keys().copied().collect();
        let mut loose: BTreeSet<TreeIndex> =
            mgids.iter().filter_map(|mgid| self.update_live_members(*mgid)).collect();
        let is_broken = |tree: &Tree| tree.ports.iter().any(|port| !self.fabric.is_live(*port));
        let broken = self.store.trees().filter(|(_, tree)| is_broken(tree));
        loose.extend(broken.map(|(number, _)| number));
        self.tidy(loose);
        self.settle_all(&mgids);
    }

    /// Finds out which members of a group can be served; names its tree if some are no longer.
    fn update_live_members(&mut self, mgid: Mgid) -> Option<TreeIndex> {
        let group = &self.store.groups[&mgid];
        let mut cut_off = Vec::new();
        let member_ports = self.fabric.part_members(&group.members, |endpoint, why| {
            cut_off.push(CutOff { mgid, endpoint, why });
        });
        cut_off.sort_unstable();
        if (&cut_off, &member_ports) == (&group.cut_off, &group.member_ports)
            && group.tree.is_some()
        {
            return None;
        }
        self.store.touch(mgid);
        let group = self.store.group_mut(mgid);
        group.cut_off = cut_off;
        let before = std::mem::replace(&mut group.member_ports, member_ports);
        let is_lost = |member_port: &PortId| group.member_ports.binary_search(member_port).is_err();
        group.tree.filter(|_| before.iter().any(is_lost))
    }

    /// Removes links that no group of a tree needs. Groups whose tree is broken lose it.
    fn tidy(&mut self, trees: BTreeSet<TreeIndex>) {
        for number in trees {
            let tree = self.remove_tree(number);
            self.tools.walk.along(&self.fabric, &tree.ports, tree.root);
            let mut pieces = Vec::new();
            for mgid in &tree.groups {
                let group = self.store.group(*mgid);
                let member_ports: Vec<PortId> = group
                    .member_ports
                    .iter()
                    .copied()
                    .filter(|member_port| tree.has(*member_port))
                    .collect();
                if member_ports.len() >= 2 {
                    let piece = self.tools.walk.cut(&self.fabric, &member_ports);
                    let is_live = piece.ports.iter().all(|port| self.fabric.is_live(*port));
                    if is_live && self.fabric.keeps_order(&piece.ports) {
                        pieces.push((*mgid, piece));
                    }
                }
            }
            // Of a recorded tree with a valley each piece can be without one, and the whole not.
            for tree in self.put_together(tree.color, pieces) {
                if self.fabric.keeps_order(&tree.ports) {
                    self.add_tree(tree);
                }
            }
        }
    }

    /// Unites pieces of a tree that share a domain.
    fn put_together(&self, color: u16, pieces: Vec<(Mgid, Subtree)>) -> Vec<Tree> {
        let mut parents: Vec<usize> = (0..pieces.len()).collect();
        let find = |parents: &mut [usize], mut at: usize| {
            while parents[at] != at {
                parents[at] = parents[parents[at]];
                at = parents[at];
            }
            at
        };
        let mut first = BTreeMap::new();
        for (at, (_, piece)) in pieces.iter().enumerate() {
            for domain in self.fabric.domains(&piece.ports) {
                let other = *first.entry(domain).or_insert(at);
                let (a, b) = (find(&mut parents, at), find(&mut parents, other));
                parents[a.max(b)] = a.min(b);
            }
        }
        let mut trees: BTreeMap<usize, (u32, SwitchId, Tree)> = BTreeMap::new();
        for (at, (mgid, piece)) in pieces.into_iter().enumerate() {
            let Subtree { top, depth, ports } = piece;
            let tree = Tree { color, root: top, groups: Vec::new(), ports: Vec::new() };
            let (highest, root, tree) =
                trees.entry(find(&mut parents, at)).or_insert((depth, top, tree));
            if depth < *highest {
                (*highest, *root) = (depth, top);
            }
            tree.groups.push(mgid);
            tree.ports.extend(ports);
        }
        let finish = |(_, root, mut tree): (u32, SwitchId, Tree)| {
            tree.root = root;
            tree.ports.sort_unstable();
            tree.ports.dedup();
            if self.fabric.is_ordered() {
                let highest = self.fabric.switches(&tree.ports);
                tree.root = highest.max_by_key(|at| self.fabric.height(*at)).unwrap_or(root);
            }
            tree
        };
        trees.into_values().map(finish).collect()
    }

    /// Changes the trees of groups until they reach all members that can be served, at home first.
    fn settle_all(&mut self, mgids: &[Mgid]) {
        mgids.iter().for_each(|mgid| self.place_at_home(*mgid));
        mgids.iter().for_each(|mgid| self.settle(*mgid));
    }

    /// Changes a group's tree until it reaches all members that can be served.
    fn settle(&mut self, mgid: Mgid) {
        let Some(group) = self.store.groups.get(&mgid) else { return };
        let Some(number) = group.tree else { return self.place(mgid) };
        let tree = self.store.tree(number);
        let missing: Vec<PortId> = group
            .member_ports
            .iter()
            .copied()
            .filter(|member_port| !tree.has(*member_port))
            .collect();
        if missing.is_empty() || self.extend(number, &missing) {
            return;
        }
        // The others of its virtual group stay where they are.
        let member_ports = std::mem::take(&mut self.store.group_mut(mgid).member_ports);
        self.tidy(BTreeSet::from([number]));
        self.store.group_mut(mgid).member_ports = member_ports;
        self.place(mgid);
    }

    /// Connects more members to a tree; false if the links that are free of its color do not
    /// suffice.
    fn extend(&mut self, number: TreeIndex, member_ports: &[PortId]) -> bool {
        let tree = self.remove_tree(number);
        let longer = self.longer(&tree, member_ports);
        let is_possible = longer.is_some();
        let (root, ports) = longer.unwrap_or_else(|| (tree.root, tree.ports.clone()));
        self.add_tree(Tree { root, ports, ..tree });
        is_possible
    }

    /// Returns the root and the ports of a removed tree with more members connected to it. Where
    /// trees have to keep to an order, a member that does not lead up to the tree is connected by
    /// a higher root.
    fn longer(&mut self, tree: &Tree, member_ports: &[PortId]) -> Option<(SwitchId, Vec<PortId>)> {
        let Self { fabric, store, tools, .. } = self;
        let occupancy = &store.occupancy;
        let (mut root, mut ports) = (tree.root, tree.ports.clone());
        tools.targets.clear();
        tools.targets.grow(fabric.graph.switch_count());
        tools.targets.extend(fabric.switches(&tree.ports).map(SwitchId::index));
        for member_port in member_ports {
            if !occupancy.is_free(fabric.member_domain(*member_port), tree.color) {
                return None;
            }
            let leaf = fabric.graph.switch_of(*member_port);
            let context = Context { fabric, occupancy };
            let bridge = tools.color_trees.bridge(context, tree.color, leaf, &tools.targets);
            let bridge = match bridge {
                Some(bridge) => bridge,
                None if fabric.is_ordered() => {
                    let (top, ways) =
                        tools.color_trees.common_top(context, tree.color, root, leaf)?;
                    root = top;
                    ways
                }
                None => return None,
            };
            tools.targets.extend(fabric.switches(&bridge).map(SwitchId::index));
            tools.targets.insert(leaf.index());
            ports.extend(bridge);
            ports.push(*member_port);
        }
        ports.sort_unstable();
        Some((root, ports))
    }
}

impl RoutingEngine for Mr4lms {
    fn kind(&self) -> EngineKind {
        if self.homes.is_some() { EngineKind::CMr4lmsHybrid } else { EngineKind::Mr4lms }
    }

    fn graph(&self) -> &Arc<Graph> {
        &self.fabric.graph
    }

    fn space(&self) -> &MgidSpace {
        &self.space
    }

    /// Cost of a new group: see [`MergePartner`]; without a merge, the leaves of the group times
    /// the switches for the roots, and for each of up to four roots the links on ways of least hops
    /// to the members.
    fn apply(&mut self, changes: &[Change]) -> Result<(), ChangeError> {
        let members = |mgid: Mgid| self.store.groups.get(&mgid).map(|group| &group.members[..]);
        let staged = staging::stage(changes, members, self.fabric.graph.endpoint_count())?;
        self.change(staged);
        self.write_plan();
        Ok(())
    }

    fn set_faults(&mut self, faults: Faults) {
        self.change_faults(faults);
        self.write_plan();
    }

    fn set_loads(&mut self, loads: Arc<PortLoads>) {
        self.tools.chooser.set_loads(loads);
    }

    fn faults(&self) -> &Faults {
        &self.fabric.faults
    }

    fn plan(&self) -> &Plan {
        &self.plan
    }

    fn groups(&self) -> Vec<Mgid> {
        self.store.groups.keys().copied().collect()
    }

    fn group_count(&self) -> usize {
        self.store.groups.len()
    }

    fn members(&self, mgid: Mgid) -> Option<Vec<EndpointId>> {
        self.store.groups.get(&mgid).map(|group| group.members.clone())
    }

    fn choices(&self) -> Vec<RecordedChoice> {
        self.record()
    }

    /// The choices must be in the order in which they were listed. Cost: the ports of all trees.
    fn restore(&mut self, choices: &[RecordedChoice]) -> Result<(), RestoreError> {
        self.recall(choices)?;
        self.write_plan();
        Ok(())
    }
}
