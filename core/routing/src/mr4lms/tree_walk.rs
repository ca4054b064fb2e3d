//! Walks a tree from its root, to measure it and to cut out of it what some members need.

use std::collections::BinaryHeap;

use fabricast_topology::{Peer, PortId, SwitchId};

use crate::mr4lms::fabric::Fabric;

/// A switch of a tree.
#[derive(Clone, Copy, Debug)]
struct Stop {
    switch: SwitchId,
    /// The stop above, and the link to it; for the root its own number.
    up: u32,
    link: (PortId, PortId),
    depth: u32,
    /// The last cut that met this stop.
    cut: u32,
}

/// The subtree that connects some members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subtree {
    /// Its topmost switch, and how far below the root of the whole tree that is.
    pub(super) top: SwitchId,
    pub(super) depth: u32,
    /// Its ports, rising.
    pub(super) ports: Vec<PortId>,
}

/// The switches of one tree, those nearer to the root first; its buffers are used again.
#[derive(Clone, Debug, Default)]
pub(super) struct TreeWalk {
    stops: Vec<Stop>,
    first: Vec<usize>, // by switch of the tree: the first of its ports
    places: Vec<u32>,  // by switch: the number of its stop, if that says so too
    cuts: u32,
    active: BinaryHeap<u32>,
}

impl TreeWalk {
    /// Walks a tree given by its ports, rising. Cost: its size.
    pub(super) fn along(&mut self, fabric: &Fabric, ports: &[PortId], root: SwitchId) {
        let graph = &*fabric.graph;
        self.places.resize(graph.switch_count(), 0);
        self.stops.clear();
        self.cuts = 0;
        self.add(Stop { switch: root, up: 0, link: (PortId(0), PortId(0)), depth: 0, cut: 0 });
        self.first.resize(graph.switch_count(), 0);
        let mut first = 0;
        let same = |a: &PortId, b: &PortId| graph.switch_of(*a) == graph.switch_of(*b);
        for own in ports.chunk_by(same) {
            self.first[graph.switch_of(own[0]).index()] = first;
            first += own.len();
        }
        let mut at = 0;
        while let Some(Stop { switch, depth, .. }) = self.stops.get(at as usize).copied() {
            let own = ports.get(self.first[switch.index()]..).unwrap_or_default();
            let own = own.iter().take_while(|port| graph.switch_of(**port) == switch);
            for port in own {
                let Peer::Switch(peer) = graph.peer(*port) else { continue };
                let to = graph.switch_of(peer);
                if self.find(to).is_none() {
                    let link = (*port, peer);
                    self.add(Stop { switch: to, up: at, link, depth: depth + 1, cut: 0 });
                }
            }
            at += 1;
        }
    }

    fn add(&mut self, stop: Stop) {
        let number = u32::try_from(self.stops.len()).expect("a tree has fewer switches than ports");
        self.places[stop.switch.index()] = number;
        self.stops.push(stop);
    }

    fn find(&self, switch: SwitchId) -> Option<u32> {
        let number = self.places[switch.index()];
        let stop = self.stops.get(number as usize);
        stop.filter(|stop| stop.switch == switch).map(|_| number)
    }

    /// Returns the hops from the root to a switch; none if the tree does not pass it.
    pub(super) fn depth(&self, switch: SwitchId) -> Option<u32> {
        self.find(switch).map(|number| self.stops[number as usize].depth)
    }

    /// Cuts out what connects some members, one at least, given by their ports in the tree, rising.
    pub(super) fn cut(&mut self, fabric: &Fabric, member_ports: &[PortId]) -> Subtree {
        self.cuts += 1;
        self.active.clear();
        let mut ports = member_ports.to_vec();
        for switch in fabric.switches(member_ports) {
            let number = self.find(switch).expect("members are in their tree");
            self.stops[number as usize].cut = self.cuts;
            self.active.push(number);
        }
        // A stop is nearer to the root than its number is high: what is lowest climbs until all
        // have met.
        loop {
            let at = self.active.pop().expect("one is left until the end");
            let Stop { switch, up, link, depth, .. } = self.stops[at as usize];
            if self.active.is_empty() {
                ports.sort_unstable();
                return Subtree { top: switch, depth, ports };
            }
            ports.extend([link.0, link.1]);
            let above = &mut self.stops[up as usize];
            if std::mem::replace(&mut above.cut, self.cuts) != self.cuts {
                self.active.push(up);
            }
        }
    }
}
