//! Finds the trees in the way of a group's own tree, under the color where they have the fewest
//! groups, and the links that make one tree of all.
//!
//! MR4LMS §3.3.1 merges with the nearest tree, and with all that is in the way if the two are not
//! connected by what is free; so trees with many groups get more, and some become far larger than
//! others (`nearest`). Here a tree is built as if nothing were taken, from each of the first roots,
//! and under every color the groups whose trees it meets are counted. The least count is the TFI of
//! the merged tree but for one.
//!
//! Old trees stay whole. They and the new tree are put together link by link: those of old trees
//! first, then those of the new one, by port, without any that would close a circle; what leads to
//! no member is cut off. With per-switch tables old trees do not meet, so only the links of the new
//! tree are looked at, and the largest old tree grows in its place.
//!
//! Cost: that of building the tree from each root, the colors in use in its domains, and the loads
//! of the merged tree.

use std::cmp::Reverse;

use fabricast_topology::{Peer, PortId, SwitchId};

use crate::mr4lms::fabric::Fabric;
use crate::mr4lms::tree_index::TreeIndex;
use crate::mr4lms::tree_store::TreeStore;

/// Counts groups in the way; its buffers are used again.
#[derive(Clone, Debug, Default)]
pub(super) struct Obstacles {
    counted: Vec<u32>, // by tree: the last count that met it
    count: u32,
    groups: Vec<usize>, // by color
}

impl Obstacles {
    /// Returns the color under which the trees that a new tree meets have the fewest groups, of
    /// equal ones the first, and their number.
    pub(super) fn fewest(
        &mut self,
        fabric: &Fabric,
        store: &TreeStore,
        colors: u16,
        ports: &[PortId],
    ) -> (usize, u16) {
        let counts = self.count(store, colors, fabric.domains(ports)).iter().copied().zip(0u16..);
        counts.min().expect("there is a color")
    }

    /// Counts, by color, the groups of the trees that have some domains.
    pub(super) fn count(
        &mut self,
        store: &TreeStore,
        colors: u16,
        domains: impl Iterator<Item = usize>,
    ) -> &[usize] {
        if self.count == u32::MAX {
            self.counted.clear();
            self.count = 0;
        }
        self.count += 1;
        self.counted.resize(store.tree_numbers(), 0);
        self.groups.clear();
        self.groups.resize(usize::from(colors), 0);
        for domain in domains {
            for (color, tree) in store.occupancy.owners(domain) {
                let last = &mut self.counted[tree.index()];
                if std::mem::replace(last, self.count) != self.count {
                    self.groups[usize::from(*color)] += store.tree(*tree).groups.len();
                }
            }
        }
        &self.groups
    }
}

/// A tree as if nothing were taken, and what it meets under a color.
pub(super) struct Draft {
    pub(super) color: u16,
    pub(super) root: SwitchId,
    /// Its ports, rising.
    pub(super) ports: Vec<PortId>,
    /// The trees it meets, rising.
    pub(super) met: Vec<TreeIndex>,
    /// The largest of these.
    pub(super) base: Option<TreeIndex>,
}

/// Lists the trees of a color that meet a tree, given by its ports.
pub(super) fn met(
    fabric: &Fabric,
    store: &TreeStore,
    color: u16,
    ports: &[PortId],
) -> Vec<TreeIndex> {
    let owner = |domain| store.occupancy.owner(domain, color);
    let mut met: Vec<TreeIndex> = fabric.domains(ports).filter_map(owner).collect();
    met.sort_unstable();
    met.dedup();
    met
}

/// Returns the tree with the most ports, of equal ones that with the smallest MGID.
pub(super) fn largest(store: &TreeStore, trees: &[TreeIndex]) -> Option<TreeIndex> {
    let size = |number: &TreeIndex| {
        let tree = store.tree(*number);
        (Reverse(tree.ports.len()), tree.groups[0])
    };
    trees.iter().copied().min_by_key(size)
}

/// Returns the ports that connect trees with each other and with the members of a new tree, given
/// by its ports.
pub(super) fn new_ports(
    fabric: &Fabric,
    store: &TreeStore,
    color: u16,
    met: &[TreeIndex],
    ports: &[PortId],
) -> Vec<PortId> {
    let switches: Vec<SwitchId> = fabric.switches(ports).collect();
    let number = |port: PortId| {
        let switch = fabric.graph.switch_of(port);
        switches.binary_search(&switch).expect("it is one of them")
    };
    let mut sets = Sets::new(switches.len() + met.len());
    let mut degrees = vec![0u32; switches.len()];
    for (at, switch) in switches.iter().enumerate() {
        if let Some(owner) = store.occupancy.owner(switch.index(), color) {
            let owner = met.binary_search(&owner).expect("it was met");
            sets.unite(at, switches.len() + owner);
            degrees[at] = u32::MAX / 2; // never an end
        }
    }
    let mut links: Vec<(PortId, PortId)> =
        fabric.tree_links(ports).filter(|(a, b)| sets.unite(number(*a), number(*b))).collect();
    let is_member_port = |port: &&PortId| matches!(fabric.graph.peer(**port), Peer::Endpoint(_));
    let member_ports: Vec<PortId> = ports.iter().filter(is_member_port).copied().collect();
    let ends = links.iter().flat_map(|(a, b)| [*a, *b]);
    for port in ends.chain(member_ports.iter().copied()) {
        degrees[number(port)] += 1;
    }
    // A switch without members that one link leads to needs none.
    loop {
        let before = links.len();
        links.retain(|(a, b)| {
            let (a, b) = (number(*a), number(*b));
            let leads_nowhere = degrees[a] == 1 || degrees[b] == 1;
            if leads_nowhere {
                degrees[a] -= 1;
                degrees[b] -= 1;
            }
            !leads_nowhere
        });
        if links.len() == before {
            break;
        }
    }
    let links = links.into_iter().flat_map(|(a, b)| [a, b]);
    links.chain(member_ports).collect()
}

/// Disjoint sets of numbers.
pub(super) struct Sets {
    parents: Vec<usize>,
}

impl Sets {
    pub(super) fn new(count: usize) -> Self {
        Self { parents: (0..count).collect() }
    }

    fn find(&mut self, mut at: usize) -> usize {
        while self.parents[at] != at {
            self.parents[at] = self.parents[self.parents[at]];
            at = self.parents[at];
        }
        at
    }

    /// Makes one set of those of two numbers; false if it was one.
    pub(super) fn unite(&mut self, a: usize, b: usize) -> bool {
        let (a, b) = (self.find(a), self.find(b));
        self.parents[a.max(b)] = a.min(b);
        a != b
    }
}
