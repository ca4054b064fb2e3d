//! Looks for a cycle of channels that wait for each other: on a lossless fabric, a deadlock.
//!
//! Source: Dally and Seitz 1987; up*/down* routing. A channel is a link in one direction; all
//! packets share one virtual channel of it, as nothing here gives them different ones. A row of a
//! table lets the packets that came by one channel wait for room in each of its output channels.
//! Without a cycle no packets can wait for each other for ever. A cycle makes a deadlock possible;
//! it takes long enough packets on all of its channels at once to make it real.
//!
//! Trees that turn once, on a fabric with levels, make no cycle, with unicast packets neither that
//! go up and then down. Where levels are given, such unicast packets are part of the graph.
//!
//! Cost: linear in the outputs of the rows and the turns that switches can make, with a 32-byte
//! port set for each port. Where there is a cycle, a search for a short one of [`EFFORT`] times
//! that.

use fabricast_topology::{Graph, Mgid, PortId, PortSet, SwitchId};

use super::Group;
use super::index::{Hop, Hops, Rows};
use crate::up_down::UpDown;

/// Channels that wait for each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cycle {
    /// The turns of the cycle: each leads to the switch of the next, the last to the first.
    pub turns: Vec<Turn>,
}

/// A turn that packets make in one switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Switch that the packets pass.
    pub switch: SwitchId,
    /// Number of the port that packets come in by.
    pub in_port: u8,
    /// Number of a port that they leave by.
    pub out_port: u8,
    /// The entry that says so; none if these are unicast packets.
    pub color: Option<u16>,
    /// The groups that share the tree, rising; none if no packet met the entry.
    pub groups: Vec<Mgid>,
}

impl Cycle {
    /// Tells whether multicast packets alone make it.
    #[must_use]
    pub fn is_of_multicast(&self) -> bool {
        self.turns.iter().all(|turn| turn.color.is_some())
    }
}

/// Visits of an edge, at most, on the search for the shortest cycle.
const EFFORT: usize = 32;
const NONE: u32 = u32::MAX;

/// Tables and cables that the graph is made from.
#[derive(Clone, Copy)]
pub(super) struct Walked<'a> {
    pub(super) graph: &'a Graph,
    pub(super) hops: &'a Hops,
    pub(super) rows: &'a Rows,
    /// By row: the virtual group whose packets met it, `NONE` if none did.
    pub(super) users: &'a [u32],
    /// Rows that no packet met count, too.
    pub(super) all_rows: bool,
}

/// Finds one of the shortest cycles, of multicast packets alone if there is one.
pub(super) fn find(
    walked: Walked<'_>,
    groups: &[Group],
    unicast: Option<&UpDown>,
) -> Option<Cycle> {
    let mut channels = Channels::new(walked);
    let cycle = channels.shortest_cycle().or_else(|| {
        channels.add_unicast(unicast?);
        channels.shortest_cycle()
    })?;
    Some(channels.describe(&cycle, groups))
}

/// The dependency graph. A node is a channel, by the port at its far end.
struct Channels<'a> {
    walked: Walked<'a>,
    turns: Vec<PortSet>,  // by port: numbers of the ports that packets leave by
    first_port: Vec<u32>, // by switch: the port with number 1
    switches: Vec<u32>,   // by port
}

impl<'a> Channels<'a> {
    fn new(walked: Walked<'a>) -> Self {
        let Walked { graph, rows, users, all_rows, .. } = walked;
        let mut turns = vec![PortSet::EMPTY; graph.port_count()];
        rows.each(|row, in_port, first, out| {
            if users[row] == NONE && !all_rows {
                return;
            }
            let mut turn = |port: u32, out: PortSet| {
                turns[port as usize] = turns[port as usize].union(out);
            };
            match in_port {
                Some(port) => turn(port, out),
                None => out.iter().for_each(|number| {
                    turn(first + u32::from(number) - 1, out.without(number));
                }),
            }
        });
        let first = |switch| graph.ports(switch).next().map_or(NONE, |port| port.0);
        let switches = graph.switches().flat_map(|at| graph.ports(at).map(move |_| at.0));
        Self {
            walked,
            turns,
            first_port: graph.switches().map(first).collect(),
            switches: switches.collect(),
        }
    }

