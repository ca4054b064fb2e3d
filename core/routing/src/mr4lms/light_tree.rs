//! First build, then color: a tree of lightest ways of least hops, and the first color that is free
//! on all of it.
//!
//! Source: MR4LMS §3.1, algorithms 1 and 2. From each member the tree climbs towards the root by
//! links of least hops, until it meets itself. The paper takes the lightest next link, which can
//! lead below a switch whose own links are full. Here a dynamic program finds, for every switch
//! between the members and the root, the weight of its lightest way up, a link's weight being its
//! EFI plus one. When a member has climbed, ways end at the switches of its path, too, so that
//! later members join them instead of taking other switches. Of equal ways that by the lower port
//! is taken.
//!
//! Cost: the links of all switches on ways of least hops; then for each member the links that lead
//! to lighter ways, at most [`MANY_LINKS`].
//!
//! The min-hop table has rows for leaves only. Hops to any other root are searched for, but only
//! where a path from a member to the root can be.

use fabricast_topology::{PortId, SwitchId};

use crate::min_hop::{MOST_HOPS, NO_PATH};
use crate::mr4lms::fabric::Fabric;
use crate::mr4lms::member_hops::{LiveMembers, MemberHops, row};
use crate::mr4lms::occupancy::{Context, Occupancy, first_color};

/// With more links on ways of least hops, weights are not computed again after each member.
pub(super) const MANY_LINKS: usize = 4096;

/// End of a list.
const NONE: u32 = u32::MAX;

/// A switch on a way of least hops.
#[derive(Clone, Copy, Debug)]
struct Node {
    switch: SwitchId,
    /// Its links up: a range of `links`.
    up: (u32, u32),
    /// Its first link down.
    down: u32,
    /// Weight of its lightest way to the tree, 0 if it is in it.
    weight: u32,
}

/// A link that leads one hop nearer to the root.
#[derive(Clone, Copy, Debug)]
struct UpLink {
    below: u32, // node
    above: u32, // node
    weight: u32,
    ports: [PortId; 2],
    /// The next link down of `above`.
    next_down: u32,
}

/// Root of a tree, and limits of the search for it.
#[derive(Clone, Copy)]
pub(super) struct LightTreeTerms<'a> {
    pub(super) root: SwitchId,
    /// Limits the search for the root's hops; it must be in reach of all members within the height.
    pub(super) member_hops: Option<&'a MemberHops>,
    /// Tells whether a switch is in the tree, with that root, that is to be extended.
    pub(super) old: Option<&'a dyn Fn(SwitchId) -> bool>,
    /// Limits the search to some switches, if there are no `member_hops`.
    pub(super) within: Option<&'a dyn Fn(SwitchId) -> bool>,
}

impl<'a> LightTreeTerms<'a> {
    /// Asks for a new tree.
    pub(super) const fn new(root: SwitchId, member_hops: &'a MemberHops) -> Self {
        Self { root, member_hops: Some(member_hops), old: None, within: None }
    }
}

/// Builds trees from the members up; its buffers are used again.
#[derive(Clone, Debug, Default)]
pub(super) struct LightTreeBuilder {
    hops: Vec<u8>, // by switch, to the root; NO_PATH where nobody was
    seen: Vec<u32>,
    numbers: Vec<u32>, // by switch: its node, if that says so too
    nodes: Vec<Node>,
    links: Vec<UpLink>,
    levels: Vec<Vec<u32>>,  // by hops to the root: nodes
    lighter: Vec<Vec<u32>>, // by hops to the root: nodes whose weight has fallen
    /// The ports of the last tree, both ends of every link between switches and those of the
    /// members, rising.
    pub(super) ports: Vec<PortId>,
    /// The most groups that cross one of its links, once it is in use.
    pub(super) max_efi: u32,
    /// The weight of all its links.
    pub(super) weight: u64,
    /// The links on ways of least hops to its root.
    pub(super) ways: usize,
}

