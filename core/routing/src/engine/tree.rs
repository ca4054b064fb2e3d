//! Cuts the tree of one group out of the tree of its virtual group.

use fabricast_topology::PortId;

use crate::engine::Engine;
use crate::engine::footprint::Footprint;
use crate::group_tree::GroupTree;
use crate::mgid::Mgid;

impl Engine {
    /// Gives the tree of one group; none if it does not exist, is not routed or has fewer than two live members.
    #[must_use]
    pub fn group_tree(&self, mgid: Mgid) -> Option<GroupTree> {
        let planned = self.plan.group(mgid).filter(|group| group.has_tree())?;
        let members = &self.registry.get(self.registry.find(mgid)?).members;
        let mut footprint = Footprint::default();
        footprint.trace(&self.fabric, members);
        let tree = self.fabric.tree(planned.part);
        let mut links = Vec::new();
        let rows = self.fabric.rows(tree);
        for (level, places) in footprint.places().into_iter().enumerate() {
            if places.len() > 1 {
                let (lower, upper) = self.fabric.tiers[level].row(rows[level]);
                let link = |at: &u32| (PortId(lower[*at as usize]), PortId(upper[*at as usize]));
                links.extend(places.iter().map(link));
            }
        }
        links.sort_unstable();
        let (level, at) = footprint.top();
        let seats = footprint.live(members).iter();
        Some(GroupTree {
            root: self.fabric.switch(tree, level, at)?,
            links,
            member_ports: seats.map(|seat| PortId(self.fabric.seat_port[*seat as usize])).collect(),
        })
    }
}
