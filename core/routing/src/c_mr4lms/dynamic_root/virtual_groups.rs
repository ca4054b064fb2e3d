//! The virtual groups of the dynamic-root engine: which groups share a tree, and with which root.
//!
//! A virtual group has one group, or several on one spanning tree with one root, each of which
//! shares a place with another. The virtual groups follow from the spanning tree and the root of
//! every group alone, so taking a group out and placing the others again splits what it connected.

use std::ops::Range;

use crate::c_mr4lms::assignment::Held;
use crate::c_mr4lms::dynamic_root::place_owners::{PlaceOwners, Places};
use crate::c_mr4lms::dynamic_root::roots::{Roots, Trees};
use crate::c_mr4lms::dynamic_root::row_loads::RowLoads;
use crate::c_mr4lms::fabric::{Fabric, LinkedRows, NONE, dense};
use crate::c_mr4lms::footprint::Footprint;
use crate::c_mr4lms::numbers::{GroupIndex, TreeNumber};
use crate::c_mr4lms::registry::Registry;
use crate::root_choice::RootChooser;
use crate::routing_engine::RootScope;
use crate::spt::{Layout, SpanningTree};

/// One virtual group.
#[derive(Clone, Debug)]
pub(super) struct VirtualGroupState {
    pub(super) spt: TreeNumber,
    /// Its root; steps that no place depends on are 0.
    pub(super) root: u32,
    /// Group indices, any order.
    pub(super) groups: Vec<GroupIndex>,
    pub(super) places: Places,
    loaded_switch: LoadedSwitch,
}

/// The switch whose load a virtual group adds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LoadedSwitch {
    /// None that a choice of root could change.
    Fixed,
    L2(u32),
    L3(u32),
}

/// The fabric and the groups on it.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) registry: &'a Registry,
}

/// All virtual groups, and scratch memory to find places for groups.
#[derive(Clone, Debug)]
pub(super) struct VirtualGroups {
    pub(super) chooser: RootChooser,
    pub(super) roots: Roots,
    blocks: u32,
    l3_per_tn: u32,
    pub(super) owners: PlaceOwners,
    list: Vec<VirtualGroupState>,
    free: Vec<u32>,
    of_group: Vec<u32>,                // by index
    l2_load: Vec<u32>,                 // by TN and block: groups whose tree hangs from there
    l3_load: Vec<u32>,                 // by TN and number
    low_loads: RowLoads,               // of places of rank 1, by spanning tree
    pub(super) middle_loads: RowLoads, // of places of rank 2, by spanning tree and first step
    pub(super) footprint: Footprint,
    pub(super) merging: Vec<u32>,     // virtual groups that become one
    pub(super) in_the_way: Vec<u32>,  // virtual groups at wanted places
    pub(super) wanted: [Vec<u64>; 2], // places of ranks 2 and 3, one bit each
}

/// A group that looks for a place.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) index: GroupIndex,
    /// The root that it had, which it keeps if it can; [`NONE`] if it is new.
    pub(super) before: u32,
    /// Links of both trees of a pair have to exist; else one tree of it, that is live, is enough.
    pub(super) whole_pair: bool,
    /// The fixed root comes first among those without conflict, whatever their load.
    pub(super) fixed_first: bool,
    /// Roots are compared by the groups on the links of CNs first.
    pub(super) by_links: bool,
    /// Use of the color under consideration by the members.
    pub(super) held: Held,
    /// The rows of each tier that have all links it needs.
    pub(super) rows: [LinkedRows; 3],
    pub(super) places: Places,
}

impl Candidate {
    /// Tells whether all links that the group needs on a tree are live.
    pub(super) fn is_live_on(&self, fabric: &Fabric, tree: &SpanningTree) -> bool {
        self.rows.iter().zip(fabric.rows(tree)).all(|(rows, row)| rows.is_live(row))
    }

    /// Tells whether all links that the group needs on a tree exist, dead or live.
    pub(super) fn exists_on(&self, fabric: &Fabric, tree: &SpanningTree) -> bool {
        self.rows.iter().zip(fabric.rows(tree)).all(|(rows, row)| rows.exists(row))
    }