impl LightTreeBuilder {
    /// Builds the tree of some members.
    pub(super) fn build(
        &mut self,
        context: Context<'_>,
        members: &LiveMembers,
        terms: LightTreeTerms<'_>,
    ) {
        let fabric = context.fabric;
        if fabric.hops.leaf_number(terms.root).is_some() && !fabric.is_ordered() {
            let row = row(fabric, terms.root);
            return self.build_by(context, members, row, terms);
        }
        let mut hops = std::mem::take(&mut self.hops);
        self.descend(fabric, terms, &mut hops);
        self.build_by(context, members, &hops, terms);
        for switch in self.seen.drain(..) {
            hops[switch as usize] = NO_PATH;
        }
        self.hops = hops;
    }

    /// Counts the hops from the root to wherever a member is not too far to be on the way.
    fn descend(
        &mut self,
        fabric: &Fabric,
        LightTreeTerms { root, member_hops, within, .. }: LightTreeTerms<'_>,
        hops: &mut Vec<u8>,
    ) {
        let height = member_hops.map_or(MOST_HOPS, |member_hops| member_hops.height);
        let leads = |to: SwitchId, hops: u8| {
            member_hops.is_none_or(|member_hops| member_hops.near[to.index()] <= height - hops)
                && within.is_none_or(|within| within(to))
        };
        hops.resize(fabric.graph.switch_count(), NO_PATH);
        hops[root.index()] = 0;
        self.seen.push(root.0);
        let mut done = 0;
        while let Some(at) = self.seen.get(done).copied() {
            done += 1;
            let next = hops[at as usize] + 1;
            if next > height {
                break; // hops only rise along the queue
            }
            for to in fabric.links().neighbours(SwitchId(at)) {
                let there = &mut hops[to.index()];
                let may_go = fabric.may_descend(SwitchId(at), *to);
                if *there == NO_PATH && may_go && leads(*to, next) {
                    *there = next;
                    self.seen.push(to.0);
                }
            }
        }
    }

    fn build_by(
        &mut self,
        context: Context<'_>,
        members: &LiveMembers,
        row: &[u8],
        terms: LightTreeTerms<'_>,
    ) {
        self.collect(context, members, row, terms);
        self.weigh();
        self.ports.clear();
        (self.max_efi, self.weight, self.ways) = (0, 0, self.links.len());
        for leaf in &members.leaves {
            let number = self.numbers[leaf.index()];
            let level = self.climb(number, usize::from(row[leaf.index()]));
            if self.links.len() <= MANY_LINKS {
                self.lighten(level);
            }
        }
        self.ports.extend(&members.member_ports);
        self.ports.sort_unstable();
    }

    /// Finds the node of a switch that has one.
    fn find(&self, switch: SwitchId) -> Option<u32> {
        let number = self.numbers[switch.index()];
        self.nodes.get(number as usize).filter(|node| node.switch == switch).map(|_| number)
    }

    fn add(&mut self, switch: SwitchId, level: usize, is_in_tree: bool) -> u32 {
        let number = dense(self.nodes.len());
        self.numbers[switch.index()] = number;
        self.nodes.push(Node {
            switch,
            up: (0, 0),
            down: NONE,
            weight: if is_in_tree { 0 } else { u32::MAX },
        });
        self.levels[level].push(number);
        number
    }

    /// Collects the switches and links on ways of least hops, from the members up.
    fn collect(
        &mut self,
        Context { fabric, occupancy }: Context<'_>,
        members: &LiveMembers,
        row: &[u8],
        LightTreeTerms { root, old, .. }: LightTreeTerms<'_>,
    ) {
        let is_old = |switch: SwitchId| switch == root || old.is_some_and(|old| old(switch));
        self.numbers.resize(fabric.graph.switch_count(), 0);
        self.nodes.clear();
        self.links.clear();
        self.levels.iter_mut().for_each(Vec::clear);
        self.lighter.iter_mut().for_each(Vec::clear);
        let highest = members.leaves.iter().map(|leaf| usize::from(row[leaf.index()])).max();
        let highest = highest.unwrap_or(0);
        if self.levels.len() <= highest {
            self.levels.resize_with(highest + 1, Vec::new);
            self.lighter.resize_with(highest + 1, Vec::new);
        }
        for leaf in &members.leaves {
            self.add(*leaf, usize::from(row[leaf.index()]), is_old(*leaf));
        }
        for level in (1..=highest).rev() {
            let mut at = 0;
            while let Some(below) = self.levels[level].get(at).copied() {
                at += 1;
                if self.nodes[below as usize].weight == 0 {
                    continue;
                }
                let first = dense(self.links.len());
                let switch = self.nodes[below as usize].switch;
                for link in fabric.links().of(switch) {
                    if usize::from(row[link.to.index()]) + 1 != level
                        || !fabric.may_descend(link.to, switch)
                    {
                        continue;
                    }
                    let above = self.find(link.to);
                    let above =
                        above.unwrap_or_else(|| self.add(link.to, level - 1, is_old(link.to)));
                    let number = dense(self.links.len());
                    let down = &mut self.nodes[above as usize].down;
                    self.links.push(UpLink {
                        below,
                        above,
                        weight: occupancy.loads.link(link) + 1,
                        ports: [link.port, link.peer],
                        next_down: std::mem::replace(down, number),
                    });
                }
                self.nodes[below as usize].up = (first, dense(self.links.len()));
            }
        }
    }

