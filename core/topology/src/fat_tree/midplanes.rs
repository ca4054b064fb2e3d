//! Finds the midplanes and the position of every switch in them.
//!
//! Needs the levels, and uses only links between neighbouring levels. Every numbering follows the
//! switch numbers, so it is a function of the graph.
//!
//! Where every level-1 switch of a compute midplane has top midplanes of its own, the components
//! above the leaves are the groups of top midplanes; else see [`find_shared_tops`].

use super::levels::{Levels, UNREACHED, links};
use super::report::{NotFatTree, Reason, Reasons};
use super::shared_tops::find_shared_tops;
use super::{NONE, Place};
use crate::disjoint::DisjointSets;
use crate::graph::Graph;
use crate::ids::{SwitchId, dense};

/// Positions of all switches.
#[derive(Default)]
pub(super) struct Midplanes {
    pub(super) levels: u32,
    pub(super) leaves: Vec<SwitchId>,
    /// Compute midplane of each leaf.
    pub(super) leaf_cn: Vec<u32>,
    pub(super) cns: u32,
    /// Level-1 switches per CN.
    pub(super) spines: u32,
    /// By CN and group: switch or [`NONE`].
    pub(super) l1: Vec<u32>,
    /// Block of each CN.
    pub(super) cn_block: Vec<u32>,
    /// Blocks that have a CN.
    pub(super) populated: u32,
    /// Top midplanes by group, each in the order of its switches.
    pub(super) groups: Vec<Vec<TopMidplane>>,
}

/// One top midplane.
pub(super) struct TopMidplane {
    /// By block; blocks without a CN come last.
    pub(super) l2: Vec<Option<SwitchId>>,
    pub(super) l3: Vec<SwitchId>,
}

/// A top midplane before its level-2 switches are assigned to blocks.
#[derive(Default)]
struct Parts {
    l2: Vec<SwitchId>,
    l3: Vec<SwitchId>,
}

/// Finds the midplanes.
pub(super) fn find_midplanes(graph: &Graph, levels: &Levels) -> Result<Midplanes, NotFatTree> {
    let mut found = Midplanes { leaves: levels.on(0).collect(), ..Midplanes::default() };
    let top = levels.level.iter().filter(|level| **level != UNREACHED).max();
    found.levels = u32::from(*top.expect("there is a leaf")) + 1;
    check_connected(graph, levels, found.levels)?;
    let switch_cn = find_cns(graph, levels, &mut found);
    if found.levels == 1 {
        found.cn_block = vec![0];
        found.populated = 1;
        return Ok(found);
    }
    find_blocks(graph, levels, &switch_cn, &mut found);
    let groups = find_groups(graph, levels, &switch_cn, &mut found);
    let own_tops = groups.and_then(|groups| find_tops(graph, levels, &groups, &switch_cn, &found));
    match own_tops {
        Some(tops) => found.groups = tops,
        None => find_shared_tops(graph, levels, &switch_cn, &mut found),
    }
    Ok(found)
}

/// Refuses fabrics in several components, unless the smaller ones are single leaf switches, or
/// single compute midplanes of a fabric with top midplanes.
fn check_connected(graph: &Graph, levels: &Levels, depth: u32) -> Result<(), NotFatTree> {
    let mut parts = DisjointSets::new(levels.level.len());
    for (switch, other) in neighbours(graph, levels) {
        parts.join(switch.0, other.0);
    }
    let mut leaves = vec![0u32; levels.level.len()];
    for leaf in levels.on(0) {
        leaves[parts.find(leaf.0) as usize] += 1;
    }
    let most = leaves.iter().copied().max().unwrap_or(0);
    let main = leaves.iter().position(|count| *count == most).unwrap_or(0);
    let mut height = vec![0u8; levels.level.len()];
    for switch in graph.switches().filter(|switch| levels.of(*switch) != UNREACHED) {
        let part = parts.find(switch.0) as usize;
        height[part] = height[part].max(levels.of(switch));
    }
    let mut reasons = Reasons::default();
    for part in (0..leaves.len()).filter(|part| *part != main && leaves[*part] > 0) {
        let of_main = u32::from(height[main]) + 1 == depth;
        let is_cut_off = depth > 1 && height[part] == 0 || depth > 2 && height[part] == 1;
        if !(of_main && is_cut_off) {
            reasons.push(Reason::NotConnected {
                a: graph.switch_label(SwitchId(dense(main))),
                b: graph.switch_label(SwitchId(dense(part))),
            });
        }
    }
    reasons.check()
}

