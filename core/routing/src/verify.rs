//! Checks table rows by walking packets through them; knows nothing of engines.
//!
//! From every sender a packet is followed over all copies: into a switch by a port, through the row
//! for (switch, input port, color), out by its ports. What must hold:
//! - R1: a row serves one virtual group.
//! - R2: every other member that receives gets exactly one copy (with fault tolerance one or two),
//!   nothing comes round twice, and any other receiver is a member that receives of another group
//!   of the same virtual group.
//! - R4: no entry number reaches C.
//!
//! A cycle of channels that wait for each other breaks no rule, and is reported by itself
//! ([`Report::cycle`]): on a lossless fabric it can become a deadlock.
//!
//! Cost: the sum over senders of the size of the tree they reach.

mod dependencies;
mod index;

use fabricast_topology::{
    EndpointId, Faults, Graph, Mgid, PortId, SwitchId, TableEntry, TableKind,
};
use thiserror::Error;

use crate::up_down::UpDown;
pub use dependencies::{Cycle, Turn};
use index::{Hop, Hops, Rows};

/// A group as it has to be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// MGID of the group.
    pub mgid: Mgid,
    /// The entry numbers its packets carry: a sender sends one packet with each.
    pub colors: Vec<u16>,
    /// The most copies that a member may get of what was sent once: 1, or 2 with fault tolerance.
    pub copies: u8,
    /// The virtual group it belongs to.
    pub virtual_group: u32,
    /// Endpoints that send, and must be reached, each once.
    pub members: Vec<EndpointId>,
    /// Endpoints that send, and must not be reached for this group. With fewer than two in both
    /// lists nothing is sent.
    pub only_senders: Vec<EndpointId>,
}

impl Group {
    fn senders(&self) -> impl Iterator<Item = EndpointId> {
        self.members.iter().chain(&self.only_senders).copied()
    }
}

/// Members that send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Senders {
    /// Every member of every group.
    All,
    /// One member behind every switch that has any: all paths between switches are walked.
    #[default]
    OnePerSwitch,
    /// The first member of every group.
    First,
}

/// Options of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Entries a table has.
    pub colors: u16,
    /// Kind of the switches' tables.
    pub tables: TableKind,
    /// Members that send.
    pub senders: Senders,
    /// Number of violations to list; the rest are only counted.
    pub list: usize,
}

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Groups with two or more members.
    pub groups: usize,
    /// Number of packets sent.
    pub packets: u64,
    /// Copies that reached an endpoint.
    pub delivered: u64,
    /// Copies that entered a switch.
    pub hops: u64,
    /// Rows of the tables.
    pub entries: usize,
    /// Rows that no packet met. With [`Senders::All`] these are stale.
    pub unused_entries: usize,
    /// The first violations.
    pub violations: Vec<Violation>,
    /// Number of violations in all.
    pub violation_count: u64,
    /// One of the shortest cycles of channels that packets of all groups hold and wait for, on a
    /// fabric with levels together with unicast packets that go up and then down. Rows that no
    /// packet met are left out, but with [`Senders::First`].
    pub cycle: Option<Cycle>,
}

impl Report {
    /// Tells whether every rule held.
    #[must_use]
    pub const fn is_clean(&self) -> bool {
        self.violation_count == 0
    }
}

/// A row's key, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowKey {
    /// Switch that the row is for.
    pub switch: SwitchId,
    /// The input port; 0 in per-switch tables.
    pub in_port: u8,
    /// The entry number.
    pub color: u16,
}

