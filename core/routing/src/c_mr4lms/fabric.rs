//! The fabric as the inner loops of the engine read it: flat columns, liveness included.
//!
//! An *endpoint slot* numbers an endpoint by its place: every leaf has the same power of two of
//! slots, in the order of its ports; endpoints without a leaf have the slots after all leaves.
//! Slots without an endpoint are never looked up.

mod endpoint_slots;

use std::sync::Arc;

use fabricast_topology::{EndpointId, FatTree, Faults, Graph, Peer, PortId, SwitchId};
use fixedbitset::FixedBitSet;

use crate::c_mr4lms::numbers::{EndpointSlot, TreeNumber};
use crate::plan::BrokenLink;
use crate::spt::{Layout, SpanningTree};
use endpoint_slots::EndpointSlots;

/// "Nothing" in a packed column.
pub(super) const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(super) struct Fabric {
    pub(super) graph: Arc<Graph>,
    pub(super) fat_tree: Arc<FatTree>,
    pub(super) faults: Faults,
    trees: Vec<SpanningTree>,         // by number, those of a pair together
    halves: usize,                    // trees of one number
    slot_bits: u32,                   // logarithm of the slots of a leaf
    slot_endpoint: Vec<u32>,          // by slot
    endpoint_slot: Vec<EndpointSlot>, // by endpoint
    pub(super) slot_port: Vec<u32>,   // by slot
    pub(super) leaf_cn: Vec<u32>,
    pub(super) cn_block: Vec<u32>,
    /// Links from leaves (columns) by up-port, from CNs by `g` and `u`, from blocks by TN and `v`.
    pub(super) tiers: [Tier; 3],
    l1_ups: u32,
    l2_ups: u32,
    slot_live: Vec<bool>,
    leaf_has_up: Vec<bool>,
    endpoints_whole: bool,
    leaves_whole: bool,
    reaches_all: bool,     // a spanning tree as high as the fabric joins all leaves
    tree_whole: Vec<bool>, // by number: no link of it, or of its pair, is dead or missing
}

/// All links from one level to the next; the links of one spanning tree are one row.
#[derive(Clone, Debug, Default)]
pub(super) struct Tier {
    width: usize,
    links: Vec<(u32, u32)>, // lower and upper port
    live: Vec<bool>,
    live_rows: Vec<u64>,     // by column: a bit for each row with a live link
    existing_rows: Vec<u64>, // by column: a bit for each row with a link
    row_whole: Vec<bool>,
}

impl Tier {
    fn new(
        graph: &Graph,
        rows: u32,
        width: usize,
        port: impl Fn(u32, u32) -> Option<PortId>,
    ) -> Self {
        let row_whole = vec![false; rows as usize];
        let mut tier = Self { width, row_whole, ..Self::default() };
        for row in 0..rows {
            for at in 0..dense(width) {
                let link = port(row, at).and_then(|lower| match graph.peer(lower) {
                    Peer::Switch(upper) => Some((lower.0, upper.0)),
                    Peer::None | Peer::Endpoint(_) => None,
                });
                tier.links.push(link.unwrap_or((NONE, NONE)));
            }
        }
        tier.live = vec![false; tier.links.len()];
        let words = tier.row_words();
        tier.live_rows = vec![0; width * words];
        tier.existing_rows = vec![0; width * words];
        for (cell, _) in tier.links.iter().enumerate().filter(|(_, (lower, _))| *lower != NONE) {
            let (row, at) = (cell / width, cell % width);
            tier.existing_rows[at * words + row / 64] |= 1 << (row % 64);
        }
        tier
    }

    /// Counts the words of a set of rows.
    const fn row_words(&self) -> usize {
        self.row_whole.len().div_ceil(64)
    }

    /// Gives the links of a row: lower and upper ports by column; none of a level this fabric
    /// lacks.
    pub(super) fn row(&self, row: u32) -> &[(u32, u32)] {
        let first = row as usize * self.width;
        self.links.get(first..first + self.width).unwrap_or(&[])
    }

    fn is_live(&self, row: u32, at: u32) -> bool {
        self.live.get(row as usize * self.width + at as usize).is_some_and(|live| *live)
    }