    /// Tells whether trees of a number serve the group: one is live, and both exist if asked for.
    pub(super) fn is_served_by(&self, fabric: &Fabric, trees: &[SpanningTree]) -> bool {
        trees.iter().any(|tree| self.is_live_on(fabric, tree))
            && (!self.whole_pair || trees.iter().all(|tree| self.exists_on(fabric, tree)))
    }
}

impl VirtualGroups {
    pub(super) fn new(
        fabric: &Fabric,
        layout: &Layout,
        scope: RootScope,
        chooser: RootChooser,
    ) -> Self {
        let roots = Roots::new(layout, scope);
        let params = layout.params();
        let blocks = params.blocks.max(1);
        let owners = PlaceOwners::new(fabric, *layout.space(), &roots);
        let low_rows = fabric
            .tree_numbers()
            .map(|spt| both(fabric.trees(spt).iter().map(|tree| fabric.rows(tree)[0])));
        let middle_rows = fabric.tree_numbers().flat_map(|spt| {
            let homes = fabric.trees(spt);
            (0..roots.ups).map(move |up| {
                let trees = roots.trees(homes, up * roots.tops);
                both(trees.iter().map(|tree| fabric.rows(tree)[1]))
            })
        });
        let low_loads = RowLoads::new(low_rows.collect(), owners.width(1));
        let middle_loads = RowLoads::new(middle_rows.collect(), owners.width(2));
        Self {
            chooser,
            owners,
            low_loads,
            middle_loads,
            roots,
            blocks,
            l3_per_tn: params.l3_per_tn,
            list: Vec::new(),
            free: Vec::new(),
            of_group: Vec::new(),
            l2_load: vec![0; (params.tns * blocks) as usize],
            l3_load: vec![0; (params.tns * params.l3_per_tn) as usize],
            footprint: Footprint::default(),
            merging: Vec::new(),
            in_the_way: Vec::new(),
            wanted: Default::default(),
        }
    }

    pub(super) fn get(&self, virtual_group: u32) -> &VirtualGroupState {
        &self.list[virtual_group as usize]
    }

    /// Gives the virtual group of a group, or [`NONE`] if it has no tree.
    pub(super) fn of_group(&self, index: GroupIndex) -> u32 {
        self.of_group.get(index.index()).copied().unwrap_or(NONE)
    }

    /// Gives the virtual group of a group; none if it has no tree.
    pub(super) fn of(&self, index: GroupIndex) -> Option<&VirtualGroupState> {
        self.list.get(self.of_group(index) as usize)
    }

    /// Gives the spanning tree of a group, or its pair, as it is with the root that the group has.
    pub(super) fn trees(&self, fabric: &Fabric, index: GroupIndex, spt: TreeNumber) -> Trees {
        let root = self.of(index).map_or(0, |virtual_group| virtual_group.root);
        self.roots.trees(fabric.trees(spt), root)
    }

    /// Finds out where the live members of a group are; none if fewer than two live.
    pub(super) fn candidate(
        &mut self,
        context: Context<'_>,
        index: GroupIndex,
    ) -> Option<Box<Candidate>> {
        let members = &context.registry.get(index).members;
        self.footprint.trace(context.fabric, members);
        let mut rows: [LinkedRows; 3] = Default::default();
        context.fabric.find_rows(self.footprint.places(), &mut rows);
        if self.footprint.live(members).len() < 2 {
            return None;
        }
        Some(Box::new(Candidate {
            index,
            before: NONE,
            whole_pair: false,
            fixed_first: false,
            by_links: false,
            held: Held::Free,
            rows,
            places: self.owners.places(&self.footprint, members),
        }))
    }

    /// Lists the virtual groups at some ranks of places; false if one of them is on another
    /// spanning tree.
    pub(super) fn collect_owners(
        &mut self,
        spt: TreeNumber,
        root: u32,
        places: &Places,
        ranks: Range<usize>,
    ) -> bool {
        self.merging.clear();
        for rank in ranks {
            for at in &places[rank] {
                let virtual_group = self.owners.owner(rank, spt, root, *at);
                if virtual_group == NONE || self.merging.last() == Some(&virtual_group) {
                    continue;
                }
                if self.get(virtual_group).spt != spt {
                    return false;
                }
                if !self.merging.contains(&virtual_group) {
                    self.merging.push(virtual_group);
                }
            }
        }
        true
    }

