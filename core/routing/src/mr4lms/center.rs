//! The best root for many members: that whose farthest member is nearest, without looking at all
//! switches.
//!
//! Source: MR4LMS §3.3.2 has a search from every switch. Here every switch has a lower bound for
//! its farthest member and only the most promising one is measured. If its distance equals its
//! bound, no switch is better. Otherwise a search from its farthest member raises the bounds of all
//! switches that are as far from that member.

use fabricast_topology::SwitchId;
use fixedbitset::FixedBitSet;

use crate::mr4lms::fabric::Fabric;
use crate::mr4lms::free_region::FreeRegion;
use crate::mr4lms::member_hops::{Preference, preference, row};
use crate::mr4lms::occupancy::Context;

/// Rows of the min-hop table that the first bounds are made of.
const FIRST_BOUNDS: usize = 1024;

/// Finds roots; its buffers are used again.
#[derive(Clone, Debug, Default)]
pub(super) struct Center {
    least: Vec<u8>, // by switch: its farthest member is no nearer
    region: FreeRegion,
    seen: FixedBitSet,
    queue: Vec<u32>,
}

impl Center {
    /// Finds the switch whose farthest member is nearest, whatever is taken; ties as for other
    /// roots.
    pub(super) fn in_fabric(
        &mut self,
        Context { fabric, occupancy }: Context<'_>,
        leaves: &[SwitchId],
    ) -> SwitchId {
        self.bound(fabric, leaves);
        loop {
            let best = self.most_promising(Context { fabric, occupancy }, |_| true);
            let hops = |leaf: &SwitchId| row(fabric, *leaf)[best.index()];
            let (far, farthest) = farthest(leaves, hops);
            if far == self.least[best.index()] {
                return best;
            }
            for (least, hops) in self.least.iter_mut().zip(row(fabric, farthest)) {
                *least = (*least).max(*hops);
            }
        }
    }

    /// Finds the switch whose farthest member is nearest over what is free of a color, which must
    /// connect them.
    pub(super) fn in_color(
        &mut self,
        Context { fabric, occupancy }: Context<'_>,
        leaves: &[SwitchId],
        color: u16,
    ) -> SwitchId {
        self.bound(fabric, leaves);
        let is_free = occupancy.free_of(color);
        let best = self.most_promising(Context { fabric, occupancy }, |switch| {
            fabric.root_domain(switch).is_none_or(&is_free)
        });
        if self.keeps_promise(Context { fabric, occupancy }, leaves, color, best) {
            return best;
        }
        let Self { region, least, .. } = self;
        region.explore(Context { fabric, occupancy }, color, leaves[0]);
        let number = |leaf: &SwitchId| region.number(*leaf).expect("members are connected");
        let leaves: Vec<u32> = leaves.iter().map(number).collect();
        let bound = |switch: &SwitchId| {
            let order = preference(occupancy, *switch);
            (u16::from(least[switch.index()]), order)
        };
        let mut bounds: Vec<(u16, Preference)> = region.switches().iter().map(bound).collect();
        loop {
            let best = (0u32..).zip(&bounds).min_by_key(|(_, bound)| *bound);
            let (best, (promised, _)) = best.expect("members are in it");
            let hops = region.search(best);
            let farthest = leaves.iter().map(|leaf| (hops[*leaf as usize], *leaf)).max();
            let (far, farthest) = farthest.expect("there are members");
            if far == *promised {
                return region.switches()[best as usize];
            }
            for ((least, _), hops) in bounds.iter_mut().zip(region.search(farthest)) {
                *least = (*least).max(*hops);
            }
        }
    }

    /// Tells whether a switch's farthest member is as near as its bound, over links that are free
    /// of a color.
    fn keeps_promise(
        &mut self,
        Context { fabric, occupancy }: Context<'_>,
        leaves: &[SwitchId],
        color: u16,
        root: SwitchId,
    ) -> bool {
        let is_free = occupancy.free_of(color);
        self.seen.clear();
        self.seen.grow(fabric.graph.switch_count());
        self.seen.insert(root.index());
        self.queue.clear();
        self.queue.push(root.0);
        let mut from = 0;
        for _ in 0..self.least[root.index()] {
            let end = self.queue.len();
            for at in from..end {
                for link in fabric.links().of(SwitchId(self.queue[at])) {
                    if !self.seen.contains(link.to.index()) && is_free(fabric.domain(link)) {
                        self.seen.insert(link.to.index());
                        self.queue.push(link.to.0);
                    }
                }
            }
            from = end;
        }
        leaves.iter().all(|leaf| self.seen.contains(leaf.index()))
    }

    /// Tells whether all switches of some members, whose domains are free of a color, are connected
    /// by what is free of it with one of some others that hang together.
    pub(super) fn connects(
        &mut self,
        Context { fabric, occupancy }: Context<'_>,
        leaves: &[SwitchId],
        color: u16,
        known: &mut FixedBitSet,
    ) -> bool {
        let is_free = occupancy.free_of(color);
        leaves.iter().all(|leaf| {
            if known.contains(leaf.index()) {
                return true;
            }
            self.queue.clear();
            self.queue.push(leaf.0);
            self.seen.clear();
            self.seen.grow(fabric.graph.switch_count());
            self.seen.insert(leaf.index());
            let mut done = 0;
            while let Some(at) = self.queue.get(done).copied() {
                done += 1;
                for link in fabric.links().of(SwitchId(at)) {
                    if !is_free(fabric.domain(link)) || self.seen.put(link.to.index()) {
                        continue;
                    }
                    if known.contains(link.to.index()) {
                        known.extend(self.queue.iter().map(|at| *at as usize));
                        return true;
                    }
                    self.queue.push(link.to.0);
                }
            }
            false
        })
    }

    fn bound(&mut self, fabric: &Fabric, leaves: &[SwitchId]) {
        self.least.clear();
        self.least.resize(fabric.graph.switch_count(), 0);
        for leaf in leaves.iter().step_by(leaves.len().div_ceil(FIRST_BOUNDS).max(1)) {
            for (least, hops) in self.least.iter_mut().zip(row(fabric, *leaf)) {
                *least = (*least).max(*hops);
            }
        }
    }

    fn most_promising(
        &self,
        Context { fabric, occupancy }: Context<'_>,
        may_be: impl Fn(SwitchId) -> bool,
    ) -> SwitchId {
        let rows =
            || fabric.graph.switches().zip(&self.least).filter(|(switch, _)| may_be(*switch));
        let least = rows().map(|(_, least)| *least).min();
        let best = rows().filter(|(_, bound)| Some(**bound) == least).map(|(switch, _)| switch);
        let best = best.min_by_key(|switch| preference(occupancy, *switch));
        best.expect("a switch of the members is one")
    }
}

fn farthest(leaves: &[SwitchId], hops: impl Fn(&SwitchId) -> u8) -> (u8, SwitchId) {
    let far = leaves.iter().map(|leaf| (hops(leaf), *leaf)).max();
    far.expect("there are members")
}
