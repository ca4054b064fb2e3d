//! A plan as the simulator walks it.

use std::collections::BTreeMap;

use fabricast_routing::Plan;
use fabricast_simulator::{Routes, TreeId};
use fabricast_topology::{Graph, Mgid};

use crate::routing::Refusal;

/// Adds the trees of groups to those of the simulator; groups that share a tree share it here too.
///
/// Returns the trees of each group, two with fault tolerance.
pub(crate) fn trees(
    graph: &Graph,
    plan: &Plan,
    mgids: &[Mgid],
) -> Result<(Routes, Vec<Vec<TreeId>>), Refusal> {
    let (mut routes, mut known) = (Routes::new(), BTreeMap::new());
    let mut of_groups = Vec::with_capacity(mgids.len());
    for mgid in mgids {
        let mut of_group = Vec::new();
        for shared in plan.virtual_group_trees(*mgid) {
            let key = (shared.part, shared.tree, shared.id);
            let tree = match known.get(&key) {
                Some(tree) => *tree,
                None => routes.add_tree(graph, shared.ports)?,
            };
            known.insert(key, tree);
            of_group.push(tree);
        }
        of_groups.push(of_group);
    }
    Ok((routes, of_groups))
}
