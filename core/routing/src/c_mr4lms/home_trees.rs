//! Trees that groups have at home, for an engine that finds other places in its own way.
//!
//! The tree of a group at home hangs from the fixed root of the spanning tree that its MGID stands
//! for, so it follows from MGID, members and fabric alone.

use std::sync::Arc;

use fabricast_topology::{FatTree, Graph, Mgid, Peer, PortId, TableKind};

use crate::c_mr4lms::fabric::Fabric;
use crate::c_mr4lms::footprint::Footprint;
use crate::c_mr4lms::group_trees::group_tree;
use crate::c_mr4lms::numbers::TreeNumber;
use crate::group_tree::GroupTree;
use crate::spt::{Layout, LayoutError, MgidSpace};

/// The spanning trees of a fabric without faults.
#[derive(Clone, Debug)]
pub(crate) struct HomeTrees {
    layout: Layout,
    fabric: Fabric,
}

impl HomeTrees {
    /// Numbers the spanning trees of a fabric.
    ///
    /// # Errors
    ///
    /// [`LayoutError`] if the colors are out of range or the fabric has no spanning tree.
    pub(crate) fn new(
        graph: Arc<Graph>,
        fat_tree: Arc<FatTree>,
        colors: u16,
        tables: TableKind,
    ) -> Result<Self, LayoutError> {
        let layout = Layout::new(fat_tree.params(), colors, tables)?;
        Ok(Self { fabric: Fabric::new(graph, fat_tree, &layout), layout })
    }

    /// Gives the numbers from which MGIDs are chosen.
    pub(crate) const fn space(&self) -> &MgidSpace {
        self.layout.space()
    }

    /// Gives the color and the tree that a group has at home, live or not; none if this fabric has
    /// never had some link of it.
    ///
    /// - `member_ports`: the ports that its members are plugged into.
    /// - Cost: the members.
    pub(crate) fn tree(&self, mgid: Mgid, member_ports: &[PortId]) -> Option<(u16, GroupTree)> {
        let Self { layout, fabric } = self;
        let endpoint = |port: &PortId| match fabric.graph.peer(*port) {
            Peer::Endpoint(endpoint) => Some(endpoint),
            Peer::Switch(_) | Peer::None => None,
        };
        let endpoints: Vec<_> = member_ports.iter().filter_map(endpoint).collect();
        let mut members = fabric.slots_of(&endpoints);
        members.sort_unstable();
        let mut footprint = Footprint::default();
        footprint.trace(fabric, &members);
        let tree = fabric.tree(TreeNumber(layout.space().spt(mgid)));
        let lacks_link = fabric.missing_link(tree, footprint.places()).is_some();
        if lacks_link || !footprint.cut_off.is_empty() {
            return None;
        }
        Some((tree.color, group_tree(fabric, tree, &members, &footprint)?))
    }
}
