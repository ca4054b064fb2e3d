//! The decisions of an engine: the trees of all groups, as an immutable value.
//!
//! A plan consists of *parts*: all that is routed on one spanning tree (C-MR4LMS) or with one color
//! (engines that do not number their trees). Plans that follow each other share the parts that did
//! not change, so a copy is cheap and [`Plan::changed_since`] costs one comparison per part.
//!
//! Table rows are implied: where a virtual group's tree has ports in a switch, packets that
//! come in by one of them leave by all others ([`crate::table_entries`] writes them out).

mod index;
mod part;
mod report;

use std::fmt;
use std::sync::Arc;

use fabricast_topology::{Mgid, PortId, SwitchId, TableKind};

use crate::spt::MgidSpace;
use index::GroupIndex;
pub(crate) use part::{DetachedTree, Part, PlannedGroup, PlannedVirtualGroup, Ports};
pub use part::{PartBuilder, PlannedTree};
pub use report::{BrokenLink, CutOff, CutOffReason, Displacement, Moved, Unprotected, Unrouted};

/// Trees for a set of groups on one fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    colors: u16,
    tables: TableKind,
    index: GroupIndex,
    pub(crate) parts: Vec<Option<Arc<Part>>>, // by number, colors rising; none if nobody uses it
    pub(crate) twins: Vec<Option<Arc<Part>>>, // the second trees; empty without fault tolerance
    pub(crate) moved: Arc<Vec<Moved>>,        // by MGID
    pub(crate) unrouted: Arc<Vec<Unrouted>>,  // by MGID
}

/// Names a virtual group: the smallest MGID in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtualGroupId(pub u32);

impl fmt::Display for VirtualGroupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// View of one routed group in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupPlan<'a> {
    /// MGID of the group.
    pub mgid: Mgid,
    /// Its part of the plan: the spanning tree, or the color of engines that do not number them.
    pub part: u32,
    /// Its table entry, which its packets carry.
    pub color: u16,
    /// The virtual group it is part of.
    pub virtual_group: VirtualGroupId,
    /// Members that the tree reaches. With fewer than two there is no tree, and
    /// nobody may send: the color at the port can be that of another group.
    pub live_members: u32,
    /// Members left out.
    pub cut_off: &'a [CutOff],
}

impl GroupPlan<'_> {
    /// Tells whether packets can be sent to the group.
    #[must_use]
    pub const fn has_tree(&self) -> bool {
        self.live_members >= 2
    }
}

/// Number of the parts of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartCounts {
    /// Spanning trees, or colors of engines that do not number them.
    pub all: usize,
    /// Those of them that have groups.
    pub used: usize,
}

/// View of one tree of a virtual group in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VirtualGroup<'a> {
    /// Name of the virtual group.
    pub id: VirtualGroupId,
    /// Number of this one of its trees: 0, or 1 for the second one with fault tolerance.
    pub tree: u8,
    /// Its part of the plan.
    pub part: u32,
    /// Its table entry.
    pub color: u16,
    /// The switch that its tree hangs from; none where there is no tree.
    pub root: Option<SwitchId>,
    /// The groups merged in it, rising.
    pub groups: &'a [Mgid],
    /// The switch ports of its tree, rising: both ends of every link between
    /// switches and the port of every endpoint. Empty where there is no tree.
    pub ports: &'a [PortId],
}

impl Plan {
    /// Makes the plan of an engine that numbers its spanning trees: one part for each.
    pub(crate) fn numbered(space: MgidSpace) -> Self {
        Self {
            colors: space.colors(),
            tables: space.tables(),
            index: GroupIndex::Numbered(space),
            parts: vec![None; space.total() as usize],
            twins: match space.trees_per_group() {
                1 => Vec::new(),
                _ => vec![None; space.total() as usize],
            },
            moved: Arc::default(),
            unrouted: Arc::default(),
        }
    }

    /// Makes an empty plan for an engine that puts any group on any color: one part for each color.
    #[must_use]
    pub fn listed(colors: u16, tables: TableKind) -> Self {
        Self {
            colors,
            tables,
            index: GroupIndex::Listed(Arc::default()),
            parts: vec![None; usize::from(colors)],
            twins: Vec::new(),
            moved: Arc::default(),
            unrouted: Arc::default(),
        }
    }

    /// Replaces one part of a plan made by [`Plan::listed`]. A group that goes from one part to
    /// another is in the plan as long as it is in the part replaced last.
    ///
    /// Cost: the groups of the plan.
    ///
    /// # Panics
    ///
    /// If there is no such part.
    pub fn set_part(&mut self, number: u32, part: PartBuilder) {
        let part = part.finish();
        let place = &mut self.parts[number as usize];
        self.index.replace(number, place.as_deref(), part.as_ref());
        *place = part.map(Arc::new);
    }

    /// Replaces the list of groups without a tree, which must rise by MGID.
    pub fn set_unrouted(&mut self, unrouted: Vec<Unrouted>) {
        self.unrouted = Arc::new(unrouted);
    }

