//! The fabric as MR4LMS sees it: live links, hops, and what a tree occupies when it goes along a
//! link.
//!
//! Two trees may not have one color in one *domain*: a switch with per-switch tables, a link with
//! per-port tables. Everything else is the same for both, so a domain is just a number: that of
//! the switch, or of the lower port of the link.

use std::collections::BTreeSet;
use std::sync::Arc;

use fabricast_topology::{EndpointId, Faults, Graph, Peer, PortId, SwitchId, TableKind};
use fixedbitset::FixedBitSet;

use crate::links::{Link, SwitchLinks};
use crate::min_hop::MinHops;
use crate::plan::CutOffReason;

/// No island: a dead switch.
const NOWHERE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Fabric {
    pub(crate) graph: Arc<Graph>,
    pub(crate) faults: Faults,
    pub(crate) hops: MinHops,
    pub(crate) tables: TableKind,
    live: FixedBitSet, // by port: packets pass
    islands: Vec<u32>, // by switch: the first switch of those it is connected with
}

impl Fabric {
    pub(crate) fn new(graph: Arc<Graph>, tables: TableKind) -> Self {
        let faults = Faults::new();
        let hops = MinHops::new(&graph, &faults);
        let mut fabric =
            Self { graph, faults, hops, tables, live: FixedBitSet::new(), islands: Vec::new() };
        fabric.look_around();
        fabric
    }

    pub(crate) fn set_faults(&mut self, faults: Faults) {
        self.hops.set_faults(&self.graph, &faults);
        self.faults = faults;
        self.look_around();
    }

    fn look_around(&mut self) {
        let (graph, faults) = (&*self.graph, &self.faults);
        self.live = FixedBitSet::with_capacity(graph.port_count());
        let ports = graph.switches().flat_map(|switch| graph.ports(switch));
        self.live.extend(ports.filter(|port| faults.port_is_live(graph, *port)).map(PortId::index));
        self.islands = vec![NOWHERE; graph.switch_count()];
        let mut stack = Vec::new();
        for start in graph.switches().filter(|switch| faults.switch_is_live(*switch)) {
            if self.islands[start.index()] == NOWHERE {
                self.islands[start.index()] = start.0;
                stack.push(start);
            }
            while let Some(at) = stack.pop() {
                for to in self.hops.links().neighbours(at) {
                    if self.islands[to.index()] == NOWHERE {
                        self.islands[to.index()] = start.0;
                        stack.push(*to);
                    }
                }
            }
        }
    }

    pub(crate) const fn links(&self) -> &SwitchLinks {
        self.hops.links()
    }

    pub(crate) fn is_live(&self, port: PortId) -> bool {
        self.live.contains(port.index())
    }

    /// Names the part of the fabric that a live switch is in.
    pub(crate) fn island(&self, switch: SwitchId) -> u32 {
        self.islands[switch.index()]
    }

    /// Counts the domains that there can be.
    pub(crate) fn domain_count(&self) -> usize {
        match self.tables {
            TableKind::PerSwitch => self.graph.switch_count(),
            TableKind::PerPort => self.graph.port_count(),
        }
    }

    /// Returns the domain that a tree enters by going along a link.
    #[inline]
    pub(crate) fn domain(&self, link: Link) -> usize {
        match self.tables {
            TableKind::PerSwitch => link.to.index(),
            TableKind::PerPort => link.port.min(link.peer).index(),
        }
    }

    /// Returns the domain that a member occupies.
    pub(crate) fn member_domain(&self, member_port: PortId) -> usize {
        match self.tables {
            TableKind::PerSwitch => self.graph.switch_of(member_port).index(),
            TableKind::PerPort => member_port.index(),
        }
    }

    /// Returns the domain that a root occupies by itself.
    pub(crate) fn root_domain(&self, root: SwitchId) -> Option<usize> {
        match self.tables {
            TableKind::PerSwitch => Some(root.index()),
            TableKind::PerPort => None,
        }
    }

    /// Walks the domains of a tree, given by its ports, rising.
    pub(crate) fn domains<'a>(&'a self, ports: &'a [PortId]) -> impl Iterator<Item = usize> + 'a {
        let mut last = usize::MAX;
        ports.iter().filter_map(move |port| match self.tables {
            TableKind::PerSwitch => {
                let switch = self.graph.switch_of(*port).index();
                (std::mem::replace(&mut last, switch) != switch).then_some(switch)
            }
            TableKind::PerPort => match self.graph.peer(*port) {
                Peer::Switch(peer) => (*port < peer).then_some(port.index()),
                Peer::Endpoint(_) | Peer::None => Some(port.index()),
            },
        })
    }

