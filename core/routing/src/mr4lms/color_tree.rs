//! Builds a tree under a color: shortest paths over what is free, keeping old trees whole if asked.
//!
//! Source: MR4LMS §3.3.2, algorithm 5. A path's length is its hops first and the sum of its links'
//! EFI second: a plain sum of loads would take long ways round over idle links, while the paper's
//! first aim is a low tree. Of equal ways the one that comes in by the lower port is taken.
//!
//! Hops come first, so the search goes hop by hop, and within a hop in the order of loads. When it
//! settles a switch of an old tree, all that hangs together with it by links of old trees is
//! settled along these links. With per-switch tables every old tree is kept whole so. With per-port
//! tables two old trees can meet in several switches; then links that would close a circle are left
//! out.

use fabricast_topology::{Peer, PortId, SwitchId};
use fixedbitset::FixedBitSet;

use crate::links::Link;
use crate::mr4lms::fabric::Fabric;
use crate::mr4lms::member_hops::{LiveMembers, MemberHops};
use crate::mr4lms::occupancy::Context;

/// Cost of a path: hops, then load; last the port by which it comes in.
type Cost = (u32, u64, PortId);

/// The best known path to a switch.
#[derive(Clone, Copy, Debug)]
struct Way {
    search: u32, // the search this belongs to; any other number means "not reached"
    settled: bool,
    cost: Cost,
}

const NO_WAY: Way = Way { search: 0, settled: false, cost: (0, 0, PortId(0)) };

/// Root, color and limits of the search for a tree.
#[derive(Clone, Copy)]
pub(super) struct SearchTerms<'a> {
    pub(super) color: u16,
    pub(super) root: SwitchId,
    /// Keeps the search to where it can be on the way to a member within the height of
    /// `member_hops`.
    pub(super) member_hops: Option<&'a MemberHops>,
    /// Ports of old trees that are to be kept.
    pub(super) old: Option<&'a FixedBitSet>,
    /// Goes up instead of down, where trees have to keep to an order.
    pub(super) climbs: bool,
}

/// Builds trees under a color; its buffers are used again.
#[derive(Clone, Debug, Default)]
pub(super) struct ColorTreeBuilder {
    ways: Vec<Way>,
    search: u32,
    open: Vec<Vec<SwitchId>>, // by hops: reached, and not settled then
    pulled: Vec<SwitchId>,    // settled together
    wanted: FixedBitSet,      // by switch: a member is there
}

impl ColorTreeBuilder {
    /// Returns the ports of the tree, rising.
    ///
    /// # Panics
    ///
    /// If a member cannot be reached.
    pub(super) fn build(
        &mut self,
        context: Context<'_>,
        members: &LiveMembers,
        terms: SearchTerms<'_>,
    ) -> Vec<PortId> {
        self.start(context.fabric);
        self.wanted.clear();
        self.wanted.grow(context.fabric.graph.switch_count());
        self.wanted.extend(members.leaves.iter().map(|leaf| leaf.index()));
        let mut left = members.leaves.len();
        self.reach(terms.root, (0, 0, PortId(0)));
        // Without old trees nothing depends on who of a hop comes first.
        let is_ordered = terms.old.is_some();
        let mut hops = 0;
        while left > 0 && hops < self.open.len() {
            let mut open = self.take_open(hops, is_ordered);
            for at in open.drain(..) {
                if self.ways[at.index()].settled {
                    continue;
                }
                self.pulled.clear();
                self.pulled.push(at);
                let mut done = 0;
                while let Some(at) = self.pulled.get(done).copied() {
                    done += 1;
                    left -= usize::from(self.wanted.contains(at.index()));
                    self.settle(context, at, terms);
                }
            }
            self.open[hops] = open; // its memory
            hops += 1;
        }
        self.read_off(context.fabric, members, terms.root)
    }

    /// Finds all switches that a switch leads up to over what is free of a color, itself among
    /// them.
    pub(super) fn climb(
        &mut self,
        context: Context<'_>,
        color: u16,
        from: SwitchId,
        reached: &mut FixedBitSet,
    ) {
        self.start(context.fabric);
        self.reach(from, (0, 0, PortId(0)));
        let terms = SearchTerms { color, root: from, member_hops: None, old: None, climbs: true };
        let mut hops = 0;
        while hops < self.open.len() {
            for at in self.take_open(hops, false) {
                reached.insert(at.index());
                self.settle(context, at, terms);
            }
            hops += 1;
        }
    }

    /// Returns the ports of the best way from a switch to the nearest of some others over what is
    /// free of a color, rising; where trees have to keep to an order, of the ways up. Empty if it
    /// is one of them, none if there is no way.
    pub(super) fn bridge(
        &mut self,
        context: Context<'_>,
        color: u16,
        from: SwitchId,
        targets: &FixedBitSet,
    ) -> Option<Vec<PortId>> {
        self.start(context.fabric);
        self.reach(from, (0, 0, PortId(0)));
        let terms = SearchTerms { color, root: from, member_hops: None, old: None, climbs: true };
        let mut hops = 0;
        while hops < self.open.len() {
            let mut open = self.take_open(hops, true);
            for at in open.drain(..) {
                if targets.contains(at.index()) {
                    let mut ports = Vec::new();
                    self.follow(context.fabric, at, from, &mut ports);
                    ports.sort_unstable();
                    return Some(ports);
                }
                if !self.ways[at.index()].settled {
                    self.settle(context, at, terms);
                }
            }
            self.open[hops] = open; // its memory
            hops += 1;
        }
        None
    }

