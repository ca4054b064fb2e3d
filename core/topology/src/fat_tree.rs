//! The fat-tree view of a graph: levels, midplanes, lanes and irregularities.
//!
//! Source: C-MR4LMS §2 (compute and top network midplanes). A three-level tree is a four-level one
//! cut short (a core switch is a top midplane of one switch), and so is a two-level one (a spine is
//! a level-1 switch without up-ports). Parallel links between two switches are *lanes*, which the
//! paper does not have. Top midplanes can share switches, but no links: where several level-1
//! switches of a compute midplane are linked to one director or core switch, each has top midplanes
//! of its own there.
//!
//! Positions that a regular tree of these parameters has but this fabric lacks are `None`; each of
//! them is explained in [`FatTree::irregularities`].

mod detect;
mod irregular;
mod levels;
mod midplanes;
mod report;
mod shared_tops;

pub use report::{Irregularity, NotFatTree, Reason};

use serde::{Deserialize, Serialize};

use crate::ids::{EndpointId, PortId, SwitchId};

/// Marks no value in a packed column.
const NONE: u32 = u32::MAX;

/// Sizes of a regular fat tree; where the fabric is uneven, the largest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FatTreeParams {
    /// Levels of switches, 1 to 4.
    pub levels: u32,
    /// Compute midplanes (CN): components of leaf and level-1 switches.
    pub cns: u32,
    /// Leaf switches of a CN (the paper's q).
    pub leaves_per_cn: u32,
    /// Level-1 switches of a CN (m); 0 for one level.
    pub spines: u32,
    /// Parallel links from a leaf to a level-1 switch.
    pub lanes0: u32,
    /// Top midplanes (TN) of a TN group (p); 0 below three levels.
    pub tns_per_group: u32,
    /// Parallel links from a level-1 switch to a TN.
    pub lanes1: u32,
    /// Top midplanes of the whole tree.
    pub tns: u32,
    /// Blocks of CNs (k): level-2 switches of a TN, unpopulated ones too; 1 for three levels.
    pub blocks: u32,
    /// CNs of a block.
    pub cns_per_block: u32,
    /// Level-3 switches of a TN (w); 0 below four levels.
    pub l3_per_tn: u32,
    /// Parallel links from a level-2 to a level-3 switch.
    pub lanes2: u32,
    /// Endpoints of a leaf.
    pub endpoints_per_leaf: u32,
}

impl FatTreeParams {
    /// Up-ports of a leaf: `spines * lanes0`.
    #[must_use]
    pub const fn leaf_up_ports(&self) -> u32 {
        self.spines * self.lanes0
    }

    /// Up-ports of a level-1 switch: `tns_per_group * lanes1`.
    #[must_use]
    pub const fn l1_up_ports(&self) -> u32 {
        self.tns_per_group * self.lanes1
    }

    /// Up-ports of a level-2 switch: `l3_per_tn * lanes2`.
    #[must_use]
    pub const fn l2_up_ports(&self) -> u32 {
        self.l3_per_tn * self.lanes2
    }
}

/// Position of a switch in the fat tree. A switch of level 2 or 3 that several top midplanes share
/// has the position in the first of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Not part of the tree (unused or misplaced).
    Outside,
    /// A leaf switch (level 0).
    Leaf {
        /// Index of the leaf.
        leaf: u32,
    },
    /// A switch of level 1.
    L1 {
        /// Index of the compute midplane.
        cn: u32,
        /// Number in the midplane, which is its TN group.
        g: u32,
    },
    /// Level 2: the lower switches of a top midplane, or a core switch.
    L2 {
        /// Index of the top midplane.
        tn: u32,
        /// Block of compute midplanes that it serves.
        block: u32,
    },
    /// A switch of level 3.
    L3 {
        /// Index of the top midplane.
        tn: u32,
        /// Number in the midplane.
        x: u32,
    },
}

/// A fabric viewed as a fat tree. All indices are dense and start at 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FatTree {
    params: FatTreeParams,
    places: Vec<Place>,      // by switch
    endpoint_leaf: Vec<u32>, // by endpoint
    leaves: Vec<u32>,        // by leaf: switch
    leaf_cn: Vec<u32>,       // by leaf
    leaf_up: Vec<u32>,       // by leaf, slot
    cn_block: Vec<u32>,      // by CN
    l1: Vec<u32>,            // by CN, g
    l1_up: Vec<u32>,         // by CN, g, u
    l2: Vec<u32>,            // by TN, block
    l2_up: Vec<u32>,         // by TN, block, v
    l3: Vec<u32>,            // by TN, x
    irregularities: Vec<Irregularity>,
}

