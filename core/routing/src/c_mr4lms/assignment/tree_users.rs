//! Groups on each spanning tree, and which of them share a link, as far as pass 2 has come.
//!
//! Groups that meet on a spanning tree are one virtual group: all links of all of them carry the
//! packets of each. A group that stays within a leaf is left out with per-port tables: it needs no
//! link that others could share.

use fabricast_topology::TableKind;

use crate::c_mr4lms::fabric::{Fabric, dense};
use crate::c_mr4lms::numbers::TreeNumber;

/// The users of all spanning trees that have been asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct TreeUsers {
    trees: Vec<OneTree>,
}

/// The links of one spanning tree that are in use, and the sets of groups that meet there.
#[derive(Clone, Debug, Default)]
pub(super) struct OneTree {
    is_current: bool,
    /// Displaced groups that have been added, of those on this spanning tree the first.
    pub(super) displaced: usize,
    users: Vec<u32>, // by place: 1 + a group that uses it
    sets: Vec<Set>,  // by group
    asked: u32,
}

#[derive(Clone, Copy, Debug)]
struct Set {
    parent: u32,
    groups: u32,
    asked: u32, // the last question that counted it
}

impl TreeUsers {
    /// Forgets all groups.
    pub(super) fn clear(&mut self, trees: u32) {
        self.trees.resize_with(trees as usize, OneTree::default);
        self.trees.iter_mut().for_each(|tree| tree.is_current = false);
    }

    pub(super) fn tree(&mut self, spt: TreeNumber) -> &mut OneTree {
        &mut self.trees[spt.index()]
    }
}

impl OneTree {
    /// Starts without groups; false if that has been done already.
    pub(super) fn start(&mut self, places: usize) -> bool {
        if self.is_current {
            return false;
        }
        self.is_current = true;
        self.displaced = 0;
        self.users.clear();
        self.users.resize(places, 0);
        self.sets.clear();
        self.asked = 0;
        true
    }

    /// Tells whether so many displaced groups, and all at home, have been added.
    pub(super) const fn is_current_to(&self, displaced: usize) -> bool {
        self.is_current && self.displaced == displaced
    }

    /// Adds a group that uses these places.
    pub(super) fn add(&mut self, places: &[u32]) {
        let mut own = dense(self.sets.len());
        self.sets.push(Set { parent: own, groups: 1, asked: 0 });
        for place in places {
            let user = std::mem::replace(&mut self.users[*place as usize], own + 1);
            if user != 0 {
                own = self.unite(user - 1, own);
            }
        }
    }

    fn unite(&mut self, a: u32, b: u32) -> u32 {
        let (a, b) = (self.find(a), self.find(b));
        if a == b {
            return a;
        }
        let (small, large) = if self.sets[a as usize].groups < self.sets[b as usize].groups {
            (a, b)
        } else {
            (b, a)
        };
        self.sets[large as usize].groups += self.sets[small as usize].groups;
        self.sets[small as usize].parent = large;
        large
    }

    fn find(&mut self, mut at: u32) -> u32 {
        loop {
            let parent = self.sets[at as usize].parent;
            if parent == at {
                return at;
            }
            let above = self.sets[parent as usize].parent;
            self.sets[at as usize].parent = above;
            at = above;
        }
    }

    /// Gives the cost of a group that uses these places: the groups that each of them gets on top
    /// of those it has, and for each place all groups that the group would be merged with.
    ///
    /// The first part is what the EFI of its links grows by, the second what the TFI does. Two
    /// groups on the same links cost half as much as two that meet on one link only.
    pub(super) fn cost(&mut self, places: &[u32]) -> u64 {
        self.asked += 1;
        let (mut merged, mut present) = (0, 0);
        for place in places {
            let user = self.users[*place as usize];
            if user != 0 {
                let set = self.find(user - 1);
                let Set { groups, asked, .. } = &mut self.sets[set as usize];
                present += u64::from(*groups);
                if std::mem::replace(asked, self.asked) != self.asked {
                    merged += u64::from(*groups);
                }
            }
        }
        2 * merged * places.len() as u64 - present
    }
}

/// Lists the places of a spanning tree that a group uses, numbered level by level: links upwards
/// from leaves, CNs and blocks; with per-switch tables the switches themselves.
pub(super) fn list_places(
    fabric: &Fabric,
    tables: TableKind,
    [leaves, cns, blocks]: [&[u32]; 3],
    places: &mut Vec<u32>,
) {
    let joined = [leaves.len() > 1, cns.len() > 1, blocks.len() > 1];
    let used = match tables {
        TableKind::PerPort => [joined[0], joined[1], joined[2], false],
        TableKind::PerSwitch => [true, joined[0], joined[1], joined[2]],
    };
    let levels = [leaves, cns, blocks, &[0]];
    places.clear();
    for ((at, first), _) in
        levels.iter().zip(first_places(fabric)).zip(used).filter(|(_, used)| *used)
    {
        places.extend(at.iter().map(|at| first + at));
    }
}

/// Counts the places of a spanning tree.
pub(super) fn place_count(fabric: &Fabric) -> usize {
    first_places(fabric)[3] as usize + 1
}

/// Gives the first place of leaves, CNs and blocks, and that of the root.
fn first_places(fabric: &Fabric) -> [u32; 4] {
    let (leaves, cns) = (dense(fabric.leaf_cn.len()), dense(fabric.cn_block.len()));
    [0, leaves, leaves + cns, leaves + cns + dense(fabric.blocks())]
}
