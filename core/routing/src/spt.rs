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
//!
//! With fault tolerance (equation (4), rebuilt) a number stands for a *pair* of trees that share no
//! link and no switch above the leaves: each goes through a level-1 switch of its own. Both have
//! one color; with per-switch tables each needs an entry of its own.

use fabricast_topology::{FatTree, FatTreeParams, Mgid, TableKind};
use thiserror::Error;

/// The most entries a multicast table can have: InfiniBand's limit, the multicast LIDs from 0xC000
/// on.
pub const MAX_COLORS: u16 = 16_384;

/// Numbers that tell which spanning tree and table entry an MGID has; no geometry.
///
/// This is all that a chooser of MGIDs needs to know of a fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MgidSpace {
    total: u32,
    trees_per_color: u32,
    tables: TableKind,
    dual: bool,
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
        Ok(Self { total, trees_per_color, tables, dual: false })
    }

    /// Makes the space where every number stands for a pair of trees, of which one color has
    /// `pairs_per_color`. With per-switch tables a pair takes two entries.
    ///
    /// # Errors
    ///
    /// [`LayoutError`] if a number is out of its range.
    pub fn dual(colors: u16, pairs_per_color: u32, tables: TableKind) -> Result<Self, LayoutError> {
        let numbers = match tables {
            TableKind::PerSwitch if colors == 1 => return Err(LayoutError::NoSecondEntry),
            TableKind::PerSwitch => colors / 2,
            TableKind::PerPort => colors,
        };
        Ok(Self { dual: true, ..Self::new(numbers, pairs_per_color, tables)? })
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

    /// Counts the conflict-free spanning trees of one color (the paper's m where there are no
    /// lanes).
    #[must_use]
    pub const fn trees_per_color(&self) -> u32 {
        self.trees_per_color
    }

    /// Returns the kind of tables.
    #[must_use]
    pub const fn tables(&self) -> TableKind {
        self.tables
    }

    /// Returns the spanning tree of an MGID (equation (2)).
    #[must_use]
    pub const fn spt(&self, mgid: Mgid) -> u32 {
        mgid.0 % self.total
    }

    /// Counts the trees that a group has: 1, or 2 with fault tolerance.
    #[must_use]
    pub const fn trees_per_group(&self) -> u8 {
        if self.dual { 2 } else { 1 }
    }

    /// Returns the table entry that a spanning tree uses, or the first tree of a pair.
    #[must_use]
    pub fn color(&self, spt: u32) -> u16 {
        self.color_of(spt, 0)
    }

    /// Returns the table entry that one tree of a pair uses, 0 or 1.
    pub(crate) fn color_of(&self, spt: u32, half: u8) -> u16 {
        let color = match (self.tables, self.dual) {
            (TableKind::PerPort, _) => spt / self.trees_per_color,
            (TableKind::PerSwitch, false) => spt,
            (TableKind::PerSwitch, true) => 2 * spt + u32::from(half),
        };
        u16::try_from(color).expect("a color is less than MAX_COLORS")
    }

    /// Counts the table entries, C; one less if pairs leave one over.
    #[must_use]
    pub fn colors(&self) -> u16 {
        self.color_of(self.total - 1, self.trees_per_group() - 1) + 1
    }

    /// Counts the rounds in which the spanning trees are numbered, `M` to a round
    /// (the last may be short). With per-port tables a round is a color.
    #[must_use]
    pub const fn rounds(&self) -> u32 {
        self.total.div_ceil(self.trees_per_color)
    }
}

impl MgidSpace {
    /// Walks all spanning trees in the order in which groups that cannot be on one look for
    /// another: other rounds first and its own last, in each of them from the tree of the same
    /// place on.
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
    pairing: Pairing,
}

