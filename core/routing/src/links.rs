//! The live links between switches, switch by switch: what every search walks along.
//!
//! A [`Graph`] knows ports; a search asks for neighbours, over and over. This keeps them side by side
//! and leaves out what no tree can use: dead links and cables with both ends in one switch.

use fabricast_topology::{Faults, Graph, Peer, PortId, SwitchId};

/// A link as seen from one of its switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    /// The port at the near end.
    pub port: PortId,
    /// The port at the far end.
    pub peer: PortId,
    /// The switch at the far end.
    pub to: SwitchId,
}

/// All live links between two switches; each is there twice, once from each end.
///
/// 12 bytes for each end of a link, 4 for each switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchLinks {
    first: Vec<u32>, // by switch, one more
    to: Vec<SwitchId>,
    ports: Vec<PortId>,
    peers: Vec<PortId>,
}

impl SwitchLinks {
    /// Collects the links that are alive. Cost: the ports of the fabric.
    #[must_use]
    pub fn new(graph: &Graph, faults: &Faults) -> Self {
        let mut links = Self {
            first: Vec::with_capacity(graph.switch_count() + 1),
            to: Vec::new(),
            ports: Vec::new(),
            peers: Vec::new(),
        };
        links.first.push(0);
        for switch in graph.switches() {
            for port in graph.ports(switch) {
                let Peer::Switch(peer) = graph.peer(port) else { continue };
                let to = graph.switch_of(peer);
                if to != switch && faults.port_is_live(graph, port) {
                    links.to.push(to);
                    links.ports.push(port);
                    links.peers.push(peer);
                }
            }
            links.first.push(u32::try_from(links.to.len()).expect("fewer links than ports"));
        }
        links
    }

    /// Counts the switches, dead ones included.
    #[must_use]
    pub const fn switch_count(&self) -> usize {
        self.first.len() - 1
    }

    /// Lists the switches one live link away, by port; one that is linked twice is there twice.
    #[must_use]
    pub fn neighbours(&self, switch: SwitchId) -> &[SwitchId] {
        &self.to[self.range(switch)]
    }

    /// Walks the live links of a switch, rising by port.
    pub fn of(&self, switch: SwitchId) -> impl ExactSizeIterator<Item = Link> + '_ {
        let range = self.range(switch);
        let ends = self.ports[range.clone()].iter().zip(&self.peers[range.clone()]);
        let link = |(to, (port, peer)): (&SwitchId, (&PortId, &PortId))| Link {
            port: *port,
            peer: *peer,
            to: *to,
        };
        self.to[range].iter().zip(ends).map(link)
    }

    fn range(&self, switch: SwitchId) -> std::ops::Range<usize> {
        self.first[switch.index()] as usize..self.first[switch.index() + 1] as usize
    }
}

#[cfg(test)]
mod tests {
    use fabricast_topology::spec::TopologySpec;

    use super::*;

    #[test]
    fn a_link_is_seen_from_both_ends_until_it_dies() {
        let spec =
            "kind = 'leaf-spine'\nleaves = 2\nspines = 2\nendpoints_per_leaf = 1\nlanes0 = 2";
        let graph = TopologySpec::parse(spec).unwrap().generate().unwrap();
        let links = SwitchLinks::new(&graph, &Faults::new());
        assert_eq!(links.switch_count(), 4);
        let spine = SwitchId(2);
        assert_eq!(links.neighbours(SwitchId(0)), [spine, spine, SwitchId(3), SwitchId(3)]);
        for switch in graph.switches() {
            for Link { port, peer, to } in links.of(switch) {
                assert!(links.of(to).any(|back| (back.port, back.peer) == (peer, port)));
            }
        }
        let mut faults = Faults::new();
        faults.fail_link(&graph, links.of(spine).next().unwrap().port);
        let left = SwitchLinks::new(&graph, &faults);
        assert_eq!((left.of(SwitchId(0)).len(), left.of(spine).len()), (3, 3));
        faults.fail_switch(spine);
        assert_eq!(SwitchLinks::new(&graph, &faults).neighbours(SwitchId(0)).len(), 2);
    }
}
