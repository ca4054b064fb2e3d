//! Changes a part in place: groups come and go, virtual groups unite and come apart.
//!
//! Cost: the groups of the part, by moving a few bytes for each; ports only where they change.

use fabricast_topology::{Mgid, PortId, SwitchId};

use super::{Part, PlannedGroup, PlannedVirtualGroup, Ports};
use crate::plan::VirtualGroupId;

/// A virtual group outside of its part.
#[derive(Clone, Debug)]
pub(crate) struct DetachedTree {
    pub(crate) root: Option<SwitchId>,
    /// Its groups, rising.
    pub(crate) groups: Vec<Mgid>,
    pub(crate) ports: Ports,
}

impl DetachedTree {
    /// Takes over the groups and ports of another one; the root stays.
    pub(crate) fn take_over(&mut self, other: Self) {
        let small = if other.ports.len() > self.ports.len() {
            std::mem::replace(&mut self.ports, other.ports)
        } else {
            other.ports
        };
        self.ports.change(&[], small.as_slice());
        self.groups.extend(other.groups);
        self.groups.sort();
    }

    /// Gives up the groups and ports of another one, which must all be here.
    pub(crate) fn give_up(&mut self, other: &Self) {
        self.ports.change(other.ports.as_slice(), &[]);
        self.groups.retain(|mgid| other.groups.binary_search(mgid).is_err());
    }
}

impl Part {
    /// Makes a part without groups.
    pub(crate) const fn empty(number: u32, color: u16) -> Self {
        Self {
            number,
            color,
            groups: Vec::new(),
            virtual_groups: Vec::new(),
            merged: Vec::new(),
            cut_off: Vec::new(),
            unprotected: Vec::new(),
        }
    }

    /// Adds a group without live members.
    pub(crate) fn add_group(&mut self, mgid: Mgid) {
        let at = self.groups.partition_point(|group| group.mgid < mgid);
        let virtual_group = VirtualGroupId(mgid.0);
        self.groups.insert(at, PlannedGroup { mgid, virtual_group, live: 0 });
        self.put(DetachedTree { root: None, groups: vec![mgid], ports: Ports::new(Vec::new()) });
    }

    /// Takes out a group that is not merged with others.
    pub(crate) fn remove_group(&mut self, mgid: Mgid) {
        self.take(VirtualGroupId(mgid.0));
        self.groups.retain(|group| group.mgid != mgid);
    }

    /// Gives a group of this part to be changed.
    ///
    /// # Panics
    ///
    /// If it is not here.
    pub(crate) fn group_mut(&mut self, mgid: Mgid) -> &mut PlannedGroup {
        let at = self.groups.binary_search_by_key(&mgid, |group| group.mgid);
        &mut self.groups[at.expect("the group is in the part")]
    }

    /// Gives a virtual group of this part to be changed.
    pub(crate) fn tree_mut(&mut self, id: VirtualGroupId) -> &mut PlannedVirtualGroup {
        let at = self.find_tree(id);
        &mut self.virtual_groups[at]
    }

    /// Lists the groups of a virtual group, rising.
    pub(crate) fn groups_of(&self, id: VirtualGroupId) -> &[Mgid] {
        let at = self.find_tree(id);
        &self.merged[self.merged_before(at)..self.virtual_groups[at].merged_end as usize]
    }

    fn find_tree(&self, id: VirtualGroupId) -> usize {
        let at = self.virtual_groups.binary_search_by_key(&id, |tree| tree.id);
        at.expect("the virtual group is in the part")
    }

    fn merged_before(&self, at: usize) -> usize {
        let before = at.checked_sub(1).map(|at| self.virtual_groups[at].merged_end);
        before.map_or(0, |end| end as usize)
    }

    /// Takes a virtual group out; its groups stay listed until it is put back or they are removed.
    pub(crate) fn take(&mut self, id: VirtualGroupId) -> DetachedTree {
        let at = self.find_tree(id);
        let first = self.merged_before(at);
        let tree = self.virtual_groups.remove(at);
        let groups: Vec<Mgid> = self.merged.drain(first..tree.merged_end as usize).collect();
        let count = tree.merged_end - to_u32(first);
        self.virtual_groups[at..].iter_mut().for_each(|later| later.merged_end -= count);
        DetachedTree { root: tree.root, groups, ports: tree.ports }
    }

    /// Puts a virtual group in, whose groups are listed and in no other.
    pub(crate) fn put(&mut self, tree: DetachedTree) {
        let DetachedTree { root, groups, ports } = tree;
        let id = VirtualGroupId(groups[0].0);
        let at = self.virtual_groups.partition_point(|other| other.id < id);
        let first = self.merged_before(at);
        let count = to_u32(groups.len());
        self.virtual_groups[at..].iter_mut().for_each(|later| later.merged_end += count);
        let merged_end = to_u32(first) + count;
        self.virtual_groups.insert(at, PlannedVirtualGroup { id, root, merged_end, ports });
        let mut place = self.groups.partition_point(|group| group.mgid < groups[0]);
        for mgid in &groups {
            while self.groups[place].mgid != *mgid {
                place += 1;
            }
            self.groups[place].virtual_group = id;
        }
        self.merged.splice(first..first, groups);
    }

    /// Changes the ports of a virtual group; both lists in any order.
    pub(crate) fn change_ports(
        &mut self,
        id: VirtualGroupId,
        gone: &mut [PortId],
        new: &mut [PortId],
    ) {
        gone.sort_unstable();
        new.sort_unstable();
        self.tree_mut(id).ports.change(gone, new);
    }
}

fn to_u32(count: usize) -> u32 {
    u32::try_from(count).expect("fewer than 2^32 groups")
}
