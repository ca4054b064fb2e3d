//! Finds trees that were rebuilt over other links: their old entries must go before new ones come.
//!
//! Make before break lets an entry be the union of old and new for a while. That is safe where old
//! and new are parts of one tree, as they always are with the fixed roots of C-MR4LMS. Other
//! engines may build a tree again with the same color over other links, and the union of two trees
//! can hold a loop. So such a tree is removed first. Its groups lose packets until the new tree is
//! there.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_topology::{Graph, Peer, PortId, PortSet, SwitchId};

use super::{TableState, Tables, Write, Writes};

/// Change of the entries of one tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TreeChange {
    gains: bool,
    loses: bool,
}

/// Union-find over the ports that one color connects; a link counts as its lower port.
#[derive(Debug, Default)]
struct ConnectedPorts {
    parent: BTreeMap<(u16, PortId), PortId>,
}

impl ConnectedPorts {
    fn find(&self, color: u16, port: PortId) -> PortId {
        let mut at = port;
        while let Some(parent) = self.parent.get(&(color, at)) {
            at = *parent;
        }
        at
    }

    fn unite(&mut self, color: u16, a: PortId, b: PortId) {
        let (a, b) = (self.find(color, a), self.find(color, b));
        if a != b {
            self.parent.insert((color, a.max(b)), a.min(b));
        }
    }
}

impl Tables {
    /// Removals of all entries of trees that both gain and lose output ports on the way to the
    /// desired entries.
    ///
    /// Cost: the switches that differ; all entries if a color both gains and loses.
    pub(crate) fn removals_of_rebuilt_trees(&self, graph: &Graph) -> Writes {
        let differing = self.rebuilt_colors();
        if differing.is_empty() {
            return Writes::new();
        }
        let rows = || {
            let both = [&self.held, &self.desired].into_iter().flat_map(TableState::rows);
            both.filter(|(_, in_port, color, out)| {
                differing.contains(color) && (*in_port > 0 || !out.is_empty())
            })
        };
        let mut connected = ConnectedPorts::default();
        for (switch, in_port, color, out) in rows() {
            let mut ends = ends(graph, switch, in_port, out);
            if let Some(first) = ends.next() {
                ends.for_each(|end| connected.unite(color, first, end));
            }
        }
        let mut changes: BTreeMap<(u16, PortId), TreeChange> = BTreeMap::new();
        for (switch, in_port, color, _) in rows() {
            let old = self.held.table(switch).out(in_port, color);
            let new = self.desired.table(switch).out(in_port, color);
            let Some(end) = ends(graph, switch, in_port, old.union(new)).next() else { continue };
            let change = changes.entry((color, connected.find(color, end))).or_default();
            change.gains |= !new.difference(old).is_empty();
            change.loses |= !old.difference(new).is_empty();
        }
        let mut writes = Writes::new();
        for (switch, in_port, color, out) in self.held.rows() {
            let Some(end) = ends(graph, switch, in_port, out).next() else { continue };
            let change = changes.get(&(color, connected.find(color, end)));
            if change.is_some_and(|change| change.gains && change.loses) {
                let removal = Write { in_port, color, out: PortSet::EMPTY };
                writes.entry(switch).or_default().push(removal);
            }
        }
        writes
    }

    /// Colors that gain output ports at some entry and lose some at another.
    fn rebuilt_colors(&self) -> BTreeSet<u16> {
        let (mut gaining, mut losing) = (BTreeSet::new(), BTreeSet::new());
        for (_, held, desired) in self.pairs(&self.differing) {
            let gains = |color: u16, old: PortSet, new: PortSet| {
                (!new.difference(old).is_empty()).then_some(color)
            };
            let new = desired.beside(held);
            gaining.extend(new.filter_map(|(_, color, new, old)| gains(color, old, new)));
            let old = held.beside(desired);
            losing.extend(old.filter_map(|(_, color, old, new)| gains(color, new, old)));
        }
        gaining.intersection(&losing).copied().collect()
    }
}

