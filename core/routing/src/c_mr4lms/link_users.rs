//! The links of one spanning tree that are in use, and their users: marked group by group, then
//! read out once.
//!
//! A link is known by the leaf, CN or block below it, and one mark stands for both of its ends. Of
//! the link of an endpoint only its use is noted: groups that leave the leaf and share it share the
//! link of the leaf too. Only groups that stay within a leaf have to know each other by their
//! endpoints.

mod port_runs;

use crate::c_mr4lms::disjoint_sets::DisjointSets;
use crate::c_mr4lms::fabric::{Fabric, NONE, dense};
use crate::c_mr4lms::numbers::EndpointSlot;
pub(super) use port_runs::PortRuns;

/// Level of a switch, and the leaf, CN or block it belongs to.
pub(super) type Top = (usize, u32);

/// The links in use on one spanning tree; none between two readings.
#[derive(Clone, Debug)]
pub(super) struct LinkUsers {
    cells: Vec<Cell>,
    cell_bits: u32, // logarithm of the slots of a cell
    leaf_bits: u32, // logarithm of the cells of a leaf
    rows: Vec<Row>,
    used: Vec<u64>,  // by row: a bit for each cell with a mark
    mixed: Vec<u64>, // by row: a bit for each cell with groups that stay within their leaf
    cns: Links,
    blocks: Links,
    within: Vec<u32>, // by slot: 1 + the first group that stays within its leaf, or 0
    crossed: Vec<u32>, // the CNs of a group, while it is marked
}

/// A leaf, or up to 64 of its endpoints if it has more.
#[derive(Clone, Copy, Debug)]
struct Cell {
    slots: u64, // those in use
    user: u32,  // the first group that uses the leaf's link upwards; in the first cell of a leaf
    place: u32, // row, and in the lowest six bits which cell of it
}

/// Up to 64 consecutive cells, of leaves of one CN.
#[derive(Clone, Copy, Debug)]
struct Row {
    first: u32,
    cn: u32,
}

/// The links upwards from all CNs or blocks; or all switches.
#[derive(Clone, Debug)]
pub(super) struct Links {
    users: Vec<u32>, // the first group that uses it
}

impl Links {
    pub(super) fn new(count: usize) -> Self {
        Self { users: vec![NONE; count] }
    }

    /// Marks one for a group, or unites the group with its user.
    pub(super) fn mark(&mut self, at: u32, group: u32, sets: &mut DisjointSets) {
        let user = &mut self.users[at as usize];
        if *user == NONE {
            *user = group;
        } else {
            sets.unite(*user, group);
        }
    }

    pub(super) fn clear(&mut self) {
        self.users.fill(NONE);
    }
}

impl LinkUsers {
    pub(super) fn new(fabric: &Fabric) -> Self {
        let cell_bits = fabric.slot_bits().min(6);
        let leaf_bits = fabric.slot_bits() - cell_bits;
        let cells = dense(fabric.leaf_cn.len()) << leaf_bits;
        let mut rows: Vec<Row> = Vec::new();
        let place = |first: u32| {
            let cn = fabric.leaf_cn[(first >> leaf_bits) as usize];
            if rows.last().is_none_or(|row| row.cn != cn || first - row.first == 64) {
                rows.push(Row { first, cn });
            }
            let row = dense(rows.len() - 1);
            Cell { slots: 0, user: NONE, place: row << 6 | (first - rows[row as usize].first) }
        };
        let cells = (0..cells).map(place).collect();
        Self {
            cells,
            cell_bits,
            leaf_bits,
            used: vec![0; rows.len()],
            mixed: vec![0; rows.len()],
            rows,
            cns: Links::new(fabric.cn_block.len()),
            blocks: Links::new(fabric.blocks()),
            within: vec![0; fabric.slots()],
            crossed: Vec::new(),
        }
    }

    /// Marks what a group with two live members or more uses, slots rising, and gives its topmost
    /// switch. Groups with their top at level 0 are to be marked again when all others are.
    pub(super) fn mark(
        &mut self,
        fabric: &Fabric,
        sets: &mut DisjointSets,
        group: u32,
        live: &[EndpointSlot],
    ) -> Top {
        let first = fabric.leaf_of(live[0]);
        if first == fabric.leaf_of(live[live.len() - 1]) {
            return (0, first);
        }
        let Self { cells, used, cell_bits, leaf_bits, .. } = self;
        let (cells, used, leaf_bits) = (&mut cells[..], &mut used[..], *leaf_bits);
        let cell_bits = *cell_bits;
        let (mut leaf, mut row) = (NONE, NONE);
        self.crossed.clear();
        for slot in live {
            let at = slot.0 >> cell_bits;
            let cell = &mut cells[at as usize];
            cell.slots |= 1 << (slot.0 & ((1 << cell_bits) - 1));
            used[cell.place as usize >> 6] |= 1 << (cell.place & 63);
            if at >> leaf_bits == leaf {
                continue;
            }
            leaf = at >> leaf_bits;
            let cell = &mut cells[(leaf << leaf_bits) as usize];
            used[cell.place as usize >> 6] |= 1 << (cell.place & 63);
            if cell.user == NONE {
                cell.user = group;
            } else {
                sets.unite(cell.user, group);
            }
            if cell.place >> 6 != row {
                row = cell.place >> 6;
                self.crossed.push(self.rows[row as usize].cn);
            }
        }
        self.mark_above(fabric, sets, group)
    }

    /// Marks the links above the CNs that a group is in.
    fn mark_above(&mut self, fabric: &Fabric, sets: &mut DisjointSets, group: u32) -> Top {
        let first = self.crossed[0];
        if self.crossed.iter().all(|cn| *cn == first) {
            return (1, first);
        }
        let first = fabric.cn_block[first as usize];
        let (mut last, mut several) = (first, false);
        for cn in &self.crossed {
            self.cns.mark(*cn, group, sets);
            let block = fabric.cn_block[*cn as usize];
            if block != last {
                (last, several) = (block, true);
                self.blocks.mark(block, group, sets);
            }
        }
        if !several {
            return (2, first);
        }
        self.blocks.mark(first, group, sets);
        (3, 0)
    }

    /// Marks the endpoints of a group that stays within a leaf.
    pub(super) fn mark_within(
        &mut self,
        fabric: &Fabric,
        sets: &mut DisjointSets,
        group: u32,
        live: &[EndpointSlot],
    ) {
        let user = self.cells[(fabric.leaf_of(live[0]) << self.leaf_bits) as usize].user;
        for slot in live {
            let bit = self.bit(*slot);
            let cell = &mut self.cells[(slot.0 >> self.cell_bits) as usize];
            let (row, place) = (cell.place as usize >> 6, cell.place & 63);
            self.used[row] |= 1 << place;
            self.mixed[row] |= 1 << place;
            let within = &mut self.within[slot.index()];
            match (cell.slots & bit, *within) {
                (0, _) => *within = group + 1,
                (_, 0) => sets.unite(user, group),
                (_, first) => sets.unite(first - 1, group),
            }
            cell.slots |= bit;
        }
    }

    #[inline]
    const fn bit(&self, slot: EndpointSlot) -> u64 {
        1 << (slot.0 & ((1 << self.cell_bits) - 1))
    }
}
