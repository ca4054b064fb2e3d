//! Entries that no engine can do without, if every group is to have a tree of its own.
//!
//! Trees that cross one link (with per-switch tables: one switch) have different entries. So an
//! endpoint's link needs one for every group of the endpoint, and where groups have members inside
//! and outside of a part of the fabric, those have to share the links that lead out of it. Parts
//! that are looked at: the endpoints of one switch, and a whole compute midplane.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_topology::{EndpointId, FatTree, Faults, Graph, SwitchId, TableKind};

use crate::links::{REACH, SwitchLinks};

/// The members of every group that has a tree, with the switches they hang on.
type Groups = Vec<Vec<(EndpointId, SwitchId)>>;

/// Computes how many entries any engine needs to give every group a tree of its own.
///
/// - `fat_tree`: the view of `graph` if the engine serves endpoints at leaf switches only; none
///   otherwise.
/// - The bound is 1 where some switches are not connected, so that some members may not need a
///   tree.
/// - Cost: O(memberships * log).
#[must_use]
pub fn least_entries(
    graph: &Graph,
    fat_tree: Option<&FatTree>,
    tables: TableKind,
    groups: &[Vec<EndpointId>],
) -> u32 {
    let groups = with_trees(graph, fat_tree, groups);
    let links = SwitchLinks::new(graph, &Faults::new());
    let at_switch = crossings(&groups, |switch| Some(switch.0));
    let mut least = 1;
    for (switch, (inside, out)) in at_switch {
        let neighbours = links.neighbours(SwitchId(switch));
        let ways = match tables {
            TableKind::PerPort => neighbours.len(),
            TableKind::PerSwitch => neighbours.iter().collect::<BTreeSet<_>>().len(),
        };
        least = least.max(share(out, ways));
        if tables == TableKind::PerSwitch {
            least = least.max(inside);
        }
    }
    if tables == TableKind::PerPort {
        let mut of_endpoint: BTreeMap<EndpointId, u32> = BTreeMap::new();
        for (endpoint, _) in groups.iter().flatten() {
            *of_endpoint.entry(*endpoint).or_default() += 1;
        }
        least = least.max(of_endpoint.into_values().max().unwrap_or(0));
    }
    fat_tree.map_or(least, |view| least.max(of_midplanes(view, tables, &groups)))
}

/// Counts the groups that get a tree however small the tables are, if the fabric is connected;
/// fewer otherwise.
pub(super) fn trees(graph: &Graph, fat_tree: Option<&FatTree>, groups: &[Vec<EndpointId>]) -> u32 {
    count(with_trees(graph, fat_tree, groups).len())
}

fn of_midplanes(view: &FatTree, tables: TableKind, groups: &Groups) -> u32 {
    let params = view.params();
    if params.levels < 3 {
        return 1; // one midplane only
    }
    let leaf_cn: BTreeMap<SwitchId, u32> = (0..count(view.leaf_count()))
        .map(|leaf| (view.leaf_switch(leaf), view.cn_of_leaf(leaf)))
        .collect();
    let ways = |cn: u32| -> usize {
        let spines = (0..params.spines).filter(|g| view.l1_switch(cn, *g).is_some());
        match tables {
            TableKind::PerPort => spines
                .map(|g| {
                    (0..params.l1_up_ports()).filter(|u| view.l1_up(cn, g, *u).is_some()).count()
                })
                .sum(),
            TableKind::PerSwitch => spines.count(),
        }
    };
    let crossings = crossings(groups, |switch| leaf_cn.get(&switch).copied());
    crossings.into_iter().map(|(cn, (_, out))| share(out, ways(cn))).max().unwrap_or(1)
}

/// Counts, for every part of the fabric that has members, the groups in it and those that are
/// outside of it too.
fn crossings(groups: &Groups, part: impl Fn(SwitchId) -> Option<u32>) -> BTreeMap<u32, (u32, u32)> {
    let mut counts: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
    for members in groups {
        let parts: BTreeSet<u32> = members.iter().filter_map(|(_, switch)| part(*switch)).collect();
        for at in &parts {
            let (inside, out) = counts.entry(*at).or_default();
            *inside += 1;
            *out += u32::from(parts.len() > 1);
        }
    }
    counts
}

