//! Families: which groups share a tree, and with which root.
//!
//! A *family* is a virtual group in the making: groups on one spanning tree with one root, each of
//! which shares a place with another. What the families are follows from where each group is and
//! from its root alone, so taking a group out and putting the others back splits what it held together.

use crate::engine::dynamic::holdings::{Holdings, Places};
use crate::engine::dynamic::roots::{RootScope, Roots};
use crate::engine::fabric::{Fabric, NONE, dense};
use crate::engine::footprint::Footprint;
use crate::engine::registry::Registry;
use crate::root_choice::RootChooser;
use crate::spt::{Layout, SpanningTree};

/// Groups with one root.
#[derive(Clone, Debug)]
pub(super) struct Family {
    pub(super) spt: u32,
    /// Its root; steps that no place depends on are 0.
    pub(super) root: u32,
    /// Slots, any order.
    pub(super) groups: Vec<u32>,
    pub(super) places: Places,
    hangs_from: Hook,
}

/// The switch whose load a family adds to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hook {
    /// None that a choice of root could change.
    Fixed,
    L2(u32),
    L3(u32),
}

/// What families are made of.
#[derive(Clone, Copy)]
pub(super) struct Ground<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) registry: &'a Registry,
}

/// All families, and scratch memory to find places for groups.
#[derive(Clone, Debug)]
pub(super) struct Families {
    pub(super) chooser: RootChooser,
    pub(super) roots: Roots,
    blocks: u32,
    l3_per_tn: u32,
    pub(super) holdings: Holdings,
    list: Vec<Family>,
    free: Vec<u32>,
    family_of: Vec<u32>, // by slot
    l2_load: Vec<u32>,   // by TN and block: groups whose tree hangs from there
    l3_load: Vec<u32>,   // by TN and number
    pub(super) footprint: Footprint,
    pub(super) gathered: Vec<u32>,    // families that become one
    pub(super) met: Vec<u32>,         // families at wanted places
    pub(super) wanted: [Vec<u64>; 2], // places of ranks 2 and 3, one bit each
}

/// A group that looks for a place.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) slot: u32,
    /// The root that it had, which it keeps if it can; [`NONE`] if it is new.
    pub(super) before: u32,
    pub(super) places: Places,
}

impl Families {
    pub(super) fn new(
        fabric: &Fabric,
        layout: &Layout,
        scope: RootScope,
        chooser: RootChooser,
    ) -> Self {
        let roots = Roots::new(layout, scope);
        let params = layout.params();
        let blocks = params.blocks.max(1);
        Self {
            chooser,
            holdings: Holdings::new(fabric, *layout.space(), &roots),
            roots,
            blocks,
            l3_per_tn: params.l3_per_tn,
            list: Vec::new(),
            free: Vec::new(),
            family_of: Vec::new(),
            l2_load: vec![0; (params.tns * blocks) as usize],
            l3_load: vec![0; (params.tns * params.l3_per_tn) as usize],
            footprint: Footprint::default(),
            gathered: Vec::new(),
            met: Vec::new(),
            wanted: Default::default(),
        }
    }

    pub(super) fn get(&self, family: u32) -> &Family {
        &self.list[family as usize]
    }

    /// Gives the family of a group, or [`NONE`] if it has no tree.
    pub(super) fn family_of(&self, slot: u32) -> u32 {
        self.family_of.get(slot as usize).copied().unwrap_or(NONE)
    }

    /// Gives the family of a group; none if it has no tree.
    pub(super) fn of(&self, slot: u32) -> Option<&Family> {
        self.list.get(self.family_of(slot) as usize)
    }

    /// Gives the spanning tree of a group as it is with the root that the group has.
    pub(super) fn tree(&self, fabric: &Fabric, slot: u32, spt: u32) -> SpanningTree {
        self.roots.tree(fabric.tree(spt), self.of(slot).map_or(0, |family| family.root))
    }

    /// Finds out where the live members of a group are; none if fewer than two live.
    pub(super) fn candidate(&mut self, ground: Ground<'_>, slot: u32) -> Option<Candidate> {
        let members = &ground.registry.get(slot).members;
        self.footprint.trace(ground.fabric, members);
        (self.footprint.live(members).len() >= 2).then(|| Candidate {
            slot,
            before: NONE,
            places: self.holdings.places(&self.footprint, members).map(<[u32]>::to_vec),
        })
    }

    /// Lists the families at some ranks of places; false if one of them is on another spanning tree.
    pub(super) fn gather(&mut self, spt: u32, root: u32, places: &[Vec<u32>]) -> bool {
        self.gathered.clear();
        for (rank, places) in places.iter().enumerate() {
            for at in places {
                let family = self.holdings.owner(rank, spt, root, *at);
                if family == NONE || self.gathered.last() == Some(&family) {
                    continue;
                }
                if self.get(family).spt != spt {
                    return false;
                }
                if !self.gathered.contains(&family) {
                    self.gathered.push(family);
                }
            }
        }
        true
    }

    /// Takes its places from a family; it stays in the list.
    pub(super) fn lift(&mut self, family: u32) {
        let Family { spt, root, places, .. } = &self.list[family as usize];
        self.holdings.hand(*spt, *root, places, NONE);
        self.add_load(family, false);
    }

