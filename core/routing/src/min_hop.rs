//! Least hops from every switch to every leaf switch: the min-hop tables of a whole fabric.
//!
//! Source: MR4LMS, definition 8. There a row is kept for every destination and a column for every
//! port; but a port's hops are those of the switch behind it plus one, all endpoints of a leaf
//! share a destination, and links work both ways. So one byte for each pair of switch and leaf says
//! it all: 16 MB on the fabric of C-MR4LMS (7 680 switches, 2 048 leaves), 144 MB on a torus of 12
//! 000 switches that all have endpoints.
//!
//! A leaf is a switch with an endpoint plugged in, dead or alive, so that faults never renumber
//! leaves. A byte is enough for what [`SwitchLinks`] connects.
//!
//! Invariants
//! - HOP-1: after any [`MinHops::set_faults`] the table is that of [`MinHops::new`] with these
//!   faults.

mod search;

use fabricast_topology::{EndpointId, Faults, Graph, SwitchId};

use crate::links::{Link, SwitchLinks};
pub use search::HopSearch;
use search::{Changed, Waves};

/// The longest distance that a table holds.
pub const MOST_HOPS: u8 = 254;
/// In a row: there is no path.
pub const NO_PATH: u8 = u8::MAX;

/// The least hops of one fabric with its faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinHops {
    links: SwitchLinks,
    live: Vec<bool>,       // by switch
    leaf_at: Vec<u32>,     // by switch: its row
    leaves: Vec<SwitchId>, // by row
    hops: Vec<u8>,         // row by row, in it switch by switch
}

/// In `leaf_at`: the switch has no endpoint.
const NOT_A_LEAF: u32 = u32::MAX;

impl MinHops {
    /// Counts the hops over live switches and links.
    ///
    /// Cost: one byte for each leaf and switch; time about one visit of every link for every 128
    /// leaves and every hop of the diameter.
    #[must_use]
    pub fn new(graph: &Graph, faults: &Faults) -> Self {
        let mut table = Self::empty(graph, faults);
        table.fill(0..table.leaves.len());
        table
    }

    /// Makes a table in which nothing is counted.
    fn empty(graph: &Graph, faults: &Faults) -> Self {
        let mut leaf_at = vec![NOT_A_LEAF; graph.switch_count()];
        for port in graph.endpoints().filter_map(|endpoint| graph.attachment(endpoint)) {
            leaf_at[graph.switch_of(port).index()] = 0;
        }
        let leaves: Vec<SwitchId> =
            graph.switches().filter(|switch| leaf_at[switch.index()] == 0).collect();
        for (row, leaf) in (0u32..).zip(&leaves) {
            leaf_at[leaf.index()] = row;
        }
        Self {
            links: SwitchLinks::new(graph, faults),
            live: live_switches(graph, faults),
            leaf_at,
            hops: vec![NO_PATH; leaves.len() * graph.switch_count()],
            leaves,
        }
    }

    /// Counts the hops from every leaf over live links that may be gone from one switch to another.
    /// Not to be given other faults later.
    ///
    /// Cost: that of [`MinHops::new`].
    pub(crate) fn one_way(
        graph: &Graph,
        faults: &Faults,
        may_go: impl Fn(SwitchId, SwitchId) -> bool,
    ) -> Self {
        let mut table = Self::empty(graph, faults);
        table.links = table.links.filter(may_go);
        table.fill(0..table.leaves.len());
        table
    }

    /// Sets the faults and returns the number of rows that were computed again.
    ///
    /// A row stays right as long as every switch keeps a neighbour that is one hop nearer and has
    /// none that is two hops nearer; only rows where a link that came or went breaks this are
    /// counted again. Cost: that of [`SwitchLinks::new`], a look at every switch with such links
    /// for each row, and those rows.
    pub fn set_faults(&mut self, graph: &Graph, faults: &Faults) -> usize {
        let links = SwitchLinks::new(graph, faults);
        let live = live_switches(graph, faults);
        let mut changed = Changed::default();
        for switch in graph.switches() {
            match (self.live[switch.index()], live[switch.index()]) {
                (false, false) => continue,
                (true, false) => {
                    changed.gone.push(switch);
                    continue;
                }
                (false, true) => changed.came.push(switch),
                (true, true) if links.of(switch).eq(self.links.of(switch)) => continue,
                (true, true) => {}
            }
            changed.relinked.push(switch);
        }
        (self.links, self.live) = (links, live);
        let switches = self.switch_count();
        let mut stale = Vec::new();
        for (row, leaf) in self.leaves.iter().enumerate() {
            let hops = &mut self.hops[row * switches..][..switches];
            let is_live = self.live[leaf.index()];
            if !is_live || !search::mend(&self.links, &changed, *leaf, hops) {
                hops.fill(NO_PATH);
                stale.push(row);
            }
        }
        self.fill(stale)
    }

