//! One part of a plan: the groups and trees of one spanning tree, or of one color.

mod edit;
mod ports;

use fabricast_topology::{Mgid, PortId, SwitchId};

use crate::plan::{CutOff, GroupPlan, Unprotected, VirtualGroup, VirtualGroupId};

pub(crate) use edit::DetachedTree;
pub(crate) use ports::Ports;

/// Groups and their trees, packed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) number: u32,
    pub(crate) color: u16,
    pub(crate) groups: Vec<PlannedGroup>, // by MGID
    pub(crate) virtual_groups: Vec<PlannedVirtualGroup>, // by id
    pub(crate) merged: Vec<Mgid>,         // virtual group by virtual group
    pub(crate) cut_off: Vec<CutOff>,      // by MGID
    pub(crate) unprotected: Vec<Unprotected>, // by MGID; with the first trees of pairs only
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlannedGroup {
    pub(crate) mgid: Mgid,
    pub(crate) virtual_group: VirtualGroupId,
    pub(crate) live: u32,
}

/// Its groups are those in `merged` up to the end given here, from where the one before ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedVirtualGroup {
    pub(crate) id: VirtualGroupId,
    pub(crate) root: Option<SwitchId>,
    pub(crate) merged_end: u32,
    pub(crate) ports: Ports,
}

impl Part {
    pub(super) fn find(&self, mgid: Mgid) -> Option<GroupPlan<'_>> {
        let at = self.groups.binary_search_by_key(&mgid, |group| group.mgid).ok()?;
        Some(self.group(&self.groups[at]))
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = GroupPlan<'_>> {
        self.groups.iter().map(|group| self.group(group))
    }

    fn group(&self, group: &PlannedGroup) -> GroupPlan<'_> {
        let first = self.cut_off.partition_point(|cut| cut.mgid < group.mgid);
        let end = self.cut_off.partition_point(|cut| cut.mgid <= group.mgid);
        GroupPlan {
            mgid: group.mgid,
            part: self.number,
            color: self.color,
            virtual_group: group.virtual_group,
            live_members: group.live,
            cut_off: &self.cut_off[first..end],
        }
    }

    /// Walks the virtual groups as they are on a tree of theirs.
    pub(super) fn virtual_groups(&self, tree: u8) -> impl Iterator<Item = VirtualGroup<'_>> {
        let mut merged = 0;
        self.virtual_groups.iter().map(move |row| {
            let merged_end = row.merged_end as usize;
            let view = VirtualGroup {
                id: row.id,
                tree,
                part: self.number,
                color: self.color,
                root: row.root,
                groups: &self.merged[merged..merged_end],
                ports: row.ports.as_slice(),
            };
            merged = merged_end;
            view
        })
    }
}

/// Puts a part together, virtual group by virtual group, in any order.
#[derive(Clone, Debug)]
pub struct PartBuilder {
    part: Part,
    trees: Vec<PlannedTree>,
}

/// One virtual group on its way into a part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTree {
    /// The switch it hangs from, if there is a tree.
    pub root: Option<SwitchId>,
    /// The switch ports of the tree as [`VirtualGroup::ports`] has them, but in any order.
    pub ports: Vec<PortId>,
    /// The groups merged in it with the number of members that are reached, any order, one or more.
    pub groups: Vec<(Mgid, u32)>,
}

impl PartBuilder {
    /// Starts a part without groups.
    #[must_use]
    pub const fn new(number: u32, color: u16) -> Self {
        Self { part: Part::empty(number, color), trees: Vec::new() }
    }

    /// Adds a virtual group.
    ///
    /// # Panics
    ///
    /// If it has no groups.
    pub fn add(&mut self, mut tree: PlannedTree) {
        assert!(!tree.groups.is_empty(), "a virtual group is made of groups");
        tree.ports.sort_unstable();
        tree.groups.sort_unstable();
        self.trees.push(tree);
    }

    /// Notes a member that is left out.
    pub fn cut_off(&mut self, cut: CutOff) {
        self.part.cut_off.push(cut);
    }

    /// Returns the part; none if it has no groups.
    pub(super) fn finish(self) -> Option<Part> {
        let Self { mut part, mut trees } = self;
        trees.sort_unstable_by_key(|tree| tree.groups[0]);
        for tree in trees {
            let id = VirtualGroupId(tree.groups[0].0.0);
            for (mgid, live) in tree.groups {
                part.groups.push(PlannedGroup { mgid, virtual_group: id, live });
                part.merged.push(mgid);
            }
            let merged_end = u32::try_from(part.merged.len()).expect("fewer than 2^32 groups");
            let ports = Ports::new(tree.ports);
            part.virtual_groups.push(PlannedVirtualGroup {
                id,
                root: tree.root,
                merged_end,
                ports,
            });
        }
        part.groups.sort_unstable_by_key(|group| group.mgid);
        part.cut_off.sort_unstable();
        (!part.groups.is_empty()).then_some(part)
    }
}