    /// Gives its places to a family.
    pub(super) fn set_down(&mut self, family: u32) {
        let Family { spt, root, places, .. } = &self.list[family as usize];
        self.holdings.hand(*spt, *root, places, family);
        self.add_load(family, true);
    }

    fn add_load(&mut self, family: u32, more: bool) {
        let Family { groups, hangs_from, .. } = &self.list[family as usize];
        let load = match *hangs_from {
            Hook::Fixed => return,
            Hook::L2(at) => &mut self.l2_load[at as usize],
            Hook::L3(at) => &mut self.l3_load[at as usize],
        };
        let count = dense(groups.len());
        *load = if more { *load + count } else { *load - count };
    }

    /// Makes one family of a group and the families gathered, whose places have been lifted.
    pub(super) fn unite(&mut self, fabric: &Fabric, candidate: Candidate, spt: u32, root: u32) {
        let Candidate { slot, places, .. } = candidate;
        let mut gathered = std::mem::take(&mut self.gathered);
        gathered.sort_by_key(|family| self.get(*family).groups.len());
        let mut united = Family { spt, root, groups: vec![slot], places, hangs_from: Hook::Fixed };
        for family in gathered.drain(..).rev() {
            let one = &mut self.list[family as usize];
            let mut one = Family {
                groups: std::mem::take(&mut one.groups),
                places: std::mem::take(&mut one.places),
                ..*one
            };
            self.free.push(family);
            if one.groups.len() > united.groups.len() {
                std::mem::swap(&mut one, &mut united); // the longer lists stay
            }
            united.groups.append(&mut one.groups);
            for (all, more) in united.places.iter_mut().zip(&mut one.places) {
                all.append(more);
            }
        }
        self.gathered = gathered;
        united.root = self.roots.needed(root, [2, 3].map(|rank| !united.places[rank].is_empty()));
        let tree = self.roots.tree(fabric.tree(spt), united.root);
        united.hangs_from =
            self.hook(fabric, &tree, [2, 3].map(|rank| united.places[rank].first().copied()));
        let family = self.free.pop().unwrap_or_else(|| dense(self.list.len()));
        for slot in &united.groups {
            let slot = *slot as usize;
            if self.family_of.len() <= slot {
                self.family_of.resize(slot + 1, NONE);
            }
            self.family_of[slot] = family;
        }
        match self.list.get_mut(family as usize) {
            Some(place) => *place = united,
            None => self.list.push(united),
        }
        self.set_down(family);
    }

    /// The switch that a family hangs from, given its first place of ranks 2 and 3.
    fn hook(&self, fabric: &Fabric, tree: &SpanningTree, first: [Option<u32>; 2]) -> Hook {
        match first {
            [_, Some(_)] => Hook::L3(tree.tn * self.l3_per_tn + tree.l3),
            [Some(at), None] => {
                Hook::L2(tree.tn * self.blocks + self.holdings.block_of(fabric, at))
            }
            [None, None] => Hook::Fixed,
        }
    }

    /// Gives the load of the switch that a family would hang from.
    pub(super) fn load(
        &self,
        fabric: &Fabric,
        tree: &SpanningTree,
        first: [Option<u32>; 2],
    ) -> u32 {
        match self.hook(fabric, tree, first) {
            Hook::Fixed => 0,
            Hook::L2(at) => self.l2_load[at as usize],
            Hook::L3(at) => self.l3_load[at as usize],
        }
    }

    /// Takes groups out of their families, which fall apart where only these held them together; gives the
    /// root of each, or [`NONE`] if it had no tree. The places of all others must be as they were when
    /// they were placed.
    pub(super) fn take_out(&mut self, ground: Ground<'_>, slots: &[u32]) -> Vec<u32> {
        let mut roots = Vec::with_capacity(slots.len());
        let mut broken: Vec<u32> = Vec::new();
        for slot in slots {
            let family = self.family_of(*slot);
            roots.push(self.list.get(family as usize).map_or(NONE, |family| family.root));
            if family != NONE {
                broken.push(family);
                self.family_of[*slot as usize] = NONE;
            }
        }
        broken.sort_unstable();
        broken.dedup();
        for family in broken {
            self.lift(family);
            let one = &mut self.list[family as usize];
            let (spt, root, groups) = (one.spt, one.root, std::mem::take(&mut one.groups));
            self.free.push(family);
            for slot in groups {
                if self.family_of(slot) != NONE {
                    let left = self.candidate(ground, slot).expect("it had a tree");
                    self.attach(ground.fabric, left, spt, root);
                }
            }
        }
        roots
    }

    /// Places a group with a given root; it must not meet groups that have another.
    pub(super) fn attach(&mut self, fabric: &Fabric, one: Candidate, spt: u32, root: u32) {
        let fits = self.gather(spt, root, &one.places);
        assert!(fits, "a color at an endpoint has one spanning tree");
        for at in 0..self.gathered.len() {
            self.lift(self.gathered[at]);
        }
        self.unite(fabric, one, spt, root);
    }
}
