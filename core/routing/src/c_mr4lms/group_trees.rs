//! Cuts the tree of one group out of the tree of its virtual group.

use fabricast_topology::PortId;

use crate::c_mr4lms::fabric::Fabric;
use crate::c_mr4lms::footprint::Footprint;
use crate::c_mr4lms::numbers::EndpointSlot;
use crate::group_tree::GroupTree;
use crate::spt::SpanningTree;

/// Gives the trees over the live members (slots, rising) on the spanning trees of a number. Of a
/// pair those whose links do not exist are left out, and the second one if no link is needed.
pub(super) fn group_trees(
    fabric: &Fabric,
    trees: &[SpanningTree],
    members: &[EndpointSlot],
) -> Vec<GroupTree> {
    let mut footprint = Footprint::default();
    footprint.trace(fabric, members);
    let places = footprint.places();
    let wanted = if places[0].len() > 1 { trees } else { &trees[..1] };
    let existing =
        (0u8..).zip(wanted).filter(|(_, tree)| fabric.missing_link(tree, places).is_none());
    let cut = existing.filter_map(|(half, tree)| {
        Some(GroupTree { tree: half, ..group_tree(fabric, tree, members, &footprint)? })
    });
    cut.collect()
}

/// Gives the tree over the live members (slots, rising) on a spanning tree.
///
/// - `footprint`: that of these members.
pub(super) fn group_tree(
    fabric: &Fabric,
    tree: &SpanningTree,
    members: &[EndpointSlot],
    footprint: &Footprint,
) -> Option<GroupTree> {
    let mut links = Vec::new();
    let rows = fabric.rows(tree);
    for (level, places) in footprint.places().into_iter().enumerate() {
        if places.len() > 1 {
            let row = fabric.tiers[level].row(rows[level]);
            let ends = places.iter().map(|at| row[*at as usize]);
            links.extend(ends.map(|(lower, upper)| (PortId(lower), PortId(upper))));
        }
    }
    links.sort_unstable();
    let (_, root) = footprint.top_switch(fabric, tree)?;
    let member_ports = footprint.live(members).iter().map(|slot| fabric.port_at(*slot)).collect();
    Some(GroupTree { tree: 0, root, links, member_ports })
}