impl FatTree {
    /// Returns the sizes of the tree.
    #[must_use]
    pub const fn params(&self) -> &FatTreeParams {
        &self.params
    }

    /// Counts the leaf switches.
    #[must_use]
    pub fn leaf_count(&self) -> usize {
        self.leaves.len()
    }

    /// Returns the leaf of an endpoint; `None` if it is not connected to a leaf.
    #[must_use]
    pub fn leaf_of_endpoint(&self, endpoint: EndpointId) -> Option<u32> {
        present(self.endpoint_leaf[endpoint.index()])
    }

    /// Returns the switch of a leaf.
    #[must_use]
    pub fn leaf_switch(&self, leaf: u32) -> SwitchId {
        SwitchId(self.leaves[leaf as usize])
    }

    /// Returns the compute midplane of a leaf.
    #[must_use]
    pub fn cn_of_leaf(&self, leaf: u32) -> u32 {
        self.leaf_cn[leaf as usize]
    }

    /// Returns the block of a compute midplane: the number of the level-2 switch
    /// that serves it in every top midplane. 0 below four levels.
    #[must_use]
    pub fn block_of_cn(&self, cn: u32) -> u32 {
        self.cn_block[cn as usize]
    }

    /// Returns the up-port of a leaf switch at `slot = g * lanes0 + lane`.
    #[must_use]
    pub fn leaf_up(&self, leaf: u32, slot: u32) -> Option<PortId> {
        let width = self.params.leaf_up_ports();
        column(&self.leaf_up, leaf, slot, width).map(PortId)
    }

    /// Returns level-1 switch `g` of a compute midplane.
    #[must_use]
    pub fn l1_switch(&self, cn: u32, g: u32) -> Option<SwitchId> {
        column(&self.l1, cn, g, self.params.spines).map(SwitchId)
    }

    /// Returns the up-port of a level-1 switch at `u = lane * tns_per_group + TN in group`.
    #[must_use]
    pub fn l1_up(&self, cn: u32, g: u32, u: u32) -> Option<PortId> {
        if g >= self.params.spines {
            return None;
        }
        let row = cn * self.params.spines + g;
        column(&self.l1_up, row, u, self.params.l1_up_ports()).map(PortId)
    }

    /// Returns the level-2 switch of a top midplane that serves a block; of three levels, the core
    /// switch.
    #[must_use]
    pub fn l2_switch(&self, tn: u32, block: u32) -> Option<SwitchId> {
        column(&self.l2, tn, block, self.params.blocks).map(SwitchId)
    }

    /// Returns the up-port of a level-2 switch at `v = lane * l3_per_tn + x`.
    #[must_use]
    pub fn l2_up(&self, tn: u32, block: u32, v: u32) -> Option<PortId> {
        if block >= self.params.blocks {
            return None;
        }
        let row = tn * self.params.blocks + block;
        column(&self.l2_up, row, v, self.params.l2_up_ports()).map(PortId)
    }

    /// Returns level-3 switch `x` of a top midplane.
    #[must_use]
    pub fn l3_switch(&self, tn: u32, x: u32) -> Option<SwitchId> {
        column(&self.l3, tn, x, self.params.l3_per_tn).map(SwitchId)
    }

    /// Tells whether top midplanes of different TN groups have a switch in common.
    ///
    /// Cost: linear in the switches of all top midplanes.
    #[must_use]
    pub fn shares_tops(&self) -> bool {
        let params = &self.params;
        let mut group_of = vec![NONE; self.places.len()];
        (0..params.tns).any(|tn| {
            let group = tn / params.tns_per_group;
            let l2 = (0..params.blocks).filter_map(|block| self.l2_switch(tn, block));
            let l3 = (0..params.l3_per_tn).filter_map(|x| self.l3_switch(tn, x));
            l2.chain(l3).any(|switch| {
                let other = std::mem::replace(&mut group_of[switch.index()], group);
                other != NONE && other != group
            })
        })
    }

    /// Returns the place of a switch.
    #[must_use]
    pub fn place(&self, switch: SwitchId) -> Place {
        self.places[switch.index()]
    }

    /// Returns the differences from a regular fat tree, in the order of the levels.
    #[must_use]
    pub fn irregularities(&self) -> &[Irregularity] {
        &self.irregularities
    }
}

fn present(packed: u32) -> Option<u32> {
    (packed != NONE).then_some(packed)
}

/// Looks up a row-major table; `None` outside of it and where it is empty.
fn column(table: &[u32], row: u32, at: u32, width: u32) -> Option<u32> {
    if at >= width {
        return None;
    }
    table.get(row as usize * width as usize + at as usize).copied().and_then(present)
}