/// Iterates over the pairs of lower and upper switch with a link, once per link.
pub(super) fn neighbours<'a>(
    graph: &'a Graph,
    levels: &'a Levels,
) -> impl Iterator<Item = (SwitchId, SwitchId)> + 'a {
    graph.switches().filter(|switch| levels.of(*switch) != UNREACHED).flat_map(move |switch| {
        let above = levels.of(switch) + 1;
        links(graph, switch)
            .filter(move |(_, other)| levels.of(*other) == above)
            .map(move |(_, other)| (switch, other))
    })
}

/// Numbers the compute midplanes; returns that of every leaf and level-1 switch.
fn find_cns(graph: &Graph, levels: &Levels, found: &mut Midplanes) -> Vec<u32> {
    let mut sets = DisjointSets::new(levels.level.len());
    let mut has_l1 = vec![found.levels == 1; levels.level.len()];
    for (switch, other) in neighbours(graph, levels).filter(|(low, _)| levels.of(*low) == 0) {
        sets.join(switch.0, other.0);
    }
    for switch in levels.on(1) {
        has_l1[sets.find(switch.0) as usize] = true;
    }
    let mut cn_of = vec![NONE; levels.level.len()];
    let mut leaves_of: Vec<u32> = Vec::new();
    for switch in graph.switches().filter(|switch| levels.of(*switch) <= 1) {
        let root = sets.find(switch.0);
        if !has_l1[root as usize] {
            continue;
        }
        if root == switch.0 {
            cn_of[switch.index()] = dense(leaves_of.len());
            leaves_of.push(0);
        }
        let cn = cn_of[root as usize];
        cn_of[switch.index()] = cn;
        leaves_of[cn as usize] += u32::from(levels.of(switch) == 0);
    }
    // A leaf without links upwards goes where a leaf is missing.
    for leaf in &found.leaves {
        if cn_of[leaf.index()] == NONE {
            let (cn, count) =
                (0u32..).zip(&mut leaves_of).min_by_key(|(_, count)| **count).expect("a midplane");
            cn_of[leaf.index()] = cn;
            *count += 1;
        }
    }
    found.leaf_cn = found.leaves.iter().map(|leaf| cn_of[leaf.index()]).collect();
    found.cns = dense(leaves_of.len());
    cn_of
}

/// Sorts the level-1 switches into groups that share top midplanes: fills `l1` and returns the
/// group of every switch above the leaves; `None` if two level-1 switches of one midplane share
/// top midplanes, or one fits into no group.
///
/// A *fragment* is a connected component above the leaves. The first midplane with all its level-1
/// switches numbers the groups; a fragment that does not reach it (cut off by a fault) joins the
/// first group in which its midplanes lack a switch.
fn find_groups(
    graph: &Graph,
    levels: &Levels,
    switch_cn: &[u32],
    found: &mut Midplanes,
) -> Option<Vec<u32>> {
    let mut sets = DisjointSets::new(levels.level.len());
    for (switch, other) in neighbours(graph, levels).filter(|(low, _)| levels.of(*low) >= 1) {
        sets.join(switch.0, other.0);
    }
    let mut by_cn: Vec<Vec<SwitchId>> = vec![Vec::new(); found.cns as usize];
    let mut by_fragment: Vec<Vec<SwitchId>> = vec![Vec::new(); levels.level.len()];
    for switch in levels.on(1) {
        by_cn[switch_cn[switch.index()] as usize].push(switch);
        by_fragment[sets.find(switch.0) as usize].push(switch);
    }
    let most = by_cn.iter().map(Vec::len).max().unwrap_or(0);
    let model = by_cn.iter().find(|spines| spines.len() == most).expect("there is a midplane");
    let order = model.iter().chain(by_fragment.iter().filter_map(|fragment| fragment.first()));
    found.spines = dense(most);
    found.l1 = vec![NONE; by_cn.len() * most];
    let mut group_of = vec![NONE; levels.level.len()];
    for (turn, first) in order.enumerate() {
        let root = sets.find(first.0);
        let fragment = &by_fragment[root as usize];
        let slot =
            |switch: &SwitchId, group: usize| switch_cn[switch.index()] as usize * most + group;
        if group_of[root as usize] != NONE {
            if turn < most {
                return None;
            }
            continue;
        }
        let free =
            |group: &usize| fragment.iter().all(|switch| found.l1[slot(switch, *group)] == NONE);
        let group = if turn < most { turn } else { (0..most).find(free)? };
        group_of[root as usize] = dense(group);
        for switch in fragment {
            let taken = &mut found.l1[slot(switch, group)];
            if *taken == NONE {
                *taken = switch.0;
            } else {
                return None;
            }
        }
    }
    Some(levels.level.iter().zip(0u32..).map(|(_, id)| group_of[sets.find(id) as usize]).collect())
}