/// The two level-1 switches that the trees of a pair go through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pairing {
    /// One of each half, the same two in every round (equation (4)).
    Fixed,
    /// One of each half, others in every round.
    AcrossHalves,
    /// Any two, others in every round.
    AnyTwo,
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
        let space = MgidSpace::new(colors, trees, tables)?;
        Ok(Self { space, params: *params, lanes, pairing: Pairing::Fixed })
    }

    /// Numbers pairs of spanning trees, for fault tolerance (equation (4)). If the number of
    /// level-1 switches is odd, one of them stays unused in each round.
    ///
    /// # Errors
    ///
    /// [`LayoutError`] as [`Layout::new`], and if there are no two level-1 switches in a CN.
    pub fn dual(
        params: &FatTreeParams,
        colors: u16,
        tables: TableKind,
    ) -> Result<Self, LayoutError> {
        if params.levels <= 1 || params.spines < 2 {
            return Err(LayoutError::NoSecondTree);
        }
        let lanes = lanes(params);
        let space = MgidSpace::dual(colors, params.spines / 2 * lanes, tables)?;
        Ok(Self { space, params: *params, lanes, pairing: Pairing::Fixed })
    }

    /// Joins other level-1 switches to pairs in every round, where the paper always joins the same
    /// two. With so many rounds as level-1 switches a group finds a pair as soon as any two of them
    /// serve it. Where top midplanes of several level-1 switches share switches, as in directors,
    /// two of one half can meet there; so only those of different halves are joined, and with half
    /// as many rounds a group finds a pair as soon as one of each half serves it.
    #[must_use]
    pub fn with_mixed_pairs(self, fat_tree: &FatTree) -> Self {
        let pairing = if fat_tree.shares_tops() { Pairing::AcrossHalves } else { Pairing::AnyTwo };
        Self { pairing, ..self }
    }

    /// Returns the numbers without the geometry.
    #[must_use]
    pub const fn space(&self) -> &MgidSpace {
        &self.space
    }

    /// Returns the sizes of the fat tree.
    #[must_use]
    pub const fn params(&self) -> &FatTreeParams {
        &self.params
    }

    /// Returns the trees that one level-1 switch carries in one color.
    #[must_use]
    pub const fn lanes(&self) -> u32 {
        self.lanes
    }

    /// Returns the switches and lanes of spanning tree `spt`, less than the total; of its first
    /// tree, if it is a pair.
    #[must_use]
    pub fn tree(&self, spt: u32) -> SpanningTree {
        self.tree_of(spt, 0)
    }

    /// Returns the trees of a number: one, or two with fault tolerance.
    pub fn trees(&self, spt: u32) -> impl Iterator<Item = SpanningTree> {
        let layout = *self;
        (0..self.space.trees_per_group()).map(move |half| layout.tree_of(spt, half))
    }

    fn tree_of(&self, spt: u32, half: u8) -> SpanningTree {
        let params = &self.params;
        let (round, t) = (spt / self.space.trees_per_color, spt % self.space.trees_per_color);
        let pairs = (params.spines / u32::from(self.space.trees_per_group())).max(1);
        let (at, lane) = (t % pairs, t / pairs);
        let g = match (self.pairing, half) {
            _ if !self.space.dual => at,
            (Pairing::AnyTwo, _) => one_of_any_two(params.spines, at, round, half),
            (Pairing::AcrossHalves, 1..) => (at + round) % pairs + pairs,
            (Pairing::AcrossHalves | Pairing::Fixed, _) => at + u32::from(half) * pairs,
        };
        let mut tree = SpanningTree {
            spt,
            color: self.space.color_of(spt, half),
            round,
            g,
            lane0: lane,
            leaf_up: g * params.lanes0 + lane,
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

/// Returns one switch of a pair, where rounds are those of a round-robin tournament (the circle
/// method): in each, every switch is in one pair, but for one that is in none if their number is
/// odd. After as many rounds as there are switches, one less if their number is even, every two
/// have been a pair once.
///
/// - `at`: the number of the pair in its round.
const fn one_of_any_two(switches: u32, at: u32, round: u32, half: u8) -> u32 {
    let circle = (switches - 1) | 1; // an even number leaves out the last one
    let turn = round % circle;
    let step = at + switches % 2;
    let [first, second] = if step == 0 {
        // The one left out is the first of its pair in every other round.
        if round.is_multiple_of(2) { [turn, circle] } else { [circle, turn] }
    } else {
        [(turn + step) % circle, (turn + circle - step) % circle]
    };
    if half == 0 { first } else { second }
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
    /// Its number, the paper's `spt_no`.
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
    pub leaf_up: u32,
    /// Its up-port on every level-1 switch `g` (three levels and more).
    pub u: u32,
    /// Its top midplane (three levels and more).
    pub tn: u32,
    /// Its up-port on every level-2 switch of that top midplane (four levels).
    pub v: u32,
    /// Its level-3 root in that top midplane (four levels).
    pub l3: u32,
}

/// Reason why spanning trees cannot be numbered.
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
    /// Fault tolerance needs two trees that share nothing above the leaves.
    #[error("fault tolerance needs two level-1 switches above every leaf, and there are not")]
    NoSecondTree,
    /// Fault tolerance with per-switch tables takes two entries.
    #[error("fault tolerance with per-switch tables takes two entries, and colors is 1")]
    NoSecondEntry,
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
pub(crate) mod tests;
