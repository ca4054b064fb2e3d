//! Finds the shortest chains of trees that meet, breadth first from one group.

use fabricast_topology::{Graph, Mgid, TableKind};

use super::{SharedPart, Sharer, Step};
use crate::group_tree::GroupTree;

/// Places where the own tree of a group can meet others.
#[derive(Debug)]
pub(super) struct Own {
    mgid: Mgid,
    parts: Vec<SharedPart>, // rising
}

impl Own {
    /// - `trees`: those of the group alone.
    pub(super) fn of(graph: &Graph, tables: TableKind, mgid: Mgid, trees: &[GroupTree]) -> Self {
        let mut parts = Vec::new();
        for tree in trees {
            let lowers = tree.links.iter().map(|(lower, _)| lower).chain(&tree.member_ports);
            parts.extend(lowers.clone().map(|port| SharedPart::Link(*port)));
            if tables == TableKind::PerSwitch {
                let ports = lowers.chain(tree.links.iter().map(|(_, upper)| upper));
                parts.extend(ports.map(|port| SharedPart::Switch(graph.switch_of(*port))));
            }
        }
        parts.sort_unstable();
        parts.dedup();
        Self { mgid, parts }
    }
}

/// Lists all groups but one, with the last step of the shortest chain from that one to each.
pub(super) fn chains(trees: &[Own], from: Mgid) -> Vec<Sharer> {
    let mut holders: Vec<(SharedPart, usize)> = (0..)
        .zip(trees)
        .flat_map(|(at, tree)| tree.parts.iter().map(move |part| (*part, at)))
        .collect();
    holders.sort_unstable();
    let mut why: Vec<Option<Step>> = vec![None; trees.len()];
    let mut waiting: Vec<usize> =
        trees.iter().position(|one| one.mgid == from).into_iter().collect();
    let mut next = 0;
    while let Some(at) = waiting.get(next).copied() {
        next += 1;
        let steps = why[at].map_or(0, |step| step.steps) + 1;
        for part in &trees[at].parts {
            let first = holders.partition_point(|(other, _)| other < part);
            let here = holders[first..].iter().take_while(|(other, _)| other == part);
            for (_, other) in here {
                if trees[*other].mgid != from && why[*other].is_none() {
                    why[*other] = Some(Step { steps, through: trees[at].mgid, at: *part });
                    waiting.push(*other);
                }
            }
        }
    }
    let mut sharers: Vec<Sharer> = trees
        .iter()
        .zip(why)
        .filter(|(tree, _)| tree.mgid != from)
        .map(|(tree, why)| Sharer { mgid: tree.mgid, why })
        .collect();
    sharers.sort_by_key(|one| (one.why.map_or(u32::MAX, |step| step.steps), one.mgid));
    sharers
}
