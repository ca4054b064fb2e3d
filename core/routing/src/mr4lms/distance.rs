//! How alike groups are: the distance of a group to every tree.
//!
//! Source: MR4LMS §3.3.1, equation (1), rebuilt: the mean, over the members of both sets, of the hops
//! to the other set's nearest member, here from switch to switch. Of equally near trees the one with
//! the lower color and then the smaller MGID is the nearest.
//!
//! Half of the sum, the hops from a tree's members to the group, is one look-up for each leaf of the
//! tree. It bounds the whole from below, so the other half is only needed for the trees that are best by it.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use fabricast_topology::{Peer, PortId, SwitchId};

use crate::mgid::Mgid;
use crate::mr4lms::fabric::Fabric;
use crate::mr4lms::forest::{Forest, Tree};
use crate::mr4lms::survey::{Party, Survey, row};

/// The members of trees, by tree number; filled in when first needed.
#[derive(Clone, Debug, Default)]
pub(super) struct Distances {
    crowds: Vec<Option<Crowd>>,
}

/// The switches with members of one tree or group, rising, and how many members they have.
#[derive(Clone, Debug)]
struct Crowd {
    leaves: Vec<(SwitchId, u32)>,
    members: u64,
}

impl Crowd {
    fn of_tree(fabric: &Fabric, tree: &Tree) -> Self {
        let is_seat = |port: &PortId| matches!(fabric.graph.peer(*port), Peer::Endpoint(_));
        let seats: Vec<PortId> = tree.ports.iter().copied().filter(is_seat).collect();
        Self::new(fabric, &seats)
    }

    fn new(fabric: &Fabric, seats: &[PortId]) -> Self {
        let same = |a: &_, b: &_| fabric.graph.switch_of(*a) == fabric.graph.switch_of(*b);
        let leaves = seats.chunk_by(same).map(|seats| {
            let members = u32::try_from(seats.len()).expect("a switch has at most 255 ports");
            (fabric.graph.switch_of(seats[0]), members)
        });
        Self { leaves: leaves.collect(), members: seats.len() as u64 }
    }

    /// Adds up the hops from all members to somewhere.
    fn sum(&self, hops: impl Fn(SwitchId) -> u8) -> u64 {
        let sum = |(leaf, members): &(SwitchId, u32)| u64::from(hops(*leaf)) * u64::from(*members);
        self.leaves.iter().map(sum).sum()
    }

    /// Gives the hops from a leaf to the nearest member.
    fn hops_from(&self, fabric: &Fabric, leaf: SwitchId) -> u8 {
        if self.leaves.binary_search_by_key(&leaf, |(leaf, _)| *leaf).is_ok() {
            return 0;
        }
        let row = row(fabric, leaf);
        let hops = self.leaves.iter().map(|(other, _)| row[other.index()]);
        hops.min().expect("trees have members")
    }
}

/// How near a tree is, or can be at best; less is nearer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Nearness {
    sum: u64,
    members: u64,
    color: u16,
    mgid: Mgid,
    tree: u32,
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
    pub(super) fn forget(&mut self, tree: u32) {
        if let Some(place) = self.crowds.get_mut(tree as usize) {
            *place = None;
        }
    }

    /// Finds the tree that is nearest to a group; there must be a tree, and the survey be of the group.
    pub(super) fn nearest(
        &mut self,
        (fabric, forest): (&Fabric, &Forest),
        party: &Party,
        survey: &Survey,
    ) -> u32 {
        let new = Crowd::new(fabric, &party.seats);
        let mut open = Vec::new();
        for (number, tree) in forest.trees() {
            let at = number as usize;
            if self.crowds.len() <= at {
                self.crowds.resize(at + 1, None);
            }
            let crowd = self.crowds[at].get_or_insert_with(|| Crowd::of_tree(fabric, tree));
            open.push(Reverse(Nearness {
                sum: crowd.sum(|leaf| survey.near[leaf.index()]),
                members: crowd.members + new.members,
                color: tree.color,
                mgid: tree.groups[0],
                tree: number,
            }));
        }
        let mut open = BinaryHeap::from(open);
        let mut best: Option<Nearness> = None;
        while let Some(Reverse(bound)) = open.pop() {
            if best.is_some_and(|best| best < bound) {
                break;
            }
            let crowd = self.crowds[bound.tree as usize].as_ref().expect("filled in above");
            let most = best.map_or(u64::MAX, |best| best.sum * bound.members / best.members);
            let mut sum = bound.sum;
            for (leaf, members) in &new.leaves {
                sum += u64::from(crowd.hops_from(fabric, *leaf)) * u64::from(*members);
                if sum > most {
                    break;
                }
            }
            let nearness = Nearness { sum, ..bound };
            best = Some(best.map_or(nearness, |best| best.min(nearness)));
        }
        best.expect("there is a tree").tree
    }
}
