//! Numbers the conflict-free spanning trees of a fat tree and maps MGIDs to them.
//!
//! Source: C-MR4LMS §3 (theorem 1 and equations (1)-(3), rebuilt). Where two
//! switches are joined by several links (*lanes*) we go beyond the paper: a
//! color then has as many conflict-free trees as a leaf has up-links that the
//! levels above can carry, `k` for each level-1 switch instead of one.
//!
//! With per-port tables the table entry is the color; all `M` trees of one color
//! are told apart by the ports they use. With per-switch tables they meet in every
//! leaf, so the entry is the spanning-tree number itself and `C` entries give `C` trees.

use fabricast_topology::{FatTreeParams, TableKind};
use thiserror::Error;

use crate::mgid::Mgid;

/// The most entries a multicast table can have: InfiniBand's limit, the multicast LIDs from 0xC000 on.
pub const MAX_COLORS: u16 = 16_384;

/// Numbers that tell which spanning tree and table entry an MGID has; no geometry.
///
/// This is all that a chooser of MGIDs needs to know of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MgidSpace {
    total: u32,
    trees_per_color: u32,
    tables: TableKind,
}

impl MgidSpace {
    /// Makes the space of `colors` table entries where one color has `trees_per_color` trees.
    ///
    /// # Errors
    ///
    /// [`LayoutError`] if a number is out of its range.
    pub fn new(colors: u16, trees_per_color: u32, tables: TableKind) -> Result<Self, LayoutError> {
        if colors == 0 || colors > MAX_COLORS {
            return Err(LayoutError::Colors { colors: u32::from(colors) });
        }
        if trees_per_color == 0 {
            return Err(LayoutError::NoTrees);
        }
        let total = match tables {
            TableKind::PerPort => u32::from(colors)
                .checked_mul(trees_per_color)
                .ok_or(LayoutError::TooManyTrees { colors, trees_per_color })?,
            TableKind::PerSwitch => u32::from(colors),
        };
        Ok(Self { total, trees_per_color, tables })
    }

    /// Makes the space of an engine that puts any MGID on any of `colors` table entries: all
    /// numbers are as good as one another, as if each had an entry of its own.
    ///
    /// # Errors
    ///
    /// [`LayoutError`] if the colors are out of range.
    pub fn any(colors: u16) -> Result<Self, LayoutError> {
        Self::new(colors, 1, TableKind::PerSwitch)?;
        Self::new(MAX_COLORS, 1, TableKind::PerSwitch)
    }

    /// Counts the spanning trees.
    #[must_use]
    pub const fn total(&self) -> u32 {
        self.total
    }

    /// Counts the conflict-free spanning trees of one color (the paper's m where there are no lanes).
    #[must_use]
    pub const fn trees_per_color(&self) -> u32 {
        self.trees_per_color
    }

    /// Gives the kind of tables.
    #[must_use]
    pub const fn tables(&self) -> TableKind {
        self.tables
    }

    /// Gives the spanning tree of an MGID (equation (2)).
    #[must_use]
    pub const fn spt(&self, mgid: Mgid) -> u32 {
        mgid.0 % self.total
    }

    /// Gives the table entry that a spanning tree uses.
    #[must_use]
    pub fn color(&self, spt: u32) -> u16 {
        let color = match self.tables {
            TableKind::PerPort => spt / self.trees_per_color,
            TableKind::PerSwitch => spt,
        };
        u16::try_from(color).expect("a color is less than MAX_COLORS")
    }

    /// Counts the table entries, C.
    #[must_use]
    pub fn colors(&self) -> u16 {
        self.color(self.total - 1) + 1
    }

    /// Counts the rounds in which the spanning trees are numbered, `M` to a round
    /// (the last may be short). With per-port tables a round is a color.
    #[must_use]
    pub const fn rounds(&self) -> u32 {
        self.total.div_ceil(self.trees_per_color)
    }
}

impl MgidSpace {
    /// Walks all spanning trees in the order in which groups that cannot be on one look for another: other rounds
    /// first and its own last, in each of them from the tree of the same place on.
    pub(crate) fn search_order(self, home: u32) -> impl Iterator<Item = u32> {
        let (trees, rounds) = (self.trees_per_color, self.rounds());
        (1..=rounds)
            .flat_map(move |step| {
                let first = (home / trees + step) % rounds * trees;
                (0..trees).map(move |turn| first + (home + turn) % trees)
            })
            .filter(move |spt| *spt < self.total) // the last round of per-switch tables may be short
    }
}

/// The numbering of spanning trees on a fat tree of given sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    space: MgidSpace,
    params: FatTreeParams,
    lanes: u32,
}

