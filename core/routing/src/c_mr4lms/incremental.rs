//! Changes the part of one spanning tree for one group, without building the others again.
//!
//! Source: C-MR4LMS §3 (merging; splitting is ours, see [`connectivity`]). A new member brings
//! links into use: unused links are added to the group's tree, and links of other groups unite the
//! virtual groups. A member that leaves frees the links that nobody else uses; at the others the
//! virtual group can fall apart, so the groups that met there are checked for connectivity.
//!
//! Invariant: where a spanning tree has [`PlaceUsers`], they and its part are those of its groups.
//!
//! Only for spanning trees that have all links and no displaced groups of other homes; all others
//! are built as a whole.

mod connectivity;
mod extent;
mod place_users;
mod tree_view;

use fabricast_topology::{PortId, SwitchId, TableKind};

use crate::c_mr4lms::fabric::{Fabric, dense};
use crate::c_mr4lms::numbers::{EndpointSlot, GroupIndex, TreeNumber};
use crate::c_mr4lms::registry::{Registry, Replaced};
use crate::plan::{Part, VirtualGroupId};
use connectivity::{ConnectivityCheck, PlaceGraph};
use extent::{Extent, LINKS, LevelPlaces, is_in_order};
use place_users::{PlaceNumbering, PlaceUsers};
use tree_view::TreeView;

/// Changed members from which on building the whole spanning tree costs no more.
const MANY: usize = 64;

/// The users of places on the spanning trees that have been updated incrementally.
#[derive(Clone, Debug)]
pub(super) struct IncrementalUpdate {
    numbering: PlaceNumbering,
    tables: TableKind,
    in_order: bool,
    users: Vec<Option<Box<PlaceUsers>>>, // by spanning tree
    connectivity: ConnectivityCheck,
}

/// A group that changes on its home spanning tree.
pub(super) struct Change<'a> {
    pub(super) fabric: &'a Fabric,
    /// With the new members, or with the old ones of a group that goes.
    pub(super) registry: &'a Registry,
    pub(super) index: GroupIndex,
    pub(super) spt: TreeNumber,
    pub(super) members: &'a Replaced,
}

impl IncrementalUpdate {
    pub(super) fn new(fabric: &Fabric, tables: TableKind) -> Self {
        Self {
            numbering: PlaceNumbering::new(fabric, tables),
            tables,
            in_order: is_in_order(fabric),
            users: fabric.tree_numbers().map(|_| None).collect(),
            connectivity: ConnectivityCheck::default(),
        }
    }

    /// Tells whether so few members change that an incremental update pays.
    pub(super) const fn suits(&self, members: &Replaced) -> bool {
        self.in_order && members.gained.len() + members.lost.len() < MANY
    }

    /// Drops the users of a spanning tree that is built as a whole.
    pub(super) fn forget(&mut self, spt: TreeNumber) {
        self.users[spt.index()] = None;
    }

    /// Gives a group its new members; a new group is added to the part.
    ///
    /// Cost: O(changed members); the first time on a spanning tree, O(its memberships).
    pub(super) fn change(&mut self, part: &mut Part, change: &Change<'_>) {
        let Change { fabric, registry, index, spt, members } = *change;
        let group = registry.get(index);
        let gone = (!members.lost.is_empty()).then_some(&members.lost);
        let now = &group.members[..];
        let kept: Vec<EndpointSlot>;
        let kept = match (gone, members.gained.is_empty()) {
            (None, _) => &members.before[..],
            (Some(_), true) => now,
            (Some(lost), false) => {
                let stays = |slot: &&EndpointSlot| lost.binary_search(slot).is_err();
                kept = members.before.iter().filter(stays).copied().collect();
                &kept[..]
            }
        };
        self.index(change);
        if part.groups.binary_search_by_key(&group.mgid, |one| one.mgid).is_err() {
            part.add_group(group.mgid);
        }
        let tree = fabric.tree(spt);
        self.shrink(part, TreeView { fabric, registry, tree, own: (index, kept) }, members);
        self.grow(part, TreeView { fabric, registry, tree, own: (index, now) }, kept, members);
    }

    /// Takes a group out of the part.
    pub(super) fn remove(&mut self, part: &mut Part, change: &Change<'_>) {
        let Change { fabric, registry, index, spt, members } = *change;
        self.index(change);
        let tree = fabric.tree(spt);
        self.shrink(part, TreeView { fabric, registry, tree, own: (index, &[]) }, members);
        part.remove_group(registry.get(index).mgid);
    }

    /// Lists the users of a spanning tree as they were before the change, unless they are listed.
    fn index(&mut self, change: &Change<'_>) {
        let Change { fabric, registry, index, spt, members } = *change;
        if self.users[spt.index()].is_some() {
            return;
        }
        let mut users = Box::new(PlaceUsers::new(self.numbering));
        for (_, other) in registry.at_home(spt) {
            let slots =
                if *other == index { &members.before } else { &registry.get(*other).members };
            users.add_group(fabric, *other, Extent::of(fabric, slots));
        }
        self.users[spt.index()] = Some(users);
    }