    /// Walks the switches of a tree, given by its ports, rising.
    pub(crate) fn switches<'a>(
        &'a self,
        ports: &'a [PortId],
    ) -> impl Iterator<Item = SwitchId> + 'a {
        let same = |a: &PortId, b: &PortId| self.graph.switch_of(*a) == self.graph.switch_of(*b);
        ports.chunk_by(same).map(|ports| self.graph.switch_of(ports[0]))
    }

    /// Walks the links between switches of a tree, given by its ports: their lower ports, rising.
    pub(crate) fn tree_links<'a>(
        &'a self,
        ports: &'a [PortId],
    ) -> impl Iterator<Item = (PortId, PortId)> + 'a {
        ports.iter().filter_map(|port| match self.graph.peer(*port) {
            Peer::Switch(peer) if *port < peer => Some((*port, peer)),
            Peer::Switch(_) | Peer::Endpoint(_) | Peer::None => None,
        })
    }

    /// Tells whether ports, rising, are those of a tree that a switch is in.
    pub(crate) fn is_tree(&self, root: SwitchId, ports: &[PortId]) -> bool {
        let graph = &*self.graph;
        if !ports.is_sorted_by(|a, b| a < b) {
            return false;
        }
        let mut links = 0;
        let mut reached = BTreeSet::from([root]);
        let mut stack = vec![root];
        while let Some(at) = stack.pop() {
            let own = graph.ports(at).filter(|port| ports.binary_search(port).is_ok());
            for port in own {
                let Peer::Switch(peer) = graph.peer(port) else { continue };
                let to = graph.switch_of(peer);
                if ports.binary_search(&peer).is_ok() {
                    links += 1;
                    if reached.insert(to) {
                        stack.push(to);
                    }
                }
            }
        }
        // All switches connected by one link less, each link with both its ports, is a tree.
        let is_member_port = |port: &&PortId| matches!(graph.peer(**port), Peer::Endpoint(_));
        let member_ports = ports.iter().filter(is_member_port).count();
        self.switches(ports).eq(reached.iter().copied())
            && links == ports.len() - member_ports
            && links == 2 * (reached.len() - 1)
    }

    /// Returns the port that an endpoint can be reached by, or why it cannot.
    fn live_port(&self, endpoint: EndpointId) -> Result<PortId, CutOffReason> {
        let port = self.graph.attachment(endpoint).ok_or(CutOffReason::NotOnLeaf)?;
        if self.is_live(port) { Ok(port) } else { Err(CutOffReason::LinkDown) }
    }

    /// Parts members into those that can be served together, by their ports, rising, and the
    /// others.
    ///
    /// Where the fabric has fallen apart, the island with the most members is served, of equal ones
    /// that with the smallest switch number.
    pub(crate) fn part_members(
        &self,
        members: &[EndpointId],
        mut cut_off: impl FnMut(EndpointId, CutOffReason),
    ) -> Vec<PortId> {
        let mut member_ports = Vec::with_capacity(members.len());
        for member in members {
            match self.live_port(*member) {
                Ok(port) => member_ports.push(port),
                Err(why) => cut_off(*member, why),
            }
        }
        member_ports.sort_unstable();
        let island = |port: PortId| self.island(self.graph.switch_of(port));
        let mut islands: Vec<u32> = member_ports.iter().map(|port| island(*port)).collect();
        if islands.iter().any(|other| *other != islands[0]) {
            islands.sort_unstable();
            let same = islands.chunk_by(|a, b| a == b);
            let largest = same.max_by_key(|same| (same.len(), std::cmp::Reverse(same[0])));
            let home = largest.map_or(NOWHERE, |same| same[0]);
            for port in member_ports.iter().filter(|port| island(**port) != home) {
                if let Peer::Endpoint(endpoint) = self.graph.peer(*port) {
                    cut_off(endpoint, CutOffReason::LeafCutOff);
                }
            }
            member_ports.retain(|port| island(*port) == home);
        }
        member_ports
    }
}
