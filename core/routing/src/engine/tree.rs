//! Cuts the tree of one group out of the tree of its virtual group.

use fabricast_topology::{PortId, SwitchId};

use crate::engine::Engine;
use crate::engine::footprint::Footprint;
use crate::mgid::Mgid;

/// The tree of one group alone, as it lies in the tree of its virtual group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupTree {
    /// The topmost switch.
    pub root: SwitchId,
    /// Its links between switches, lower port first, rising.
    pub links: Vec<(PortId, PortId)>,
    /// The leaf ports of the live members, rising.
    pub member_ports: Vec<PortId>,
}

impl Engine {
    /// Gives the tree of one group; none if it does not exist, is not routed or has fewer than two live members.
    #[must_use]
    pub fn group_tree(&self, mgid: Mgid) -> Option<GroupTree> {
        let planned = self.plan.group(mgid).filter(|group| group.has_tree())?;
        let members = &self.registry.get(self.registry.find(mgid)?).members;
        let mut footprint = Footprint::default();
        footprint.trace(&self.fabric, members);
        let tree = self.fabric.tree(planned.spt);
        let (mut links, mut top, mut root_at) = (Vec::new(), 0, footprint.leaves[0]);
        let rows = self.fabric.rows(tree);
        for (level, places) in footprint.places().into_iter().enumerate() {
            if places.len() > 1 {
                let (lower, upper) = self.fabric.tiers[level].row(rows[level]);
                let link = |at: &u32| (PortId(lower[*at as usize]), PortId(upper[*at as usize]));
                links.extend(places.iter().map(link));
                let above = [footprint.cns.first(), footprint.blocks.first(), None];
                (top, root_at) = (level + 1, above[level].copied().unwrap_or(0));
            }
        }
        links.sort_unstable();
        let seats = footprint.live(members).iter();
        Some(GroupTree {
            root: self.fabric.switch(tree, top, root_at)?,
            links,
            member_ports: seats.map(|seat| PortId(self.fabric.seat_port[*seat as usize])).collect(),
        })
    }
}
