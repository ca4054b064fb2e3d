//! Orders the switches of a fabric so that every link leads up or down.
//!
//! Source: up*/down* routing (Autonet; OpenSM's `updn`). Packets that go up first and only down
//! from then on never close a cycle of channels that wait for each other: a channel up waits for
//! higher ones or for channels down, and these wait for lower ones. A tree keeps to that if no
//! switch of it has two links up; then it has one highest switch, and a packet turns there.
//!
//! In a fat tree a switch's height is its level, and a tree that turns once has the root that
//! Dawning's Theorem 1 and C-MR4LMS speak of. Elsewhere it is the distance from a first switch.

use std::collections::VecDeque;

use fabricast_topology::{FatTree, Faults, Graph, Peer, Place, PortId, SwitchId};

use crate::links::SwitchLinks;

/// The height of every switch; no two are equally high.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpDown {
    heights: Vec<u64>,       // by switch
    levels: Option<Vec<u8>>, // by switch, if every link joins neighbouring levels
}

/// Level of a switch that leads to no endpoint.
const UNREACHED: u8 = u8::MAX;

impl UpDown {
    /// Takes the levels of a fabric for heights; none if it has no levels, or if trees that turn
    /// once could not connect all its endpoints even without faults.
    ///
    /// Cost: linear in the ports, and that of [`FatTree::detect`] where links do not all join
    /// neighbouring levels or no switch is above all others.
    #[must_use]
    pub fn of_levels(graph: &Graph) -> Option<Self> {
        let links = SwitchLinks::new(graph, &Faults::new());
        let counted = count_levels(graph, &links);
        let places = || {
            let fat_tree = FatTree::detect(graph).ok()?;
            let level = |switch| match fat_tree.place(switch) {
                Place::Outside | Place::Leaf { .. } => 0,
                Place::L1 { .. } => 1,
                Place::L2 { .. } => 2,
                Place::L3 { .. } => 3,
            };
            Some(graph.switches().map(level).collect::<Vec<u8>>())
        };
        let joins_neighbours = |levels: &[u8]| {
            let fits =
                |(a, b): (SwitchId, SwitchId)| levels[a.index()].abs_diff(levels[b.index()]) == 1;
            each_link(&links).all(fits)
        };
        match counted.filter(|levels| joins_neighbours(levels)) {
            Some(levels) => {
                let order = Self::new(&levels, true);
                if order.has_common_top(graph, &links) {
                    Some(order)
                } else {
                    places().map(|_| order)
                }
            }
            None => {
                let levels = places()?;
                Some(Self::new(&levels, joins_neighbours(&levels)))
            }
        }
    }

    /// Takes the distance from one switch of each part of the fabric for heights, those with the
    /// most links; works everywhere.
    ///
    /// Cost: linear in the ports.
    #[must_use]
    pub fn spanning(graph: &Graph) -> Self {
        let links = SwitchLinks::new(graph, &Faults::new());
        let mut by_links: Vec<SwitchId> = graph.switches().collect();
        by_links.sort_by_key(|switch| std::cmp::Reverse(links.of(*switch).len()));
        let mut below_top = vec![UNREACHED; graph.switch_count()];
        for top in by_links {
            if below_top[top.index()] == UNREACHED {
                below_top[top.index()] = 0;
                spread(&links, &mut below_top, VecDeque::from([top]));
            }
        }
        let levels: Vec<u8> = below_top.iter().map(|hops| UNREACHED - hops).collect();
        Self::new(&levels, false)
    }

    fn new(levels: &[u8], is_exact: bool) -> Self {
        let count = levels.len() as u64;
        let height = |(at, level): (u64, &u8)| u64::from(*level) * count + at;
        Self {
            heights: (0u64..).zip(levels).map(height).collect(),
            levels: is_exact.then(|| levels.to_vec()),
        }
    }

    /// Tells whether a link from one switch to another leads up.
    #[inline]
    #[must_use]
    pub fn is_up(&self, from: SwitchId, to: SwitchId) -> bool {
        self.heights[to.index()] > self.heights[from.index()]
    }

    /// Returns the height of a switch.
    #[must_use]
    pub fn height(&self, switch: SwitchId) -> u64 {
        self.heights[switch.index()]
    }

    /// Returns the level of every switch, if every link joins neighbouring levels: then a way of as
    /// many hops as there are levels between its ends leads up all the time, and no other does.
    #[must_use]
    pub fn exact_levels(&self) -> Option<&[u8]> {
        self.levels.as_deref()
    }

    /// Tells whether a tree, given by its ports, rising, has no switch with two links up.
    #[must_use]
    pub fn turns_once(&self, graph: &Graph, ports: &[PortId]) -> bool {
        let mut last = None;
        ports.iter().all(|port| {
            let Peer::Switch(peer) = graph.peer(*port) else { return true };
            let (from, to) = (graph.switch_of(*port), graph.switch_of(peer));
            !self.is_up(from, to) || last.replace(from) != Some(from)
        })
    }