    /// Finds the spanning trees on which the members of a group use the color of one already.
    pub(super) fn held_at_members(&self, candidate: &Candidate, spt: TreeNumber) -> Held {
        let mut held = Held::Free;
        let mut last = NONE;
        for at in &candidate.places[0] {
            let virtual_group = self.owners.owner(0, spt, 0, *at);
            if virtual_group != NONE && std::mem::replace(&mut last, virtual_group) != virtual_group
            {
                held.add(self.get(virtual_group).spt);
            }
        }
        held
    }

    /// Releases the places of a virtual group, which stays in the list.
    pub(super) fn release_places(&mut self, virtual_group: u32) {
        let VirtualGroupState { spt, root, places, .. } = &self.list[virtual_group as usize];
        self.owners.set_owner(*spt, *root, places, NONE);
        self.add_load(virtual_group, false);
    }

    /// Claims the places of a virtual group.
    pub(super) fn claim_places(&mut self, virtual_group: u32) {
        let VirtualGroupState { spt, root, places, .. } = &self.list[virtual_group as usize];
        self.owners.set_owner(*spt, *root, places, virtual_group);
        self.add_load(virtual_group, true);
    }

    fn add_load(&mut self, virtual_group: u32, more: bool) {
        let one = &self.list[virtual_group as usize];
        let count = dense(one.groups.len());
        let add = |load: &mut u32| *load = if more { *load + count } else { *load - count };
        self.low_loads.change(one.spt.index(), &one.places[1], add);
        let number = self.middle_number(one.spt, self.roots.steps(one.root).0);
        self.middle_loads.change(number, &one.places[2], add);
        match one.loaded_switch {
            LoadedSwitch::Fixed => {}
            LoadedSwitch::L2(at) => add(&mut self.l2_load[at as usize]),
            LoadedSwitch::L3(at) => add(&mut self.l3_load[at as usize]),
        }
    }

    /// Gives for each spanning tree the most groups that cross a link of a leaf or CN that a group
    /// needs there, under the root where they are fewest.
    pub(super) fn link_loads(&self, candidate: &Candidate) -> Vec<u32> {
        let [_, leaves, cns, _] = &candidate.places;
        let mut loads = self.low_loads.most_of_all(leaves);
        let middle = self.middle_loads.most_of_all(cns);
        let by_step = middle.chunks(self.roots.ups as usize);
        for (load, (spt, by_step)) in loads.iter_mut().zip((0..).zip(by_step)) {
            let serving = (0u32..).zip(by_step).filter(|(step, _)| {
                let rows = self.middle_loads.rows(self.middle_number(TreeNumber(spt), *step));
                let mut live = rows.into_iter().map(|row| candidate.rows[1].is_live(row));
                if candidate.whole_pair { live.all(|live| live) } else { live.any(|live| live) }
            });
            *load = (*load).max(serving.map(|(_, load)| *load).min().unwrap_or(u32::MAX));
        }
        loads
    }

    /// Numbers a spanning tree with a first step to its root.
    pub(super) const fn middle_number(&self, spt: TreeNumber, step: u32) -> usize {
        (spt.0 * self.roots.ups + step) as usize
    }