/// One broken rule. Numbers are dense ids of the graph.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Violation {
    /// R4: a row's entry number is C or more.
    #[error("switch {}: entry {} is beyond the table", .row.switch.0, .row.color)]
    EntryOutOfRange {
        /// Key of the row.
        row: RowKey,
    },
    /// R4: packets of a group carry an entry number that is C or more.
    #[error("group {}: color {color} is beyond the table", .mgid.0)]
    ColorOutOfRange {
        /// Group of the packet.
        mgid: Mgid,
        /// Color of the group.
        color: u16,
    },
    /// A row names a port its switch does not have.
    #[error("switch {}: entry {} names port {port}, which it does not have", .row.switch.0, .row.color)]
    UnknownPort {
        /// Key of the row.
        row: RowKey,
        /// The port number.
        port: u8,
    },
    /// Two rows have one key.
    #[error("switch {} port {}: two rows for entry {}", .row.switch.0, .row.in_port, .row.color)]
    DuplicateEntry {
        /// Key that two rows have.
        row: RowKey,
    },
    /// R1: packets of two virtual groups meet one row.
    #[error(
        "switch {} port {} entry {}: used by virtual groups {first} and {second}",
        .row.switch.0, .row.in_port, .row.color
    )]
    SharedEntry {
        /// Key of the row.
        row: RowKey,
        /// Virtual group whose packets met it first.
        first: u32,
        /// Virtual group whose packets met it then.
        second: u32,
    },
    /// A member is not connected, or its link is dead.
    #[error("group {}: member {} has no live link", .mgid.0, .endpoint.0)]
    Detached {
        /// Group of the packet.
        mgid: Mgid,
        /// Member that cannot send.
        endpoint: EndpointId,
    },
    /// R2: a member did not get a copy.
    #[error("group {}: a packet from {} does not reach {}", .mgid.0, .from.0, .to.0)]
    NotDelivered {
        /// Group of the packet.
        mgid: Mgid,
        /// Endpoint that sent the packet.
        from: EndpointId,
        /// Member that is missing it.
        to: EndpointId,
    },
    /// R2: an endpoint got more copies than it may, or the sender got one.
    #[error("group {}: a packet from {} reaches {} once too often", .mgid.0, .from.0, .to.0)]
    DeliveredTwice {
        /// Group of the packet.
        mgid: Mgid,
        /// Endpoint that sent the packet.
        from: EndpointId,
        /// Endpoint that got it.
        to: EndpointId,
    },
    /// R2: an endpoint outside of the virtual group got a copy.
    #[error("group {}: a packet from {} reaches {}, which has no part in it", .mgid.0, .from.0, .to.0)]
    DeliveredToStranger {
        /// Group of the packet.
        mgid: Mgid,
        /// Endpoint that sent the packet.
        from: EndpointId,
        /// Endpoint that got it.
        to: EndpointId,
    },
    /// R2: two copies of one packet came in by one port.
    #[error("group {}: a packet from {} comes round to switch {} port {port} again", .mgid.0, .from.0, .switch.0)]
    Loop {
        /// Group of the packet.
        mgid: Mgid,
        /// Endpoint that sent the packet.
        from: EndpointId,
        /// Switch at which it came by again.
        switch: SwitchId,
        /// By which port.
        port: u8,
    },
}

/// Walks packets of all groups through the tables.
#[must_use]
pub fn verify(
    graph: &Graph,
    faults: &Faults,
    groups: &[Group],
    entries: &[TableEntry],
    options: Options,
) -> Report {
    let mut report = Report { entries: entries.len(), ..Report::default() };
    let mut notes = Notes { report: &mut report, list: options.list };
    let rows = Rows::new(graph, entries, options, |violation| notes.add(violation));
    let mut walker = Walker {
        graph,
        hops: Hops::new(graph, faults),
        row_users: vec![u32::MAX; rows.len()],
        row_used: vec![false; rows.len()],
        rows,
        entered: vec![0; graph.port_count()],
        reached: vec![0; graph.endpoint_count()],
        copies: vec![0; graph.endpoint_count()],
        packet: 0,
        insiders: vec![0; graph.endpoint_count()],
        stack: Vec::new(),
    };
    let mut order: Vec<&Group> =
        groups.iter().filter(|group| group.senders().count() >= 2).collect();
    order.sort_by_key(|group| (group.virtual_group, group.mgid));
    notes.report.groups = order.len();
    for (round, family) in (1u32..).zip(order.chunk_by(|a, b| a.virtual_group == b.virtual_group)) {
        for endpoint in family.iter().flat_map(|group| &group.members) {
            walker.insiders[endpoint.index()] = round;
        }
        for group in family {
            walker.check(group, round, options, &mut notes);
        }
    }
    report.unused_entries = walker.row_used.iter().filter(|used| !**used).count();
    let all_rows = options.senders == Senders::First;
    let Walker { hops, rows, row_users, .. } = &walker;
    let walked = dependencies::Walked { graph, hops, rows, users: row_users, all_rows };
    report.cycle = dependencies::find(walked, groups, UpDown::of_levels(graph).as_ref());
    report
}

struct Notes<'a> {
    report: &'a mut Report,
    list: usize,
}

impl Notes<'_> {
    fn add(&mut self, violation: Violation) {
        self.report.violation_count += 1;
        if self.report.violations.len() < self.list {
            self.report.violations.push(violation);
        }
    }
}