impl TableState {
    fn rows(&self) -> impl Iterator<Item = (SwitchId, u8, u16, PortSet)> {
        self.switches.iter().flat_map(|(switch, table)| {
            table.rows().map(|(in_port, color, out)| (*switch, in_port, color, out))
        })
    }
}

/// Links that an entry connects, each by its lower port.
fn ends(
    graph: &Graph,
    switch: SwitchId,
    in_port: u8,
    out: PortSet,
) -> impl Iterator<Item = PortId> + '_ {
    let numbers = (in_port > 0).then_some(in_port).into_iter().chain(out.iter());
    numbers.filter_map(move |number| {
        let port = graph.port(switch, number)?;
        Some(match graph.peer(port) {
            Peer::Switch(far) => port.min(far),
            Peer::Endpoint(_) | Peer::None => port,
        })
    })
}

#[cfg(test)]
mod tests {
    use fabricast_topology::spec::TopologySpec;

    use super::*;

    /// Two leaves under two spines, one endpoint per leaf.
    fn fabric() -> Graph {
        let spec = "kind = 'leaf-spine'\nleaves = 2\nspines = 2\nendpoints_per_leaf = 1\n";
        TopologySpec::parse(spec).unwrap().generate().unwrap()
    }

    /// The whole-switch entries of a tree over these ports.
    fn tree(graph: &Graph, color: u16, ports: &[PortId]) -> TableState {
        let mut state = TableState::default();
        for port in ports {
            let switch = graph.switch_of(*port);
            let mut out = state.table(switch).out(0, color);
            out.insert(graph.port_number(*port));
            state.record_all(switch, &[Write { in_port: 0, color, out }]);
        }
        state
    }

    /// Both ends of the links from both leaves to a spine, and the ports of the endpoints.
    fn over(graph: &Graph, spine: usize) -> Vec<PortId> {
        let leaf =
            |switch| graph.ports(switch).any(|port| matches!(graph.peer(port), Peer::Endpoint(_)));
        let (leaves, spines): (Vec<_>, Vec<_>) = graph.switches().partition(|one| leaf(*one));
        let mut ports = Vec::new();
        for port in leaves.iter().flat_map(|leaf| graph.ports(*leaf)) {
            match graph.peer(port) {
                Peer::Endpoint(_) => ports.push(port),
                Peer::Switch(far) if graph.switch_of(far) == spines[spine] => {
                    ports.extend([port, far])
                }
                Peer::Switch(_) | Peer::None => {}
            }
        }
        ports
    }

    #[test]
    fn a_tree_rebuilt_with_its_old_color_is_removed_first() {
        let graph = fabric();
        let (old, new) = (tree(&graph, 1, &over(&graph, 0)), tree(&graph, 1, &over(&graph, 1)));
        let mut tables = Tables::new(old, new);
        for (switch, writes) in tables.removals_of_rebuilt_trees(&graph) {
            tables.record(switch, &writes);
        }
        assert_eq!(*tables.held(), TableState::default());
    }

    #[test]
    fn a_tree_that_grows_or_shrinks_or_changes_its_color_stays() {
        let graph = fabric();
        let whole = over(&graph, 0);
        let part: Vec<PortId> = whole[..whole.len() - 1].to_vec();
        let (large, small) = (tree(&graph, 1, &whole), tree(&graph, 1, &part));
        let other = tree(&graph, 2, &over(&graph, 1));
        for (before, after) in
            [(&large, &small), (&small, &large), (&large, &other), (&large, &large)]
        {
            let tables = Tables::new(before.clone(), after.clone());
            assert_eq!(tables.removals_of_rebuilt_trees(&graph), Writes::new());
        }
    }

    #[test]
    fn trees_of_one_color_that_do_not_meet_are_judged_one_by_one() {
        let graph = fabric();
        let ports = over(&graph, 0);
        // Two trees of color 1 that share nothing: one only grows, one only shrinks.
        let (left, right) = (&ports[..1], &ports[3..4]);
        let before = tree(&graph, 1, right);
        let after = tree(&graph, 1, left);
        let tables = Tables::new(before, after);
        assert_eq!(tables.removals_of_rebuilt_trees(&graph), Writes::new());
    }
}
