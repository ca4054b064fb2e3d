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
use crate::min_hop::{MinHops, NO_PATH};
use crate::plan::CutOffReason;
use crate::up_down::UpDown;

/// Highest switches that are looked at for one above all leaves.
const TOPS: usize = 64;
/// No component: a dead switch.
const NOWHERE: u32 = u32::MAX;

#[derive(Clone, Debug)]
pub(crate) struct Fabric {
    pub(crate) graph: Arc<Graph>,
    pub(crate) faults: Faults,
    pub(crate) hops: MinHops,
    pub(crate) tables: TableKind,
    live: FixedBitSet,    // by port: packets pass
    components: Vec<u32>, // by switch: the first switch of those it is connected with
    order: Option<Order>,
}

/// The order of the switches that trees keep to, so that none has a valley.
#[derive(Clone, Debug)]
struct Order {
    up_down: UpDown,
    /// Hops that only lead up; none if those of all ways and the levels say the same.
    hops: Option<MinHops>,
    /// Some live switch is above all live leaves, as far as is known.
    has_common_top: bool,
}

/// Hops from one leaf by ways that a tree can take up.
#[derive(Clone, Copy)]
pub(crate) enum Above<'a> {
    /// Hops by switch.
    Row(&'a [u8]),
    /// By switch, right where they are as many as levels between.
    Levels { row: &'a [u8], levels: &'a [u8], own: u8 },
}

impl Above<'_> {
    /// Returns the hops to a switch.
    pub(crate) fn hops(self, at: usize) -> u8 {
        match self {
            Self::Row(row) => row[at],
            Self::Levels { row, levels, own } => straight(row[at], levels[at], own),
        }
    }

    fn each(self, mut each: impl FnMut(u8, usize)) {
        let (Self::Row(row) | Self::Levels { row, .. }) = self;
        (0..row.len()).for_each(|at| each(self.hops(at), at));
    }

    /// Takes the hops into those to the nearest and the farthest of several leaves.
    pub(crate) fn fold(self, near: &mut [u8], far: &mut [u8]) {
        let note = |((near, far), hops): ((&mut u8, &mut u8), u8)| {
            *near = (*near).min(hops);
            *far = (*far).max(hops);
        };
        let both = near.iter_mut().zip(far);
        match self {
            Self::Row(row) => both.zip(row.iter().copied()).for_each(note),
            Self::Levels { row, levels, own } => {
                let hops = row.iter().zip(levels).map(|(hops, level)| straight(*hops, *level, own));
                both.zip(hops).for_each(note);
            }
        }
    }
}

/// Returns the hops if they are as many as levels, so that all lead up.
const fn straight(hops: u8, level: u8, own: u8) -> u8 {
    if hops == level.wrapping_sub(own) { hops } else { NO_PATH }
}

impl Fabric {
    /// - `up_down`: the order that trees have to keep to, if any.
    pub(crate) fn new(graph: Arc<Graph>, tables: TableKind, up_down: Option<UpDown>) -> Self {
        let faults = Faults::new();
        let hops = MinHops::new(&graph, &faults);
        let order = up_down.map(|up_down| Order { up_down, hops: None, has_common_top: true });
        let (live, components) = (FixedBitSet::new(), Vec::new());
        let mut fabric = Self { graph, faults, hops, tables, live, components, order };
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
        self.components = vec![NOWHERE; graph.switch_count()];
        let mut stack = Vec::new();
        for start in graph.switches().filter(|switch| faults.switch_is_live(*switch)) {
            if self.components[start.index()] == NOWHERE {
                self.components[start.index()] = start.0;
                stack.push(start);
            }
            while let Some(at) = stack.pop() {
                for to in self.hops.links().neighbours(at) {
                    if self.components[to.index()] == NOWHERE {
                        self.components[to.index()] = start.0;
                        stack.push(*to);
                    }
                }
            }
        }
        self.look_up();
    }

    /// Counts the hops that lead up, and looks for a switch that all leaves lead up to.
    fn look_up(&mut self) {
        let Some(mut order) = self.order.take() else { return };
        if order.up_down.exact_levels().is_none() {
            let up = |from, to| order.up_down.is_up(from, to);
            order.hops = Some(MinHops::one_way(&self.graph, &self.faults, up));
        }
        order.has_common_top = self.has_common_top(&order.up_down);
        self.order = Some(order);
    }

    /// Tells whether one of some switches is above all live leaves: of [`TOPS`] that nothing is
    /// above, from all over the fabric.
    fn has_common_top(&self, up_down: &UpDown) -> bool {
        let links = self.hops.links();
        let is_top = |at: &SwitchId| {
            self.faults.switch_is_live(*at)
                && links.neighbours(*at).iter().all(|to| !up_down.is_up(*at, *to))
        };
        let tops: Vec<SwitchId> = self.graph.switches().filter(is_top).collect();
        let is_live = |leaf: &&SwitchId| self.faults.switch_is_live(**leaf);
        let mut is_below = FixedBitSet::with_capacity(self.graph.switch_count());
        tops.iter().step_by(tops.len().div_ceil(TOPS).max(1)).any(|top| {
            is_below.clear();
            is_below.insert(top.index());
            let mut stack = vec![*top];
            while let Some(at) = stack.pop() {
                for to in links.neighbours(at) {
                    if up_down.is_up(*to, at) && !is_below.put(to.index()) {
                        stack.push(*to);
                    }
                }
            }
            let mut leaves = self.hops.leaves().iter().filter(is_live);
            leaves.all(|leaf| is_below.contains(leaf.index()))
        })
    }