    /// Updates what is live; tells which rows and columns changed. Columns not `used` do not count
    /// as missing.
    fn refresh(&mut self, graph: &Graph, faults: &Faults, used: &FixedBitSet) -> Changed {
        let mut changed = Changed {
            rows: FixedBitSet::with_capacity(self.row_whole.len()),
            columns: FixedBitSet::with_capacity(self.width),
        };
        let words = self.row_words();
        for (row, whole) in self.row_whole.iter_mut().enumerate() {
            *whole = true;
            for at in 0..self.width {
                let cell = row * self.width + at;
                let (lower, _) = self.links[cell];
                let live = lower != NONE && faults.port_is_live(graph, PortId(lower));
                *whole &= live || !used.contains(at);
                if live != self.live[cell] {
                    self.live[cell] = live;
                    self.live_rows[at * words + row / 64] ^= 1 << (row % 64);
                    changed.rows.insert(row);
                    changed.columns.insert(at);
                }
            }
        }
        changed
    }

    /// Finds the rows with links from all these columns; a single one needs no link.
    fn find_rows(&self, at: &[u32], rows: &mut LinkedRows) {
        rows.all = at.len() <= 1;
        let LinkedRows { live, existing, .. } = rows;
        for (common, by_column) in [(live, &self.live_rows), (existing, &self.existing_rows)] {
            common.clear();
            common.resize(self.row_words(), u64::MAX);
            for column in at.iter().filter(|_| at.len() > 1) {
                let own = &by_column[*column as usize * common.len()..];
                common.iter_mut().zip(own).for_each(|(all, own)| *all &= own);
            }
        }
    }

    fn broken(&self, level: u8, row: u32, at: &[u32]) -> Option<BrokenLink> {
        let at = *at.iter().find(|at| !self.is_live(row, **at))?;
        let link = self.links.get(row as usize * self.width + at as usize).copied();
        Some(match link {
            Some((port, _)) if port != NONE => BrokenLink::Dead { port: PortId(port) },
            Some(_) | None => BrokenLink::Missing { level, index: at },
        })
    }
}

/// The rows of a tier in which all of some places have links upwards.
#[derive(Clone, Debug, Default)]
pub(super) struct LinkedRows {
    all: bool,
    live: Vec<u64>,     // a bit for each row
    existing: Vec<u64>, // dead or live
}

impl LinkedRows {
    pub(super) fn is_live(&self, row: u32) -> bool {
        self.all || has_bit(&self.live, row)
    }

    /// Tells whether the links exist, dead or live.
    pub(super) fn exists(&self, row: u32) -> bool {
        self.all || has_bit(&self.existing, row)
    }
}

fn has_bit(words: &[u64], at: u32) -> bool {
    words.get(at as usize / 64).is_some_and(|word| word >> (at % 64) & 1 != 0)
}

/// Rows and columns of a tier in which a link died or came back.
#[derive(Default)]
struct Changed {
    rows: FixedBitSet,
    columns: FixedBitSet,
}

/// Spanning trees and endpoints that a new set of faults touches.
pub(super) struct Touched {
    tiers: [Changed; 3],
    pub(super) trees: Vec<TreeNumber>,
    pub(super) slots: Vec<EndpointSlot>,
}

impl Touched {
    /// Tells whether a link of a spanning tree, whatever its root, died or came back.
    pub(super) fn meets(&self, fabric: &Fabric, tree: &SpanningTree) -> bool {
        let rows = self.tiers.iter().zip(fabric.rows(tree));
        rows.into_iter().any(|(tier, row)| tier.rows.contains(row as usize))
    }

    /// Tells whether a link upwards from one of these leaves, CNs and blocks died or came back.
    pub(super) fn meets_places(&self, places: [&[u32]; 3]) -> bool {
        let tiers = self.tiers.iter().zip(places);
        tiers.into_iter().any(|(tier, at)| at.iter().any(|at| tier.columns.contains(*at as usize)))
    }
}

