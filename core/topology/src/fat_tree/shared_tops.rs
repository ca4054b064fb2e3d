//! Finds top midplanes that share switches: director switches and core switches that several
//! level-1 switches of one compute midplane (CN) are linked to.
//!
//! Source: MR4LMS §4.2 (both Sunway machines are such trees). A *director* here is a connected
//! component of level-2 and level-3 switches; with three levels each core switch is one. C-MR4LMS
//! §2 wires the level-1 switches of a CN to different directors. Here several are wired to one, and
//! each of them gets top midplanes (TNs) of its own in it. These have no link in common, so that
//! their spanning trees stay free of conflict, but share level-3 switches, and core switches.
//!
//! The two trees of a pair take the same positions in the lower and the upper half of the level-1
//! switches. The lists of switches therefore begin at different ones in both halves, so that the
//! trees meet in none above level 1, if a director has two level-3 switches or more. Core switches
//! that only some groups share are put apart as far as turning the lists goes.

use std::collections::{BTreeMap, BTreeSet};

use super::NONE;
use super::levels::{Levels, links};
use super::midplanes::{Midplanes, TopMidplane, neighbours, place_lost};
use crate::disjoint::DisjointSets;
use crate::graph::Graph;
use crate::ids::{SwitchId, dense};

/// Numbers the level-1 switches and builds the top midplanes; fills `spines`, `l1` and `groups`.
///
/// Needs the compute midplanes and blocks. Cost: O(links + CNs * spines^2 * log).
pub(super) fn find_shared_tops(
    graph: &Graph,
    levels: &Levels,
    switch_cn: &[u32],
    found: &mut Midplanes,
) {
    let search = Search { graph, levels, director: directors(graph, levels) };
    let l1_groups = search.number_spines(switch_cn, found);
    let users = search.users(&l1_groups);
    let block_of = |l2: SwitchId| {
        let mut below = search.below(l2);
        let first = below.next().expect("a switch that groups use has a link downwards");
        found.cn_block[switch_cn[first.index()] as usize] as usize
    };
    // By group and director: the level-2 switches of each block.
    let mut parts: BTreeMap<(u32, u32), Vec<Vec<SwitchId>>> = BTreeMap::new();
    for (l2, groups) in &users {
        for group in groups {
            let key = (*group, search.director[l2.index()]);
            let blocks =
                parts.entry(key).or_insert_with(|| vec![Vec::new(); found.populated as usize]);
            blocks[block_of(*l2)].push(*l2);
        }
    }
    found.groups = search.tops(found, &users, parts);
}

/// Returns the director of every switch of level 2 and 3: its lowest switch number.
fn directors(graph: &Graph, levels: &Levels) -> Vec<u32> {
    let mut sets = DisjointSets::new(levels.level.len());
    for (lower, upper) in neighbours(graph, levels).filter(|(low, _)| levels.of(*low) == 2) {
        sets.join(lower.0, upper.0);
    }
    (0..dense(levels.level.len())).map(|switch| sets.find(switch)).collect()
}

struct Search<'a> {
    graph: &'a Graph,
    levels: &'a Levels,
    director: Vec<u32>, // by switch
}

/// Links from a group to the level-2 switches and directors, as far as it is known.
#[derive(Default)]
struct Known {
    switches: BTreeSet<u32>,
    directors: BTreeSet<u32>,
}