    /// Takes members out of a group.
    fn shrink(&mut self, part: &mut Part, view: TreeView<'_>, members: &Replaced) {
        if members.lost.is_empty() {
            return;
        }
        let (fabric, index) = (view.fabric, view.own.0);
        let (from, to) = (Extent::of(fabric, &members.before), view.extent(index));
        let users = self.users[view.tree.spt as usize].as_mut().expect("indexed before");
        let numbering = self.numbering;
        let mut met = vec![index]; // groups that this one may come apart from
        for level in 0..numbering.levels() {
            let places = LevelPlaces { level, least: numbering.least(level) };
            for at in from.places_beyond(fabric, to, &members.lost, places) {
                users.remove(level, at, index);
                met.extend(users.at(level, at).next());
            }
        }
        if from.is_inner() && !to.has_tree() {
            users.remove_inner(fabric.leaf_of(from.slots[0]), index);
        } else if !from.is_inner() && to.is_inner() {
            users.add_inner(fabric.leaf_of(to.slots[0]), index);
        }
        let others_here = OtherUsers { view, users, tables: self.tables };
        let mut gone = others_here.links(from, to, &members.lost);
        let lost = if to.has_tree() || !from.has_tree() { &members.lost } else { &members.before };
        for slot in lost.iter().filter(|_| from.has_tree()) {
            match others_here.other_at(*slot) {
                Some(other) => met.push(other),
                None => gone.push(fabric.port_at(*slot)),
            }
        }
        let mgid = view.registry.get(index).mgid;
        let group = part.group_mut(mgid);
        group.live = dense(to.slots.len());
        let id = group.virtual_group;
        part.change_ports(id, &mut gone, &mut []);
        let graph = PlaceGraph { view, users, numbering };
        let pieces = self.connectivity.pieces(graph, &met);
        let root = part.tree_mut(id).root;
        if !pieces.is_empty() {
            let mut rest = part.take(id);
            for piece in pieces {
                let piece = view.assemble(&piece);
                rest.give_up(&piece);
                part.put(piece);
            }
            rest.root = view.root(&rest.groups, view.height(root));
            part.put(rest);
        } else if to.height < from.height && from.height == view.height(root) {
            part.tree_mut(id).root = view.root(part.groups_of(id), from.height);
        }
    }

    /// Adds members to a group.
    fn grow(
        &mut self,
        part: &mut Part,
        view: TreeView<'_>,
        before: &[EndpointSlot],
        members: &Replaced,
    ) {
        let (fabric, index) = (view.fabric, view.own.0);
        let (from, to) = (Extent::of(fabric, before), view.extent(index));
        let mgid = view.registry.get(index).mgid;
        let group = part.group_mut(mgid);
        group.live = dense(to.slots.len());
        let id = group.virtual_group;
        if members.gained.is_empty() {
            return;
        }
        let users = self.users[view.tree.spt as usize].as_mut().expect("indexed before");
        let others_here = OtherUsers { view, users, tables: self.tables };
        let mut met = Vec::new();
        let mut new = others_here.links(to, from, &members.gained);
        let gained = if from.has_tree() || !to.has_tree() { &members.gained[..] } else { to.slots };
        for slot in gained.iter().filter(|_| to.has_tree()) {
            match others_here.other_at(*slot) {
                Some(other) => met.push(other),
                None => new.push(fabric.port_at(*slot)),
            }
        }
        for level in 0..self.numbering.levels() {
            let places = LevelPlaces { level, least: self.numbering.least(level) };
            for at in to.places_beyond(fabric, from, &members.gained, places) {
                met.extend(users.at(level, at).next());
                users.add(level, at, index);
            }
        }
        if to.is_inner() && !from.has_tree() {
            users.add_inner(fabric.leaf_of(to.slots[0]), index);
        } else if from.is_inner() && !to.is_inner() {
            users.remove_inner(fabric.leaf_of(from.slots[0]), index);
        }
        part.change_ports(id, &mut [], &mut new);
        let group_of =
            |index: &GroupIndex| part.group_mut(view.registry.get(*index).mgid).virtual_group;
        let mut others: Vec<VirtualGroupId> = met.iter().map(group_of).collect();
        others.sort_unstable();
        others.dedup();
        let mut root = view.top(to);
        let higher = |root: &mut Option<SwitchId>, other| {
            if view.height(other) > view.height(*root) {
                *root = other;
            }
        };
        if others.iter().all(|other| *other == id) {
            let tree = part.tree_mut(id);
            higher(&mut tree.root, root);
            return;
        }
        let mut all = part.take(id);
        higher(&mut root, all.root);
        for other in others.into_iter().filter(|other| *other != id) {
            let other = part.take(other);
            higher(&mut root, other.root);
            all.take_over(other);
        }
        all.root = root;
        part.put(all);
    }
}

/// Looks up the other groups at the links and endpoints of the changing group.
#[derive(Clone, Copy)]
struct OtherUsers<'a> {
    view: TreeView<'a>,
    users: &'a PlaceUsers,
    tables: TableKind,
}

impl OtherUsers<'_> {
    /// Lists the ends of the links that the group has in use with `more` members and not with
    /// `fewer`, and that no other group uses.
    fn links(
        self,
        more: Extent<'_>,
        fewer: Extent<'_>,
        difference: &[EndpointSlot],
    ) -> Vec<PortId> {
        let Self { view, users, tables } = self;
        let mut ends = Vec::new();
        for level in 0..LINKS {
            let is_user = |other: GroupIndex| {
                let has_link = || view.extent(other).height > level + 1;
                other != view.own.0 && (tables == TableKind::PerPort || has_link())
            };
            let links = more.places_beyond(
                view.fabric,
                fewer,
                difference,
                LevelPlaces { level, least: level + 1 },
            );
            let unused = links.into_iter().filter(|at| !users.at(level, *at).any(is_user));
            ends.extend(unused.flat_map(|at| view.ends(level, at)));
        }
        ends
    }

    /// Finds another group with a member at a slot.
    fn other_at(self, slot: EndpointSlot) -> Option<GroupIndex> {
        let Self { view, users, .. } = self;
        let is_member = |index: GroupIndex| view.extent(index).slots.binary_search(&slot).is_ok();
        let mut others = users.in_leaf(view.fabric.leaf_of(slot));
        others.find(|other| *other != view.own.0 && is_member(*other))
    }
}
