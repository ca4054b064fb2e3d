//! Counts the entries that the communicators of a program take, and the communicators that get
//! none: §6.2.2.
//!
//! The paper's plain method takes an entry in every switch of the physical tree; its own and ours
//! only in those that are kept.

use std::collections::BTreeSet;

use fabricast_topology::{EndpointId, SwitchId};

use crate::fabric::Fabric;
use crate::switch_tree::{Climber, PhysicalSwitch, minimum_tree};

/// Method that decides which switches of a physical tree take an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Every switch of the tree takes one.
    Plain,
    /// The fewest switches such that none has more children than the limit.
    Minimum {
        /// Most children of a switch.
        children: u32,
    },
}

/// Result of creating a program's communicators one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Number of communicators.
    pub groups: u32,
    /// Communicators without a tree.
    pub failures: u32,
    /// Entries that the others use.
    pub entries: u64,
    /// Entries in use in the fullest switch.
    pub fullest: u32,
}

impl Survey {
    /// Returns the share of communicators without a tree, from 0 to 1.
    #[must_use]
    pub fn failure_rate(&self) -> f64 {
        f64::from(self.failures) / f64::from(self.groups.max(1))
    }
}

/// Creates a tree for each group, in order, on switches of `entries` entries. The root is the
/// switch of least hop count with the most free entries, or the next of them. A group fails only
/// after all such roots have failed, as in §4.1, which considers no others.
///
/// A group with an unconnected member fails.
///
/// Cost: that of the trees; roots that cannot succeed are excluded in advance.
#[must_use]
pub fn survey<'a>(
    fabric: &Fabric,
    groups: impl IntoIterator<Item = &'a [EndpointId]>,
    method: Method,
    entries: u32,
) -> Survey {
    let mut climber = Climber::new(fabric);
    let mut used_entries = UsedEntries {
        used: vec![0; fabric.graph().switch_count()],
        entries,
        one_way_down: fabric.has_one_way_down(),
    };
    let mut survey = Survey::default();
    for members in groups {
        survey.groups += 1;
        let Some(taken) = used_entries.find(fabric, &mut climber, members, method) else {
            survey.failures += 1;
            continue;
        };
        for switch in taken {
            let used = &mut used_entries.used[switch.index()];
            *used += 1;
            survey.entries += 1;
            survey.fullest = survey.fullest.max(*used);
        }
    }
    survey
}

/// Entries in use, by switch, and entries per switch.
struct UsedEntries {
    used: Vec<u32>,
    entries: u32,
    /// True if a root has only one tree.
    one_way_down: bool,
}

impl UsedEntries {
    fn is_full(&self, switch: SwitchId) -> bool {
        self.used[switch.index()] >= self.entries
    }

    /// Returns the switches that give an entry for a group; `None` if it gets no tree.
    fn find(
        &self,
        fabric: &Fabric,
        climber: &mut Climber,
        members: &[EndpointId],
        method: Method,
    ) -> Option<Vec<SwitchId>> {
        climber.start(fabric, members).ok()?;
        let mut roots = climber.roots();
        while roots.is_empty() && climber.climb(fabric) {
            roots = climber.roots();
        }
        roots.sort_unstable_by_key(|root| (self.used[root.index()], *root));
        let physical = |climber: &mut Climber, root| climber.descend(fabric, root, |_| 0);
        match method {
            Method::Plain => {
                if self.one_way_down {
                    let blocked = self.above_full(fabric, climber.found());
                    roots.retain(|root| !blocked.contains(root));
                }
                let trees = roots.into_iter().map(|root| physical(climber, root).switches);
                let switches = |tree: Vec<PhysicalSwitch>| tree.into_iter().map(|node| node.switch);
                let mut trees = trees.map(|tree| switches(tree).collect::<Vec<_>>());
                trees.find(|tree| tree.iter().all(|switch| !self.is_full(*switch)))
            }
            Method::Minimum { children } => {
                let limit = |switch| if self.is_full(switch) { 0 } else { children };
                let tree = roots
                    .into_iter()
                    .filter(|root| !self.is_full(*root))
                    .find_map(|root| minimum_tree(physical(climber, root), limit))?;
                Some(tree.kept.into_iter().map(|kept| kept.switch).collect())
            }
        }
    }

