//! Trees that are not what they were: which entries must go before new ones come.
//!
//! Make before break lets an entry be the union of old and new for a while. That is safe where old
//! and new are parts of one tree, as with the fixed roots of C-MR4LMS always. Other engines may
//! plant a tree anew, with the same color over other links; the union of two trees can hold a loop.
//! So such a tree is taken out first, and its groups lose packets until the new one stands.

use std::collections::{BTreeMap, BTreeSet};

use fabricast_topology::{Graph, Peer, PortId, PortSet, SwitchId};

use super::{Image, Write, Writes};

/// How what a component holds stands to what it ought to hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Component {
    gains: bool,
    loses: bool,
}

/// Ports that one color connects, by union-find; a link is its lower port.
#[derive(Debug, Default)]
struct Woven {
    above: BTreeMap<(u16, PortId), PortId>,
}

impl Woven {
    fn find(&self, color: u16, port: PortId) -> PortId {
        let mut at = port;
        while let Some(above) = self.above.get(&(color, at)) {
            at = *above;
        }
        at
    }

    fn unite(&mut self, color: u16, a: PortId, b: PortId) {
        let (a, b) = (self.find(color, a), self.find(color, b));
        if a != b {
            self.above.insert((color, a.max(b)), a.min(b));
        }
    }
}

impl Image {
    /// Gives the removal of every entry that belongs to a tree which both gains and loses
    /// branches on the way to `desired`.
    pub(crate) fn replanted(&self, desired: &Self, graph: &Graph) -> Writes {
        let differing = self.differing_colors(desired);
        if differing.is_empty() {
            return Writes::new();
        }
        let rows = || {
            let both = [self, desired].into_iter().flat_map(Self::rows);
            both.filter(|(_, in_port, color, out)| {
                differing.contains(color) && (*in_port > 0 || !out.is_empty())
            })
        };
        let mut woven = Woven::default();
        for (switch, in_port, color, out) in rows() {
            let mut ends = ends(graph, switch, in_port, out);
            if let Some(first) = ends.next() {
                ends.for_each(|end| woven.unite(color, first, end));
            }
        }
        let mut components: BTreeMap<(u16, PortId), Component> = BTreeMap::new();
        for (switch, in_port, color, _) in rows() {
            let old = self.out(switch, in_port, color);
            let new = desired.out(switch, in_port, color);
            let Some(end) = ends(graph, switch, in_port, old.union(new)).next() else { continue };
            let component = components.entry((color, woven.find(color, end))).or_default();
            component.gains |= !new.difference(old).is_empty();
            component.loses |= !old.difference(new).is_empty();
        }
        let mut writes = Writes::new();
        for (switch, in_port, color, out) in self.rows() {
            let Some(end) = ends(graph, switch, in_port, out).next() else { continue };
            let component = components.get(&(color, woven.find(color, end)));
            if component.is_some_and(|one| one.gains && one.loses) {
                let gone = Write { in_port, color, out: PortSet::EMPTY };
                writes.entry(switch).or_default().push(gone);
            }
        }
        writes
    }

    fn rows(&self) -> impl Iterator<Item = (SwitchId, u8, u16, PortSet)> {
        self.switches.iter().flat_map(|(switch, table)| {
            table.rows().map(|(in_port, color, out)| (*switch, in_port, color, out))
        })
    }

    fn out(&self, switch: SwitchId, in_port: u8, color: u16) -> PortSet {
        let table = self.switches.get(&switch);
        table.map_or(PortSet::EMPTY, |table| table.out(in_port, color))
    }

    /// Colors of which anything differs.
    fn differing_colors(&self, desired: &Self) -> BTreeSet<u16> {
        let one_way = |from: &Self, to: &Self| -> Vec<u16> {
            let rows = from.rows();
            let differing = rows
                .filter(|(switch, in_port, color, out)| to.out(*switch, *in_port, *color) != *out);
            differing.map(|(_, _, color, _)| color).collect()
        };
        let both = one_way(self, desired).into_iter().chain(one_way(desired, self));
        both.collect()
    }
}

/// The links that an entry connects, each by its lower port.
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

    /// Two leaves under two spines, one endpoint a leaf.
    fn fabric() -> Graph {
        let spec = "kind = 'leaf-spine'\nleaves = 2\nspines = 2\nendpoints_per_leaf = 1\n";
        TopologySpec::parse(spec).unwrap().generate().unwrap()
    }

    /// The whole-switch entries of a tree over these ports.
    fn tree(graph: &Graph, color: u16, ports: &[PortId]) -> Image {
        let mut image = Image::default();
        for port in ports {
            let switch = graph.switch_of(*port);
            let mut out = image.out(switch, 0, color);
            out.insert(graph.port_number(*port));
            image.record_all(switch, &[Write { in_port: 0, color, out }]);
        }
        image
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
    fn a_tree_planted_anew_with_its_color_is_taken_out_first() {
        let graph = fabric();
        let (old, new) = (tree(&graph, 1, &over(&graph, 0)), tree(&graph, 1, &over(&graph, 1)));
        let mut held = old.clone();
        for (switch, writes) in old.replanted(&new, &graph) {
            held.record_all(switch, &writes);
        }
        assert_eq!(held, Image::default());
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
            assert_eq!(before.replanted(after, &graph), Writes::new());
        }
    }

    #[test]
    fn trees_of_one_color_that_do_not_meet_are_looked_at_alone() {
        let graph = fabric();
        let ports = over(&graph, 0);
        // Two trees of color 1 that share nothing: one only grows, one only shrinks.
        let (left, right) = (&ports[..1], &ports[3..4]);
        let before = tree(&graph, 1, right);
        let after = tree(&graph, 1, left);
        assert_eq!(before.replanted(&after, &graph), Writes::new());
    }
}
