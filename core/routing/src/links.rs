//! The live links between switches, by switch; all searches use them.
//!
//! A [`Graph`] lists ports, but a search needs neighbours. This table has them side by side,
//! without links that no tree can use: dead ones, and cables with both ends in one switch.
//!
//! Hops are counted in bytes. Where a switch is more than [`REACH`] hops from the first one it is
//! connected with, the fabric is cut into parts without such a distance; links between parts are
//! left out, too. InfiniBand cannot discover switches that are more than 63 hops away.

use fabricast_topology::{Faults, Graph, Peer, PortId, SwitchId};

/// The most hops from the first switch of a part to the others; twice that from any to any.
pub const REACH: u8 = 127;

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
            links.first.push(dense(links.to.len()));
        }
        match links.parts() {
            Some(parts) => links.cut(&parts),
            None => links,
        }
    }

    /// Names for each switch the first one of its part; none if no part is cut off from another.
    fn parts(&self) -> Option<Vec<u32>> {
        let mut parts = vec![u32::MAX; self.switch_count()];
        let mut queue: Vec<u32> = Vec::new();
        let mut is_cut = false;
        for start in 0..dense(self.switch_count()) {
            if parts[start as usize] != u32::MAX {
                continue;
            }
            parts[start as usize] = start;
            queue.clear();
            queue.push(start);
            let (mut from, mut hops) = (0, 0);
            while from < queue.len() {
                let end = queue.len();
                for at in from..end {
                    for to in self.neighbours(SwitchId(queue[at])) {
                        if parts[to.index()] != u32::MAX {
                            is_cut |= parts[to.index()] != start;
                        } else if hops < REACH {
                            parts[to.index()] = start;
                            queue.push(to.0);
                        }
                    }
                }
                (from, hops) = (end, hops + 1);
            }
        }
        is_cut.then_some(parts)
    }

    /// Leaves out the links between parts.
    fn cut(self, parts: &[u32]) -> Self {
        self.filter(|from, to| parts[from.index()] == parts[to.index()])
    }

    /// Keeps the links that may be gone from one switch to another.
    pub(crate) fn filter(self, may_go: impl Fn(SwitchId, SwitchId) -> bool) -> Self {
        let mut left =
            Self { first: vec![0], to: Vec::new(), ports: Vec::new(), peers: Vec::new() };
        for switch in (0..dense(self.switch_count())).map(SwitchId) {
            for link in self.of(switch).filter(|link| may_go(switch, link.to)) {
                left.to.push(link.to);
                left.ports.push(link.port);
                left.peers.push(link.peer);
            }
            left.first.push(dense(left.to.len()));
        }
        left
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

fn dense(count: usize) -> u32 {
    u32::try_from(count).expect("fewer links than ports")
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

    /// Rings of this many switches, with endpoints nowhere near.
    fn ring(switches: u32) -> Graph {
        let spec =
            format!("kind = 'torus'\nx = {switches}\ny = 1\nz = 1\nendpoints_per_switch = 1");
        TopologySpec::parse(&spec).unwrap().generate().unwrap()
    }

    #[test]
    fn a_ring_is_whole_up_to_the_reach_and_cut_in_two_beyond() {
        let links = |switches| SwitchLinks::new(&ring(switches), &Faults::new());
        let degrees = |links: &SwitchLinks, at: u32| links.neighbours(SwitchId(at)).len();
        let most = 2 * u32::from(REACH) + 1;
        let whole = links(most);
        assert!((0..most).all(|at| degrees(&whole, at) == 2));
        let cut = links(most + 1);
        assert_eq!(degrees(&cut, u32::from(REACH) + 1), 0, "the one opposite is alone");
        assert_eq!((degrees(&cut, u32::from(REACH)), degrees(&cut, 0)), (1, 2));
    }
}