    /// Tells whether trees have to keep to an order of the switches.
    pub(crate) const fn is_ordered(&self) -> bool {
        self.order.is_some()
    }

    /// Tells whether a tree may go along a link away from its root.
    #[inline]
    pub(crate) fn may_descend(&self, from: SwitchId, to: SwitchId) -> bool {
        self.order.as_ref().is_none_or(|order| order.up_down.is_up(to, from))
    }

    /// Gives the height of a switch in the order, if there is one.
    pub(crate) fn height(&self, switch: SwitchId) -> u64 {
        self.order.as_ref().map_or(0, |order| order.up_down.height(switch))
    }

    /// Tells whether a tree, given by its ports, rising, keeps to the order.
    pub(crate) fn keeps_order(&self, ports: &[PortId]) -> bool {
        self.order.as_ref().is_none_or(|order| order.up_down.turns_once(&self.graph, ports))
    }

    /// Gives, for every switch, the hops from a leaf by ways that a tree can take up.
    pub(crate) fn above(&self, leaf: SwitchId) -> Above<'_> {
        let number = self.hops.leaf_number(leaf).expect("members are on leaves");
        let Some(order) = &self.order else { return Above::Row(self.hops.row(number)) };
        if let Some(hops) = &order.hops {
            return Above::Row(hops.row(number));
        }
        let levels = order.up_down.exact_levels().expect("or there are hops");
        Above::Levels { row: self.hops.row(number), levels, own: levels[leaf.index()] }
    }

    pub(crate) const fn links(&self) -> &SwitchLinks {
        self.hops.links()
    }

    pub(crate) fn is_live(&self, port: PortId) -> bool {
        self.live.contains(port.index())
    }

    /// Names the part of the fabric that a live switch is in.
    pub(crate) fn component(&self, switch: SwitchId) -> u32 {
        self.components[switch.index()]
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
    /// Where the fabric has fallen apart, the component with the most members is served, of equal
    /// ones that with the smallest switch number.
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
        let component = |port: PortId| self.component(self.graph.switch_of(port));
        let mut components: Vec<u32> = member_ports.iter().map(|port| component(*port)).collect();
        if components.iter().any(|other| *other != components[0]) {
            components.sort_unstable();
            let same = components.chunk_by(|a, b| a == b);
            let largest = same.max_by_key(|same| (same.len(), std::cmp::Reverse(same[0])));
            let home = largest.map_or(NOWHERE, |same| same[0]);
            for port in member_ports.iter().filter(|port| component(**port) != home) {
                if let Peer::Endpoint(endpoint) = self.graph.peer(*port) {
                    cut_off(endpoint, CutOffReason::LeafCutOff);
                }
            }
            member_ports.retain(|port| component(*port) == home);
        }
        if self.order.as_ref().is_some_and(|order| !order.has_common_top) {
            self.part_by_order(&mut member_ports, cut_off);
        }
        member_ports
    }

    /// Leaves out the members that no tree without a valley connects with most of the others:
    /// those that do not lead up to the switch that the most members lead up to, of equal ones to
    /// the first.
    fn part_by_order(
        &self,
        member_ports: &mut Vec<PortId>,
        mut cut_off: impl FnMut(EndpointId, CutOffReason),
    ) {
        let switches = self.graph.switch_count();
        let (mut near, mut far) = (vec![NO_PATH; switches], vec![0; switches]);
        for leaf in self.switches(member_ports) {
            self.above(leaf).fold(&mut near, &mut far);
        }
        if far.iter().any(|hops| *hops != NO_PATH) {
            return;
        }
        let mut below = vec![0usize; switches];
        let same = |a: &PortId, b: &PortId| self.graph.switch_of(*a) == self.graph.switch_of(*b);
        for ports in member_ports.chunk_by(same) {
            let count = |hops, at: usize| below[at] += usize::from(hops != NO_PATH) * ports.len();
            self.above(self.graph.switch_of(ports[0])).each(count);
        }
        let most = (0usize..).zip(below).max_by_key(|(at, below)| (*below, std::cmp::Reverse(*at)));
        let Some((top, _)) = most.filter(|(_, below)| *below < member_ports.len()) else { return };
        member_ports.retain(|port| {
            let leads_up = self.above(self.graph.switch_of(*port)).hops(top) != NO_PATH;
            if let (false, Peer::Endpoint(endpoint)) = (leads_up, self.graph.peer(*port)) {
                cut_off(endpoint, CutOffReason::OnlyThroughValley);
            }
            leads_up
        });
    }
}
