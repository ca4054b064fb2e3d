//! Trees of switches: the paper's type II (§4).
//!
//! First a *physical tree* is built: the paths of all members to a root, through every switch
//! between. Then the switches that need not reduce are left out: their children send to an ancestor
//! instead, and their packets are only forwarded. A kept switch uses one of its few entries.

mod climb;
mod reduce;

pub use climb::{Climber, CutOff};
pub use reduce::minimum_tree;

use fabricast_topology::{PortId, SwitchId};
use serde::{Deserialize, Serialize};

/// A tree of switches and links over the members (definition 9).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhysicalTree {
    /// The root first, each after its parent.
    pub switches: Vec<PhysicalSwitch>,
    /// By member: the place of its leaf switch in `switches`.
    pub members: Vec<u32>,
}

/// A switch of a physical tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PhysicalSwitch {
    /// Number of the switch.
    pub switch: SwitchId,
    /// Link towards the root; `None` for the root.
    pub up: Option<UpLink>,
}

/// A link of a physical tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpLink {
    /// The place of the upper switch in the tree.
    pub parent: u32,
    /// The lower switch's port.
    pub port: PortId,
}

/// An aggregation tree whose inner nodes are switches (definition 6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SwitchTree {
    /// Physical tree that its packets follow.
    pub physical: PhysicalTree,
    /// The switches that reduce, each of which gives an entry; the root first, each after its
    /// parent.
    pub kept: Vec<KeptSwitch>,
    /// By member: the place in `kept` of the switch it sends to.
    pub member_parents: Vec<u32>,
}

/// A switch that reduces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptSwitch {
    /// Number of the switch.
    pub switch: SwitchId,
    /// The place in `kept` of the switch it sends to; none for the root.
    pub parent: Option<u32>,
}

impl PhysicalTree {
    /// Counts the links from the farthest member to the root, its own included (the radius).
    #[must_use]
    pub fn radius(&self) -> u32 {
        let mut depths = vec![0_u32; self.switches.len()];
        for (at, node) in self.switches.iter().enumerate() {
            if let Some(up) = node.up {
                depths[at] = depths[up.parent as usize] + 1;
            }
        }
        self.members.iter().map(|leaf| depths[*leaf as usize] + 1).max().unwrap_or(0)
    }
}

impl SwitchTree {
    /// Counts the entries it takes, one in each switch that reduces (definition 11: its cost).
    #[must_use]
    pub fn cost(&self) -> usize {
        self.kept.len()
    }

    /// Counts the children of each kept switch.
    #[must_use]
    pub fn children(&self) -> Vec<u32> {
        let mut counts = vec![0; self.kept.len()];
        let switches = self.kept.iter().filter_map(|kept| kept.parent);
        for parent in switches.chain(self.member_parents.iter().copied()) {
            counts[parent as usize] += 1;
        }
        counts
    }

    /// Counts the edges from the farthest member to the root.
    #[must_use]
    pub fn height(&self) -> u32 {
        let mut depths = vec![0_u32; self.kept.len()];
        for (at, kept) in self.kept.iter().enumerate() {
            if let Some(parent) = kept.parent {
                depths[at] = depths[parent as usize] + 1;
            }
        }
        self.member_parents.iter().map(|parent| depths[*parent as usize] + 1).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;
