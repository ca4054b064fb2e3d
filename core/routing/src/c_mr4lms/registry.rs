//! The groups as the engine keeps them: by home spanning tree, and by member.

use std::collections::BTreeMap;

use fabricast_topology::{EndpointId, Mgid};

use crate::c_mr4lms::fabric::{Fabric, NONE};
use crate::c_mr4lms::numbers::{EndpointSlot, GroupIndex, TreeNumber};
use crate::c_mr4lms::tree_builder::GroupOnTree;
use crate::plan::Displacement;
use crate::spt::{MgidSpace, SpanningTree};

/// A group with its members and its state.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) mgid: Mgid,
    /// Endpoint slots, rising, each once.
    pub(super) members: Vec<EndpointSlot>,
    /// Two or more members are live, so the group holds its color at each of them.
    pub(super) has_tree: bool,
    /// The leaf without a live link upwards that all live members are on; [`NONE`] if they are on
    /// others.
    pub(super) component: u32,
    /// Reason why it cannot be on its home spanning tree.
    pub(super) displaced: Option<Displacement>,
    /// The spanning tree it is on; [`NONE`] if unrouted.
    pub(super) placed: TreeNumber,
}

impl Group {
    /// Gives what decides whether the group holds a color at its members.
    pub(super) const fn state(&self) -> (bool, u32, bool) {
        (self.has_tree, self.component, self.displaced.is_some())
    }

    /// Gives the view of the group that the tree builder takes.
    pub(super) fn on_tree<'a>(&'a self, tree: &'a SpanningTree) -> GroupOnTree<'a> {
        GroupOnTree { mgid: self.mgid, members: &self.members, tree }
    }
}

/// Difference between the old and the new members of a group; all lists rise.
#[derive(Debug, Default)]
pub(super) struct Replaced {
    pub(super) before: Vec<EndpointSlot>,
    pub(super) gained: Vec<EndpointSlot>,
    pub(super) lost: Vec<EndpointSlot>,
}

/// All groups. A group's *index* is its number here; indices are reused.
#[derive(Clone, Debug)]
pub(super) struct Registry {
    space: MgidSpace,
    indices: Vec<Group>,
    free: Vec<GroupIndex>,
    homes: Vec<Vec<(Mgid, GroupIndex)>>, // by spanning tree: MGID and index, rising
    /// Groups whose home is not the spanning tree of their MGID, because they stayed where a dead
    /// link had sent them.
    adopted: BTreeMap<Mgid, TreeNumber>,
}

impl Registry {
    pub(super) fn new(space: MgidSpace) -> Self {
        let homes = vec![Vec::new(); space.total() as usize];
        Self { space, indices: Vec::new(), free: Vec::new(), homes, adopted: BTreeMap::new() }
    }

    /// Makes a registry without groups that gives them the same homes.
    pub(super) fn emptied(&self) -> Self {
        Self { adopted: self.adopted.clone(), ..Self::new(self.space) }
    }

    /// Gives the spanning tree that a group is on if nothing keeps it from there.
    pub(super) fn home(&self, mgid: Mgid) -> TreeNumber {
        let adopted = if self.adopted.is_empty() { None } else { self.adopted.get(&mgid) };
        adopted.copied().unwrap_or_else(|| TreeNumber(self.space.spt(mgid)))
    }

    /// Lists the groups whose home is not the spanning tree of their MGID, with it.
    pub(super) const fn adopted(&self) -> &BTreeMap<Mgid, TreeNumber> {
        &self.adopted
    }

    /// Gives a group another home.
    pub(super) fn adopt(&mut self, index: GroupIndex, spt: TreeNumber) {
        let mgid = self.get(index).mgid;
        let before = self.home(mgid);
        self.homes[before.index()].retain(|(_, other)| *other != index);
        if spt.0 == self.space.spt(mgid) {
            self.adopted.remove(&mgid);
        } else {
            self.adopted.insert(mgid, spt);
        }
        self.list_at_home(index);
    }

    fn list_at_home(&mut self, index: GroupIndex) {
        let mgid = self.get(index).mgid;
        let home = self.home(mgid).index();
        let at = self.homes[home].partition_point(|(other, _)| *other < mgid);
        self.homes[home].insert(at, (mgid, index));
    }

    pub(super) fn find(&self, mgid: Mgid) -> Option<GroupIndex> {
        let home = &self.homes[self.home(mgid).index()];
        home.binary_search_by_key(&mgid, |(mgid, _)| *mgid).ok().map(|at| home[at].1)
    }

    pub(super) fn get(&self, index: GroupIndex) -> &Group {
        &self.indices[index.index()]
    }

    pub(super) fn get_mut(&mut self, index: GroupIndex) -> &mut Group {
        &mut self.indices[index.index()]
    }

    /// Lists the groups whose home is a spanning tree, by MGID.
    pub(super) fn at_home(&self, spt: TreeNumber) -> &[(Mgid, GroupIndex)] {
        &self.homes[spt.index()]
    }

