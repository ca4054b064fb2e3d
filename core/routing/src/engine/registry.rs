//! The groups as the engine keeps them: by home spanning tree, and by member.

use std::collections::BTreeMap;

use fabricast_topology::EndpointId;

use crate::engine::fabric::{Fabric, NONE};
use crate::engine::weave::Strand;
use crate::mgid::Mgid;
use crate::plan::Displacement;
use crate::spt::{MgidSpace, SpanningTree};

/// One group.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) mgid: Mgid,
    /// Seats, rising, each once.
    pub(super) members: Vec<u32>,
    /// Two or more members are live, so the group holds its color at each of them.
    pub(super) has_tree: bool,
    /// Members with a live link are on several leaves.
    pub(super) spans: bool,
    /// Why it cannot be on its home spanning tree.
    pub(super) displaced: Option<Displacement>,
    /// The spanning tree it is on; [`NONE`] if unrouted.
    pub(super) placed: u32,
}

impl Group {
    /// Gives what the loom needs of the group.
    pub(super) fn strand<'a>(&'a self, tree: &'a SpanningTree) -> Strand<'a> {
        Strand { mgid: self.mgid, members: &self.members, tree }
    }
}

/// What new members change in a group: seats, rising.
#[derive(Debug, Default)]
pub(super) struct Replaced {
    pub(super) before: Vec<u32>,
    pub(super) gained: Vec<u32>,
    pub(super) lost: Vec<u32>,
}

/// All groups. A *slot* is the number of a group here; slots are used again.
#[derive(Clone, Debug)]
pub(super) struct Registry {
    space: MgidSpace,
    slots: Vec<Group>,
    free: Vec<u32>,
    homes: Vec<Vec<(Mgid, u32)>>, // by spanning tree: MGID and slot, rising
    /// Groups whose home is not the spanning tree of their MGID, because they were to stay where they went.
    adopted: BTreeMap<Mgid, u32>,
}

impl Registry {
    pub(super) fn new(space: MgidSpace) -> Self {
        let homes = vec![Vec::new(); space.total() as usize];
        Self { space, slots: Vec::new(), free: Vec::new(), homes, adopted: BTreeMap::new() }
    }

    /// Makes a registry without groups that gives them the same homes.
    pub(super) fn emptied(&self) -> Self {
        Self { adopted: self.adopted.clone(), ..Self::new(self.space) }
    }

    /// Gives the spanning tree that a group is on if nothing keeps it from there.
    pub(super) fn home(&self, mgid: Mgid) -> u32 {
        let adopted = if self.adopted.is_empty() { None } else { self.adopted.get(&mgid) };
        adopted.copied().unwrap_or_else(|| self.space.spt(mgid))
    }

    /// Lists the groups whose home is not the spanning tree of their MGID, with it.
    pub(super) const fn adopted(&self) -> &BTreeMap<Mgid, u32> {
        &self.adopted
    }

    /// Gives a group another home.
    pub(super) fn adopt(&mut self, slot: u32, spt: u32) {
        let mgid = self.get(slot).mgid;
        let before = self.home(mgid);
        self.homes[before as usize].retain(|(_, other)| *other != slot);
        if spt == self.space.spt(mgid) {
            self.adopted.remove(&mgid);
        } else {
            self.adopted.insert(mgid, spt);
        }
        self.list_at_home(slot);
    }

    fn list_at_home(&mut self, slot: u32) {
        let mgid = self.get(slot).mgid;
        let home = self.home(mgid) as usize;
        let at = self.homes[home].partition_point(|(other, _)| *other < mgid);
        self.homes[home].insert(at, (mgid, slot));
    }

    pub(super) fn find(&self, mgid: Mgid) -> Option<u32> {
        let home = &self.homes[self.home(mgid) as usize];
        home.binary_search_by_key(&mgid, |(mgid, _)| *mgid).ok().map(|at| home[at].1)
    }

    pub(super) fn get(&self, slot: u32) -> &Group {
        &self.slots[slot as usize]
    }

    pub(super) fn get_mut(&mut self, slot: u32) -> &mut Group {
        &mut self.slots[slot as usize]
    }

    /// Lists the groups whose home is a spanning tree, by MGID.
    pub(super) fn at_home(&self, spt: u32) -> &[(Mgid, u32)] {
        &self.homes[spt as usize]
    }

