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

mod space;

use fabricast_topology::{FatTreeParams, TableKind};
use thiserror::Error;

pub use space::{MgidSpace, Numbering};

/// The most entries a multicast table can have: InfiniBand's limit, the multicast LIDs from 0xC000 on.
pub const MAX_COLORS: u16 = 16_384;

/// The numbering of spanning trees on a fat tree of given sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    numbering: Numbering,
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
        let numbering = Numbering::new(MgidSpace::new(colors, trees, tables)?, 1);
        Ok(Self { numbering, params: *params, lanes })
    }

    /// Numbers pairs of spanning trees that share no switch above the leaves (equation (4)).
    ///
    /// # Errors
    ///
    /// [`LayoutError`] as [`Layout::new`], and if the fabric or the tables have no room for two.
    pub fn fault_tolerant(
        params: &FatTreeParams,
        colors: u16,
        tables: TableKind,
    ) -> Result<Self, LayoutError> {
        Self::new(params, colors, tables)?;
        let (lanes, half) = (lanes(params), params.spines / 2);
        if half == 0 {
            return Err(LayoutError::NoSecondTree);
        }
        let colors = match tables {
            TableKind::PerPort => colors,
            TableKind::PerSwitch if colors < 2 => return Err(LayoutError::NoSecondEntry),
            TableKind::PerSwitch => colors / 2, // each tree has an entry of its own
        };
        let numbering = Numbering::new(MgidSpace::new(colors, half * lanes, tables)?, 2);
        Ok(Self { numbering, params: *params, lanes })
    }

    /// Gives the numbers without the geometry.
    #[must_use]
    pub const fn space(&self) -> &MgidSpace {
        self.numbering.space()
    }

    /// Gives the numbers of the trees.
    #[must_use]
    pub const fn numbering(&self) -> &Numbering {
        &self.numbering
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

    /// Gives the switches and lanes of a spanning tree by its number, less than the count.
    #[must_use]
    pub fn tree(&self, number: u32) -> SpanningTree {
        let params = &self.params;
        let (spt, which) = self.numbering.number(number);
        let m = self.space().trees_per_color();
        let (round, t) = (spt / m, spt % m);
        let spines = (params.spines / self.numbering.trees_per_group()).max(1);
        let (g, lane) = (which * spines + t % spines, t / spines);
        let mut tree = SpanningTree {
            spt: number,
            color: self.numbering.color(number),
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
    /// The fabric has fewer than two level-1 switches to a midplane, or no level 1.
    #[error(
        "fault tolerance needs two trees without a common switch above the leaves, and the fabric has none"
    )]
    NoSecondTree,
    /// There is one entry, and with per-switch tables a group needs two.
    #[error("fault tolerance needs two entries for each group with per-switch tables, colors is 1")]
    NoSecondEntry,
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
    use crate::mgid::Mgid;

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

        /// Equation (4): the two trees of a pair share no switch above the leaves, all trees of one color
        /// remain conflict-free, and numbers lead there and back.
        #[test]
        fn pairs_share_nothing_above_the_leaves(
            params in any_params(), colors in 2u16..9, per_switch in any::<bool>(),
        ) {
            prop_assume!(params.spines > 1);
            let tables = if per_switch { TableKind::PerSwitch } else { TableKind::PerPort };
            let layout = Layout::fault_tolerant(&params, colors, tables).unwrap();
            let numbering = layout.numbering();
            let mut links = BTreeSet::new();
            let mut last = 0;
            for number in 0..numbering.count() {
                let (spt, which) = numbering.number(number);
                prop_assert_eq!(numbering.tree(spt, which), number);
                let (tree, other) = (layout.tree(number), layout.tree(numbering.tree(spt, 1 - which)));
                prop_assert!(tree.g != other.g && (params.levels < 3 || tree.tn != other.tn));
                prop_assert!(tree.color < colors && tree.color >= last);
                last = tree.color;
                prop_assert!(links.insert((tree.color, 0, tree.leaf_slot, 0)));
                prop_assert!(params.levels < 3 || links.insert((tree.color, 1, tree.g, tree.u)));
                prop_assert!(params.levels < 4 || links.insert((tree.color, 2, tree.tn, tree.v)));
                if tables == TableKind::PerPort {
                    prop_assert_eq!(tree.color, other.color);
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
