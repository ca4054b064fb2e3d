//! Which spanning trees, and which table entry, an MGID stands for.

use fabricast_topology::TableKind;

use crate::mgid::Mgid;
use crate::spt::{LayoutError, MAX_COLORS};

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

/// Numbers all spanning trees of a fabric where a group has one of them, or with fault tolerance two.
///
/// With two, an MGID's number in the space is that of a pair (equation (4)). The trees of each color are
/// halved and a pair has one of each half; with per-switch tables its two trees have entries of their own. Trees are
/// numbered so that their colors rise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbering {
    space: MgidSpace,
    per_group: u32,
}

impl Numbering {
    pub(super) const fn new(space: MgidSpace, per_group: u32) -> Self {
        Self { space, per_group }
    }

    /// Gives the numbers that MGIDs are mapped to.
    #[must_use]
    pub const fn space(&self) -> &MgidSpace {
        &self.space
    }

    /// Counts the trees of a group, 1 or 2.
    #[must_use]
    pub const fn trees_per_group(&self) -> u32 {
        self.per_group
    }

    /// Counts the spanning trees.
    #[must_use]
    pub const fn count(&self) -> u32 {
        self.space.total * self.per_group
    }

    /// Gives tree 0 or 1 of number `spt` in the space.
    #[must_use]
    pub const fn tree(&self, spt: u32, which: u32) -> u32 {
        match self.space.tables {
            TableKind::PerPort => {
                let m = self.space.trees_per_color;
                (spt / m * self.per_group + which) * m + spt % m
            }
            TableKind::PerSwitch => spt * self.per_group + which,
        }
    }

    /// Gives the trees of number `spt` in the space; `u32::MAX` for a second one that there is not.
    pub(crate) const fn trees(&self, spt: u32) -> [u32; 2] {
        [self.tree(spt, 0), if self.per_group == 2 { self.tree(spt, 1) } else { u32::MAX }]
    }

    /// Gives the number in the space that a tree belongs to, and which of its trees it is.
    #[must_use]
    pub const fn number(&self, tree: u32) -> (u32, u32) {
        match self.space.tables {
            TableKind::PerPort => {
                let m = self.space.trees_per_color;
                let (row, column) = (tree / m, tree % m);
                (row / self.per_group * m + column, row % self.per_group)
            }
            TableKind::PerSwitch => (tree / self.per_group, tree % self.per_group),
        }
    }

    /// Gives the table entry that a tree uses.
    #[must_use]
    pub fn color(&self, tree: u32) -> u16 {
        match self.space.tables {
            TableKind::PerPort => self.space.color(self.number(tree).0),
            TableKind::PerSwitch => u16::try_from(tree).expect("a color is less than MAX_COLORS"),
        }
    }
}
