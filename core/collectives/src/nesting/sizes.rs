//! Sizes of nested groups of processes: all of them that the cost of a tree depends on.

use fabricast_topology::EndpointId;

use super::{LEVELS, NestingError, PlaceKeys};
use crate::fabric::Fabric;

/// Sizes of the groups of a [`super::Nesting`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NestingSizes {
    processes: u32,
    /// From the innermost; the last is the group of all.
    levels: Vec<LevelSize>,
}

/// Size of the groups of one level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LevelSize {
    /// Links between two processes of one group that are in different groups further in.
    pub(crate) links: u32,
    /// Most groups of the level further in that one group has; of the innermost, most processes.
    pub(crate) parts: u32,
}

impl NestingSizes {
    /// Counts the groups that [`super::Nesting::of_fabric`] makes of processes. Without a fat tree,
    /// processes of different clusters are taken as far apart as the first switch is from the
    /// farthest.
    ///
    /// Cost: O(P log P), some tens of nanoseconds for each process.
    ///
    /// # Errors
    ///
    /// [`NestingError::Empty`], [`NestingError::NotConnected`].
    pub fn of_fabric(fabric: &Fabric, processes: &[EndpointId]) -> Result<Self, NestingError> {
        if processes.is_empty() {
            return Err(NestingError::Empty);
        }
        let PlaceKeys { columns, links, levels } = PlaceKeys::of_fabric(fabric, processes)?;
        let outer_links = match fabric.fat_tree() {
            Some(_) => 2 * levels,
            None => 2 + fabric.reach(),
        };
        let levels = levels as usize;
        // The keys of each process, outermost first, so that groups of all levels are contiguous.
        let row = |process: usize| {
            let mut row = [0; LEVELS];
            for (key, column) in row.iter_mut().rev().zip(&columns).take(levels) {
                *key = column[process];
            }
            row
        };
        let mut rows: Vec<[u32; LEVELS]> = (0..processes.len()).map(row).collect();
        rows.sort_unstable();
        let processes = u32::try_from(rows.len()).expect("fewer than 2^32 processes");
        let mut inner: Vec<u32> = (0..processes).collect();
        let mut sizes = Vec::with_capacity(levels + 1);
        for (level, links) in (0..levels).zip(links) {
            let same = LEVELS - level;
            let begins = |start: &u32| {
                let at = *start as usize;
                at == 0 || rows[at - 1][..same] != rows[at][..same]
            };
            let starts: Vec<u32> = inner.iter().copied().filter(begins).collect();
            sizes.push(LevelSize::new(links, &inner, &starts));
            inner = starts;
        }
        sizes.push(LevelSize::new(outer_links, &inner, &[0]));
        Ok(Self { processes, levels: sizes })
    }

    /// Counts the processes.
    #[must_use]
    pub fn processes(&self) -> u32 {
        self.processes
    }

    /// Returns the levels from the innermost; the last is the group of all.
    pub(crate) fn levels(&self) -> &[LevelSize] {
        &self.levels
    }

    /// Returns the most links between two of the processes.
    pub(crate) fn farthest_links(&self) -> u32 {
        let divided = self.levels.iter().rev().find(|level| level.parts > 1);
        divided.map_or(0, |level| level.links)
    }
}