/// Sorts the compute midplanes into blocks that share level-2 switches.
fn find_blocks(graph: &Graph, levels: &Levels, switch_cn: &[u32], found: &mut Midplanes) {
    found.cn_block = vec![0; found.cns as usize];
    found.populated = 1;
    if found.levels < 4 {
        return;
    }
    let mut sets = DisjointSets::new(found.cns as usize);
    let mut has_l2 = vec![false; found.cns as usize];
    for l2 in levels.on(2) {
        let mut first = None;
        for (_, below) in links(graph, l2).filter(|(_, other)| levels.of(*other) == 1) {
            let cn = switch_cn[below.index()];
            has_l2[cn as usize] = true;
            sets.join(cn, *first.get_or_insert(cn));
        }
    }
    let mut sizes: Vec<u32> = Vec::new();
    for cn in (0..found.cns).filter(|cn| has_l2[*cn as usize]) {
        let root = sets.find(cn) as usize;
        if root == cn as usize {
            found.cn_block[root] = dense(sizes.len());
            sizes.push(0);
        }
        let block = found.cn_block[root];
        found.cn_block[cn as usize] = block;
        sizes[block as usize] += 1;
    }
    // A midplane without links upwards goes where one is missing.
    for cn in (0..found.cns).filter(|cn| !has_l2[*cn as usize]) {
        if let Some((block, size)) = (0u32..).zip(&mut sizes).min_by_key(|(_, size)| **size) {
            found.cn_block[cn as usize] = block;
            *size += 1;
        }
    }
    found.populated = dense(sizes.len()).max(1);
}

/// Builds the top midplanes of each group and assigns their level-2 switches to blocks; `None` if
/// two of one midplane serve one block.
fn find_tops(
    graph: &Graph,
    levels: &Levels,
    group_of: &[u32],
    switch_cn: &[u32],
    found: &Midplanes,
) -> Option<Vec<Vec<TopMidplane>>> {
    let mut sets = DisjointSets::new(levels.level.len());
    for (switch, other) in neighbours(graph, levels).filter(|(low, _)| levels.of(*low) == 2) {
        sets.join(switch.0, other.0);
    }
    let mut parts: Vec<Parts> = Vec::new();
    let mut part_of = vec![NONE; levels.level.len()];
    for switch in graph.switches().filter(|switch| matches!(levels.of(*switch), 2 | 3)) {
        let root = sets.find(switch.0);
        if root == switch.0 {
            part_of[switch.index()] = dense(parts.len());
            parts.push(Parts::default());
        }
        let part = &mut parts[part_of[root as usize] as usize];
        if levels.of(switch) == 2 { part.l2.push(switch) } else { part.l3.push(switch) }
    }
    let block_of = |l2: SwitchId| {
        links(graph, l2)
            .find(|(_, other)| levels.of(*other) == 1)
            .map(|(_, below)| found.cn_block[switch_cn[below.index()] as usize])
    };
    let mut groups: Vec<Vec<TopMidplane>> = (0..found.spines).map(|_| Vec::new()).collect();
    let whole = |part: &Parts| found.levels == 3 || !part.l3.is_empty();
    let most = parts.iter().filter(|part| whole(part)).map(|part| part.l2.len()).max();
    let blocks = most.unwrap_or(0).max(found.populated as usize);
    for part in parts.iter().filter(|part| whole(part)) {
        let first = part.l2.first().or(part.l3.first()).expect("a part has a switch");
        let Some(group) = groups.get_mut(group_of[first.index()] as usize) else {
            continue; // reported as unused
        };
        let mut l2 = vec![None; blocks];
        if !place_l2(&part.l2, found.populated as usize, &mut l2, block_of) {
            return None;
        }
        group.push(TopMidplane { l2, l3: part.l3.clone() });
    }
    // Level-2 switches that have lost their level 3: back to the midplane that lacks one.
    for part in parts.iter().filter(|part| !whole(part)) {
        for l2 in &part.l2 {
            let block = block_of(*l2).unwrap_or(0) as usize;
            let Some(group) = groups.get_mut(group_of[l2.index()] as usize) else {
                continue;
            };
            place_lost(group, *l2, block, blocks);
        }
    }
    for group in &mut groups {
        group.sort_by_key(|top| top.l2.iter().flatten().chain(&top.l3).min().copied());
    }
    Some(groups)
}

