//! Changes the part of one spanning tree for one group, without weaving the others again.
//!
//! Source: C-MR4LMS §3 (merging) and [`super`] (un-merging). A member that comes brings a few links into use:
//! links of nobody are added to the group's tree, links of others unite the virtual groups. A member that
//! goes takes out the links that nobody else uses; where others do, the groups that met there
//! are looked at to see whether they still hang together.
//!
//! Invariant: where a spanning tree has [`Uses`], they and its part are those of its groups.
//!
//! Only for spanning trees that have all links and no guests: elsewhere trees are woven as a whole.

mod search;
mod site;
mod span;
mod uses;

use std::sync::Arc;

use fabricast_topology::{PortId, SwitchId, TableKind};

use crate::engine::Engine;
use crate::engine::fabric::{Fabric, dense};
use crate::engine::registry::{Registry, Replaced};
use crate::plan::{Part, VirtualGroupId};
use search::{Place, Search};
use site::Site;
use span::{LINKS, Span, is_in_order};
use uses::{Numbering, Uses};

/// From this many members that come or go on, weaving the whole tree is no worse.
const MANY: usize = 64;

/// Knows who uses what on the spanning trees that have been mended.
#[derive(Clone, Debug)]
pub(super) struct Mender {
    numbering: Numbering,
    tables: TableKind,
    in_order: bool,
    uses: Vec<Option<Box<Uses>>>, // by spanning tree
    search: Search,
}

/// A group that changes on its home spanning tree.
pub(super) struct Change<'a> {
    pub(super) fabric: &'a Fabric,
    /// With the new members, or with the old ones of a group that goes.
    pub(super) registry: &'a Registry,
    pub(super) slot: u32,
    pub(super) spt: u32,
    pub(super) members: &'a Replaced,
}

impl Engine {
    /// Brings the plan up to date where only one group on its home tree changes and nothing is in its way.
    /// False if the tree has to be woven.
    pub(super) fn mend(&mut self, slot: u32, members: &Replaced, goes: bool) -> bool {
        let spt = self.registry.home(self.registry.get(slot).mgid);
        let is_whole = self.fabric.is_whole() && self.fabric.tree_is_whole(spt);
        if !is_whole
            || self.plan.is_dual()
            || self.placement.needs_pass_2()
            || self.trees.contains(spt)
            || !self.mender.suits(members)
        {
            return false;
        }
        let Self { fabric, registry, mender, plan, .. } = self;
        let place = &mut plan.parts[spt as usize];
        let empty = || Arc::new(Part::empty(spt, fabric.tree(spt).color));
        let part = Arc::make_mut(place.get_or_insert_with(empty));
        let change = Change { fabric, registry, slot, spt, members };
        if goes {
            mender.remove(part, &change);
            if part.groups.is_empty() {
                *place = None;
            }
        } else {
            mender.change(part, &change);
        }
        true
    }
}

impl Mender {
    pub(super) fn new(fabric: &Fabric, tables: TableKind) -> Self {
        Self {
            numbering: Numbering::new(fabric, tables),
            tables,
            in_order: is_in_order(fabric),
            uses: vec![None; fabric.tree_count() as usize],
            search: Search::default(),
        }
    }

    /// Tells whether a change of so many members is to be mended, on a fabric without faults.
    pub(super) const fn suits(&self, members: &Replaced) -> bool {
        self.in_order && members.gained.len() + members.lost.len() < MANY
    }

    /// Takes notice that a spanning tree is woven as a whole.
    pub(super) fn forget(&mut self, spt: u32) {
        self.uses[spt as usize] = None;
    }

    /// Gives a group of the part its new members, of which it had those before; a new one had none.
    ///
    /// Cost: what changes; the first time on a spanning tree, its memberships.
    pub(super) fn change(&mut self, part: &mut Part, change: &Change<'_>) {
        let Change { fabric, registry, slot, spt, members } = *change;
        let group = registry.get(slot);
        let gone = (!members.lost.is_empty()).then_some(&members.lost);
        let now = &group.members[..];
        let kept: Vec<u32>;
        let kept = match (gone, members.gained.is_empty()) {
            (None, _) => &members.before[..],
            (Some(_), true) => now,
            (Some(lost), false) => {
                let stays = |seat: &&u32| lost.binary_search(seat).is_err();
                kept = members.before.iter().filter(stays).copied().collect();
                &kept[..]
            }
        };
        self.index(change);
        if part.groups.binary_search_by_key(&group.mgid, |one| one.mgid).is_err() {
            part.add_group(group.mgid);
        }
        let tree = fabric.tree(spt);
        self.shrink(part, Site { fabric, registry, tree, own: (slot, kept) }, members);
        self.grow(part, Site { fabric, registry, tree, own: (slot, now) }, kept, members);
    }

    /// Takes a group out of the part.
    pub(super) fn remove(&mut self, part: &mut Part, change: &Change<'_>) {
        let Change { fabric, registry, slot, spt, members } = *change;
        self.index(change);
        let tree = fabric.tree(spt);
        self.shrink(part, Site { fabric, registry, tree, own: (slot, &[]) }, members);
        part.remove_group(registry.get(slot).mgid);
    }

    /// Notes who uses what on a spanning tree, if that is not known: as it was before the change.
    fn index(&mut self, change: &Change<'_>) {
        let Change { fabric, registry, slot, spt, members } = *change;
        if self.uses[spt as usize].is_some() {
            return;
        }
        let mut uses = Box::new(Uses::new(self.numbering));
        for (_, other) in registry.at_home(spt) {
            let seats =
                if *other == slot { &members.before } else { &registry.get(*other).members };
            uses.add_group(fabric, *other, Span::of(fabric, seats));
        }
        self.uses[spt as usize] = Some(uses);
    }

