//! Follows packets over all their copies.

use fabricast_topology::{EndpointId, Faults, Graph, PortId};

use super::index::{Hop, Hops, Rows};
use super::{Group, Notes, Options, Senders, Violation};

/// No virtual group that all users of a row have in common.
const NONE: u32 = u32::MAX;

/// Scratch memory for walks.
pub(super) struct Walker<'a> {
    graph: &'a Graph,
    rows: Rows,
    hops: Hops,
    row_users: Vec<[u32; 2]>, // by row: the virtual groups, tree by tree, that all its users share
    pub(super) row_used: Vec<bool>,
    entered: Vec<u32>,        // by switch port: the last packet that came in
    reached: Vec<(u32, u32)>, // by endpoint: the last packet that arrived, and how often
    packet: u32,
    pub(super) insiders: Vec<u32>, // by endpoint: the last virtual groups it is part of
    stack: Vec<u32>,
}

/// A packet on its way.
#[derive(Clone, Copy)]
struct Sent<'a> {
    group: &'a Group,
    color: u16,
    /// Trees that it goes over.
    trees: u32,
    from: EndpointId,
    port: u32,
    /// Number of the virtual groups of its group.
    round: u32,
}

impl<'a> Walker<'a> {
    pub(super) fn new(graph: &'a Graph, faults: &Faults, rows: Rows) -> Self {
        Self {
            graph,
            hops: Hops::new(graph, faults),
            row_users: vec![[NONE; 2]; rows.len()],
            row_used: vec![false; rows.len()],
            rows,
            entered: vec![0; graph.port_count()],
            reached: vec![(0, 0); graph.endpoint_count()],
            packet: 0,
            insiders: vec![0; graph.endpoint_count()],
            stack: Vec::new(),
        }
    }

    pub(super) fn check(
        &mut self,
        group: &Group,
        round: u32,
        options: Options,
        notes: &mut Notes<'_>,
    ) {
        let mgid = group.mgid;
        let mut colors: Vec<(u16, u32)> = Vec::with_capacity(2); // with trees of each
        for tree in &group.trees {
            if tree.color >= options.colors {
                notes.add(Violation::ColorOutOfRange { mgid, color: tree.color });
            } else if let Some((_, trees)) = colors.iter_mut().find(|(one, _)| *one == tree.color) {
                *trees += 1;
            } else {
                colors.push((tree.color, 1));
            }
        }
        for (port, from) in self.senders(group, options, notes) {
            for (color, trees) in &colors {
                self.send(Sent { group, color: *color, trees: *trees, from, port, round }, notes);
            }
        }
    }

    /// Lists the members that send, with the ports their packets come in by.
    fn senders(
        &self,
        group: &Group,
        options: Options,
        notes: &mut Notes<'_>,
    ) -> Vec<(u32, EndpointId)> {
        let mgid = group.mgid;
        let mut senders: Vec<(u32, EndpointId)> = Vec::with_capacity(group.members.len());
        for endpoint in &group.members {
            match self.graph.attachment(*endpoint).filter(|port| self.hops.is_live(*port)) {
                Some(port) => senders.push((port.0, *endpoint)),
                None => notes.add(Violation::Detached { mgid, endpoint: *endpoint }),
            }
        }
        senders.sort_unstable();
        let switch = |port: u32| self.graph.switch_of(PortId(port));
        match options.senders {
            Senders::All => {}
            Senders::OnePerSwitch => senders.dedup_by_key(|(port, _)| switch(*port)),
            Senders::First => senders.truncate(1),
        }
        senders
    }

    fn send(&mut self, sent: Sent<'_>, notes: &mut Notes<'_>) {
        if self.packet == u32::MAX {
            self.entered.fill(0);
            self.reached.fill((0, 0));
            self.packet = 0;
        }
        self.packet += 1;
        let Sent { group, color, trees, from, port, round } = sent;
        let mgid = group.mgid;
        let (mut copies, mut strangers) = (0u64, 0u64);
        self.reached[from.index()] = (self.packet, trees); // it must not get any
        self.stack.push(port);
        while let Some(port) = self.stack.pop() {
            notes.report.hops += 1;
            if std::mem::replace(&mut self.entered[port as usize], self.packet) == self.packet {
                let port = PortId(port);
                let (switch, port) = (self.graph.switch_of(port), self.graph.port_number(port));
                notes.add(Violation::Loop { mgid, from, switch, port });
                continue;
            }
            let Some(row) = self.rows.find(port, color) else { continue };
            self.note_user(row, sent, notes);
            let Self { stack, hops, reached, insiders, packet, rows, .. } = self;
            rows.outputs(row, port, |out| match hops.from(out) {
                Hop::Nowhere => {}
                Hop::Switch(next) => stack.push(next),
                Hop::Endpoint(to) => {
                    copies += 1;
                    let to = EndpointId(to);
                    let (last, times) = &mut reached[to.index()];
                    let is_first = std::mem::replace(last, *packet) != *packet;
                    *times = if is_first { 1 } else { *times + 1 };
                    if *times > trees {
                        notes.add(Violation::DeliveredTwice { mgid, from, to });
                    } else if is_first && insiders[to.index()] != round {
                        strangers += 1;
                        notes.add(Violation::DeliveredToStranger { mgid, from, to });
                    }
                }
            });
        }
        self.count(sent, notes);
        notes.report.packets += 1;
        notes.report.delivered += copies - strangers;
    }

    /// Checks that every member got its copies.
    fn count(&self, sent: Sent<'_>, notes: &mut Notes<'_>) {
        let Sent { group, trees, from, port, .. } = sent;
        let mgid = group.mgid;
        for to in group.members.iter().copied().filter(|to| *to != from) {
            let (last, times) = self.reached[to.index()];
            let times = if last == self.packet { times } else { 0 };
            let here = self.graph.attachment(to).map(|at| self.graph.switch_of(at));
            let is_near = here == Some(self.graph.switch_of(PortId(port)));
            let wanted = if is_near { 1 } else { trees }; // all trees meet in a switch
            if times == 0 {
                notes.add(Violation::NotDelivered { mgid, from, to });
            } else if times < wanted {
                notes.add(Violation::TreeMissed { mgid, from, to });
            } else if times > wanted && times <= trees {
                notes.add(Violation::DeliveredTwice { mgid, from, to }); // if not, it was noted before
            }
        }
    }

    fn note_user(&mut self, row: usize, sent: Sent<'_>, notes: &mut Notes<'_>) {
        let mut users = [NONE; 2];
        for tree in sent.group.trees.iter().filter(|tree| tree.color == sent.color) {
            users[usize::from(tree.tree > 0)] = tree.virtual_group;
        }
        if !std::mem::replace(&mut self.row_used[row], true) {
            self.row_users[row] = users;
            return;
        }
        let before = self.row_users[row];
        let both = [0, 1].map(|tree| if before[tree] == users[tree] { users[tree] } else { NONE });
        if both == [NONE; 2] {
            let named = |users: [u32; 2]| users[0].min(users[1]);
            let (first, second) = (named(before), named(users));
            notes.add(Violation::SharedEntry { row: self.rows.key(row), first, second });
        } else {
            self.row_users[row] = both;
        }
    }
}
