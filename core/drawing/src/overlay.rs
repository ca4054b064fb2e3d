//! State that is drawn over a fabric: faults, entries, the trees of a group.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_topology::{EndpointId, Faults, Graph, Peer, PortId, SwitchId};

/// State over a fabric; all of it may be empty.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    /// Failed parts.
    pub faults: Faults,
    /// Entries of a table; 0 if not known.
    pub colors: u32,
    /// Entries used in the fullest table of each switch, by switch; empty if not known.
    pub used_entries: Vec<u32>,
    /// Entries used in the table of an input port; ports that are left out are not known.
    pub port_entries: BTreeMap<PortId, u32>,
    /// Links of trees by a port at either end; bit 0 for the first tree, bit 1 for the second.
    pub tree: BTreeMap<PortId, u8>,
    /// Endpoints of the members.
    pub members: BTreeSet<EndpointId>,
    /// Root switch of the first tree.
    pub root: Option<SwitchId>,
}

impl Overlay {
    /// Trees that use the link at a port, one bit for each.
    #[must_use]
    pub fn trees_at(&self, graph: &Graph, port: PortId) -> u8 {
        let own = self.tree.get(&port).copied().unwrap_or(0);
        let other = match graph.peer(port) {
            Peer::Switch(other) => self.tree.get(&other).copied().unwrap_or(0),
            Peer::Endpoint(_) | Peer::None => 0,
        };
        own | other
    }

    /// Entries used in the table of an input port, if known.
    #[must_use]
    pub fn entries_at(&self, port: PortId) -> Option<u32> {
        self.port_entries.get(&port).copied()
    }

    /// True if a group's tree is shown.
    #[must_use]
    pub fn has_tree(&self) -> bool {
        !self.tree.is_empty() || !self.members.is_empty()
    }
}

/// Class of a table by the share of its entries that are used: 0 for an empty table, then one for
/// each quarter, and 5 for a full table.
#[must_use]
pub fn fill_class(used: u32, colors: u32) -> u8 {
    match (used, colors) {
        (0, _) | (_, 0) => 0,
        (used, colors) if used >= colors => 5,
        (used, colors) => {
            let quarter = u64::from(used) * 4 / u64::from(colors);
            u8::try_from(quarter.min(3)).expect("at most 3") + 1
        }
    }
}