    /// Takes members out of a group.
    fn shrink(&mut self, part: &mut Part, site: Site<'_>, members: &Replaced) {
        if members.lost.is_empty() {
            return;
        }
        let (fabric, slot) = (site.fabric, site.own.0);
        let (from, to) = (Span::of(fabric, &members.before), site.span(slot));
        let uses = self.uses[site.tree.spt as usize].as_mut().expect("indexed before");
        let numbering = self.numbering;
        let mut met = vec![slot]; // groups that this one may come apart from
        for level in 0..numbering.levels() {
            let key = (level, numbering.least(level));
            for at in from.places_beyond(fabric, to, &members.lost, key) {
                uses.remove(level, at, slot);
                met.extend(uses.at(level, at).next());
            }
        }
        if from.is_inner() && !to.has_tree() {
            uses.remove_inner(fabric.leaf_of(from.seats[0]), slot);
        } else if !from.is_inner() && to.is_inner() {
            uses.add_inner(fabric.leaf_of(to.seats[0]), slot);
        }
        let footing = Footing { site, uses, tables: self.tables };
        let mut gone = footing.links(from, to, &members.lost);
        let lost = if to.has_tree() || !from.has_tree() { &members.lost } else { &members.before };
        for seat in lost.iter().filter(|_| from.has_tree()) {
            match footing.other_at(*seat) {
                Some(other) => met.push(other),
                None => gone.push(site.seat_port(*seat)),
            }
        }
        let mgid = site.registry.get(slot).mgid;
        let group = part.group_mut(mgid);
        group.live = dense(to.seats.len());
        let id = group.virtual_group;
        part.change_ports(id, &mut gone, &mut []);
        let place = Place { site, uses, numbering };
        let pieces = self.search.pieces(place, &met);
        let root = part.tree_mut(id).root;
        if !pieces.is_empty() {
            let mut rest = part.take(id);
            for piece in pieces {
                let piece = site.assemble(&piece);
                rest.give_up(&piece);
                part.put(piece);
            }
            rest.root = site.root(&rest.groups, site.height(root));
            part.put(rest);
        } else if to.height < from.height && from.height == site.height(root) {
            part.tree_mut(id).root = site.root(part.groups_of(id), from.height);
        }
    }

    /// Adds members to a group.
    fn grow(&mut self, part: &mut Part, site: Site<'_>, before: &[u32], members: &Replaced) {
        let (fabric, slot) = (site.fabric, site.own.0);
        let (from, to) = (Span::of(fabric, before), site.span(slot));
        let mgid = site.registry.get(slot).mgid;
        let group = part.group_mut(mgid);
        group.live = dense(to.seats.len());
        let id = group.virtual_group;
        if members.gained.is_empty() {
            return;
        }
        let uses = self.uses[site.tree.spt as usize].as_mut().expect("indexed before");
        let footing = Footing { site, uses, tables: self.tables };
        let mut met = Vec::new();
        let mut new = footing.links(to, from, &members.gained);
        let gained = if from.has_tree() || !to.has_tree() { &members.gained[..] } else { to.seats };
        for seat in gained.iter().filter(|_| to.has_tree()) {
            match footing.other_at(*seat) {
                Some(other) => met.push(other),
                None => new.push(site.seat_port(*seat)),
            }
        }
        for level in 0..self.numbering.levels() {
            let key = (level, self.numbering.least(level));
            for at in to.places_beyond(fabric, from, &members.gained, key) {
                met.extend(uses.at(level, at).next());
                uses.add(level, at, slot);
            }
        }
        if to.is_inner() && !from.has_tree() {
            uses.add_inner(fabric.leaf_of(to.seats[0]), slot);
        } else if from.is_inner() && !to.is_inner() {
            uses.remove_inner(fabric.leaf_of(from.seats[0]), slot);
        }
        part.change_ports(id, &mut [], &mut new);
        let group_of = |slot: &u32| part.group_mut(site.registry.get(*slot).mgid).virtual_group;
        let mut others: Vec<VirtualGroupId> = met.iter().map(group_of).collect();
        others.sort_unstable();
        others.dedup();
        let mut root = site.top(to);
        let higher = |root: &mut Option<SwitchId>, other| {
            if site.height(other) > site.height(*root) {
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

/// Who else stands where the group that is changing comes or goes.
#[derive(Clone, Copy)]
struct Footing<'a> {
    site: Site<'a>,
    uses: &'a Uses,
    tables: TableKind,
}

impl Footing<'_> {
    /// Lists the ends of the links that the group has in use with `more` members and not with `fewer`, and
    /// that nobody else uses.
    fn links(self, more: Span<'_>, fewer: Span<'_>, difference: &[u32]) -> Vec<PortId> {
        let Self { site, uses, tables } = self;
        let mut ends = Vec::new();
        for level in 0..LINKS {
            let is_user = |other: u32| {
                let has_link = || site.span(other).height > level + 1;
                other != site.own.0 && (tables == TableKind::PerPort || has_link())
            };
            let links = more.places_beyond(site.fabric, fewer, difference, (level, level + 1));
            let unused = links.into_iter().filter(|at| !uses.at(level, *at).any(is_user));
            ends.extend(unused.flat_map(|at| site.ends(level, at)));
        }
        ends
    }

    /// Finds another group with a member at a seat.
    fn other_at(self, seat: u32) -> Option<u32> {
        let Self { site, uses, .. } = self;
        let is_member = |slot: u32| site.span(slot).seats.binary_search(&seat).is_ok();
        let mut others = uses.in_leaf(site.fabric.leaf_of(seat));
        others.find(|other| *other != site.own.0 && is_member(*other))
    }
}