    /// Finds a switch that two others lead up to over what is free of a color, as near to the first
    /// as can be, and returns it with the ports of both ways, rising; none if there is none.
    pub(super) fn common_top(
        &mut self,
        context: Context<'_>,
        color: u16,
        a: SwitchId,
        b: SwitchId,
    ) -> Option<(SwitchId, Vec<PortId>)> {
        let mut above = FixedBitSet::with_capacity(context.fabric.graph.switch_count());
        self.climb(context, color, b, &mut above);
        let mut ports = self.bridge(context, color, a, &above)?;
        // Of the switches on that way only the last is above the other one.
        let fabric = context.fabric;
        let top = fabric.switches(&ports).find(|at| above.contains(at.index())).unwrap_or(a);
        above.clear();
        above.insert(top.index());
        ports.extend(self.bridge(context, color, b, &above)?);
        ports.sort_unstable();
        Some((top, ports))
    }

    fn start(&mut self, fabric: &Fabric) {
        self.ways.resize(fabric.graph.switch_count(), NO_WAY);
        if self.search == u32::MAX {
            self.ways.fill(NO_WAY);
            self.search = 0;
        }
        self.search += 1;
        self.open.iter_mut().for_each(Vec::clear);
    }

    /// Takes out the switches that are so many hops away, if asked for those with the least load
    /// first.
    fn take_open(&mut self, hops: usize, is_ordered: bool) -> Vec<SwitchId> {
        let mut open = std::mem::take(&mut self.open[hops]);
        if is_ordered {
            open.sort_unstable_by_key(|at| (self.ways[at.index()].cost.1, *at));
        }
        open
    }

    /// Notes a way to a switch if it is the best so far.
    fn reach(&mut self, to: SwitchId, cost: Cost) {
        let way = &mut self.ways[to.index()];
        let is_known = way.search == self.search;
        if is_known && (way.settled || way.cost <= cost) {
            return;
        }
        let is_nearer = !is_known || cost.0 < way.cost.0;
        *way = Way { search: self.search, settled: false, cost };
        if is_nearer {
            let hops = cost.0 as usize;
            if self.open.len() <= hops {
                self.open.resize_with(hops + 1, Vec::new);
            }
            self.open[hops].push(to);
        }
    }

    fn settle(
        &mut self,
        Context { fabric, occupancy }: Context<'_>,
        at: SwitchId,
        terms: SearchTerms<'_>,
    ) {
        let way = &mut self.ways[at.index()];
        way.settled = true;
        let (hops, load, _) = way.cost;
        let cost = |link: Link| (hops + 1, load + u64::from(occupancy.loads.link(link)), link.peer);
        let is_settled = |way: Way| way.search == self.search && way.settled;
        if let Some(old) = terms.old {
            for link in fabric.links().of(at).filter(|link| old.contains(link.port.index())) {
                if !is_settled(self.ways[link.to.index()]) {
                    self.ways[link.to.index()] =
                        Way { search: self.search, settled: true, cost: cost(link) };
                    self.pulled.push(link.to);
                }
            }
        }
        let is_free = occupancy.free_of(terms.color);
        for link in fabric.links().of(at) {
            let way = self.ways[link.to.index()];
            if way.search == self.search && (way.settled || way.cost.0 <= hops) {
                continue;
            }
            let is_near = |member_hops: &MemberHops| {
                u32::from(member_hops.near[link.to.index()]) + hops < u32::from(member_hops.height)
            };
            let (above, below) = if terms.climbs { (link.to, at) } else { (at, link.to) };
            let leads = fabric.may_descend(above, below);
            if leads && is_free(fabric.domain(link)) && terms.member_hops.is_none_or(is_near) {
                self.reach(link.to, cost(link));
            }
        }
    }

    /// Follows the ways back from the members to the root.
    fn read_off(&mut self, fabric: &Fabric, members: &LiveMembers, root: SwitchId) -> Vec<PortId> {
        let mut ports = members.member_ports.clone();
        for leaf in &members.leaves {
            self.follow(fabric, *leaf, root, &mut ports);
        }
        ports.sort_unstable();
        ports
    }

    /// Follows the way back from a switch until it meets one that was followed before.
    fn follow(
        &mut self,
        fabric: &Fabric,
        mut at: SwitchId,
        root: SwitchId,
        ports: &mut Vec<PortId>,
    ) {
        while at != root && std::mem::replace(&mut self.ways[at.index()].search, 0) == self.search {
            let port = self.ways[at.index()].cost.2;
            let Peer::Switch(up) = fabric.graph.peer(port) else { break };
            ports.extend([port, up]);
            at = fabric.graph.switch_of(up);
        }
    }
}
