//! Groups processes by position: adapter, leaf switch, midplane, block, fabric.
//!
//! Two processes of an inner group are closer than two of an outer one; a tree that follows the
//! groups sends few packets over long paths.

mod sizes;

use fabricast_topology::{EndpointId, Graph, SwitchId};
use thiserror::Error;

use crate::fabric::{Fabric, hops_from};
pub use sizes::NestingSizes;

/// Levels of groups that a fabric has at most, without the group of all.
const LEVELS: usize = 4;

/// Nested groups of processes, numbered from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nesting {
    /// The processes, ordered so that each group is contiguous; ascending inside the innermost
    /// groups.
    order: Vec<u32>,
    /// Levels from the innermost; the group of all processes is left out.
    levels: Vec<Level>,
    outer_links: u32,
}

/// Division of the processes on one level.
#[derive(Clone, Copy, Debug)]
pub struct Division<'a> {
    /// Links between two processes of one group that are in different groups further in.
    pub links: u32,
    /// Key of each process, equal for the processes of one group.
    pub keys: &'a [u32],
}

/// One level's groups.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Level {
    links: u32,
    /// By group: its first place in the order; one more at the end.
    starts: Vec<u32>,
    /// Group of each process.
    group_of: Vec<u32>,
}

/// Reason why processes cannot be grouped.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NestingError {
    /// There are no processes.
    #[error("no processes")]
    Empty,
    /// The endpoint of a process is not connected to a leaf switch of the fat tree.
    #[error("process {process}: {endpoint} is not connected to a leaf switch")]
    NotConnected {
        /// Number of the process.
        process: usize,
        /// The name of its endpoint, or its number if there is no such endpoint.
        endpoint: String,
    },
    /// A level does not have one key per process.
    #[error("level {level} has {keys} keys for {processes} processes")]
    Keys {
        /// The level, from 0 for the innermost.
        level: usize,
        /// Number of its keys.
        keys: usize,
        /// Number of processes.
        processes: u32,
    },
}

impl Nesting {
    /// Groups processes by their endpoints: one adapter, leaf switch, midplane, block of midplanes.
    /// In a fabric that is no fat tree: one adapter, switch, cluster of switches.
    ///
    /// Cost: O(P log P), less if the processes are in the order of the fabric; without a fat tree,
    /// also O(links).
    ///
    /// # Errors
    ///
    /// [`NestingError::Empty`], [`NestingError::NotConnected`].
    pub fn of_fabric(fabric: &Fabric, processes: &[EndpointId]) -> Result<Self, NestingError> {
        let PlaceKeys { columns, links, levels } = PlaceKeys::of_fabric(fabric, processes)?;
        let outer_links = match fabric.fat_tree() {
            Some(_) => 2 * levels,
            None => 2 + farthest_from_first(fabric.graph(), &columns[1]),
        };
        let divisions: Vec<Division<'_>> = (0..levels)
            .zip(links)
            .zip(&columns)
            .map(|((_, links), keys)| Division { links, keys })
            .collect();
        let processes = u32::try_from(processes.len()).expect("fewer than 2^32 processes");
        Self::new(processes, &divisions, outer_links)
    }