    /// Tells whether some switch is above all switches with endpoints.
    fn has_common_top(&self, graph: &Graph, links: &SwitchLinks) -> bool {
        let Some(top) = graph.switches().max_by_key(|switch| self.height(*switch)) else {
            return false;
        };
        let mut is_below = vec![false; graph.switch_count()];
        is_below[top.index()] = true;
        let mut stack = vec![top];
        while let Some(at) = stack.pop() {
            for to in links.neighbours(at) {
                if self.is_up(*to, at) && !std::mem::replace(&mut is_below[to.index()], true) {
                    stack.push(*to);
                }
            }
        }
        leaves(graph).all(|leaf| is_below[leaf.index()])
    }
}

/// Counts the links from every switch to the nearest one with endpoints; none if there is only one
/// level.
fn count_levels(graph: &Graph, links: &SwitchLinks) -> Option<Vec<u8>> {
    let mut levels = vec![UNREACHED; graph.switch_count()];
    let mut queue = VecDeque::new();
    for leaf in leaves(graph) {
        if std::mem::replace(&mut levels[leaf.index()], 0) != 0 {
            queue.push_back(leaf);
        }
    }
    spread(links, &mut levels, queue);
    // A switch that leads to no endpoint is in no tree, or is one alone.
    levels.iter_mut().filter(|level| **level == UNREACHED).for_each(|level| *level = 0);
    levels.iter().any(|level| *level > 0).then_some(levels)
}

/// Counts hops from the switches of a queue, whose hops are known, to those not reached so far.
fn spread(links: &SwitchLinks, hops: &mut [u8], mut queue: VecDeque<SwitchId>) {
    while let Some(at) = queue.pop_front() {
        let next = hops[at.index()].saturating_add(1).min(UNREACHED - 1);
        for to in links.neighbours(at) {
            if hops[to.index()] == UNREACHED {
                hops[to.index()] = next;
                queue.push_back(*to);
            }
        }
    }
}

fn leaves(graph: &Graph) -> impl Iterator<Item = SwitchId> + '_ {
    let ports = graph.endpoints().filter_map(|endpoint| graph.attachment(endpoint));
    ports.map(|port| graph.switch_of(port))
}

fn each_link(links: &SwitchLinks) -> impl Iterator<Item = (SwitchId, SwitchId)> + '_ {
    let count = u32::try_from(links.switch_count()).expect("switches have 32-bit numbers");
    (0..count).map(SwitchId).flat_map(|at| links.neighbours(at).iter().map(move |to| (at, *to)))
}

#[cfg(test)]
mod tests {
    use fabricast_topology::spec::TopologySpec;

    use super::*;

    fn graph(spec: &str) -> Graph {
        TopologySpec::parse(spec).unwrap().generate().unwrap()
    }

    #[test]
    fn leaf_switches_are_below_spines_and_a_torus_has_no_levels() {
        let tree = graph("kind = 'leaf-spine'\nleaves = 3\nspines = 2\nendpoints_per_leaf = 1");
        let order = UpDown::of_levels(&tree).unwrap();
        assert_eq!(order.exact_levels(), Some(&[0, 0, 0, 1, 1][..]));
        assert!(order.is_up(SwitchId(2), SwitchId(3)) && !order.is_up(SwitchId(3), SwitchId(2)));
        let torus = graph("kind = 'torus'\nx = 3\ny = 3\nz = 1\nendpoints_per_switch = 1");
        assert_eq!(UpDown::of_levels(&torus), None);
    }

    #[test]
    fn without_a_common_top_only_a_fat_tree_has_levels() {
        // The chain leaf, spine, leaf, spine, leaf: only a valley connects the outer leaves.
        let tree = graph("kind = 'leaf-spine'\nleaves = 3\nspines = 2\nendpoints_per_leaf = 1");
        let mut faults = Faults::new();
        for (leaf, spine) in [(0, 4), (2, 3)] {
            let links = SwitchLinks::new(&tree, &Faults::new());
            let link = links.of(SwitchId(leaf)).find(|link| link.to == SwitchId(spine)).unwrap();
            faults.fail_link(&tree, link.port);
        }
        let chain = tree.without(&faults);
        let links = SwitchLinks::new(&chain, &Faults::new());
        assert!(!UpDown::new(&[0, 0, 0, 1, 1], true).has_common_top(&chain, &links));
        assert_eq!(UpDown::of_levels(&chain).is_some(), FatTree::detect(&chain).is_ok());
    }

    #[test]
    fn a_spanning_order_has_one_top_and_a_way_up_from_everywhere() {
        let torus = graph("kind = 'torus'\nx = 4\ny = 3\nz = 2\nendpoints_per_switch = 1");
        let order = UpDown::spanning(&torus);
        let links = SwitchLinks::new(&torus, &Faults::new());
        let is_top = |at: &SwitchId| links.neighbours(*at).iter().all(|to| !order.is_up(*at, *to));
        assert_eq!(torus.switches().filter(is_top).count(), 1);
        assert!(order.has_common_top(&torus, &links));
    }
}