    /// Returns the live links the hops were counted on.
    #[must_use]
    pub const fn links(&self) -> &SwitchLinks {
        &self.links
    }

    /// Counts the switches, dead ones included.
    #[must_use]
    pub const fn switch_count(&self) -> usize {
        self.leaf_at.len()
    }

    /// Lists the leaves, rising; a leaf's position is its number.
    #[must_use]
    pub fn leaves(&self) -> &[SwitchId] {
        &self.leaves
    }

    /// Returns the number of a leaf; none if the switch has no endpoints.
    #[must_use]
    pub fn leaf_number(&self, switch: SwitchId) -> Option<usize> {
        let row = self.leaf_at[switch.index()];
        (row != NOT_A_LEAF).then_some(row as usize)
    }

    /// Returns the hops of all switches to the leaf of a number, [`NO_PATH`] where there is no
    /// path.
    ///
    /// # Panics
    ///
    /// If there are not so many leaves.
    #[must_use]
    pub fn row(&self, leaf: usize) -> &[u8] {
        &self.hops[leaf * self.switch_count()..][..self.switch_count()]
    }

    /// Returns the hops from a switch to a leaf; none if there is no path, or if that is no leaf.
    #[must_use]
    pub fn hops(&self, from: SwitchId, leaf: SwitchId) -> Option<u8> {
        let hops = self.row(self.leaf_number(leaf)?)[from.index()];
        (hops != NO_PATH).then_some(hops)
    }

    /// Returns the hops from a switch to an endpoint, the link to the endpoint included, as the
    /// fabric is wired; faults of the endpoint and its own link are ignored.
    #[must_use]
    pub fn hops_to_endpoint(
        &self,
        graph: &Graph,
        from: SwitchId,
        endpoint: EndpointId,
    ) -> Option<u8> {
        let leaf = graph.switch_of(graph.attachment(endpoint)?);
        Some(self.hops(from, leaf)? + 1)
    }

    /// Walks the links by which a switch is nearest to a leaf, rising by port. None from the leaf
    /// itself, and none where there is no path.
    pub fn nearest_links(&self, from: SwitchId, leaf: SwitchId) -> impl Iterator<Item = Link> + '_ {
        let row = self.leaf_number(leaf).map_or(&[][..], |leaf| self.row(leaf));
        let here = row.get(from.index()).filter(|hops| **hops != NO_PATH);
        let nearer = here.and_then(|hops| hops.checked_sub(1));
        let leads = move |link: &Link| nearer.is_some_and(|hops| row[link.to.index()] == hops);
        self.links.of(from).filter(leads)
    }

    /// Counts the hops of some rows, which have [`NO_PATH`] everywhere, and returns how many have a
    /// live leaf.
    fn fill(&mut self, rows: impl IntoIterator<Item = usize>) -> usize {
        let start = |row: usize| (row, self.leaves[row]);
        let rows: Vec<(usize, SwitchId)> =
            rows.into_iter().map(start).filter(|(_, leaf)| self.live[leaf.index()]).collect();
        let mut waves = Waves::new(self.switch_count());
        for rows in rows.chunks(Waves::WIDTH) {
            waves.spread(&self.links, rows, &mut self.hops);
        }
        rows.len()
    }
}

fn live_switches(graph: &Graph, faults: &Faults) -> Vec<bool> {
    graph.switches().map(|switch| faults.switch_is_live(switch)).collect()
}

#[cfg(test)]
mod tests;
