//! First build, then color: a tree along the min-hop table, and the first color that is free on all
//! of it.
//!
//! Source: MR4LMS §3.1, algorithms 1 and 2. From each member the tree climbs towards the root over
//! the lightest link among those of least hops, until it meets itself; of equal links that with the
//! lower port is taken. The weight of a link is its EFI.
//!
//! The min-hop table has rows for leaves only. Hops to any other root are searched for, but only
//! where a path from a member to the root can be.

use fabricast_topology::{PortId, SwitchId};

use crate::min_hop::{MOST_HOPS, NO_PATH};
use crate::mr4lms::fabric::Fabric;
use crate::mr4lms::member_hops::{LiveMembers, MemberHops, row};
use crate::mr4lms::occupancy::{Context, Occupancy, first_color};

/// Builds trees from the members up; its buffers are used again.
#[derive(Clone, Debug, Default)]
pub(super) struct MinHopTreeBuilder {
    hops: Vec<u8>, // by switch, to the root; NO_PATH where nobody was
    seen: Vec<u32>,
    climbed: Vec<u32>, // by switch: the last tree that came by
    tree: u32,
    /// The ports of the last tree, both ends of every link between switches, in the order of
    /// building.
    pub(super) ports: Vec<PortId>,
}

impl MinHopTreeBuilder {
    /// Builds the tree of some members; `member_hops` limits the search for the root's hops.
    pub(super) fn build(
        &mut self,
        Context { fabric, occupancy }: Context<'_>,
        members: &LiveMembers,
        member_hops: Option<&MemberHops>,
        root: SwitchId,
    ) {
        if fabric.hops.leaf_number(root).is_some() {
            let row = row(fabric, root);
            return self.climb(Context { fabric, occupancy }, members, row, root);
        }
        let mut hops = std::mem::take(&mut self.hops);
        self.descend(fabric, member_hops, root, &mut hops);
        self.climb(Context { fabric, occupancy }, members, &hops, root);
        for switch in self.seen.drain(..) {
            hops[switch as usize] = NO_PATH;
        }
        self.hops = hops;
    }

    /// Counts the hops from the root to wherever a member is not too far to be on the way.
    fn descend(
        &mut self,
        fabric: &Fabric,
        member_hops: Option<&MemberHops>,
        root: SwitchId,
        hops: &mut Vec<u8>,
    ) {
        let height = member_hops.map_or(MOST_HOPS, |member_hops| member_hops.height);
        let leads = |to: SwitchId, hops: u8| {
            member_hops.is_none_or(|member_hops| member_hops.near[to.index()] <= height - hops)
        };
        hops.resize(fabric.graph.switch_count(), NO_PATH);
        hops[root.index()] = 0;
        self.seen.push(root.0);
        let mut done = 0;
        while let Some(at) = self.seen.get(done).copied() {
            done += 1;
            let next = hops[at as usize] + 1;
            if next > height {
                break; // hops only rise along the queue
            }
            for to in fabric.links().neighbours(SwitchId(at)) {
                let there = &mut hops[to.index()];
                if *there == NO_PATH && leads(*to, next) {
                    *there = next;
                    self.seen.push(to.0);
                }
            }
        }
    }

    fn climb(
        &mut self,
        Context { fabric, occupancy }: Context<'_>,
        members: &LiveMembers,
        row: &[u8],
        root: SwitchId,
    ) {
        self.climbed.resize(fabric.graph.switch_count(), 0);
        if self.tree == u32::MAX {
            self.climbed.fill(0);
            self.tree = 0;
        }
        self.tree += 1;
        self.climbed[root.index()] = self.tree;
        self.ports.clear();
        for leaf in &members.leaves {
            let mut at = *leaf;
            while std::mem::replace(&mut self.climbed[at.index()], self.tree) != self.tree {
                let nearer = row[at.index()] - 1;
                let up = fabric.links().of(at).filter(|link| row[link.to.index()] == nearer);
                let lightest = up.min_by_key(|link| occupancy.loads.link(*link));
                let link = lightest.expect("HOP-1: a neighbour is one hop nearer");
                self.ports.extend([link.port, link.peer]);
                at = link.to;
            }
        }
        self.ports.extend(&members.member_ports);
        self.ports.sort_unstable();
    }

    /// Returns the first color that is free in all domains of the last tree.
    pub(super) fn color(
        &self,
        fabric: &Fabric,
        occupancy: &Occupancy,
        usable: &[u64],
    ) -> Option<u16> {
        for ((column, free), usable) in (0u16..).zip(occupancy.columns()).zip(usable) {
            let mut left = *usable;
            let mut domains = fabric.domains(&self.ports);
            while left != 0 {
                let Some(domain) = domains.next() else { break };
                left &= free[domain];
            }
            if let Some(color) = first_color(column, left) {
                return Some(color);
            }
        }
        None
    }
}