/// Puts a level-2 switch without a level 3 into the first midplane of its group that lacks one in
/// its block, or into a new one.
pub(super) fn place_lost(group: &mut Vec<TopMidplane>, l2: SwitchId, block: usize, blocks: usize) {
    if let Some(top) = group.iter_mut().find(|top| top.l2[block].is_none()) {
        top.l2[block] = Some(l2);
        return;
    }
    let mut slots = vec![None; blocks];
    slots[block] = Some(l2);
    group.push(TopMidplane { l2: slots, l3: Vec::new() });
}

/// Assigns level-2 switches to blocks; returns false if two serve one. Those that serve no midplane
/// take the unpopulated blocks; if there are too many of them, the first ones have lost their links
/// and take the populated slots that are free.
fn place_l2(
    switches: &[SwitchId],
    populated: usize,
    slots: &mut [Option<SwitchId>],
    block_of: impl Fn(SwitchId) -> Option<u32>,
) -> bool {
    let mut spare = Vec::new();
    for l2 in switches {
        match block_of(*l2) {
            None => spare.push(*l2),
            Some(block) if slots[block as usize].is_some() => return false,
            Some(block) => slots[block as usize] = Some(*l2),
        }
    }
    let lost = spare.len().saturating_sub(slots.len() - populated);
    let (lost, unpopulated) = spare.split_at(lost);
    let (low, high) = slots.split_at_mut(populated);
    for (slot, l2) in low.iter_mut().filter(|slot| slot.is_none()).zip(lost) {
        *slot = Some(*l2);
    }
    for (slot, l2) in high.iter_mut().zip(unpopulated) {
        *slot = Some(*l2);
    }
    true
}

impl Midplanes {
    /// Returns the position of every switch, the first of those that it has in several midplanes.
    pub(super) fn places(&self, switches: usize, tns_per_group: u32) -> Vec<Place> {
        let mut places = vec![Place::Outside; switches];
        for (leaf, switch) in (0u32..).zip(&self.leaves) {
            places[switch.index()] = Place::Leaf { leaf };
        }
        for (at, switch) in (0u32..).zip(&self.l1).filter(|(_, switch)| **switch != NONE) {
            places[*switch as usize] = Place::L1 { cn: at / self.spines, g: at % self.spines };
        }
        let mut set = |switch: SwitchId, place| {
            if places[switch.index()] == Place::Outside {
                places[switch.index()] = place;
            }
        };
        for (group, tops) in (0u32..).zip(&self.groups) {
            for (tn, top) in (group * tns_per_group..).zip(tops) {
                for (block, l2) in (0u32..).zip(&top.l2) {
                    if let Some(l2) = l2 {
                        set(*l2, Place::L2 { tn, block });
                    }
                }
                for (x, l3) in (0u32..).zip(&top.l3) {
                    set(*l3, Place::L3 { tn, x });
                }
            }
        }
        places
    }
}