    /// Gives every group whose home is a spanning tree to be changed, by MGID.
    pub(super) fn each_at_home(&mut self, spt: u32, mut each: impl FnMut(&mut Group)) {
        for (_, slot) in &self.homes[spt as usize] {
            each(&mut self.slots[*slot as usize]);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Adds a group that does not exist yet, on its home spanning tree.
    pub(super) fn insert(&mut self, mgid: Mgid, members: Vec<u32>) -> u32 {
        let spt = self.home(mgid);
        let group =
            Group { mgid, members, has_tree: false, spans: false, displaced: None, placed: spt };
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = group;
            slot
        } else {
            self.slots.push(group);
            super::fabric::dense(self.slots.len() - 1)
        };
        self.list_at_home(slot);
        slot
    }

    /// Takes a group out; its slot may be used again.
    pub(super) fn remove(&mut self, slot: u32) -> Group {
        let home = self.home(self.get(slot).mgid);
        let group = &mut self.slots[slot as usize];
        let group = Group { members: std::mem::take(&mut group.members), ..group.clone() };
        self.homes[home as usize].retain(|(_, other)| *other != slot);
        self.adopted.remove(&group.mgid);
        self.free.push(slot);
        group
    }

    /// Gives a group its new members and says what that changes; nothing is said (and noted) without lists of
    /// memberships.
    pub(super) fn replace_members(
        &mut self,
        slot: u32,
        members: Vec<u32>,
        lists: Option<&mut Memberships>,
    ) -> Replaced {
        let group = self.get_mut(slot);
        let before = std::mem::replace(&mut group.members, members);
        let Some(lists) = lists else { return Replaced::default() };
        let gained = without(&group.members, &before);
        let lost = without(&before, &group.members);
        lost.iter().for_each(|seat| lists.remove(*seat, slot));
        gained.iter().for_each(|seat| lists.insert(*seat, slot));
        Replaced { before, gained, lost }
    }

    /// Gives the members of a group in the order of the ports they are plugged into.
    pub(super) fn members(&self, fabric: &Fabric, mgid: Mgid) -> Option<Vec<EndpointId>> {
        let group = self.get(self.find(mgid)?);
        Some(group.members.iter().map(|seat| fabric.endpoint_at(*seat)).collect())
    }

    /// Walks all groups, spanning tree by spanning tree.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Group)> {
        self.homes.iter().flatten().map(|(_, slot)| (*slot, self.get(*slot)))
    }
}

/// Gives what is in one rising list and not in another.
fn without(list: &[u32], other: &[u32]) -> Vec<u32> {
    let mut other = other.iter().peekable();
    let is_missing = |at: &&u32| {
        while other.next_if(|one| one < at).is_some() {}
        other.peek() != Some(at)
    };
    list.iter().filter(is_missing).copied().collect()
}

/// The groups of each member, or of whatever else has a number: linked lists in one column, so that building it costs one pass.
#[derive(Clone, Debug)]
pub(super) struct Memberships {
    heads: Vec<u32>,        // by seat
    cells: Vec<(u32, u32)>, // slot, next
    free: u32,
}

impl Memberships {
    pub(super) fn new(seats: usize) -> Self {
        Self { heads: vec![NONE; seats], cells: Vec::new(), free: NONE }
    }

    pub(super) fn of(registry: &Registry, seats: usize) -> Self {
        let mut lists = Self::new(seats);
        for (slot, group) in registry.iter() {
            for seat in &group.members {
                lists.insert(*seat, slot);
            }
        }
        lists
    }

    pub(super) fn insert(&mut self, seat: u32, slot: u32) {
        let head = &mut self.heads[seat as usize];
        let cell = (slot, *head);
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

    pub(super) fn remove(&mut self, seat: u32, slot: u32) {
        let (mut before, mut at) = (NONE, self.heads[seat as usize]);
        while at != NONE {
            let (owner, next) = self.cells[at as usize];
            if owner == slot {
                if before == NONE {
                    self.heads[seat as usize] = next;
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

    pub(super) fn groups_of(&self, seat: u32) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.heads[seat as usize];
        std::iter::from_fn(move || {
            let (slot, next) = *self.cells.get(at as usize)?;
            at = next;
            Some(slot)
        })
    }
}