/// Leaves out what may have no tree: everything where switches are not connected, members that are
/// not attached where the engine wants them, groups of fewer than two members.
fn with_trees(graph: &Graph, fat_tree: Option<&FatTree>, groups: &[Vec<EndpointId>]) -> Groups {
    if !is_connected(graph) {
        return Vec::new();
    }
    let is_served = |endpoint: &EndpointId| {
        fat_tree.is_none_or(|view| view.leaf_of_endpoint(*endpoint).is_some())
    };
    let attached = |members: &Vec<EndpointId>| -> Vec<(EndpointId, SwitchId)> {
        let served = members.iter().filter(|endpoint| is_served(endpoint));
        let at = |endpoint: &EndpointId| {
            Some((*endpoint, graph.switch_of(graph.attachment(*endpoint)?)))
        };
        served.filter_map(at).collect()
    };
    groups.iter().map(attached).filter(|members| members.len() >= 2).collect()
}

/// Tells whether every switch is at most [`REACH`] hops from the first one.
fn is_connected(graph: &Graph) -> bool {
    let links = SwitchLinks::new(graph, &Faults::new());
    let mut seen = vec![false; graph.switch_count()];
    let mut front: Vec<SwitchId> = graph.switches().take(1).collect();
    front.iter().for_each(|switch| seen[switch.index()] = true);
    for _ in 0..REACH {
        let mut next = Vec::new();
        for to in front.iter().flat_map(|switch| links.neighbours(*switch)) {
            if !std::mem::replace(&mut seen[to.index()], true) {
                next.push(*to);
            }
        }
        front = next;
    }
    seen.into_iter().all(|seen| seen)
}

/// Entries of each of some links (or switches) that have to carry so many trees.
fn share(trees: u32, ways: usize) -> u32 {
    trees.div_ceil(count(ways).max(1))
}

fn count(count: usize) -> u32 {
    u32::try_from(count).expect("counted in 32 bits")
}

#[cfg(test)]
mod tests {
    use fabricast_topology::spec::TopologySpec;

    use super::*;

    fn bound(spec: &str, tables: TableKind, groups: &[&[u32]]) -> u32 {
        let graph = TopologySpec::parse(spec).unwrap().generate().unwrap();
        let view = FatTree::detect(&graph).unwrap();
        let groups: Vec<Vec<EndpointId>> = groups
            .iter()
            .map(|members| members.iter().copied().map(EndpointId).collect())
            .collect();
        let any = least_entries(&graph, None, tables, &groups);
        let fat_tree = least_entries(&graph, Some(&view), tables, &groups);
        assert!(any <= fat_tree);
        fat_tree
    }

    /// h0 h1 on leaf 0, h2 h3 on leaf 1, h4 h5 on leaf 2.
    const LEAVES: &str = "kind = 'leaf-spine'\nleaves = 3\nspines = 2\nendpoints_per_leaf = 2";

    #[test]
    fn every_group_of_an_endpoint_needs_an_entry_of_its_link() {
        let groups: [&[u32]; 4] = [&[0, 2], &[0, 4], &[0, 1], &[0]];
        assert_eq!(bound(LEAVES, TableKind::PerPort, &groups), 3);
        assert_eq!(bound(LEAVES, TableKind::PerPort, &[]), 1);
    }

    #[test]
    fn groups_that_leave_a_switch_share_its_links() {
        let groups: [&[u32]; 5] = [&[0, 2], &[1, 3], &[0, 4], &[1, 5], &[2, 4]];
        assert_eq!(bound(LEAVES, TableKind::PerPort, &groups), 2); // four over two links
        assert_eq!(bound(LEAVES, TableKind::PerSwitch, &groups), 4);
    }

    #[test]
    fn groups_that_leave_a_midplane_share_its_links() {
        // One L1 switch with one up-port in each of two CNs; four leaves of two endpoints in each.
        let spec = "kind='cn-tn-fat-tree'\nq=4\nm=1\np=1\nk=2\nw=1\nendpoints_per_leaf=2";
        let groups: [&[u32]; 4] = [&[0, 8], &[2, 10], &[4, 12], &[6, 14]];
        assert_eq!(bound(spec, TableKind::PerPort, &groups), 4);
        assert_eq!(bound(spec, TableKind::PerSwitch, &groups), 4);
    }

    #[test]
    fn nothing_is_claimed_of_a_fabric_in_pieces() {
        let spec = format!(
            "{LEAVES}\n[faults]\nlinks = [{{switch='leaf0',to='spine0'}}, \
             {{switch='leaf0',to='spine1'}}]"
        );
        assert_eq!(bound(&spec, TableKind::PerPort, &[&[0, 2], &[0, 4]]), 1);
    }
}
