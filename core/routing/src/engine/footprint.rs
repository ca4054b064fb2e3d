//! Where a group's members are: leaves, midplanes and blocks, each once.
//!
//! None of it depends on the spanning tree. Scratch memory that is used again for every group.

use fabricast_topology::SwitchId;

use crate::engine::fabric::{Fabric, NONE};
use crate::plan::CutOffReason;
use crate::spt::SpanningTree;

/// The live members of one group and what they touch.
#[derive(Clone, Debug, Default)]
pub(super) struct Footprint {
    /// Live seats, rising; unused while `whole`.
    live: Vec<u32>,
    whole: bool,
    pub(super) leaves: Vec<u32>,
    pub(super) cns: Vec<u32>,
    pub(super) blocks: Vec<u32>,
    pub(super) cut_off: Vec<(u32, CutOffReason)>,
    /// Members with a live link are on several leaves; some of these may be cut off.
    pub(super) spans: bool,
    seen: Stamps,
}

/// A set of small numbers that is emptied in constant time.
#[derive(Clone, Debug, Default)]
struct Stamps {
    marks: Vec<u32>,
    now: u32,
}

impl Stamps {
    fn clear(&mut self) {
        if self.now == u32::MAX {
            self.marks.fill(0);
            self.now = 0;
        }
        self.now += 1;
    }

    /// True if it was not in the set.
    fn insert(&mut self, at: u32) -> bool {
        let at = at as usize;
        if at >= self.marks.len() {
            self.marks.resize(at + 1, 0);
        }
        std::mem::replace(&mut self.marks[at], self.now) != self.now
    }
}

impl Footprint {
    /// Gives the live members among `members`, which must be those traced.
    pub(super) fn live<'a>(&'a self, members: &'a [u32]) -> &'a [u32] {
        if self.whole { members } else { &self.live }
    }

    pub(super) fn places(&self) -> [&[u32]; 3] {
        [&self.leaves, &self.cns, &self.blocks]
    }

    /// Gives the nearest common ancestor of the live members on a spanning tree, and its level.
    pub(super) fn top_switch(
        &self,
        fabric: &Fabric,
        tree: &SpanningTree,
    ) -> Option<(usize, SwitchId)> {
        let (level, at) = if self.blocks.len() > 1 {
            (3, 0)
        } else if self.cns.len() > 1 {
            (2, *self.blocks.first()?)
        } else if self.leaves.len() > 1 {
            (1, *self.cns.first()?)
        } else {
            (0, *self.leaves.first()?)
        };
        fabric.switch(tree, level, at).map(|switch| (level, switch))
    }

    /// Finds out where members (seats, rising) are.
    pub(super) fn trace(&mut self, fabric: &Fabric, members: &[u32]) {
        self.whole = fabric.seats_whole();
        self.cut_off.clear();
        if self.whole {
            self.find_leaves(fabric, members);
        } else {
            self.drop_dead_seats(fabric, members);
        }
        self.spans = self.leaves.len() > 1;
        if self.spans && !fabric.leaves_whole() {
            self.drop_lonely_leaves(fabric, members);
        }
        self.find_midplanes(fabric);
    }

    fn find_leaves(&mut self, fabric: &Fabric, members: &[u32]) {
        self.leaves.clear();
        let mut last = NONE;
        for seat in members {
            let leaf = fabric.leaf_of(*seat);
            if leaf != last {
                self.leaves.push(leaf);
                last = leaf;
            }
        }
    }

    fn drop_dead_seats(&mut self, fabric: &Fabric, members: &[u32]) {
        let mut live = std::mem::take(&mut self.live);
        live.clear();
        for seat in members {
            if fabric.seat_is_live(*seat) {
                live.push(*seat);
            } else if !fabric.is_on_leaf(*seat) {
                self.cut_off.push((*seat, CutOffReason::NotOnLeaf));
            } else {
                self.cut_off.push((*seat, CutOffReason::LinkDown));
            }
        }
        self.find_leaves(fabric, &live);
        self.live = live;
    }

    fn drop_lonely_leaves(&mut self, fabric: &Fabric, members: &[u32]) {
        if self.leaves.iter().all(|leaf| fabric.leaf_has_up(*leaf)) {
            return;
        }
        if self.whole {
            self.live.clear();
            self.live.extend_from_slice(members);
            self.whole = false;
        }
        let cut_off = &mut self.cut_off;
        self.live.retain(|seat| {
            let keep = fabric.leaf_has_up(fabric.leaf_of(*seat));
            if !keep {
                cut_off.push((*seat, CutOffReason::LeafCutOff));
            }
            keep
        });
        self.leaves.retain(|leaf| fabric.leaf_has_up(*leaf));
        self.cut_off.sort_unstable();
    }

    fn find_midplanes(&mut self, fabric: &Fabric) {
        self.cns.clear();
        self.blocks.clear();
        self.seen.clear();
        for leaf in &self.leaves {
            let cn = fabric.leaf_cn[*leaf as usize];
            if self.seen.insert(cn) {
                self.cns.push(cn);
            }
        }
        self.seen.clear();
        for cn in &self.cns {
            let block = fabric.cn_block[*cn as usize];
            if self.seen.insert(block) {
                self.blocks.push(block);
            }
        }
    }
}