struct Walker<'a> {
    graph: &'a Graph,
    rows: Rows,
    hops: Hops,
    row_users: Vec<u32>, // by row: the virtual group that met it first
    row_used: Vec<bool>,
    entered: Vec<u32>, // by switch port: the last packet that came in
    reached: Vec<u32>, // by endpoint: the last message that arrived, as its first packet
    copies: Vec<u8>,   // by endpoint: how often it did
    packet: u32,
    insiders: Vec<u32>, // by endpoint: the last virtual group it is part of
    stack: Vec<u32>,
}

/// An endpoint that sends, and its switch port; senders are ordered by port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Sender {
    port: u32,
    endpoint: EndpointId,
}

/// One packet of a message; with fault tolerance a message is sent with several colors.
#[derive(Clone, Copy)]
struct Packet {
    message: u32,
    color: u16,
    from: EndpointId,
}

impl Walker<'_> {
    fn check(&mut self, group: &Group, round: u32, options: Options, notes: &mut Notes<'_>) {
        let mgid = group.mgid;
        if let Some(color) = group.colors.iter().copied().find(|color| *color >= options.colors) {
            notes.add(Violation::ColorOutOfRange { mgid, color });
            return;
        }
        let mut senders: Vec<Sender> = Vec::with_capacity(group.members.len());
        for endpoint in group.senders() {
            match self.graph.attachment(endpoint).filter(|port| self.hops.is_live(*port)) {
                Some(port) => senders.push(Sender { port: port.0, endpoint }),
                None => notes.add(Violation::Detached { mgid, endpoint }),
            }
        }
        senders.sort_unstable();
        let switch = |port: u32| self.graph.switch_of(PortId(port));
        match options.senders {
            Senders::All => {}
            Senders::OnePerSwitch => senders.dedup_by_key(|sender| switch(sender.port)),
            Senders::First => senders.truncate(1),
        }
        for sender in senders {
            self.send(group, round, sender, notes);
        }
    }

    fn send(&mut self, group: &Group, round: u32, sender: Sender, notes: &mut Notes<'_>) {
        if self.packet > u32::MAX - u32::from(u16::MAX) {
            self.entered.fill(0);
            self.reached.fill(0);
            self.packet = 0;
        }
        let message = self.packet + 1;
        let Sender { port, endpoint: from } = sender;
        self.reached[from.index()] = message;
        self.copies[from.index()] = group.copies; // not one is for the sender
        for color in &group.colors {
            self.packet += 1;
            notes.report.packets += 1;
            self.stack.push(port);
            self.walk(group, round, Packet { message, color: *color, from }, notes);
        }
        let mgid = group.mgid;
        for to in group.members.iter().filter(|to| self.reached[to.index()] != message) {
            notes.add(Violation::NotDelivered { mgid, from, to: *to });
        }
    }

    /// Follows a packet over all its copies.
    fn walk(&mut self, group: &Group, round: u32, packet: Packet, notes: &mut Notes<'_>) {
        let Packet { message, color, from } = packet;
        let mgid = group.mgid;
        let (mut copies, mut strangers) = (0u64, 0u64);
        while let Some(port) = self.stack.pop() {
            notes.report.hops += 1;
            if std::mem::replace(&mut self.entered[port as usize], self.packet) == self.packet {
                let port = PortId(port);
                let (switch, port) = (self.graph.switch_of(port), self.graph.port_number(port));
                notes.add(Violation::Loop { mgid, from, switch, port });
                continue;
            }
            let Some(row) = self.rows.find(port, color) else { continue };
            self.note_user(row, group.virtual_group, notes);
            let Self { stack, hops, reached, copies: counts, insiders, rows, .. } = self;
            rows.outputs(row, port, |out| match hops.from(out) {
                Hop::Nowhere => {}
                Hop::Switch(next) => stack.push(next),
                Hop::Endpoint(to) => {
                    copies += 1;
                    let (to, at) = (EndpointId(to), to as usize);
                    if std::mem::replace(&mut reached[at], message) != message {
                        counts[at] = 0;
                    }
                    counts[at] = counts[at].saturating_add(1);
                    if counts[at] > group.copies {
                        notes.add(Violation::DeliveredTwice { mgid, from, to });
                    } else if insiders[at] != round {
                        strangers += 1;
                        notes.add(Violation::DeliveredToStranger { mgid, from, to });
                    }
                }
            });
        }
        notes.report.delivered += copies - strangers;
    }

    fn note_user(&mut self, row: usize, virtual_group: u32, notes: &mut Notes<'_>) {
        if !std::mem::replace(&mut self.row_used[row], true) {
            self.row_users[row] = virtual_group;
        } else if self.row_users[row] != virtual_group {
            notes.add(Violation::SharedEntry {
                row: self.rows.key(row),
                first: self.row_users[row],
                second: virtual_group,
            });
        }
    }
}
