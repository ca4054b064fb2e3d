//! Weaves the two trees that every group has with fault tolerance.
//!
//! Source: C-MR4LMS, equation (4). Both trees of a pair have the same shape, so the same groups meet
//! on both, and a virtual group is one on both. Dead links stay in the trees: while one tree of
//! a group is whole nothing has to be programmed anew, neither when a link dies nor when it comes back.

use crate::engine::fabric::{Fabric, dense};
use crate::engine::weave::{Loom, Strand};
use crate::plan::{Part, Unprotected};
use crate::spt::SpanningTree;

impl Loom {
    /// Weaves groups, rising by MGID, for each of which one tree of a pair has all links, into the
    /// parts of both. A group whose members are all on one leaf has no second tree.
    pub(in crate::engine) fn weave_pair(
        &mut self,
        fabric: &Fabric,
        pair: &[SpanningTree],
        strands: &[Strand<'_>],
    ) -> Vec<Part> {
        let mut unprotected = Vec::new();
        let halves = (0u8..).zip(pair).map(|(half, tree)| {
            let mut served = Vec::with_capacity(strands.len());
            let is_whole = fabric.has_all_links(tree);
            for (at, Strand { mgid, members, .. }) in (0u32..).zip(strands) {
                let mut is_served = true;
                if !is_whole {
                    self.footprint.trace(fabric, members);
                    let places = self.footprint.places();
                    if let Some(link) = fabric.broken_link(tree, places) {
                        unprotected.push(Unprotected { mgid: *mgid, tree: half, link });
                        is_served = !fabric.lacks_link(tree, places);
                    }
                }
                if is_served {
                    served.push(at);
                }
            }
            self.weave_half(fabric, [pair, std::slice::from_ref(tree)], strands, &served)
        });
        let mut halves: Vec<Part> = halves.collect();
        unprotected.sort_unstable_by_key(|one| (one.mgid, one.tree));
        halves[0].unprotected = unprotected;
        halves
    }

    /// Weaves one tree of a pair for the groups that it can serve.
    fn weave_half(
        &mut self,
        fabric: &Fabric,
        [pair, half]: [&[SpanningTree]; 2],
        strands: &[Strand<'_>],
        served: &[u32],
    ) -> Part {
        let tree = &half[0];
        self.start(strands);
        let mut left_out = None;
        if served.len() < strands.len() {
            // Who meets whom does not depend on which tree serves them.
            let all: Vec<u32> = (0..dense(strands.len())).collect();
            self.mark(fabric, strands, &all, pair);
            self.marks.read_out(fabric, tree, self.sets.settle(), &mut self.reading);
            self.reading.clear();
            self.switches.clear();
            self.tops.fill(None);
            left_out = Some(std::mem::take(&mut self.cut_off));
        }
        self.mark(fabric, strands, served, pair);
        self.marks.read_out(fabric, tree, self.sets.settle(), &mut self.reading);
        self.switches.clear();
        if let Some(all) = left_out {
            self.cut_off = all;
        }
        let lowest = if std::ptr::eq(tree, &raw const pair[0]) { 0 } else { 1 };
        self.collect(tree, lowest)
    }
}