impl Fabric {
    pub(super) fn new(graph: Arc<Graph>, fat_tree: Arc<FatTree>, layout: &Layout) -> Self {
        let params = *fat_tree.params();
        let leaves = fat_tree.leaf_count();
        let leaf_cn: Vec<u32> = (0..dense(leaves)).map(|at| fat_tree.cn_of_leaf(at)).collect();
        let cns = leaf_cn.iter().max().map_or(0, |last| *last as usize + 1);
        let cn_block: Vec<u32> = (0..dense(cns)).map(|at| fat_tree.block_of_cn(at)).collect();
        let blocks = cn_block.iter().max().map_or(0, |last| *last as usize + 1);
        let (l1_ups, l2_ups) = (params.l1_up_ports(), params.l2_up_ports());
        let tiers = [
            Tier::new(&graph, params.leaf_up_ports(), leaves, |row, leaf| {
                fat_tree.leaf_up(leaf, row)
            }),
            Tier::new(&graph, params.spines * l1_ups, cns, |row, cn| {
                fat_tree.l1_up(cn, row / l1_ups, row % l1_ups)
            }),
            Tier::new(&graph, params.tns * l2_ups, blocks, |row, block| {
                fat_tree.l2_up(row / l2_ups, block, row % l2_ups)
            }),
        ];
        let slots = EndpointSlots::new(&graph, &fat_tree);
        let trees: Vec<_> = (0..layout.space().total()).flat_map(|spt| layout.trees(spt)).collect();
        let mut fabric = Self {
            faults: Faults::new(),
            slot_live: vec![false; slots.ports.len()],
            leaf_has_up: vec![false; leaves],
            endpoints_whole: false,
            leaves_whole: false,
            reaches_all: false,
            tree_whole: vec![false; layout.space().total() as usize],
            trees,
            halves: usize::from(layout.space().trees_per_group()),
            slot_bits: slots.bits,
            slot_endpoint: slots.endpoints,
            slot_port: slots.ports,
            endpoint_slot: slots.of_endpoint,
            leaf_cn,
            cn_block,
            tiers,
            l1_ups,
            l2_ups,
            graph,
            fat_tree,
        };
        let tiers = fabric.tiers_in_use();
        fabric.reaches_all =
            (tiers >= 1 || leaves <= 1) && (tiers >= 2 || cns <= 1) && (tiers >= 3 || blocks <= 1);
        fabric.set_faults(Faults::new());
        fabric
    }

    /// Gives the tree of a number, or the first of its pair.
    pub(super) fn tree(&self, spt: TreeNumber) -> &SpanningTree {
        &self.trees[spt.index() * self.halves]
    }

    /// Gives the trees of a number: one, or two with fault tolerance.
    pub(super) fn trees(&self, spt: TreeNumber) -> &[SpanningTree] {
        &self.trees[spt.index() * self.halves..][..self.halves]
    }

    /// Walks the numbers of spanning trees.
    pub(super) fn tree_numbers(&self) -> impl Iterator<Item = TreeNumber> + use<> {
        (0..dense(self.tree_whole.len())).map(TreeNumber)
    }

    /// Gives the row of a spanning tree in each tier.
    pub(super) fn rows(&self, tree: &SpanningTree) -> [u32; 3] {
        [tree.leaf_up, tree.g * self.l1_ups + tree.u, tree.tn * self.l2_ups + tree.v]
    }

    pub(super) fn slots(&self) -> usize {
        self.slot_port.len()
    }

    /// Counts the blocks that have a CN.
    pub(super) fn blocks(&self) -> usize {
        self.cn_block.iter().max().map_or(0, |last| *last as usize + 1)
    }

    /// Gives the logarithm of the slots of a leaf.
    pub(super) const fn slot_bits(&self) -> u32 {
        self.slot_bits
    }

    /// Gives the leaf of a slot that is on one.
    pub(super) const fn leaf_of(&self, slot: EndpointSlot) -> u32 {
        slot.0 >> self.slot_bits
    }

    pub(super) fn is_on_leaf(&self, slot: EndpointSlot) -> bool {
        (self.leaf_of(slot) as usize) < self.leaf_cn.len()
    }

    pub(super) fn slot_of(&self, endpoint: EndpointId) -> Option<EndpointSlot> {
        self.endpoint_slot.get(endpoint.index()).copied()
    }