    /// Adds unicast packets that go up, and then down. None goes back to where it came from.
    fn add_unicast(&mut self, order: &UpDown) {
        let graph = self.walked.graph;
        for switch in graph.switches() {
            let ends = || {
                let far = |port: PortId| Some((port, self.origin(port.0)?));
                graph.ports(switch).filter_map(far).filter(|(_, far)| *far != switch)
            };
            let (mut all, mut down) = (PortSet::EMPTY, PortSet::EMPTY);
            for (port, to) in ends() {
                all.insert(graph.port_number(port));
                if order.is_up(to, switch) {
                    down.insert(graph.port_number(port));
                }
            }
            let turns: Vec<(PortId, PortSet)> = ends()
                .map(|(port, from)| {
                    let mut turns = if order.is_up(switch, from) { down } else { all };
                    let back = ends().filter(|(_, to)| *to == from);
                    back.for_each(|(port, _)| turns.remove(graph.port_number(port)));
                    (port, turns)
                })
                .collect();
            for (port, more) in turns {
                let turns = &mut self.turns[port.index()];
                *turns = turns.union(more);
            }
        }
    }

    fn nodes(&self) -> u32 {
        u32::try_from(self.turns.len()).expect("ports have 32-bit numbers")
    }

    /// Returns the switch at the near end of a channel, if that is one.
    fn origin(&self, port: u32) -> Option<SwitchId> {
        match self.walked.hops.from(port) {
            Hop::Switch(from) => Some(SwitchId(self.switches[from as usize])),
            Hop::Nowhere | Hop::Endpoint(_) => None,
        }
    }

    /// Walks the channels that packets of a channel wait for.
    fn each_next(&self, node: u32, mut each: impl FnMut(u32)) {
        let turns = self.turns[node as usize];
        if turns.is_empty() || self.origin(node).is_none() {
            return;
        }
        let first = self.first_port[self.switches[node as usize] as usize];
        for out in turns.iter() {
            if let Hop::Switch(next) = self.walked.hops.from(first + u32::from(out) - 1) {
                each(next);
            }
        }
    }

    /// Finds the nodes that are left when those that nothing waits for, or that wait for nothing,
    /// are taken out again and again: there are none without a cycle.
    fn core(&self) -> Vec<bool> {
        let nodes = self.nodes() as usize;
        let (mut waiting, mut waits) = (vec![0u32; nodes], vec![0u32; nodes]);
        for node in 0..self.nodes() {
            self.each_next(node, |next| {
                waiting[next as usize] += 1;
                waits[node as usize] += 1;
            });
        }
        let mut is_left: Vec<bool> = vec![true; nodes];
        let mut stack: Vec<u32> =
            (0..self.nodes()).filter(|node| waiting[*node as usize] == 0).collect();
        while let Some(node) = stack.pop() {
            is_left[node as usize] = false;
            self.each_next(node, |next| {
                waiting[next as usize] -= 1;
                if waiting[next as usize] == 0 {
                    stack.push(next);
                }
            });
        }
        is_left
    }

    fn shortest_cycle(&self) -> Option<Vec<u32>> {
        let is_left = self.core();
        let start = is_left.iter().position(|is_left| *is_left)?;
        let mut search = Search::new(self, &is_left);
        search.any_from(u32::try_from(start).expect("nodes have 32-bit numbers"));
        for node in (0..self.nodes()).filter(|node| is_left[*node as usize]) {
            if search.effort == 0 || search.best.len() <= 2 {
                break;
            }
            search.shorter_from(node);
        }
        Some(search.best)
    }

    /// Names the turns of a cycle.
    fn describe(&self, cycle: &[u32], groups: &[Group]) -> Cycle {
        let next = cycle.iter().cycle().skip(1);
        let turns = cycle.iter().zip(next).map(|(at, next)| self.turn(*at, *next, groups));
        Cycle { turns: turns.collect() }
    }