impl Layout {
    /// Numbers the spanning trees that `colors` table entries allow.
    ///
    /// # Errors
    ///
    /// [`LayoutError`] if the colors are out of range or the sizes are not those of a fat tree.
    pub fn new(
        params: &FatTreeParams,
        colors: u16,
        tables: TableKind,
    ) -> Result<Self, LayoutError> {
        let lanes = lanes(params);
        let trees = if params.levels <= 1 { 1 } else { params.spines * lanes };
        Ok(Self { space: MgidSpace::new(colors, trees, tables)?, params: *params, lanes })
    }

    /// Gives the numbers without the geometry.
    #[must_use]
    pub const fn space(&self) -> &MgidSpace {
        &self.space
    }

    /// Gives the sizes of the fat tree.
    #[must_use]
    pub const fn params(&self) -> &FatTreeParams {
        &self.params
    }

    /// Gives the trees that one level-1 switch carries in one color.
    #[must_use]
    pub const fn lanes(&self) -> u32 {
        self.lanes
    }

    /// Gives the switches and lanes of spanning tree `spt`, less than the total.
    #[must_use]
    pub fn tree(&self, spt: u32) -> SpanningTree {
        let params = &self.params;
        let (round, t) = (spt / self.space.trees_per_color, spt % self.space.trees_per_color);
        let spines = params.spines.max(1);
        let (g, lane) = (t % spines, t / spines);
        let mut tree = SpanningTree {
            spt,
            color: self.space.color(spt),
            round,
            g,
            lane0: lane,
            leaf_slot: g * params.lanes0 + lane,
            ..SpanningTree::default()
        };
        if params.levels >= 3 {
            let ups = params.tns_per_group * usable_lanes1(params);
            tree.u = (round * self.lanes + lane) % ups;
            tree.tn = g * params.tns_per_group + tree.u % params.tns_per_group;
            let lane1 = tree.u / params.tns_per_group;
            if params.levels >= 4 {
                tree.l3 = lane1 % params.l3_per_tn;
                tree.v = lane1; // = lane2 * w + l3, with lane2 = lane1 div w
            }
        }
        tree
    }
}

/// Lanes from a level-1 switch to a top midplane that can go on to a link of their own.
pub(crate) fn usable_lanes1(params: &FatTreeParams) -> u32 {
    if params.levels >= 4 { params.lanes1.min(params.l2_up_ports()) } else { params.lanes1 }
}

fn lanes(params: &FatTreeParams) -> u32 {
    match params.levels {
        0 | 1 => 1,
        2 => params.lanes0,
        _ => params.lanes0.min(params.tns_per_group * usable_lanes1(params)),
    }
}

/// One spanning tree: which switches and lanes it uses at every level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanningTree {
    /// Its number.
    pub spt: u32,
    /// Its table entry.
    pub color: u16,
    /// Its round; the color with per-port tables.
    pub round: u32,
    /// Its level-1 switch in every CN, which is the TN group too.
    pub g: u32,
    /// Its lane between leaves and level 1.
    pub lane0: u32,
    /// Its up-port slot on every leaf, `g * lanes0 + lane0`.
    pub leaf_slot: u32,
    /// Its up-port on every level-1 switch `g` (three levels and more).
    pub u: u32,
    /// Its top midplane (three levels and more).
    pub tn: u32,
    /// Its up-port on every level-2 switch of that top midplane (four levels).
    pub v: u32,
    /// Its level-3 root in that top midplane (four levels).
    pub l3: u32,
}