    /// Groups processes by the given levels, innermost first; groups of a level are divided by all
    /// levels further out. Processes without a common group are `outer_links` apart.
    ///
    /// # Errors
    ///
    /// [`NestingError::Empty`], [`NestingError::Keys`].
    pub fn new(
        processes: u32,
        divisions: &[Division<'_>],
        outer_links: u32,
    ) -> Result<Self, NestingError> {
        if processes == 0 {
            return Err(NestingError::Empty);
        }
        for (level, division) in divisions.iter().enumerate() {
            if division.keys.len() != processes as usize {
                return Err(NestingError::Keys { level, keys: division.keys.len(), processes });
            }
        }
        let mut order: Vec<u32> = (0..processes).collect();
        let key = |level: &Division<'_>, process: u32| level.keys[process as usize];
        order.sort_unstable_by(|a, b| {
            let outermost_first = divisions.iter().rev().map(|level| key(level, *a));
            outermost_first.cmp(divisions.iter().rev().map(|level| key(level, *b))).then(a.cmp(b))
        });
        let levels = (0..divisions.len())
            .map(|at| {
                let same =
                    |a, b| divisions[at..].iter().all(|level| key(level, a) == key(level, b));
                Level::new(&order, divisions[at].links, same)
            })
            .collect();
        Ok(Self { order, levels, outer_links })
    }

    /// Counts the processes.
    #[must_use]
    pub fn processes(&self) -> u32 {
        u32::try_from(self.order.len()).expect("counted with 32 bits")
    }

    /// Counts the levels, without the one group that encloses all.
    #[must_use]
    pub fn levels(&self) -> usize {
        self.levels.len()
    }

    /// Returns the group of a process on a level (0 is the innermost), by a dense number.
    #[must_use]
    pub fn group_of(&self, level: usize, process: u32) -> u32 {
        self.levels[level].group_of[process as usize]
    }

    /// Returns the number of links between two processes; 0 for two on one adapter.
    #[must_use]
    pub fn links(&self, a: u32, b: u32) -> u32 {
        let shared = self
            .levels
            .iter()
            .find(|level| level.group_of[a as usize] == level.group_of[b as usize]);
        match shared {
            _ if a == b => 0,
            Some(level) => level.links,
            None => self.outer_links,
        }
    }

    /// Returns the processes, ordered so that each group is contiguous.
    pub(crate) fn order(&self) -> &[u32] {
        &self.order
    }

    /// Returns the start of each group by level, from the innermost, with the end as last element;
    /// the last level is the group of all. Levels of single processes are left out.
    pub(crate) fn starts(&self) -> impl Iterator<Item = &[u32]> {
        self.levels
            .iter()
            .map(|level| level.starts.as_slice())
            .filter(|starts| starts.len() <= self.order.len())
    }
}

/// Keys of processes by their places in a fabric.
struct PlaceKeys {
    /// By level, from the innermost: the key of each process.
    columns: [Vec<u32>; LEVELS],
    /// By level: links between two processes of one group that are in different ones further in.
    links: [u32; LEVELS],
    /// Number of levels; the columns of further ones have no meaning.
    levels: u32,
}

impl PlaceKeys {
    fn of_fabric(fabric: &Fabric, processes: &[EndpointId]) -> Result<Self, NestingError> {
        let graph = fabric.graph();
        let mut columns = [const { Vec::new() }; LEVELS];
        for (process, endpoint) in processes.iter().copied().enumerate() {
            let known = endpoint.index() < graph.endpoint_count();
            let place = known.then(|| place(fabric, endpoint)).flatten();
            let place = place.ok_or_else(|| NestingError::NotConnected {
                process,
                endpoint: if known {
                    graph.endpoint_name(endpoint).to_owned()
                } else {
                    format!("endpoint #{}", endpoint.0)
                },
            })?;
            columns.iter_mut().zip(place).for_each(|(keys, key)| keys.push(key));
        }
        // Links on a level: two to a leaf switch and back, two more for every level further up.
        // Without a fat tree a cluster is one link wide.
        let (links, levels) = match fabric.fat_tree() {
            Some(tree) => ([0, 2, 4, 6], tree.params().levels),
            None => ([0, 2, 3, 0], 3),
        };
        Ok(Self { columns, links, levels })
    }
}

/// Returns the adapter, leaf switch, midplane and block of an endpoint, or its adapter, switch and
/// cluster; `None` if it is not connected.
fn place(fabric: &Fabric, endpoint: EndpointId) -> Option<[u32; LEVELS]> {
    let graph = fabric.graph();
    let adapter = graph.adapter_of(endpoint).0;
    if let Some(tree) = fabric.fat_tree() {
        let leaf = tree.leaf_of_endpoint(endpoint)?;
        let cn = tree.cn_of_leaf(leaf);
        return Some([adapter, leaf, cn, tree.block_of_cn(cn)]);
    }
    let switch = graph.switch_of(graph.attachment(endpoint)?);
    Some([adapter, switch.0, fabric.cluster_of(switch), 0])
}

/// Returns the hops from the first of some switches to the farthest that it reaches.
fn farthest_from_first(graph: &Graph, switches: &[u32]) -> u32 {
    let Some(first) = switches.first() else { return 0 };
    let hops = hops_from(graph, SwitchId(*first));
    let reached = switches.iter().map(|switch| hops[*switch as usize]);
    reached.filter(|hops| *hops != u32::MAX).max().unwrap_or(0)
}

impl Level {
    fn new(order: &[u32], links: u32, same: impl Fn(u32, u32) -> bool) -> Self {
        let mut starts = Vec::new();
        let mut group_of = vec![0; order.len()];
        let mut group = 0;
        for (at, process) in (0_u32..).zip(order) {
            let first = at == 0;
            if first || !same(order[at as usize - 1], *process) {
                starts.push(at);
                group += u32::from(!first);
            }
            group_of[*process as usize] = group;
        }
        starts.push(u32::try_from(order.len()).expect("processes have 32-bit numbers"));
        Self { links, starts, group_of }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fabricast_topology::spec::TopologySpec;

    use super::*;

    fn fabric(spec: TopologySpec) -> Fabric {
        Fabric::detect(Arc::new(spec.generate().unwrap()))
    }

    /// 5 groups of 4 routers with 2 endpoints each, one link between every two groups.
    #[test]
    fn processes_of_a_dragonfly_are_grouped_by_its_groups() {
        let text = "kind = 'dragonfly'\na = 4\np = 2\nh = 1\n";
        let fabric = fabric(TopologySpec::parse(text).unwrap());
        let places: Vec<EndpointId> = (0..40).map(EndpointId).collect();
        let nesting = Nesting::of_fabric(&fabric, &places).unwrap();
        for (a, b) in (0..40).flat_map(|a| (0..40).map(move |b| (a, b))) {
            let expected = match () {
                () if a == b => 0,
                () if a / 2 == b / 2 => 2,
                () if a / 8 == b / 8 => 3,
                () => 5,
            };
            assert_eq!(nesting.links(a, b), expected, "{a}, {b}");
        }
    }

    #[test]
    fn processes_of_a_fabric_are_as_far_apart_as_the_fat_tree_says() {
        // Blocks of 2 midplanes of 2 leaves of 3 endpoints.
        let text = "kind = 'cn-tn-fat-tree'\nq = 2\nm = 2\np = 1\nk = 2\nw = 2\n\
                    endpoints_per_leaf = 3\n";
        let fabric = fabric(TopologySpec::parse(text).unwrap());
        // Two processes on the first endpoint.
        let places = [23, 0, 1, 3, 6, 12, 0].map(EndpointId);
        let nesting = Nesting::of_fabric(&fabric, &places).unwrap();
        let from_first: Vec<u32> = (0..7).map(|process| nesting.links(1, process)).collect();
        assert_eq!(from_first, [8, 0, 2, 4, 6, 8, 0]);
        assert_eq!(nesting.links(1, 1), 0);
    }

    #[test]
    fn endpoints_that_are_nowhere_are_named() {
        let fabric = fabric(TopologySpec::demo());
        let of = |places: &[EndpointId]| Nesting::of_fabric(&fabric, places);
        let refused = of(&[EndpointId(0), EndpointId(9_999)]).unwrap_err().to_string();
        assert_eq!(refused, "process 1: endpoint #9999 is not connected to a leaf switch");
        assert_eq!(of(&[]), Err(NestingError::Empty));
    }

    #[test]
    fn equal_keys_in_different_outer_groups_are_different_groups() {
        let divisions = [
            Division { links: 0, keys: &[5, 7, 5, 5] },
            Division { links: 2, keys: &[1, 0, 0, 1] },
        ];
        let nesting = Nesting::new(4, &divisions, 4).unwrap();
        assert_eq!(nesting.order(), [2, 1, 0, 3]);
        assert_eq!([0, 1, 2, 3].map(|process| nesting.group_of(0, process)), [2, 1, 0, 2]);
        assert_eq!((nesting.links(0, 3), nesting.links(0, 2), nesting.links(1, 2)), (0, 4, 2));
        let short = Nesting::new(5, &divisions, 4).unwrap_err();
        assert_eq!(short.to_string(), "level 0 has 4 keys for 5 processes");
    }
}
