//! The best root for many members: that whose farthest member is nearest, without looking at all switches.
//!
//! Source: MR4LMS §3.3.2 has a search from every switch. Here every switch has a lower bound for its farthest member
//! and only the most promising one is measured. If it keeps its promise, nothing can be better;
//! else its farthest member is searched from, which raises the bounds of all that are as far from it.

use fabricast_topology::SwitchId;

use crate::min_hop::NO_PATH;
use crate::mr4lms::fabric::Fabric;
use crate::mr4lms::ledger::Ledger;
use crate::mr4lms::survey::{preference, row};

/// Rows of the min-hop table that the first bounds are made of.
const FIRST_BOUNDS: usize = 64;

/// Finds roots; its buffers are used again.
#[derive(Clone, Debug, Default)]
pub(super) struct Center {
    least: Vec<u8>, // by switch: its farthest member is no nearer
    hops: Vec<u8>,  // by switch, of the last search
    queue: Vec<u32>,
}

impl Center {
    /// Finds the switch whose farthest member is nearest, whatever is taken; ties as for other roots.
    pub(super) fn in_fabric(
        &mut self,
        (fabric, ledger): (&Fabric, &Ledger),
        leaves: &[SwitchId],
    ) -> SwitchId {
        self.bound(fabric, leaves);
        loop {
            let best = self.most_promising(fabric, ledger, |_| true);
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

    /// Finds the switch whose farthest member is nearest over what is free of a color.
    pub(super) fn in_color(
        &mut self,
        (fabric, ledger): (&Fabric, &Ledger),
        leaves: &[SwitchId],
        color: u16,
    ) -> SwitchId {
        self.bound(fabric, leaves);
        let may_be = |switch: SwitchId| {
            fabric.root_domain(switch).is_none_or(|domain| ledger.is_free(domain, color))
        };
        loop {
            let best = self.most_promising(fabric, ledger, may_be);
            self.search((fabric, ledger), color, best);
            let (far, farthest) = farthest(leaves, |leaf| self.hops[leaf.index()]);
            if far == self.least[best.index()] {
                return best;
            }
            self.least[best.index()] = far;
            self.search((fabric, ledger), color, farthest);
            for (least, hops) in self.least.iter_mut().zip(&self.hops) {
                *least = (*least).max(*hops);
            }
        }
    }

    /// Tells whether switches, the first of which is free of a color, are connected by what is free of it.
    pub(super) fn connects(
        &mut self,
        ground: (&Fabric, &Ledger),
        leaves: &[SwitchId],
        color: u16,
    ) -> bool {
        self.search(ground, color, leaves[0]);
        leaves.iter().all(|leaf| self.hops[leaf.index()] != NO_PATH)
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
        fabric: &Fabric,
        ledger: &Ledger,
        may_be: impl Fn(SwitchId) -> bool,
    ) -> SwitchId {
        let rows = fabric.graph.switches().zip(&self.least).filter(|(switch, _)| may_be(*switch));
        let best = rows.min_by_key(|(switch, least)| (**least, preference(ledger, *switch)));
        best.expect("a switch of the members is one").0
    }

    /// Counts the hops from a switch over what is free of a color.
    fn search(&mut self, (fabric, ledger): (&Fabric, &Ledger), color: u16, from: SwitchId) {
        self.hops.clear();
        self.hops.resize(fabric.graph.switch_count(), NO_PATH);
        self.hops[from.index()] = 0;
        self.queue.clear();
        self.queue.push(from.0);
        let mut done = 0;
        while let Some(at) = self.queue.get(done).copied() {
            done += 1;
            let next = self.hops[at as usize] + 1;
            if next == NO_PATH {
                break; // hops only rise along the queue
            }
            for link in fabric.links().of(SwitchId(at)) {
                let there = &mut self.hops[link.to.index()];
                if *there == NO_PATH && ledger.is_free(fabric.domain(link), color) {
                    *there = next;
                    self.queue.push(link.to.0);
                }
            }
        }
    }
}

fn farthest(leaves: &[SwitchId], hops: impl Fn(&SwitchId) -> u8) -> (u8, SwitchId) {
    let far = leaves.iter().map(|leaf| (hops(leaf), *leaf)).max();
    far.expect("there are members")
}