    /// Gives every group whose home is a spanning tree to be changed, by MGID.
    pub(super) fn each_at_home(&mut self, spt: TreeNumber, mut each: impl FnMut(&mut Group)) {
        for (_, index) in &self.homes[spt.index()] {
            each(&mut self.indices[index.index()]);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.indices.len() - self.free.len()
    }

    /// Adds a group that does not exist yet, on its home spanning tree.
    pub(super) fn insert(&mut self, mgid: Mgid, members: Vec<EndpointSlot>) -> GroupIndex {
        let spt = self.home(mgid);
        let group =
            Group { mgid, members, has_tree: false, component: NONE, displaced: None, placed: spt };
        let index = if let Some(index) = self.free.pop() {
            self.indices[index.index()] = group;
            index
        } else {
            self.indices.push(group);
            GroupIndex(super::fabric::dense(self.indices.len() - 1))
        };
        self.list_at_home(index);
        index
    }

    /// Takes a group out; its index may be used again.
    pub(super) fn remove(&mut self, index: GroupIndex) -> Group {
        let home = self.home(self.get(index).mgid);
        let group = &mut self.indices[index.index()];
        let gone = Group { members: std::mem::take(&mut group.members), ..group.clone() };
        group.displaced = None;
        self.homes[home.index()].retain(|(_, other)| *other != index);
        self.adopted.remove(&gone.mgid);
        self.free.push(index);
        gone
    }

    /// Gives a group its new members and returns the difference; it is empty, and nothing is noted,
    /// without lists of memberships.
    pub(super) fn replace_members(
        &mut self,
        index: GroupIndex,
        members: Vec<EndpointSlot>,
        lists: Option<&mut Memberships>,
    ) -> Replaced {
        let group = self.get_mut(index);
        let before = std::mem::replace(&mut group.members, members);
        let Some(lists) = lists else { return Replaced::default() };
        let gained = without(&group.members, &before);
        let lost = without(&before, &group.members);
        lost.iter().for_each(|slot| lists.remove(slot.index(), index));
        gained.iter().for_each(|slot| lists.insert(slot.index(), index));
        Replaced { before, gained, lost }
    }

    /// Gives the members of a group in the order of the ports they are plugged into.
    pub(super) fn members(&self, fabric: &Fabric, mgid: Mgid) -> Option<Vec<EndpointId>> {
        let group = self.get(self.find(mgid)?);
        Some(group.members.iter().map(|slot| fabric.endpoint_at(*slot)).collect())
    }

    /// Walks all groups, spanning tree by spanning tree.
    pub(super) fn iter(&self) -> impl Iterator<Item = (GroupIndex, &Group)> {
        self.homes.iter().flatten().map(|(_, index)| (*index, self.get(*index)))
    }
}

/// Gives what is in one rising list and not in another.
fn without(list: &[EndpointSlot], other: &[EndpointSlot]) -> Vec<EndpointSlot> {
    let mut other = other.iter().peekable();
    let is_missing = |at: &&EndpointSlot| {
        while other.next_if(|one| one < at).is_some() {}
        other.peek() != Some(at)
    };
    list.iter().filter(is_missing).copied().collect()
}

/// Numbered lists of group indices, one for each endpoint slot or leaf: linked lists in one
/// vector, so that building all of them takes one pass.
#[derive(Clone, Debug)]
pub(super) struct Memberships {
    heads: Vec<u32>,               // by list
    cells: Vec<(GroupIndex, u32)>, // group, next
    free: u32,
}

impl Memberships {
    pub(super) fn new(lists: usize) -> Self {
        Self { heads: vec![NONE; lists], cells: Vec::new(), free: NONE }
    }

    pub(super) fn of(registry: &Registry, slots: usize) -> Self {
        let mut lists = Self::new(slots);
        for (index, group) in registry.iter() {
            for slot in &group.members {
                lists.insert(slot.index(), index);
            }
        }
        lists
    }

    pub(super) fn insert(&mut self, list: usize, index: GroupIndex) {
        let head = &mut self.heads[list];
        let cell = (index, *head);
        if self.free == NONE {
            *head = super::fabric::dense(self.cells.len());
            self.cells.push(cell);
        } else {
            *head = self.free;
            let used = &mut self.cells[self.free as usize];
            self.free = used.1;
            *used = cell;
        }
    }

    pub(super) fn remove(&mut self, list: usize, index: GroupIndex) {
        let (mut before, mut at) = (NONE, self.heads[list]);
        while at != NONE {
            let (owner, next) = self.cells[at as usize];
            if owner == index {
                if before == NONE {
                    self.heads[list] = next;
                } else {
                    self.cells[before as usize].1 = next;
                }
                self.cells[at as usize].1 = self.free;
                self.free = at;
                return;
            }
            (before, at) = (at, next);
        }
    }

    pub(super) fn groups_of(&self, list: usize) -> impl Iterator<Item = GroupIndex> + '_ {
        let mut at = self.heads[list];
        std::iter::from_fn(move || {
            let (index, next) = *self.cells.get(at as usize)?;
            at = next;
            Some(index)
        })
    }
}