    /// Returns the full switches in a list ordered by level, and those above one of them: a root
    /// has only one path down to each.
    fn above_full(&self, fabric: &Fabric, found: &[SwitchId]) -> BTreeSet<SwitchId> {
        let mut above = BTreeSet::new();
        for switch in found {
            if self.is_full(*switch) || above.contains(switch) {
                above.insert(*switch);
                above.extend(fabric.up(*switch).map(|(_, upper)| upper));
            }
        }
        above
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use fabricast_topology::spec::TopologySpec;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    const FABRICS: [&str; 6] = [
        "kind = 'leaf-spine'\nleaves = 4\nspines = 3\nendpoints_per_leaf = 3\nlanes0 = 2\n",
        "kind = 'k-ary-3-level'\nk = 4\n",
        "kind = 'cn-tn-fat-tree'\nq = 2\nm = 2\np = 2\nk = 2\nw = 2\nendpoints_per_leaf = 2\n",
        "kind = 'pruned-fat-tree'\nmidplanes = 3\nleaves = 2\nspines = 2\nuplinks_per_spine = 2\n\
         cores = 2\nline_ports = 2\ncore_spines = 2\nendpoints_per_leaf = 2\n",
        "kind = 'pruned-fat-tree'\nmidplanes = 3\nleaves = 2\nspines = 2\nuplinks_per_spine = 1\n\
         cores = 1\ncore_spines = 0\nendpoints_per_leaf = 2\n",
        "kind = 'dragonfly'\na = 3\np = 2\nh = 1\n",
    ];

    fn fabric(spec: &str) -> Fabric {
        let graph = Arc::new(TopologySpec::parse(spec).unwrap().generate().unwrap());
        Fabric::detect(graph)
    }

    /// The plain method of §4.1: root after root, until a tree has a free entry everywhere.
    fn plainly(fabric: &Fabric, groups: &[Vec<EndpointId>], entries: u32) -> Survey {
        let mut climber = Climber::new(fabric);
        let mut used = vec![0; fabric.graph().switch_count()];
        let mut survey = Survey::default();
        for members in groups {
            survey.groups += 1;
            climber.start(fabric, members).unwrap();
            while climber.roots().is_empty() {
                assert!(climber.climb(fabric));
            }
            let mut roots = climber.roots();
            roots.sort_by_key(|root| (used[root.index()], *root));
            let trees = roots.into_iter().map(|root| climber.descend(fabric, root, |_| 0).switches);
            let trees: Vec<_> = trees.collect();
            let fits = trees
                .into_iter()
                .find(|tree| tree.iter().all(|node| used[node.switch.index()] < entries));
            let Some(tree) = fits else {
                survey.failures += 1;
                continue;
            };
            for node in tree {
                used[node.switch.index()] += 1;
                survey.entries += 1;
            }
        }
        survey.fullest = used.into_iter().max().unwrap();
        survey
    }

    proptest! {
        #[test]
        fn roots_that_are_left_out_would_have_failed(
            spec in prop::sample::select(&FABRICS[..]),
            groups in vec(vec(any::<Index>(), 1..6), 0..30),
            entries in 1..4_u32,
        ) {
            let fabric = fabric(spec);
            let count = fabric.graph().endpoint_count();
            let endpoint = |at: &Index| EndpointId(u32::try_from(at.index(count)).unwrap());
            let groups: Vec<Vec<EndpointId>> =
                groups.iter().map(|members| members.iter().map(endpoint).collect()).collect();
            let members = || groups.iter().map(Vec::as_slice);
            let plain = survey(&fabric, members(), Method::Plain, entries);
            prop_assert_eq!(plain, plainly(&fabric, &groups, entries));
            // With entries without end everybody gets a tree, and none is larger than the plain
            // one.
            let endless = |method| survey(&fabric, members(), method, u32::MAX);
            let (plain, fewest) =
                (endless(Method::Plain), endless(Method::Minimum { children: 64 }));
            prop_assert_eq!((plain.failures, fewest.failures), (0, 0));
            prop_assert_eq!(fewest.entries, u64::from(fewest.groups), "64 children are enough");
            prop_assert!(fewest.entries <= plain.entries);
            let few = survey(&fabric, members(), Method::Minimum { children: 3 }, entries);
            prop_assert!(few.fullest <= entries && few.failures <= few.groups);
        }
    }

    #[test]
    fn a_group_that_cannot_be_reached_fails() {
        let fabric = fabric(FABRICS[0]);
        let nowhere = [EndpointId(99)];
        let survey = survey(&fabric, [nowhere.as_slice()], Method::Plain, 1);
        assert_eq!((survey.failures, survey.entries), (1, 0));
        assert!((survey.failure_rate() - 1.0).abs() < 1e-12);
    }
}