    fn turn(&self, channel: u32, next: u32, groups: &[Group]) -> Turn {
        let Walked { graph, hops, rows, users, all_rows } = self.walked;
        let out = match hops.from(next) {
            Hop::Switch(out) => out,
            Hop::Nowhere | Hop::Endpoint(_) => unreachable!("channels are links of switches"),
        };
        let number = |port: u32| graph.port_number(PortId(port));
        let leads =
            |row: &usize| rows.out(*row).contains(number(out)) && (all_rows || users[*row] != NONE);
        // With tables for switches the row must have the input, too.
        let enters = |row: &usize| rows.is_per_port() || rows.out(*row).contains(number(channel));
        let row = rows.of(channel).find(|row| leads(row) && enters(row));
        let is_user = |group: &&Group| row.is_some_and(|row| users[row] == group.virtual_group);
        let mut groups: Vec<Mgid> = groups.iter().filter(is_user).map(|group| group.mgid).collect();
        groups.sort_unstable();
        Turn {
            switch: SwitchId(self.switches[channel as usize]),
            in_port: number(channel),
            out_port: number(out),
            color: row.map(|row| rows.key(row).color),
            groups,
        }
    }
}

/// A search for a short cycle among some nodes.
struct Search<'a> {
    channels: &'a Channels<'a>,
    is_left: &'a [bool],
    seen: Vec<u32>, // by node: the last start it was reached from
    from: Vec<u32>, // by node: the node it was reached by
    best: Vec<u32>,
    effort: usize,
}

impl<'a> Search<'a> {
    fn new(channels: &'a Channels<'a>, is_left: &'a [bool]) -> Self {
        let mut edges = 0;
        let nodes = channels.nodes();
        (0..nodes).for_each(|node| channels.each_next(node, |_| edges += 1));
        let nodes = nodes as usize;
        let (seen, from) = (vec![NONE; nodes], vec![NONE; nodes]);
        Self { channels, is_left, seen, from, best: Vec::new(), effort: EFFORT * edges }
    }

    /// Finds a cycle by a walk into depth; a node that is left can have no cycle after it, but one
    /// of those before it has one then.
    fn any_from(&mut self, start: u32) {
        let nodes = self.channels.nodes();
        let starts = std::iter::once(start).chain(0..nodes);
        let (mut is_done, mut is_open) = (vec![false; nodes as usize], vec![false; nodes as usize]);
        for start in starts.filter(|node| self.is_left[*node as usize]) {
            if is_done[start as usize] {
                continue;
            }
            let mut way: Vec<(u32, Vec<u32>)> = vec![(start, self.next(start))];
            is_open[start as usize] = true;
            while let Some((node, left)) = way.last_mut() {
                let Some(next) = left.pop() else {
                    is_open[*node as usize] = false;
                    is_done[*node as usize] = true;
                    way.pop();
                    continue;
                };
                if is_open[next as usize] {
                    let first = way.iter().position(|(node, _)| *node == next);
                    let cycle = &way[first.expect("open nodes are on the way")..];
                    self.best = cycle.iter().map(|(node, _)| *node).collect();
                    return;
                }
                if !is_done[next as usize] {
                    is_open[next as usize] = true;
                    let left = self.next(next);
                    way.push((next, left));
                }
            }
        }
    }

    fn next(&self, node: u32) -> Vec<u32> {
        let mut next = Vec::new();
        self.channels.each_next(node, |to| {
            if self.is_left[to as usize] {
                next.push(to);
            }
        });
        next
    }

    /// Looks for a cycle through a node that is shorter than the best so far.
    fn shorter_from(&mut self, start: u32) {
        let (mut front, mut ahead) = (vec![start], Vec::new());
        self.from[start as usize] = NONE;
        for length in 1..self.best.len() {
            for node in front.drain(..) {
                let (mut closes, mut visits) = (false, 0);
                let (seen, from, is_left) = (&mut self.seen, &mut self.from, self.is_left);
                self.channels.each_next(node, |next| {
                    visits += 1;
                    closes |= next == start;
                    let is_new = is_left[next as usize] && seen[next as usize] != start;
                    if is_new && next != start {
                        seen[next as usize] = start;
                        from[next as usize] = node;
                        ahead.push(next);
                    }
                });
                self.effort = self.effort.saturating_sub(visits);
                if closes {
                    self.best = self.back_from(node, length);
                    return;
                }
                if self.effort == 0 {
                    return;
                }
            }
            std::mem::swap(&mut front, &mut ahead);
        }
    }

    fn back_from(&self, last: u32, length: usize) -> Vec<u32> {
        let up = |node: &u32| {
            let from = self.from[*node as usize];
            (from != NONE).then_some(from)
        };
        let mut cycle: Vec<u32> = std::iter::successors(Some(last), up).take(length).collect();
        cycle.reverse();
        cycle
    }
}