    /// Computes the weight of every switch's lightest way to the root.
    fn weigh(&mut self) {
        for level in 1..self.levels.len() {
            for number in &self.levels[level] {
                let Node { up: (first, end), weight, .. } = self.nodes[*number as usize];
                if weight == 0 {
                    continue;
                }
                let links = &self.links[first as usize..end as usize];
                let ways = links.iter().map(|link| self.way(*link));
                self.nodes[*number as usize].weight = ways.min().expect("HOP-1: one is nearer");
            }
        }
    }

    /// Returns the weight of the lightest way that begins with a link.
    fn way(&self, link: UpLink) -> u32 {
        link.weight.saturating_add(self.nodes[link.above as usize].weight)
    }

    /// Goes the lightest way from a switch, so many hops from the root, to the tree, which then has
    /// it. Returns the hops from the root to what is new of the tree.
    fn climb(&mut self, from: u32, hops: usize) -> usize {
        let (mut at, mut level) = (from, hops);
        while self.nodes[at as usize].weight > 0 {
            let (first, end) = self.nodes[at as usize].up;
            let links = &self.links[first as usize..end as usize];
            let lightest = links.iter().min_by_key(|link| self.way(**link));
            let link = *lightest.expect("HOP-1: a neighbour is one hop nearer");
            self.ports.extend(link.ports);
            self.weight += u64::from(link.weight);
            self.max_efi = self.max_efi.max(link.weight);
            self.nodes[at as usize].weight = 0;
            self.lighter[level].push(at);
            at = link.above;
            level -= 1;
        }
        level + 1
    }

    /// Computes the weights of ways again below switches whose weight has fallen, none of them
    /// nearer to the root than so many hops.
    fn lighten(&mut self, from: usize) {
        for level in from..self.lighter.len() {
            if self.lighter[level].is_empty() {
                break;
            }
            let mut lighter = std::mem::take(&mut self.lighter[level]);
            for above in lighter.drain(..) {
                let Node { weight, mut down, .. } = self.nodes[above as usize];
                while let Some(link) = self.links.get(down as usize) {
                    down = link.next_down;
                    let below = &mut self.nodes[link.below as usize];
                    let way = weight.saturating_add(link.weight);
                    if way < below.weight {
                        below.weight = way;
                        self.lighter[level + 1].push(link.below);
                    }
                }
            }
            self.lighter[level] = lighter; // its memory
        }
    }

    /// Returns the first color that is free in all domains of the last tree.
    pub(super) fn color(
        &self,
        fabric: &Fabric,
        occupancy: &Occupancy,
        usable: &[u64],
    ) -> Option<u16> {
        for ((column, free), usable) in (0u16..).zip(occupancy.columns()).zip(usable) {
            let mut left = *usable;
            let mut domains = fabric.domains(&self.ports);
            while left != 0 {
                let Some(domain) = domains.next() else { break };
                left &= free[domain];
            }
            if let Some(color) = first_color(column, left) {
                return Some(color);
            }
        }
        None
    }
}

fn dense(count: usize) -> u32 {
    u32::try_from(count).expect("fewer links than ports")
}
