//! Computes the distance of a group to every tree.
//!
//! Source: MR4LMS §3.3.1, equation (1), rebuilt: the mean, over the members of both sets, of the
//! hops to the other set's nearest member, here from switch to switch. Of equally near trees the
//! one with the lower color and then the smaller MGID is the nearest.
//!
//! Half of the sum, the hops from a group's members to a tree, is kept ready: there is a byte for
//! each leaf and tree, those of 64 trees side by side, so that one visit of a group's leaves adds
//! it up for all of them. It bounds the whole from below, so the other half is only needed for
//! trees that may still be best.

use std::cmp::Ordering;

use fabricast_topology::{Mgid, Peer, PortId, SwitchId};

use crate::min_hop::NO_PATH;
use crate::mr4lms::fabric::Fabric;
use crate::mr4lms::member_hops::{LiveMembers, MemberHops, row};
use crate::mr4lms::tree_index::TreeIndex;
use crate::mr4lms::tree_store::{Tree, TreeStore};

/// The members of trees and how far they are, by tree number; filled in when needed.
#[derive(Clone, Debug, Default)]
pub(super) struct Distances {
    /// By tree: the members whose hops are in the table.
    spreads: Vec<Option<MemberSpread>>,
    /// Trees that may have other members by now.
    stale: Vec<bool>,
    /// By tree, [`TILE`] to a tile, and leaf: the hops to the nearest member.
    tiles: Vec<Vec<[u8; TILE]>>,
    nearest: Vec<u8>,       // by switch
    sums: Vec<[u32; TILE]>, // by tree
}

/// Trees whose hops lie side by side.
const TILE: usize = 64;

/// The switches with members of one tree or group, rising, and how many members they have.
#[derive(Clone, Debug)]
struct MemberSpread {
    leaves: Vec<(SwitchId, u32)>,
    members: u64,
}

impl MemberSpread {
    fn of_tree(fabric: &Fabric, tree: &Tree) -> Self {
        let is_member_port = |port: &PortId| matches!(fabric.graph.peer(*port), Peer::Endpoint(_));
        let member_ports: Vec<PortId> = tree.ports.iter().copied().filter(is_member_port).collect();
        Self::new(fabric, &member_ports)
    }

    fn new(fabric: &Fabric, member_ports: &[PortId]) -> Self {
        let same = |a: &_, b: &_| fabric.graph.switch_of(*a) == fabric.graph.switch_of(*b);
        let leaves = member_ports.chunk_by(same).map(|member_ports| {
            let members =
                u32::try_from(member_ports.len()).expect("a switch has at most 255 ports");
            (fabric.graph.switch_of(member_ports[0]), members)
        });
        Self { leaves: leaves.collect(), members: member_ports.len() as u64 }
    }

    /// Adds up the hops from all members to somewhere.
    fn sum(&self, hops: impl Fn(SwitchId) -> u8) -> u64 {
        let sum = |(leaf, members): &(SwitchId, u32)| u64::from(hops(*leaf)) * u64::from(*members);
        self.leaves.iter().map(sum).sum()
    }

    fn has(&self, leaf: SwitchId) -> bool {
        self.leaves.binary_search_by_key(&leaf, |(leaf, _)| *leaf).is_ok()
    }
}

/// Distance of a tree, or a lower bound of it; less is nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Nearness {
    sum: u64,
    members: u64,
    color: u16,
    mgid: Mgid,
    tree: TreeIndex,
}

impl Ord for Nearness {
    fn cmp(&self, other: &Self) -> Ordering {
        let (this, that) = (self.sum * other.members, other.sum * self.members);
        let order = |one: &Self| (one.color, one.mgid, one.tree);
        this.cmp(&that).then_with(|| order(self).cmp(&order(other)))
    }
}

impl PartialOrd for Nearness {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Distances {
    /// Forgets the members of a tree.
    pub(super) fn forget(&mut self, tree: TreeIndex) {
        if let Some(stale) = self.stale.get_mut(tree.index()) {
            *stale = true;
        }
    }

    /// Forgets everything; needed when hops are not what they were.
    pub(super) fn forget_all(&mut self) {
        *self = Self::default();
    }

