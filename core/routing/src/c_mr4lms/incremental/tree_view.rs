//! A spanning tree during a change of one group, with the members that the group has at that step.

use fabricast_topology::{Mgid, Place, PortId, SwitchId};

use super::extent::{Extent, LINKS, place};
use crate::c_mr4lms::fabric::Fabric;
use crate::c_mr4lms::numbers::{EndpointSlot, GroupIndex};
use crate::c_mr4lms::registry::Registry;
use crate::plan::{DetachedTree, Ports};
use crate::spt::SpanningTree;

/// The part of the engine that a change reads.
#[derive(Clone, Copy)]
pub(super) struct TreeView<'a> {
    pub(super) fabric: &'a Fabric,
    pub(super) registry: &'a Registry,
    pub(super) tree: &'a SpanningTree,
    /// Index of the group that is changing, and its members between two steps of the change.
    pub(super) own: (GroupIndex, &'a [EndpointSlot]),
}

impl<'a> TreeView<'a> {
    pub(super) fn extent(self, index: GroupIndex) -> Extent<'a> {
        let own = (self.own.0 == index).then_some(self.own.1);
        Extent::of(self.fabric, own.unwrap_or_else(|| &self.registry.get(index).members))
    }

    /// Gives the topmost switch of a group's tree, if there is a tree.
    pub(super) fn top(self, extent: Extent<'_>) -> Option<SwitchId> {
        let level = extent.height.checked_sub(1)?;
        let at = place(self.fabric, level, *extent.slots.first()?);
        self.fabric.switch(self.tree, level, at)
    }

    /// Gives the height of the trees that hang from a switch.
    pub(super) fn height(self, root: Option<SwitchId>) -> usize {
        match root.map(|switch| self.fabric.fat_tree.place(switch)) {
            None | Some(Place::Outside) => 0,
            Some(Place::Leaf { .. }) => 1,
            Some(Place::L1 { .. }) => 2,
            Some(Place::L2 { .. }) => 3,
            Some(Place::L3 { .. }) => 4,
        }
    }

    /// Gives the topmost switch of connected groups, of which none is higher than `most`.
    pub(super) fn root(self, groups: &[Mgid], most: usize) -> Option<SwitchId> {
        let mut highest = Extent { slots: &[], height: 0 };
        for index in groups.iter().filter_map(|mgid| self.registry.find(*mgid)) {
            let extent = self.extent(index);
            if extent.height > highest.height {
                highest = extent;
            }
            if highest.height >= most {
                break;
            }
        }
        self.top(highest)
    }

    /// Gives both ends of the link above a leaf, CN or block.
    pub(super) fn ends(self, level: usize, at: u32) -> [PortId; 2] {
        let row = self.fabric.rows(self.tree)[level];
        let (lower, upper) = self.fabric.tiers[level].row(row)[at as usize];
        [PortId(lower), PortId(upper)]
    }

    /// Builds the virtual group of groups that share a tree with each other and nobody else.
    pub(super) fn assemble(self, indices: &[GroupIndex]) -> DetachedTree {
        let mut groups: Vec<_> =
            indices.iter().map(|index| self.registry.get(*index).mgid).collect();
        groups.sort_unstable();
        let mut ports = Vec::new();
        for extent in
            indices.iter().map(|index| self.extent(*index)).filter(|extent| extent.has_tree())
        {
            ports.extend(extent.slots.iter().map(|slot| self.fabric.port_at(*slot)));
            for level in (0..LINKS).filter(|level| extent.height > level + 1) {
                let ends = || extent.places(self.fabric, level).map(|at| self.ends(level, at));
                ports.extend(ends().map(|[lower, _]| lower));
                ports.extend(ends().map(|[_, upper]| upper));
            }
        }
        ports.sort(); // mostly a few rising lists
        ports.dedup();
        DetachedTree { root: self.root(&groups, LINKS + 1), groups, ports: Ports::new(ports) }
    }
}
