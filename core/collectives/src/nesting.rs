//! Groups processes by position: adapter, leaf switch, midplane, block, fabric.
//!
//! Two processes of an inner group are closer than two of an outer one; a tree that follows the
//! groups sends few packets over long paths.

use fabricast_topology::{EndpointId, FatTree, Graph};
use thiserror::Error;

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
    ///
    /// Cost: O(P log P), less if the processes are in the order of the fabric.
    ///
    /// # Errors
    ///
    /// [`NestingError::Empty`], [`NestingError::NotConnected`].
    pub fn of_fabric(
        graph: &Graph,
        fat_tree: &FatTree,
        processes: &[EndpointId],
    ) -> Result<Self, NestingError> {
        let mut keys = [const { Vec::new() }; 4];
        for (process, endpoint) in processes.iter().copied().enumerate() {
            let known = endpoint.index() < graph.endpoint_count();
            let leaf = known.then(|| fat_tree.leaf_of_endpoint(endpoint)).flatten();
            let leaf = leaf.ok_or_else(|| NestingError::NotConnected {
                process,
                endpoint: if known {
                    graph.endpoint_name(endpoint).to_owned()
                } else {
                    format!("endpoint #{}", endpoint.0)
                },
            })?;
            let cn = fat_tree.cn_of_leaf(leaf);
            let place = [graph.adapter_of(endpoint).0, leaf, cn, fat_tree.block_of_cn(cn)];
            keys.iter_mut().zip(place).for_each(|(keys, key)| keys.push(key));
        }
        // Two links to a leaf switch and back, two more for every level further up.
        let levels = fat_tree.params().levels;
        let divisions: Vec<Division<'_>> = (0..levels)
            .zip(&keys)
            .map(|(level, keys)| Division { links: 2 * level, keys })
            .collect();
        let processes = u32::try_from(processes.len()).expect("fewer than 2^32 processes");
        Self::new(processes, &divisions, 2 * levels)
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
    use fabricast_topology::spec::TopologySpec;

    use super::*;

    #[test]
    fn processes_of_a_fabric_are_as_far_apart_as_the_fat_tree_says() {
        // Blocks of 2 midplanes of 2 leaves of 3 endpoints.
        let text = "kind = 'cn-tn-fat-tree'\nq = 2\nm = 2\np = 1\nk = 2\nw = 2\n\
                    endpoints_per_leaf = 3\n";
        let graph = TopologySpec::parse(text).unwrap().generate().unwrap();
        let fat_tree = FatTree::detect(&graph).unwrap();
        // Two processes on the first endpoint.
        let places = [23, 0, 1, 3, 6, 12, 0].map(EndpointId);
        let nesting = Nesting::of_fabric(&graph, &fat_tree, &places).unwrap();
        let from_first: Vec<u32> = (0..7).map(|process| nesting.links(1, process)).collect();
        assert_eq!(from_first, [8, 0, 2, 4, 6, 8, 0]);
        assert_eq!(nesting.links(1, 1), 0);
    }

    #[test]
    fn endpoints_that_are_nowhere_are_named() {
        let graph = TopologySpec::demo().generate().unwrap();
        let fat_tree = FatTree::detect(&graph).unwrap();
        let of = |places: &[EndpointId]| Nesting::of_fabric(&graph, &fat_tree, places);
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
