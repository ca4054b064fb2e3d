//! Brings trees up to date after changes of groups and faults.
//!
//! Source: MR4LMS §3.3.3, algorithm 6, and §4.1, which waits for all members of a group and drops a tree only
//! when all have left. Here members come and go one by one: who comes is tied to the tree over what
//! is free of its color, and only if that cannot be the group alone gets a new tree; who goes takes along what
//! nobody else needs. That can leave a virtual group in pieces that touch no more: they part.
//!
//! After a fault a group is placed anew only if what connects its members in its tree is broken.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_topology::{EndpointId, Faults, PortId, SwitchId};

use crate::mgid::Mgid;
use crate::mr4lms::forest::Tree;
use crate::mr4lms::walk::Cutting;
use crate::mr4lms::{Mr4lms, Turn};
use crate::plan::CutOff;

impl Mr4lms {
    /// Gives groups their new members, none for one that goes; in this order where groups need trees.
    /// With its last group the engine forgets its past.
    pub(super) fn change(&mut self, changes: Vec<(Mgid, Option<Vec<EndpointId>>)>) {
        let mut loose = BTreeSet::new();
        let mut gone = Vec::new();
        let mut left = Vec::new();
        for (mgid, members) in changes {
            if members.is_some() {
                left.push(mgid);
            } else {
                gone.push(mgid);
            }
            self.forest.groups.entry(mgid).or_default().members = members.unwrap_or_default();
            loose.extend(self.seat(mgid));
        }
        self.tidy(loose);
        for mgid in gone {
            self.forest.groups.remove(&mgid);
        }
        if self.forest.groups.is_empty() {
            self.turn = Turn::BuildFirst;
        }
        for mgid in left {
            self.settle(mgid);
        }
    }

    /// Takes over faults and places what is broken anew, by MGID.
    pub(super) fn change_faults(&mut self, faults: Faults) {
        self.fabric.set_faults(faults);
        self.tools.distances.forget_all();
        let mgids: Vec<Mgid> = self.forest.groups.keys().copied().collect();
        let mut loose: BTreeSet<u32> = mgids.iter().filter_map(|mgid| self.seat(*mgid)).collect();
        let is_broken = |tree: &Tree| tree.ports.iter().any(|port| !self.fabric.is_live(*port));
        let broken = self.forest.trees().filter(|(_, tree)| is_broken(tree));
        loose.extend(broken.map(|(number, _)| number));
        self.tidy(loose);
        for mgid in mgids {
            self.settle(mgid);
        }
    }

    /// Finds out which members of a group can be served; names its tree if some are no longer.
    fn seat(&mut self, mgid: Mgid) -> Option<u32> {
        let group = &self.forest.groups[&mgid];
        let mut cut_off = Vec::new();
        let seats = self.fabric.part_members(&group.members, |endpoint, why| {
            cut_off.push(CutOff { mgid, endpoint, why });
        });
        cut_off.sort_unstable();
        if (&cut_off, &seats) == (&group.cut_off, &group.seats) && group.tree.is_some() {
            return None;
        }
        self.forest.touch(mgid);
        let group = self.forest.group_mut(mgid);
        group.cut_off = cut_off;
        let before = std::mem::replace(&mut group.seats, seats);
        let is_lost = |seat: &PortId| group.seats.binary_search(seat).is_err();
        group.tree.filter(|_| before.iter().any(is_lost))
    }

    /// Takes out of trees what none of their groups needs. Groups whose tree is broken have none then.
    pub(super) fn tidy(&mut self, trees: BTreeSet<u32>) {
        for number in trees {
            let tree = self.fell(number);
            self.tools.walk.along(&self.fabric, &tree.ports, tree.root);
            let mut pieces = Vec::new();
            for mgid in &tree.groups {
                let group = self.forest.group(*mgid);
                let seats: Vec<PortId> =
                    group.seats.iter().copied().filter(|seat| tree.has(*seat)).collect();
                if seats.len() >= 2 {
                    let piece = self.tools.walk.cut(&self.fabric, &seats);
                    if piece.ports.iter().all(|port| self.fabric.is_live(*port)) {
                        pieces.push((*mgid, piece));
                    }
                }
            }
            for tree in self.put_together(tree.color, pieces) {
                self.plant(tree);
            }
        }
    }