    /// Counts the entries of a table, C.
    #[must_use]
    pub const fn colors(&self) -> u16 {
        self.colors
    }

    /// Returns the kind of tables.
    #[must_use]
    pub const fn tables(&self) -> TableKind {
        self.tables
    }

    /// Returns the part where a group would be if nothing kept it from there; none for engines
    /// where the MGID says nothing.
    #[must_use]
    pub fn home(&self, mgid: Mgid) -> Option<u32> {
        self.index.home(mgid)
    }

    /// Returns the table entry a group would have at home; 0 where the MGID says nothing.
    pub(crate) fn home_color(&self, mgid: Mgid) -> u16 {
        self.index.home_color(mgid)
    }

    fn part(&self, number: u32) -> Option<&Part> {
        self.parts.get(number as usize)?.as_deref()
    }

    fn part_of(&self, mgid: Mgid) -> Option<&Part> {
        let moved = self.moved.binary_search_by_key(&mgid, |moved| moved.mgid);
        let number = match moved {
            Ok(at) => self.moved[at].to,
            Err(_) => self.index.find(mgid)?,
        };
        self.part(number)
    }

    /// Finds a routed group.
    #[must_use]
    pub fn group(&self, mgid: Mgid) -> Option<GroupPlan<'_>> {
        self.part_of(mgid)?.find(mgid)
    }

    /// Walks the routed groups, part by part, rising.
    pub fn groups(&self) -> impl Iterator<Item = GroupPlan<'_>> {
        self.parts.iter().flatten().flat_map(|part| part.groups())
    }

    /// Counts the parts there are, and those with groups.
    #[must_use]
    pub fn part_counts(&self) -> PartCounts {
        PartCounts { all: self.parts.len(), used: self.parts.iter().flatten().count() }
    }

    /// Tells whether every group has two trees.
    #[must_use]
    pub const fn is_dual(&self) -> bool {
        !self.twins.is_empty()
    }

    /// Walks the virtual groups, part by part, rising; with fault tolerance all first trees, then
    /// all second ones.
    pub fn virtual_groups(&self) -> impl Iterator<Item = VirtualGroup<'_>> {
        let first = self.parts.iter().flatten().flat_map(|part| part.virtual_groups(0));
        first.chain(self.twins.iter().flatten().flat_map(|part| part.virtual_groups(1)))
    }

    /// Walks the virtual groups that have a tree, part by part, rising, each on all its trees: one
    /// or two.
    pub fn trees_by_virtual_group(&self) -> impl Iterator<Item = Vec<VirtualGroup<'_>>> {
        (0u32..)
            .zip(&self.parts)
            .filter_map(|(number, part)| Some((number, part.as_deref()?)))
            .flat_map(|(number, part)| {
                // Both parts of a pair have the same virtual groups.
                let mut twins = self.virtual_groups_on(number, 1);
                part.virtual_groups(0).map(move |first| {
                    let both = [Some(first), twins.next()];
                    both.into_iter().flatten().filter(|one| !one.ports.is_empty()).collect()
                })
            })
            .filter(|trees: &Vec<_>| !trees.is_empty())
    }

    /// Walks the virtual groups of one part as they are on their first trees (0) or their second
    /// (1).
    pub fn virtual_groups_on(&self, part: u32, tree: u8) -> impl Iterator<Item = VirtualGroup<'_>> {
        let parts = if tree == 0 { &self.parts } else { &self.twins };
        let part = parts.get(part as usize).and_then(Option::as_deref);
        part.into_iter().flat_map(move |part| part.virtual_groups(tree))
    }

    /// Finds the virtual group of a routed group, on its first tree.
    #[must_use]
    pub fn virtual_group_of(&self, mgid: Mgid) -> Option<VirtualGroup<'_>> {
        let group = self.group(mgid)?;
        self.virtual_groups_on(group.part, 0).find(|one| one.id == group.virtual_group)
    }

    /// Finds the virtual group of a routed group on each tree that serves it, one or two.
    #[must_use]
    pub fn virtual_group_trees(&self, mgid: Mgid) -> Vec<VirtualGroup<'_>> {
        let Some(group) = self.group(mgid) else { return Vec::new() };
        let on = |tree| {
            let found = self.virtual_groups_on(group.part, tree);
            found.into_iter().find(|one| one.id == group.virtual_group)
        };
        (0..2).filter_map(on).filter(|one| !one.ports.is_empty()).collect()
    }

    /// Returns the entry numbers with which a member has to send each packet: several where the
    /// trees of a pair have entries of their own, none for a group without a tree.
    #[must_use]
    pub fn sender_colors(&self, mgid: Mgid) -> Vec<u16> {
        let Some(group) = self.group(mgid).filter(|group| group.has_tree()) else {
            return Vec::new();
        };
        if !self.is_dual() {
            return vec![group.color];
        }
        let unprotected = self.unprotected_of(mgid);
        let serves = |tree| {
            let lacks_link = |one: &&Unprotected| matches!(one.link, BrokenLink::Missing { .. });
            !unprotected.iter().filter(lacks_link).any(|one| one.tree == tree)
        };
        let trees = self.virtual_group_trees(mgid).into_iter().filter(|one| serves(one.tree));
        let mut colors: Vec<u16> = trees.map(|one| one.color).collect();
        colors.dedup();
        colors
    }

    /// Lists what a routed group lacks of its second tree; empty if nothing, or if it is to have
    /// one tree only.
    #[must_use]
    pub fn unprotected_of(&self, mgid: Mgid) -> &[Unprotected] {
        let Some(part) = self.part_of(mgid) else { return &[] };
        let first = part.unprotected.partition_point(|one| one.mgid < mgid);
        let end = part.unprotected.partition_point(|one| one.mgid <= mgid);
        &part.unprotected[first..end]
    }

    /// Lists the groups that have only one of their two trees, part by part.
    pub fn unprotected(&self) -> impl Iterator<Item = &Unprotected> {
        self.parts.iter().flatten().flat_map(|part| &part.unprotected)
    }

    /// Lists the groups that are not on the spanning tree of their MGID, by MGID.
    #[must_use]
    pub fn moved(&self) -> &[Moved] {
        &self.moved
    }

    /// Lists the groups without a tree, by MGID.
    #[must_use]
    pub fn unrouted(&self) -> &[Unrouted] {
        &self.unrouted
    }

    /// Lists all members left out, part by part.
    pub fn cut_off(&self) -> impl Iterator<Item = &CutOff> {
        self.parts.iter().flatten().flat_map(|part| &part.cut_off)
    }

    /// Lists the groups that may have another route, or other reasons for it, than in an earlier
    /// plan of the same engine, rising.
    ///
    /// Cost: the groups of the parts that changed, and the displaced and unrouted groups if any of
    /// them changed.
    ///
    /// # Panics
    ///
    /// If the plans have different numbers of parts.
    #[must_use]
    pub fn changed_groups(&self, earlier: &Self) -> Vec<Mgid> {
        let mut changed = Vec::new();
        for number in self.changed_since(earlier) {
            self.changed_groups_of(earlier, number, &mut changed);
        }
        if !Arc::ptr_eq(&self.moved, &earlier.moved) {
            report::differing(&self.moved, &earlier.moved, |moved| moved.mgid, &mut changed);
        }
        if !Arc::ptr_eq(&self.unrouted, &earlier.unrouted) {
            report::differing(&self.unrouted, &earlier.unrouted, |one| one.mgid, &mut changed);
        }
        changed.sort_unstable();
        changed.dedup();
        changed
    }

    /// Adds the groups of one part that differ, or whose virtual group does.
    fn changed_groups_of(&self, earlier: &Self, number: u32, changed: &mut Vec<Mgid>) {
        let mut virtual_groups = Vec::new();
        for tree in 0..2 {
            let now: Vec<_> = self.virtual_groups_on(number, tree).collect();
            let before: Vec<_> = earlier.virtual_groups_on(number, tree).collect();
            report::differing(&now, &before, |one| Mgid(one.id.0), &mut virtual_groups);
        }
        virtual_groups.sort_unstable();
        fn groups(part: Option<&Part>) -> Vec<GroupPlan<'_>> {
            part.into_iter().flat_map(Part::groups).collect()
        }
        fn unprotected(part: Option<&Part>) -> &[Unprotected] {
            part.map_or(&[], |part| &part.unprotected)
        }
        let (part, part_before) = (self.part(number), earlier.part(number));
        let (now, before) = (groups(part), groups(part_before));
        report::differing(&now, &before, |group| group.mgid, changed);
        let (lacks, lacked) = (unprotected(part), unprotected(part_before));
        report::differing(lacks, lacked, |one| one.mgid, changed);
        let is_in_changed = |group: &&GroupPlan<'_>| {
            virtual_groups.binary_search(&Mgid(group.virtual_group.0)).is_ok()
        };
        changed.extend(now.iter().filter(is_in_changed).map(|group| group.mgid));
    }

    /// Lists the parts in which anything differs from an earlier plan of the same engine.
    ///
    /// # Panics
    ///
    /// If the plans have different numbers of parts.
    #[must_use]
    pub fn changed_since(&self, earlier: &Self) -> Vec<u32> {
        assert_eq!(self.parts.len(), earlier.parts.len(), "plans of one engine");
        let same = |a: &Option<Arc<Part>>, b: &Option<Arc<Part>>| match (a, b) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) || a == b,
            (Some(_), None) | (None, Some(_)) => false,
        };
        (0u32..)
            .zip(self.parts.iter().zip(&earlier.parts))
            .filter(|(number, (now, then))| {
                let at = *number as usize;
                let twins = self.twins.get(at).zip(earlier.twins.get(at));
                !same(now, then) || twins.is_some_and(|(now, then)| !same(now, then))
            })
            .map(|(number, _)| number)
            .collect()
    }
}