impl LevelSize {
    /// - `inner`: first places of the groups further in.
    /// - `starts`: those of the groups of this level.
    fn new(links: u32, inner: &[u32], starts: &[u32]) -> Self {
        let mut rest = inner;
        let mut parts = 0;
        for end in starts.iter().skip(1).copied().chain([u32::MAX]) {
            let (inside, others) = rest.split_at(rest.partition_point(|start| *start < end));
            parts = parts.max(inside.len());
            rest = others;
        }
        Self { links, parts: u32::try_from(parts).expect("fewer than 2^32 processes") }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::Arc;

    use fabricast_topology::spec::TopologySpec;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::Nesting;
    use super::*;

    /// 2 blocks of 2 midplanes of 2 leaf switches of 4 endpoints, or clusters of a dragonfly.
    fn fabric(is_fat_tree: bool) -> Fabric {
        let text = if is_fat_tree {
            "kind = 'cn-tn-fat-tree'\nq = 2\nm = 2\np = 1\nk = 2\nw = 2\n\
             endpoints_per_leaf = 4\n"
        } else {
            "kind = 'dragonfly'\na = 4\np = 2\nh = 1\n"
        };
        Fabric::detect(Arc::new(TopologySpec::parse(text).unwrap().generate().unwrap()))
    }

    #[test]
    fn levels_of_a_whole_fat_tree_are_its_own() {
        let endpoints: Vec<EndpointId> = (0..32).map(EndpointId).collect();
        let sizes = NestingSizes::of_fabric(&fabric(true), &endpoints).unwrap();
        let levels: Vec<_> = sizes.levels().iter().map(|one| (one.links, one.parts)).collect();
        assert_eq!(levels, [(0, 1), (2, 4), (4, 2), (6, 2), (8, 2)]);
        assert_eq!((sizes.processes(), sizes.farthest_links()), (32, 8));
    }

    #[test]
    fn clusters_of_a_dragonfly_are_as_far_apart_as_any_two_switches() {
        let endpoints: Vec<EndpointId> = (0..40).map(EndpointId).collect();
        let sizes = NestingSizes::of_fabric(&fabric(false), &endpoints).unwrap();
        let levels: Vec<_> = sizes.levels().iter().map(|one| (one.links, one.parts)).collect();
        assert_eq!(levels, [(0, 1), (2, 2), (3, 4), (5, 5)]);
    }

    #[test]
    fn processes_of_one_leaf_switch_are_two_links_apart() {
        let sizes = |places: &[u32]| {
            let endpoints: Vec<EndpointId> = places.iter().copied().map(EndpointId).collect();
            NestingSizes::of_fabric(&fabric(true), &endpoints)
        };
        assert_eq!(sizes(&[5, 7]).unwrap().farthest_links(), 2);
        assert_eq!(sizes(&[5, 5]).unwrap().farthest_links(), 0);
        assert_eq!(sizes(&[]), Err(NestingError::Empty));
    }

    proptest! {
        #[test]
        fn sizes_are_those_of_the_nesting(
            places in vec(0..32_u32, 1..60),
            is_fat_tree in any::<bool>(),
        ) {
            let endpoints: Vec<EndpointId> = places.into_iter().map(EndpointId).collect();
            let fabric = fabric(is_fat_tree);
            let nesting = Nesting::of_fabric(&fabric, &endpoints).unwrap();
            let sizes = NestingSizes::of_fabric(&fabric, &endpoints).unwrap();
            prop_assert_eq!(sizes.levels().len(), nesting.levels() + 1);
            let levels = nesting.levels();
            let group = |level: usize, process: u32| {
                if level == levels { 0 } else { nesting.group_of(level, process) }
            };
            for (level, size) in sizes.levels().iter().enumerate() {
                let mut parts: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
                for process in 0..nesting.processes() {
                    let inner = level.checked_sub(1).map(|inner| group(inner, process));
                    let parts = parts.entry(group(level, process)).or_default();
                    parts.insert(inner.unwrap_or(process));
                }
                let most = parts.values().map(BTreeSet::len).max().unwrap();
                prop_assert_eq!(size.parts as usize, most, "level {}", level);
            }
            let apart = |a: u32| (0..nesting.processes()).map(move |b| (a, b));
            let farthest = (0..nesting.processes()).flat_map(apart);
            let farthest = farthest.map(|(a, b)| nesting.links(a, b)).max().unwrap();
            prop_assert!(sizes.farthest_links() >= farthest);
            prop_assert!(sizes.farthest_links() == farthest || !is_fat_tree);
        }
    }
}