    /// Finds the tree that is nearest to a group; there must be a tree, and `member_hops` be of the
    /// group.
    ///
    /// Cost: a byte for every tree and leaf of the group, and the leaves of trees that are near.
    pub(super) fn nearest(
        &mut self,
        fabric: &Fabric,
        store: &TreeStore,
        members: &LiveMembers,
        member_hops: &MemberHops,
    ) -> TreeIndex {
        self.refresh(fabric, store);
        let new = MemberSpread::new(fabric, &members.member_ports);
        self.add_up(fabric, &new);
        let bound = |(number, tree): (TreeIndex, &Tree)| {
            let spread = self.spreads[number.index()].as_ref().expect("filled in above");
            Nearness {
                sum: self.sums[number.index() / TILE][number.index() % TILE].into(),
                members: spread.members + new.members,
                color: tree.color,
                mgid: tree.groups[0],
                tree: number,
            }
        };
        let whole = |bound: Nearness| {
            let spread = self.spreads[bound.tree.index()].as_ref().expect("filled in above");
            Nearness { sum: bound.sum + spread.sum(|leaf| member_hops.near[leaf.index()]), ..bound }
        };
        let bounds: Vec<Nearness> = store.trees().map(bound).collect();
        let mut best = whole(*bounds.iter().min().expect("there is a tree"));
        for bound in bounds {
            if bound < best {
                best = best.min(whole(bound));
            }
        }
        best.tree
    }

    /// Adds up the hops from a group's members to each tree.
    fn add_up(&mut self, fabric: &Fabric, new: &MemberSpread) {
        let leaf = |(leaf, members): &(SwitchId, u32)| {
            let number = fabric.hops.leaf_number(*leaf).expect("members are on leaves");
            (number, u16::try_from(*members).expect("a switch has at most 255 ports"))
        };
        let leaves: Vec<(usize, u16)> = new.leaves.iter().map(leaf).collect();
        self.sums.clear();
        for tile in &self.tiles {
            let mut sums = [0; TILE];
            for (leaf, members) in &leaves {
                for (sum, hops) in sums.iter_mut().zip(&tile[*leaf]) {
                    // 255 times 255 is less than 2^16.
                    *sum += u32::from(u16::from(*hops).wrapping_mul(*members));
                }
            }
            self.sums.push(sums);
        }
    }

    /// Brings the table up to date.
    fn refresh(&mut self, fabric: &Fabric, store: &TreeStore) {
        let count = store.trees().map(|(number, _)| number.index() + 1).max().unwrap_or(0);
        if count > self.spreads.len() {
            self.spreads.resize(count, None);
            self.stale.resize(count, true);
            let tile = vec![[NO_PATH; TILE]; fabric.hops.leaves().len()];
            self.tiles.resize(count.div_ceil(TILE), tile);
        }
        for (number, tree) in store.trees() {
            let at = number.index();
            if !std::mem::take(&mut self.stale[at]) {
                continue;
            }
            let spread = MemberSpread::of_tree(fabric, tree);
            let before = self.spreads[at].take();
            let stays =
                |before: &MemberSpread| before.leaves.iter().all(|(leaf, _)| spread.has(*leaf));
            let before = before.filter(stays);
            let is_new = |leaf: &SwitchId| before.as_ref().is_none_or(|before| !before.has(*leaf));
            self.nearest.clear();
            self.nearest.resize(fabric.graph.switch_count(), NO_PATH);
            for leaf in spread.leaves.iter().map(|(leaf, _)| *leaf).filter(is_new) {
                for (nearest, hops) in self.nearest.iter_mut().zip(row(fabric, leaf)) {
                    *nearest = (*nearest).min(*hops);
                }
            }
            let column = self.tiles[at / TILE].iter_mut().map(|trees| &mut trees[at % TILE]);
            for (hops, leaf) in column.zip(fabric.hops.leaves()) {
                let nearest = self.nearest[leaf.index()];
                *hops = if before.is_some() { nearest.min(*hops) } else { nearest };
            }
            self.spreads[at] = Some(spread);
        }
    }
}