    /// Gives the slots of endpoints, [`NONE`] for those that do not exist.
    pub(super) fn slots_of(&self, endpoints: &[EndpointId]) -> Vec<EndpointSlot> {
        let slot = |endpoint: &EndpointId| self.slot_of(*endpoint).unwrap_or(EndpointSlot(NONE));
        endpoints.iter().map(slot).collect()
    }

    pub(super) fn endpoint_at(&self, slot: EndpointSlot) -> EndpointId {
        EndpointId(self.slot_endpoint[slot.index()])
    }

    /// Gives the port of a slot that is on a leaf.
    pub(super) fn port_at(&self, slot: EndpointSlot) -> PortId {
        PortId(self.slot_port[slot.index()])
    }

    pub(super) fn slot_is_live(&self, slot: EndpointSlot) -> bool {
        self.slot_live[slot.index()]
    }

    pub(super) fn leaf_has_up(&self, leaf: u32) -> bool {
        self.leaf_has_up[leaf as usize]
    }

    /// Tells whether every endpoint can be reached on every spanning tree.
    pub(super) fn is_whole(&self) -> bool {
        self.endpoints_whole && self.leaves_whole
    }

    pub(super) const fn endpoints_whole(&self) -> bool {
        self.endpoints_whole
    }

    pub(super) const fn leaves_whole(&self) -> bool {
        self.leaves_whole
    }

    pub(super) fn tree_is_whole(&self, spt: TreeNumber) -> bool {
        self.tree_whole[spt.index()]
    }

    /// Finds the first link that a tree over these leaves, CNs and blocks needs and does not have.
    pub(super) fn broken_link(
        &self,
        tree: &SpanningTree,
        [leaves, cns, blocks]: [&[u32]; 3],
    ) -> Option<BrokenLink> {
        let rows = self.rows(tree);
        (0u8..).zip([leaves, cns, blocks]).find_map(|(level, at)| {
            let tier = usize::from(level);
            (at.len() > 1).then(|| self.tiers[tier].broken(level, rows[tier], at)).flatten()
        })
    }

    /// Finds the first link that a tree over these leaves, CNs and blocks needs and that does not
    /// exist in this fabric, dead or live.
    pub(super) fn missing_link(
        &self,
        tree: &SpanningTree,
        places: [&[u32]; 3],
    ) -> Option<BrokenLink> {
        let rows = self.rows(tree);
        (0u8..).zip(places).filter(|(_, at)| at.len() > 1).find_map(|(level, at)| {
            let tier = usize::from(level);
            let row = self.tiers[tier].row(rows[tier]);
            let exists = |at: &u32| row.get(*at as usize).is_some_and(|link| link.0 != NONE);
            let index = at.iter().copied().find(|at| !exists(at))?;
            Some(BrokenLink::Missing { level, index })
        })
    }

    /// Finds the first broken link of the first tree, if no tree of the number serves these leaves,
    /// CNs and blocks.
    pub(super) fn obstacle(&self, spt: TreeNumber, places: [&[u32]; 3]) -> Option<BrokenLink> {
        self.broken_link_of_all(self.trees(spt), places)
    }

    /// Finds the first broken link of the first of some trees, if none of them serves these leaves,
    /// CNs and blocks.
    pub(super) fn broken_link_of_all(
        &self,
        trees: &[SpanningTree],
        places: [&[u32]; 3],
    ) -> Option<BrokenLink> {
        let mut broken = trees.iter().map(|tree| self.broken_link(tree, places));
        let first = broken.next().flatten();
        if broken.all(|link| link.is_some()) { first } else { None }
    }

    /// Finds the rows of each tier in which all of these leaves, CNs and blocks have links.
    pub(super) fn find_rows(&self, places: [&[u32]; 3], rows: &mut [LinkedRows; 3]) {
        for (tier, (at, rows)) in self.tiers.iter().zip(places.into_iter().zip(rows)) {
            tier.find_rows(at, rows);
        }
    }

    /// Finds the first link that does not exist in this fabric and that a tree of the number needs
    /// over these leaves, CNs and blocks.
    pub(super) fn missing_from_any(
        &self,
        spt: TreeNumber,
        places: [&[u32]; 3],
    ) -> Option<BrokenLink> {
        self.missing_link_of_any(self.trees(spt), places)
    }