impl Search<'_> {
    /// Returns the level-2 switches above a level-1 switch, once per link.
    fn above(&self, l1: SwitchId) -> impl Iterator<Item = SwitchId> + '_ {
        let above = links(self.graph, l1).map(|(_, other)| other);
        above.filter(|other| self.levels.of(*other) == 2)
    }

    /// Returns the level-1 switches below a level-2 switch, once per link.
    fn below(&self, l2: SwitchId) -> impl Iterator<Item = SwitchId> + '_ {
        let below = links(self.graph, l2).map(|(_, other)| other);
        below.filter(|other| self.levels.of(*other) == 1)
    }

    /// Gives the level-1 switches of each CN different numbers, so that those of one number have as
    /// many level-2 switches and directors in common as possible; returns the number of each.
    ///
    /// The first CN with the most level-1 switches numbers them in their order.
    fn number_spines(&self, switch_cn: &[u32], found: &mut Midplanes) -> Vec<u32> {
        let mut by_cn: Vec<Vec<SwitchId>> = vec![Vec::new(); found.cns as usize];
        for switch in self.levels.on(1) {
            by_cn[switch_cn[switch.index()] as usize].push(switch);
        }
        let most = by_cn.iter().map(Vec::len).max().unwrap_or(0);
        let model = by_cn.iter().position(|spines| spines.len() == most).unwrap_or(0);
        found.spines = dense(most);
        found.l1 = vec![NONE; by_cn.len() * most];
        let mut group_of = vec![NONE; self.levels.level.len()];
        let mut known: Vec<Known> = (0..most).map(|_| Known::default()).collect();
        let others = (0..by_cn.len()).filter(|cn| *cn != model);
        for cn in std::iter::once(model).chain(others) {
            let spines = &by_cn[cn];
            let mut pairs = Vec::with_capacity(spines.len() * most);
            for (rank, l1) in spines.iter().enumerate() {
                for (group, known) in known.iter().enumerate() {
                    let directors = self.above(*l1).map(|l2| self.director[l2.index()]);
                    let switches = self.above(*l1).filter(|l2| known.switches.contains(&l2.0));
                    let common = directors.filter(|at| known.directors.contains(at)).count();
                    let likeness = std::cmp::Reverse((switches.count(), common));
                    pairs.push((likeness, rank.abs_diff(group), rank, group));
                }
            }
            pairs.sort_unstable();
            for (.., rank, group) in pairs {
                let (l1, slot) = (spines[rank], &mut found.l1[cn * most + group]);
                if *slot == NONE && group_of[l1.index()] == NONE {
                    *slot = l1.0;
                    group_of[l1.index()] = dense(group);
                    known[group].switches.extend(self.above(l1).map(|l2| l2.0));
                    let directors = self.above(l1).map(|l2| self.director[l2.index()]);
                    known[group].directors.extend(directors);
                }
            }
        }
        group_of
    }

    /// Returns the groups that use each level-2 switch: those with more than half as many links to
    /// it as any other has. The remaining links are strays.
    fn users(&self, group_of: &[u32]) -> BTreeMap<SwitchId, Vec<u32>> {
        let mut users = BTreeMap::new();
        for l2 in self.levels.on(2) {
            let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
            for l1 in self.below(l2) {
                *counts.entry(group_of[l1.index()]).or_default() += 1;
            }
            let most = counts.values().copied().max().unwrap_or(0);
            counts.retain(|_, count| 2 * *count > most);
            if most > 0 {
                users.insert(l2, counts.into_keys().collect());
            }
        }
        users
    }

    /// Builds the top midplanes of all groups.
    ///
    /// - `users`: the groups that use each level-2 switch.
    /// - `parts`: by group and director, the level-2 switches of each block.
    fn tops(
        &self,
        found: &Midplanes,
        users: &BTreeMap<SwitchId, Vec<u32>>,
        parts: BTreeMap<(u32, u32), Vec<Vec<SwitchId>>>,
    ) -> Vec<Vec<TopMidplane>> {
        let mut l3_of: BTreeMap<u32, Vec<SwitchId>> = BTreeMap::new();
        for l3 in self.levels.on(3) {
            l3_of.entry(self.director[l3.index()]).or_default().push(l3);
        }
        // Directors in which one level-2 switch serves several groups: their level-3 switches are
        // divided among the groups, since the links to them would be shared.
        let mut divided: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for (l2, groups) in users.iter().filter(|(_, groups)| groups.len() > 1) {
            divided.entry(self.director[l2.index()]).or_default().extend(groups);
        }
        let blocks = found.populated as usize;
        let mut tops: Vec<Vec<TopMidplane>> = (0..found.spines).map(|_| Vec::new()).collect();
        let mut lost = Vec::new(); // level-2 switches without a level 3 that others have
        for ((group, director), l2s) in parts {
            let l3s = l3_of.get(&director).map_or(&[][..], Vec::as_slice);
            if l3s.is_empty() && found.levels == 4 {
                lost.push((group, l2s));
                continue;
            }
            let dividing = divided.get(&director).and_then(|groups| {
                let rank = groups.iter().position(|other| *other == group)?;
                Some((rank, groups.len()))
            });
            let (rank, groups) = dividing.unwrap_or((0, 1));
            let mut own: Vec<SwitchId> = l3s.iter().copied().skip(rank).step_by(groups).collect();
            begin_apart(&mut own, group, found.spines);
            let of_group = &mut tops[group as usize];
            for number in 0..l2s.iter().map(Vec::len).max().unwrap_or(0) {
                let l2 = l2s.iter().map(|list| list.get(number).copied()).collect();
                of_group.push(TopMidplane { l2, l3: own.clone() });
            }
        }
        for (group, l2s) in lost {
            let of_group = &mut tops[group as usize];
            for (block, l2s) in l2s.iter().enumerate() {
                l2s.iter().for_each(|l2| place_lost(of_group, *l2, block, blocks));
            }
        }
        if found.levels == 3 {
            let (low, high) = tops.split_at_mut(found.spines as usize / 2);
            for (group, tops) in (0u32..).zip(low.iter_mut()) {
                begin_apart(tops, group, found.spines);
            }
            for (group, tops) in (dense(low.len())..).zip(high) {
                begin_apart(tops, group, found.spines);
                avoid(tops, low);
            }
        }
        tops
    }
}

/// Turns a list of core switches until as few as possible are where another list has them.
fn avoid(tops: &mut [TopMidplane], others: &[Vec<TopMidplane>]) {
    let met = |tops: &[TopMidplane]| -> usize {
        let met =
            |other: &Vec<TopMidplane>| tops.iter().zip(other).filter(|(a, b)| a.l2 == b.l2).count();
        others.iter().map(met).sum()
    };
    if tops.is_empty() {
        return;
    }
    let mut best = (met(tops), 0);
    for turn in 1..tops.len() {
        tops.rotate_left(1);
        best = best.min((met(tops), turn));
    }
    tops.rotate_left(1 + best.1);
}

/// Lets a list begin at another place for every group, as far as it is long enough.
fn begin_apart<T>(list: &mut [T], group: u32, spines: u32) {
    let turn = turn(list.len(), group, spines);
    list.rotate_left(turn);
}

/// Returns the place of a list at which a group begins. No group of the lower half of the level-1
/// switches begins where one of the upper half does, if the list has two places.
fn turn(count: usize, group: u32, spines: u32) -> usize {
    let (group, half) = (group as usize, spines as usize / 2);
    let low = count.div_ceil(2);
    match count {
        0 | 1 => 0,
        _ if group < half => group % low,
        _ => low + (group - half) % (count - low),
    }
}
