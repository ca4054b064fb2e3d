//! The roots that a spanning tree may hang from, and the links that go with each.
//!
//! A root is chosen in two steps: the up-port of the level-1 switches (which leads to a top
//! midplane), then the up-port of that midplane's level-2 switches (which leads to a level-3
//! switch). Root 0 is the fixed one. Where parallel links give one color several trees on one
//! level-1 switch, their roots are divided among them, so that two spanning trees of a color stay
//! free of conflict whatever they choose.
//!
//! With fault tolerance both trees of a pair take the same steps, each in its own TN group. So they
//! have the same shape, share nothing above the leaves, and groups that meet on one of them meet on
//! the other.

use std::ops::Deref;

use fabricast_topology::{FatTreeParams, TableKind};

use crate::routing_engine::RootScope;
use crate::spt::{Layout, SpanningTree, usable_lanes1};

/// The numbering of roots, the same for every spanning tree.
#[derive(Clone, Copy, Debug)]
pub(super) struct Roots {
    params: FatTreeParams,
    lanes: u32,
    tables: TableKind,
    /// Choices of an up-port of level 1.
    pub(super) ups: u32,
    /// Choices of an up-port of level 2 above each of those.
    pub(super) tops: u32,
}

/// The spanning tree of a number with one of its roots, or with fault tolerance the pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trees {
    both: [SpanningTree; 2],
    count: usize,
}

impl Deref for Trees {
    type Target = [SpanningTree];

    fn deref(&self) -> &[SpanningTree] {
        &self.both[..self.count]
    }
}

impl Roots {
    pub(super) fn new(layout: &Layout, scope: RootScope) -> Self {
        let (params, tables) = (*layout.params(), layout.space().tables());
        let lanes1 = usable_lanes1(&params).max(1);
        let ups = match scope {
            RootScope::TnGroup if params.levels >= 3 => {
                params.tns_per_group * lanes1 / layout.lanes()
            }
            RootScope::Tn | RootScope::TnGroup => 1,
        };
        let tops = match tables {
            _ if params.levels < 4 => 1,
            // Only spanning trees of one color have to share, and only one can be in a switch.
            TableKind::PerSwitch => params.l3_per_tn,
            TableKind::PerPort => params.l2_up_ports() / lanes1,
        };
        Self { params, lanes: layout.lanes(), tables, ups, tops: tops.max(1) }
    }

    pub(super) const fn count(&self) -> u32 {
        self.ups * self.tops
    }

    /// Splits a root into its two choices.
    pub(super) const fn steps(&self, root: u32) -> (u32, u32) {
        (root / self.tops, root % self.tops)
    }

    /// Gives a root with those of its two steps as 0 that nothing depends on.
    pub(super) const fn needed(&self, root: u32, [lower, upper]: [bool; 2]) -> u32 {
        match (lower, upper) {
            (_, true) => root,
            (true, false) => self.steps(root).0 * self.tops,
            (false, false) => 0,
        }
    }

    /// Tells whether something holds of a spanning tree, or of one of a pair, with any of its
    /// roots.
    pub(super) fn any(
        &self,
        homes: &[SpanningTree],
        holds: impl Fn(&SpanningTree) -> bool,
    ) -> bool {
        (0..self.count()).any(|root| homes.iter().any(|home| holds(&self.tree(home, root))))
    }

    /// Gives the trees of a number as they are with another root.
    pub(super) fn trees(&self, homes: &[SpanningTree], root: u32) -> Trees {
        let mut both = [SpanningTree::default(); 2];
        for (tree, home) in both.iter_mut().zip(homes) {
            *tree = self.tree(home, root);
        }
        Trees { both, count: homes.len() }
    }

    /// Gives a spanning tree as it is with another root.
    pub(super) fn tree(&self, home: &SpanningTree, root: u32) -> SpanningTree {
        let params = &self.params;
        let (up, top) = self.steps(root);
        let mut tree = *home;
        if params.levels >= 3 {
            let lanes1 = usable_lanes1(params);
            tree.u = (home.u + up * self.lanes) % (params.tns_per_group * lanes1);
            tree.tn = home.g * params.tns_per_group + tree.u % params.tns_per_group;
            if params.levels >= 4 {
                let lane1 = tree.u / params.tns_per_group;
                tree.v = match self.tables {
                    TableKind::PerPort => lane1 + top * lanes1,
                    TableKind::PerSwitch => (lane1 + top) % params.l2_up_ports(),
                };
                tree.l3 = tree.v % params.l3_per_tn;
            }
        }
        tree
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::spt::tests::any_params;

    proptest! {
        /// Trees of one color share no link between switches whatever roots they have; the roots of
        /// one spanning tree are different, and the first is the fixed one.
        #[test]
        fn roots_of_different_spanning_trees_never_conflict(
            params in any_params(), round in 0u16..9, group in any::<bool>(),
        ) {
            let scope = if group { RootScope::TnGroup } else { RootScope::Tn };
            let layout = Layout::new(&params, 9, TableKind::PerPort).unwrap();
            let roots = Roots::new(&layout, scope);
            let m = layout.space().trees_per_color();
            let (mut l1, mut l2) = (BTreeSet::new(), BTreeSet::new());
            for spt in u32::from(round) * m..(u32::from(round) + 1) * m {
                let home = layout.tree(spt);
                prop_assert_eq!(roots.tree(&home, 0), home);
                for root in 0..roots.count() {
                    let tree = roots.tree(&home, root);
                    if params.levels > 2 {
                        prop_assert!(tree.u < params.l1_up_ports());
                        prop_assert_eq!(tree.tn / params.tns_per_group, home.g);
                        let first = roots.steps(root).1 == 0;
                        prop_assert_eq!(l1.insert((tree.g, tree.u)), first);
                    }
                    if params.levels > 3 {
                        prop_assert!(tree.v < params.l2_up_ports());
                        prop_assert!(l2.insert((tree.tn, tree.v)));
                    }
                }
            }
        }

        /// With per-switch tables the roots of a spanning tree are different switches.
        #[test]
        fn with_per_switch_tables_every_root_is_another_switch(params in any_params()) {
            let layout = Layout::new(&params, 40, TableKind::PerSwitch).unwrap();
            let roots = Roots::new(&layout, RootScope::Tn);
            for spt in 0..layout.space().total() {
                let home = layout.tree(spt);
                prop_assert_eq!(roots.tree(&home, 0), home);
                let switches: BTreeSet<u32> =
                    (0..roots.count()).map(|root| roots.tree(&home, root).l3).collect();
                prop_assert_eq!(switches.len(), roots.count() as usize);
            }
        }
    }
}