    /// Finds the first link that does not exist in this fabric and that one of some trees needs
    /// over these leaves, CNs and blocks.
    pub(super) fn missing_link_of_any(
        &self,
        trees: &[SpanningTree],
        places: [&[u32]; 3],
    ) -> Option<BrokenLink> {
        trees.iter().find_map(|tree| self.missing_link(tree, places))
    }

    /// Gives the switches on which a spanning tree branches for a leaf, CN, block, and its root.
    pub(super) fn switch(&self, tree: &SpanningTree, level: usize, at: u32) -> Option<SwitchId> {
        match level {
            0 => Some(self.fat_tree.leaf_switch(at)),
            1 => self.fat_tree.l1_switch(at, tree.g),
            2 => self.fat_tree.l2_switch(tree.tn, at),
            _ => self.fat_tree.l3_switch(tree.tn, tree.l3),
        }
    }

    /// Takes over a new set of faults and says which spanning trees and slots it touches.
    pub(super) fn set_faults(&mut self, faults: Faults) -> Touched {
        let Self { graph, tiers, .. } = self;
        let mut every_leaf = FixedBitSet::with_capacity(self.leaf_cn.len());
        every_leaf.insert_range(..);
        let mut used_blocks = FixedBitSet::with_capacity(tiers[2].width);
        used_blocks.extend(self.cn_block.iter().map(|block| *block as usize));
        let mut every_cn = FixedBitSet::with_capacity(self.cn_block.len());
        every_cn.insert_range(..);
        let used = [every_leaf, every_cn, used_blocks];
        let [low, middle, high] = tiers;
        let changed = [
            low.refresh(graph, &faults, &used[0]),
            middle.refresh(graph, &faults, &used[1]),
            high.refresh(graph, &faults, &used[2]),
        ];
        self.faults = faults;
        let slots = self.refresh_slots();
        let mut touched = Touched { tiers: changed, trees: Vec::new(), slots };
        for spt in self.tree_numbers() {
            let trees = self.trees(spt);
            let (whole, met) = (
                trees.iter().all(|tree| self.has_all_links(tree)),
                trees.iter().any(|tree| touched.meets(self, tree)),
            );
            self.tree_whole[spt.index()] = whole;
            if met {
                touched.trees.push(spt);
            }
        }
        touched
    }

    /// Tells whether no link of a tree over everything is dead or missing.
    pub(super) fn has_all_links(&self, tree: &SpanningTree) -> bool {
        let rows = self.rows(tree);
        let levels = self.tiers_in_use();
        let whole = |tier: usize| self.tiers[tier].row_whole.get(rows[tier] as usize);
        self.reaches_all && (0..levels).all(|tier| whole(tier).is_some_and(|whole| *whole))
    }

    fn tiers_in_use(&self) -> usize {
        (self.fat_tree.params().levels as usize).saturating_sub(1).min(3)
    }

    fn refresh_slots(&mut self) -> Vec<EndpointSlot> {
        let ups = self.tiers[0].row_whole.len();
        let leaves = self.leaf_cn.len();
        let mut leaf_changed = FixedBitSet::with_capacity(leaves);
        for leaf in 0..leaves {
            let has_up = (0..ups).any(|up| self.tiers[0].live[up * leaves + leaf]);
            leaf_changed.set(leaf, has_up != self.leaf_has_up[leaf]);
            self.leaf_has_up[leaf] = has_up;
        }
        let mut touched = Vec::new();
        self.endpoints_whole = true;
        for slot in &self.endpoint_slot {
            let (port, leaf) = (self.slot_port[slot.index()], self.leaf_of(*slot));
            let live = port != NONE && self.faults.port_is_live(&self.graph, PortId(port));
            let was_live = std::mem::replace(&mut self.slot_live[slot.index()], live);
            if live != was_live || leaf_changed.contains(leaf as usize) {
                touched.push(*slot);
            }
            self.endpoints_whole &= live;
        }
        self.leaves_whole = leaves <= 1 || self.leaf_has_up.iter().all(|has_up| *has_up);
        touched
    }
}

pub(super) fn dense(index: usize) -> u32 {
    u32::try_from(index).expect("fewer than 2^32 of anything in a fabric")
}