    /// Unites pieces of a tree that share a domain.
    pub(super) fn put_together(&self, color: u16, pieces: Vec<(Mgid, Cutting)>) -> Vec<Tree> {
        let mut family: Vec<usize> = (0..pieces.len()).collect();
        let find = |family: &mut [usize], mut at: usize| {
            while family[at] != at {
                family[at] = family[family[at]];
                at = family[at];
            }
            at
        };
        let mut first = BTreeMap::new();
        for (at, (_, piece)) in pieces.iter().enumerate() {
            for domain in self.fabric.domains(&piece.ports) {
                let other = *first.entry(domain).or_insert(at);
                let (a, b) = (find(&mut family, at), find(&mut family, other));
                family[a.max(b)] = a.min(b);
            }
        }
        let mut trees: BTreeMap<usize, (u32, SwitchId, Tree)> = BTreeMap::new();
        for (at, (mgid, piece)) in pieces.into_iter().enumerate() {
            let Cutting { top, depth, ports } = piece;
            let tree = Tree { color, root: top, groups: Vec::new(), ports: Vec::new() };
            let (highest, root, tree) =
                trees.entry(find(&mut family, at)).or_insert((depth, top, tree));
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
            tree
        };
        trees.into_values().map(finish).collect()
    }

    /// Sees to it that a group's tree reaches all whom it can serve.
    pub(super) fn settle(&mut self, mgid: Mgid) {
        let Some(group) = self.forest.groups.get(&mgid) else { return };
        let Some(number) = group.tree else { return self.place(mgid) };
        let tree = self.forest.tree(number);
        let missing: Vec<PortId> =
            group.seats.iter().copied().filter(|seat| !tree.has(*seat)).collect();
        if missing.is_empty() || self.extend(number, &missing) {
            return;
        }
        // The others of its virtual group stay where they are.
        let seats = std::mem::take(&mut self.forest.group_mut(mgid).seats);
        self.tidy(BTreeSet::from([number]));
        self.forest.group_mut(mgid).seats = seats;
        self.place(mgid);
    }

    /// Ties more members to a tree; false if what is free of its color does not allow it.
    fn extend(&mut self, number: u32, seats: &[PortId]) -> bool {
        let tree = self.fell(number);
        let ports = self.longer(&tree, seats);
        let is_possible = ports.is_some();
        let ports = ports.unwrap_or_else(|| tree.ports.clone());
        self.plant(Tree { ports, ..tree });
        is_possible
    }

    /// Gives the ports of a felled tree with more members tied to it.
    fn longer(&mut self, tree: &Tree, seats: &[PortId]) -> Option<Vec<PortId>> {
        let Self { fabric, forest, tools, .. } = self;
        let ledger = &forest.ledger;
        let mut ports = tree.ports.clone();
        tools.targets.clear();
        tools.targets.grow(fabric.graph.switch_count());
        tools.targets.extend(fabric.switches(&tree.ports).map(SwitchId::index));
        for seat in seats {
            if !ledger.is_free(fabric.member_domain(*seat), tree.color) {
                return None;
            }
            let leaf = fabric.graph.switch_of(*seat);
            let bridge = tools.weaver.bridge((fabric, ledger), tree.color, leaf, &tools.targets)?;
            tools.targets.extend(fabric.switches(&bridge).map(SwitchId::index));
            tools.targets.insert(leaf.index());
            ports.extend(bridge);
            ports.push(*seat);
        }
        ports.sort_unstable();
        Some(ports)
    }
}