    /// Makes one virtual group of a group and those in `merging`, whose places have been released.
    pub(super) fn unite(
        &mut self,
        fabric: &Fabric,
        candidate: Box<Candidate>,
        spt: TreeNumber,
        root: u32,
    ) {
        let Candidate { index, places, .. } = *candidate;
        let mut merging = std::mem::take(&mut self.merging);
        merging.sort_by_key(|virtual_group| self.get(*virtual_group).groups.len());
        let mut united = VirtualGroupState {
            spt,
            root,
            groups: vec![index],
            places,
            loaded_switch: LoadedSwitch::Fixed,
        };
        for virtual_group in merging.drain(..).rev() {
            let one = &mut self.list[virtual_group as usize];
            let mut one = VirtualGroupState {
                groups: std::mem::take(&mut one.groups),
                places: std::mem::take(&mut one.places),
                ..*one
            };
            self.free.push(virtual_group);
            if one.groups.len() > united.groups.len() {
                std::mem::swap(&mut one, &mut united); // the longer lists stay
            }
            united.groups.append(&mut one.groups);
            for (all, more) in united.places.iter_mut().zip(&mut one.places) {
                all.append(more);
            }
        }
        self.merging = merging;
        united.root = self.roots.needed(root, [2, 3].map(|rank| !united.places[rank].is_empty()));
        let tree = self.roots.tree(fabric.tree(spt), united.root);
        united.loaded_switch = self.loaded_switch(
            fabric,
            &tree,
            [2, 3].map(|rank| united.places[rank].first().copied()),
        );
        let virtual_group = self.free.pop().unwrap_or_else(|| dense(self.list.len()));
        for index in &united.groups {
            let index = index.index();
            if self.of_group.len() <= index {
                self.of_group.resize(index + 1, NONE);
            }
            self.of_group[index] = virtual_group;
        }
        match self.list.get_mut(virtual_group as usize) {
            Some(place) => *place = united,
            None => self.list.push(united),
        }
        self.claim_places(virtual_group);
    }

    /// The switch that a virtual group hangs from, given its first place of ranks 2 and 3.
    fn loaded_switch(
        &self,
        fabric: &Fabric,
        tree: &SpanningTree,
        first: [Option<u32>; 2],
    ) -> LoadedSwitch {
        match first {
            [_, Some(_)] => LoadedSwitch::L3(tree.tn * self.l3_per_tn + tree.l3),
            [Some(at), None] => {
                LoadedSwitch::L2(tree.tn * self.blocks + self.owners.block_of(fabric, at))
            }
            [None, None] => LoadedSwitch::Fixed,
        }
    }

    /// Gives the load of the switch that a virtual group would hang from.
    pub(super) fn load(
        &self,
        fabric: &Fabric,
        tree: &SpanningTree,
        first: [Option<u32>; 2],
    ) -> u32 {
        match self.loaded_switch(fabric, tree, first) {
            LoadedSwitch::Fixed => 0,
            LoadedSwitch::L2(at) => self.l2_load[at as usize],
            LoadedSwitch::L3(at) => self.l3_load[at as usize],
        }
    }

    /// Takes groups out of their virtual groups, which fall apart where only these held them
    /// together; gives the root of each, or [`NONE`] if it had no tree. The places of all others
    /// must be as they were when they were placed.
    pub(super) fn take_out(&mut self, context: Context<'_>, indices: &[GroupIndex]) -> Vec<u32> {
        let mut roots = Vec::with_capacity(indices.len());
        let mut broken: Vec<u32> = Vec::new();
        for index in indices {
            let virtual_group = self.of_group(*index);
            roots.push(
                self.list
                    .get(virtual_group as usize)
                    .map_or(NONE, |virtual_group| virtual_group.root),
            );
            if virtual_group != NONE {
                broken.push(virtual_group);
                self.of_group[index.index()] = NONE;
            }
        }
        broken.sort_unstable();
        broken.dedup();
        for virtual_group in broken {
            self.release_places(virtual_group);
            let one = &mut self.list[virtual_group as usize];
            let (spt, root, groups) = (one.spt, one.root, std::mem::take(&mut one.groups));
            self.free.push(virtual_group);
            for index in groups {
                if self.of_group(index) != NONE {
                    let left = self.candidate(context, index).expect("it had a tree");
                    self.attach(context.fabric, left, spt, root);
                }
            }
        }
        roots
    }

    /// Places a group with a given root; it must not meet groups that have another.
    pub(super) fn attach(
        &mut self,
        fabric: &Fabric,
        one: Box<Candidate>,
        spt: TreeNumber,
        root: u32,
    ) {
        let fits = self.collect_owners(spt, root, &one.places, 0..4);
        assert!(fits, "a color at an endpoint has one spanning tree");
        for at in 0..self.merging.len() {
            self.release_places(self.merging[at]);
        }
        self.unite(fabric, one, spt, root);
    }
}

/// Gives the values of the trees of a number; that of a single one twice.
fn both(mut values: impl Iterator<Item = u32>) -> [u32; 2] {
    let first = values.next().unwrap_or(0);
    [first, values.next().unwrap_or(first)]
}
