//! The region around a switch: all that can be reached from it over what is free of a color.
//!
//! While a virtual group's tree is built, its color is busy in most of the fabric. Searches that
//! are made again and again go over the links of the region only, which are copied side by side.

use fabricast_topology::SwitchId;

use crate::mr4lms::occupancy::Context;

/// Hops of a switch that the search has not reached.
const FAR: u16 = u16::MAX;

/// The region; its buffers are used again. Its switches have numbers in the order in which they
/// were found.
#[derive(Clone, Debug, Default)]
pub(super) struct FreeRegion {
    switches: Vec<SwitchId>,
    numbers: Vec<u32>, // by switch; right if `switches` says so, too
    first: Vec<u32>,   // by number, one more
    to: Vec<u32>,
    hops: Vec<u16>, // by number, of the last search
    queue: Vec<u32>,
}

impl FreeRegion {
    /// Finds out what can be reached from a switch whose own domain is free. Cost: the links of
    /// what is reached.
    pub(super) fn explore(
        &mut self,
        Context { fabric, occupancy }: Context<'_>,
        color: u16,
        from: SwitchId,
    ) {
        let is_free = occupancy.free_of(color);
        self.numbers.resize(fabric.graph.switch_count(), 0);
        self.switches.clear();
        self.first.clear();
        self.first.push(0);
        self.to.clear();
        self.numbers[from.index()] = 0;
        self.switches.push(from);
        let mut done = 0;
        while let Some(at) = self.switches.get(done).copied() {
            done += 1;
            for link in fabric.links().of(at).filter(|link| is_free(fabric.domain(*link))) {
                let number = self.number(link.to).unwrap_or_else(|| {
                    let number = dense(self.switches.len());
                    self.numbers[link.to.index()] = number;
                    self.switches.push(link.to);
                    number
                });
                self.to.push(number);
            }
            self.first.push(dense(self.to.len()));
        }
    }

    /// Lists its switches by number.
    pub(super) fn switches(&self) -> &[SwitchId] {
        &self.switches
    }

    /// Returns the number of a switch; none if it is not in the region.
    pub(super) fn number(&self, switch: SwitchId) -> Option<u32> {
        let number = self.numbers[switch.index()];
        (self.switches.get(number as usize) == Some(&switch)).then_some(number)
    }

    /// Counts the hops from one of its switches to all, by number. Cost: the links of the region.
    pub(super) fn search(&mut self, from: u32) -> &[u16] {
        self.hops.clear();
        self.hops.resize(self.switches.len(), FAR);
        self.hops[from as usize] = 0;
        self.queue.clear();
        self.queue.push(from);
        let mut done = 0;
        while let Some(at) = self.queue.get(done).map(|at| *at as usize) {
            done += 1;
            let next = self.hops[at].saturating_add(1);
            for to in &self.to[self.first[at] as usize..self.first[at + 1] as usize] {
                let there = &mut self.hops[*to as usize];
                if *there == FAR {
                    *there = next;
                    self.queue.push(*to);
                }
            }
        }
        &self.hops
    }
}

fn dense(count: usize) -> u32 {
    u32::try_from(count).expect("fewer links than ports")
}
