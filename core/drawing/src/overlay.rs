//! State that is drawn over a fabric: faults, entries, the trees of a group.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_topology::{EndpointId, Faults, Graph, Peer, PortId, SwitchId};

/// A quantity that colors show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shade {
    /// Entries used in the fullest table.
    #[default]
    Entries,
    /// Groups whose packets cross a link (EFI).
    Groups,
    /// Packets that a port receives or sends in a second.
    Packets,
    /// Failed parts, tables that differ and nodes that are not up.
    Problems,
}

impl Shade {
    /// Adds the amount of another switch to that of a box.
    pub(crate) fn join(self, one: u32, other: u32) -> u32 {
        match self {
            Self::Entries | Self::Groups | Self::Packets => one.max(other),
            Self::Problems => one.saturating_add(other),
        }
    }

    /// An amount in a box.
    pub(crate) fn note(self, amount: u32, full: u32) -> String {
        match self {
            Self::Entries => format!("{amount}/{full}"),
            Self::Groups | Self::Packets | Self::Problems => amount.to_string(),
        }
    }

    /// An amount in words.
    pub(crate) fn words(self, amount: u32, full: u32) -> String {
        let plural = if amount == 1 { "" } else { "s" };
        match self {
            Self::Entries => format!("{amount} of {full} entries used"),
            Self::Groups => format!("{amount} group{plural} on the fullest link"),
            Self::Packets => format!("{amount} packet{plural} a second on the busiest link"),
            Self::Problems => format!("{amount} problem{plural}"),
        }
    }
}

/// State over a fabric; all of it may be empty.
#[derive(Clone, Debug, Default)]
pub struct Overlay {
    /// Failed parts, drawn as broken.
    pub faults: Faults,
    /// The quantity that colors show.
    pub shade: Shade,
    /// Amount of it that has the last color; 0 if not known.
    pub full: u32,
    /// Amount at each switch, by switch; empty if not known.
    pub by_switch: Vec<u32>,
    /// Amount at a port; ports that are left out have none, or it is not known.
    pub by_port: BTreeMap<PortId, u32>,
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

    /// Amount at a port, if known.
    #[must_use]
    pub fn amount_at(&self, port: PortId) -> Option<u32> {
        self.by_port.get(&port).copied()
    }

    /// True if a group's tree is shown.
    #[must_use]
    pub fn has_tree(&self) -> bool {
        !self.tree.is_empty() || !self.members.is_empty()
    }
}

/// Class of an amount, as of entries in a table, by its share of the full one: 0 for none, then one
/// for each quarter, and 5 for all.
#[must_use]
pub fn fill_class(amount: u32, full: u32) -> u8 {
    match (amount, full) {
        (0, _) | (_, 0) => 0,
        (amount, full) if amount >= full => 5,
        (amount, full) => {
            let quarter = u64::from(amount) * 4 / u64::from(full);
            u8::try_from(quarter.min(3)).expect("at most 3") + 1
        }
    }
}