/// Why spanning trees cannot be numbered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LayoutError {
    /// The number of colors is 0 or more than a table can hold.
    #[error("colors is {colors}, must be 1 to {MAX_COLORS}")]
    Colors {
        /// The number given.
        colors: u32,
    },
    /// The fabric has no path from a leaf upwards.
    #[error("the fat tree has no spanning tree: it has several levels but no up-links")]
    NoTrees,
    /// The product overflows.
    #[error("{colors} colors times {trees_per_color} trees per color is too many")]
    TooManyTrees {
        /// Colors asked for.
        colors: u16,
        /// Trees of one color.
        trees_per_color: u32,
    },
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn paper(colors: u16) -> Layout {
        let params = FatTreeParams {
            levels: 4,
            cns: 64,
            leaves_per_cn: 32,
            spines: 16,
            lanes0: 1,
            tns_per_group: 6,
            lanes1: 1,
            tns: 96,
            blocks: 32,
            cns_per_block: 16,
            l3_per_tn: 16,
            lanes2: 1,
            endpoints_per_leaf: 16,
        };
        Layout::new(&params, colors, TableKind::PerPort).unwrap()
    }

    /// The corollary of theorem 1: C colors have C*m trees; 40-port switches with m = 20 and C = 256 have 5 120.
    #[test]
    fn colors_times_spines_trees_exist() {
        assert_eq!(paper(32).space().total(), 512);
        let mut params = *paper(32).params();
        params.spines = 20;
        assert_eq!(Layout::new(&params, 256, TableKind::PerPort).unwrap().space().total(), 5_120);
        assert_eq!(Layout::new(&params, 256, TableKind::PerSwitch).unwrap().space().total(), 256);
    }

    /// Section 4.2.1: the first 96 MGIDs use the 96 top midplanes in turn.
    #[test]
    fn consecutive_mgids_go_round_all_top_midplanes() {
        let layout = paper(32);
        let tns: BTreeSet<u32> =
            (0..96).map(|mgid| layout.tree(layout.space().spt(Mgid(mgid))).tn).collect();
        assert_eq!(tns.len(), 96);
    }

    #[test]
    fn the_mapping_is_the_papers_where_there_are_no_lanes() {
        let layout = paper(32);
        for mgid in [0, 17, 511, 512, 70_001] {
            let tree = layout.tree(layout.space().spt(Mgid(mgid)));
            let color = (mgid / 16) % 32;
            assert_eq!(u32::from(tree.color), color);
            assert_eq!(tree.tn, (mgid % 16) * 6 + color % 6);
            assert_eq!((tree.leaf_slot, tree.l3, tree.v), (mgid % 16, 0, 0));
        }
    }

    #[test]
    fn colors_out_of_range_are_refused() {
        let params = *paper(1).params();
        for colors in [0, MAX_COLORS + 1] {
            assert_eq!(
                Layout::new(&params, colors, TableKind::PerPort),
                Err(LayoutError::Colors { colors: u32::from(colors) })
            );
        }
        assert_eq!(paper(MAX_COLORS).space().colors(), MAX_COLORS);
    }

    pub(crate) fn any_params() -> impl Strategy<Value = FatTreeParams> {
        (2u32..=4, 1u32..5, 1u32..5, 1u32..4, 1u32..5, 1u32..4, 1u32..4).prop_map(
            |(levels, spines, lanes0, p, lanes1, w, lanes2)| FatTreeParams {
                levels,
                cns: 4,
                leaves_per_cn: 2,
                spines,
                lanes0,
                tns_per_group: if levels > 2 { p } else { 0 },
                lanes1: if levels > 2 { lanes1 } else { 0 },
                tns: if levels > 2 { p * spines } else { 0 },
                blocks: if levels > 3 { 2 } else { 1 },
                cns_per_block: 2,
                l3_per_tn: if levels > 3 { w } else { 0 },
                lanes2: if levels > 3 { lanes2 } else { 0 },
                endpoints_per_leaf: 2,
            },
        )
    }

    proptest! {
        /// Theorem 1: the M trees of one color share no switch-to-switch link,
        /// and M is as many as a leaf's up-links or the levels above allow.
        #[test]
        fn trees_of_one_color_are_conflict_free(params in any_params(), colors in 1u16..9) {
            let layout = Layout::new(&params, colors, TableKind::PerPort).unwrap();
            let m = layout.space().trees_per_color();
            for color in 0..u32::from(colors) {
                let (mut leaf, mut l1, mut l2) =
                    (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
                for spt in color * m..(color + 1) * m {
                    let tree = layout.tree(spt);
                    prop_assert_eq!(u32::from(tree.color), color);
                    prop_assert!(tree.leaf_slot < params.leaf_up_ports());
                    prop_assert!(leaf.insert(tree.leaf_slot));
                    if params.levels > 2 {
                        prop_assert!(tree.u < params.l1_up_ports());
                        prop_assert!(l1.insert((tree.g, tree.u)));
                        prop_assert_eq!(tree.tn / params.tns_per_group, tree.g);
                    }
                    if params.levels > 3 {
                        prop_assert!(tree.v < params.l2_up_ports());
                        prop_assert_eq!(tree.v % params.l3_per_tn, tree.l3);
                        prop_assert!(l2.insert((tree.tn, tree.v)));
                    }
                }
            }
        }

        /// The trees of one level-1 switch are spread over its up-ports as evenly as can be.
        #[test]
        fn loads_of_the_up_ports_differ_by_at_most_one(params in any_params(), colors in 1u16..40) {
            let layout = Layout::new(&params, colors, TableKind::PerPort).unwrap();
            prop_assume!(params.levels > 2);
            let ups = params.tns_per_group * usable_lanes1(&params);
            let mut loads = vec![0u32; ups as usize];
            for spt in (0..layout.space().total()).filter(|spt| layout.tree(*spt).g == 0) {
                loads[layout.tree(spt).u as usize] += 1;
            }
            prop_assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 1);
        }
    }
}
