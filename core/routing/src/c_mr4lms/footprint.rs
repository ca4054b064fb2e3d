//! Places of a group's members: leaves, midplanes and blocks, each once.
//!
//! None of it depends on the spanning tree. Scratch memory that is used again for every group.

use std::cmp::Reverse;

use fabricast_topology::SwitchId;

use crate::c_mr4lms::fabric::{Fabric, NONE};
use crate::c_mr4lms::numbers::EndpointSlot;
use crate::plan::CutOffReason;
use crate::spt::SpanningTree;

/// The live members of one group and what they touch.
#[derive(Clone, Debug, Default)]
pub(super) struct Footprint {
    /// Live slots, rising; unused while `whole`.
    live: Vec<EndpointSlot>,
    whole: bool,
    pub(super) leaves: Vec<u32>,
    pub(super) cns: Vec<u32>,
    pub(super) blocks: Vec<u32>,
    pub(super) cut_off: Vec<(EndpointSlot, CutOffReason)>,
    /// The leaf without a live link upwards that all live members are on; [`NONE`] if they are on
    /// others.
    pub(super) component: u32,
    seen: Stamps,
}

/// A set of small numbers that is emptied in constant time.
#[derive(Clone, Debug, Default)]
struct Stamps {
    link_users: Vec<u32>,
    now: u32,
}

impl Stamps {
    fn clear(&mut self) {
        if self.now == u32::MAX {
            self.link_users.fill(0);
            self.now = 0;
        }
        self.now += 1;
    }

    /// True if it was not in the set.
    fn insert(&mut self, at: u32) -> bool {
        let at = at as usize;
        if at >= self.link_users.len() {
            self.link_users.resize(at + 1, 0);
        }
        std::mem::replace(&mut self.link_users[at], self.now) != self.now
    }
}

impl Footprint {
    /// Gives the live members among `members`, which must be those traced.
    pub(super) fn live<'a>(&'a self, members: &'a [EndpointSlot]) -> &'a [EndpointSlot] {
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

    /// Finds out where members (slots, rising) are.
    pub(super) fn trace(&mut self, fabric: &Fabric, members: &[EndpointSlot]) {
        self.whole = fabric.endpoints_whole();
        self.cut_off.clear();
        if self.whole {
            self.find_leaves(fabric, members);
        } else {
            self.drop_dead_members(fabric, members);
        }
        self.component = NONE;
        if !fabric.leaves_whole() {
            self.keep_largest_component(fabric, members);
        }
        self.find_midplanes(fabric);
    }

    fn find_leaves(&mut self, fabric: &Fabric, members: &[EndpointSlot]) {
        self.leaves.clear();
        let mut last = NONE;
        for slot in members {
            let leaf = fabric.leaf_of(*slot);
            if leaf != last {
                self.leaves.push(leaf);
                last = leaf;
            }
        }
    }

    fn drop_dead_members(&mut self, fabric: &Fabric, members: &[EndpointSlot]) {
        let mut live = std::mem::take(&mut self.live);
        live.clear();
        for slot in members {
            if fabric.slot_is_live(*slot) {
                live.push(*slot);
            } else if !fabric.is_on_leaf(*slot) {
                self.cut_off.push((*slot, CutOffReason::NotOnLeaf));
            } else {
                self.cut_off.push((*slot, CutOffReason::LinkDown));
            }
        }
        self.find_leaves(fabric, &live);
        self.live = live;
    }

    /// Keeps most members that can reach one another: those on one leaf without a live link
    /// upwards, or those on all other leaves. Of components of one size the first is kept; of
    /// single members, who have nobody to send to, one whose leaf is not cut off.
    fn keep_largest_component(&mut self, fabric: &Fabric, members: &[EndpointSlot]) {
        if self.leaves.iter().all(|leaf| fabric.leaf_has_up(*leaf)) {
            return;
        }
        if let [leaf] = self.leaves[..] {
            self.component = leaf;
            return;
        }
        if self.whole {
            self.live.clear();
            self.live.extend_from_slice(members);
            self.whole = false;
        }
        let component_of = |leaf| if fabric.leaf_has_up(leaf) { NONE } else { leaf };
        let mut joined: Option<(usize, Reverse<u32>)> = None; // members, first leaf
        let mut largest = (0, Reverse(NONE), NONE); // the same, component
        for on_leaf in self.live.chunk_by(|a, b| fabric.leaf_of(*a) == fabric.leaf_of(*b)) {
            let leaf = fabric.leaf_of(on_leaf[0]);
            let (count, first) = match joined {
                Some((count, first)) if component_of(leaf) == NONE => {
                    (count + on_leaf.len(), first)
                }
                Some(_) | None => (on_leaf.len(), Reverse(leaf)),
            };
            if component_of(leaf) == NONE {
                joined = Some((count, first));
            }
            largest = largest.max((count, first, component_of(leaf)));
        }
        self.component = if largest.0 < 2 && joined.is_some() { NONE } else { largest.2 };
        let (component, cut_off) = (self.component, &mut self.cut_off);
        self.live.retain(|slot| {
            let keep = component_of(fabric.leaf_of(*slot)) == component;
            if !keep {
                cut_off.push((*slot, CutOffReason::LeafCutOff));
            }
            keep
        });
        self.leaves.retain(|leaf| component_of(*leaf) == component);
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
