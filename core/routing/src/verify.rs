//! Checks table rows by walking packets through them; knows nothing of engines or fat trees.
//!
//! From every sender a packet is followed over all copies: into a switch by a port, through the row for
//! (switch, input port, color), out by its ports. What must hold:
//! - R1: a row serves one virtual group.
//! - R2: every other member gets exactly one copy by each tree of the group (one in all on the switch
//!   where the packet enters), nothing comes round twice, and whoever else gets one is a member of another
//!   group of the same virtual group.
//! - R4: no entry number reaches C.
//!
//! Cost: the sum over senders of the size of the tree they reach.

mod index;
mod walk;

use std::collections::BTreeMap;

use fabricast_topology::{EndpointId, Faults, Graph, SwitchId, TableEntry, TableKind};
use thiserror::Error;

use crate::mgid::Mgid;
use index::Rows;
use walk::Walker;

/// A group as it has to be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub mgid: Mgid,
    /// The trees its packets go over: one, with fault tolerance up to two. A sender sends one packet
    /// with each color among them.
    pub trees: Vec<Tree>,
    /// Whoever must be reached, once by each tree. With fewer than two nothing is sent.
    pub members: Vec<EndpointId>,
}

/// One tree of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tree {
    /// Which one, 0 or 1; without fault tolerance 0.
    pub tree: u32,
    /// The virtual group it belongs to.
    pub virtual_group: u32,
    /// The entry number that packets for it carry.
    pub color: u16,
}

impl Group {
    /// Makes a group with one tree.
    #[must_use]
    pub fn new(mgid: Mgid, color: u16, virtual_group: u32, members: Vec<EndpointId>) -> Self {
        Self { mgid, trees: vec![Tree { tree: 0, virtual_group, color }], members }
    }
}

/// Who sends.
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

/// What to check, and against what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Entries a table has.
    pub colors: u16,
    /// How switches key their tables.
    pub tables: TableKind,
    /// Who sends.
    pub senders: Senders,
    /// How many violations to list; the rest are only counted.
    pub list: usize,
}

/// What the walks found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Groups with two or more members.
    pub groups: usize,
    /// Packets sent.
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
    /// How many there are in all.
    pub violation_count: u64,
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
    /// The switch.
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
        /// The row.
        row: RowKey,
    },
    /// R4: packets of a group carry an entry number that is C or more.
    #[error("group {}: color {color} is beyond the table", .mgid.0)]
    ColorOutOfRange {
        /// The group.
        mgid: Mgid,
        /// Its color.
        color: u16,
    },
    /// A row names a port its switch does not have.
    #[error("switch {}: entry {} names port {port}, which it does not have", .row.switch.0, .row.color)]
    UnknownPort {
        /// The row.
        row: RowKey,
        /// The port number.
        port: u8,
    },
    /// Two rows have one key.
    #[error("switch {} port {}: two rows for entry {}", .row.switch.0, .row.in_port, .row.color)]
    DuplicateEntry {
        /// The key.
        row: RowKey,
    },
    /// R1: packets of two virtual groups meet one row.
    #[error(
        "switch {} port {} entry {}: used by virtual groups {first} and {second}",
        .row.switch.0, .row.in_port, .row.color
    )]
    SharedEntry {
        /// The row.
        row: RowKey,
        /// Whose packets met it first.
        first: u32,
        /// Whose packets met it then.
        second: u32,
    },
    /// A member is not connected, or its link is dead.
    #[error("group {}: member {} has no live link", .mgid.0, .endpoint.0)]
    Detached {
        /// The group.
        mgid: Mgid,
        /// The member.
        endpoint: EndpointId,
    },
    /// R2: a member did not get a copy.
    #[error("group {}: a packet from {} does not reach {}", .mgid.0, .from.0, .to.0)]
    NotDelivered {
        /// The group.
        mgid: Mgid,
        /// The sender.
        from: EndpointId,
        /// Who is missing it.
        to: EndpointId,
    },
    /// R2: with fault tolerance, a member got a copy by one of two trees only.
    #[error("group {}: a packet from {} reaches {} by one of two trees only", .mgid.0, .from.0, .to.0)]
    TreeMissed {
        /// The group.
        mgid: Mgid,
        /// The sender.
        from: EndpointId,
        /// Who should have got two copies.
        to: EndpointId,
    },
    /// R2: an endpoint got more copies than there are trees, or the sender got one.
    #[error("group {}: a packet from {} reaches {} once too often", .mgid.0, .from.0, .to.0)]
    DeliveredTwice {
        /// The group.
        mgid: Mgid,
        /// The sender.
        from: EndpointId,
        /// Who got it.
        to: EndpointId,
    },
    /// R2: an endpoint outside of the virtual group got a copy.
    #[error("group {}: a packet from {} reaches {}, which has no part in it", .mgid.0, .from.0, .to.0)]
    DeliveredToStranger {
        /// The group.
        mgid: Mgid,
        /// The sender.
        from: EndpointId,
        /// Who got it.
        to: EndpointId,
    },
    /// R2: two copies of one packet came in by one port.
    #[error("group {}: a packet from {} comes round to switch {} port {port} again", .mgid.0, .from.0, .switch.0)]
    Loop {
        /// The group.
        mgid: Mgid,
        /// The sender.
        from: EndpointId,
        /// Where.
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
    let mut walker = Walker::new(graph, faults, rows);
    let mut order: Vec<&Group> = groups.iter().filter(|group| group.members.len() >= 2).collect();
    order.sort_by_key(|group| (&group.trees, group.mgid));
    notes.report.groups = order.len();
    let families = Families::of(&order);
    for (round, family) in (1u32..).zip(order.chunk_by(|a, b| a.trees == b.trees)) {
        for endpoint in families.insiders(&family[0].trees) {
            walker.insiders[endpoint.index()] = round;
        }
        for group in family {
            walker.check(group, round, options, &mut notes);
        }
    }
    report.unused_entries = walker.row_used.iter().filter(|used| !**used).count();
    report
}

/// The groups of each virtual group of each tree.
struct Families<'a>(BTreeMap<(u32, u32), Vec<&'a Group>>);

impl<'a> Families<'a> {
    fn of(groups: &[&'a Group]) -> Self {
        let mut families: BTreeMap<_, Vec<&Group>> = BTreeMap::new();
        for group in groups {
            for tree in &group.trees {
                families.entry((tree.tree, tree.virtual_group)).or_default().push(group);
            }
        }
        Self(families)
    }

    /// Walks all who may get packets that go over these trees.
    fn insiders(&self, trees: &'a [Tree]) -> impl Iterator<Item = EndpointId> {
        let families = trees.iter().filter_map(|tree| self.0.get(&(tree.tree, tree.virtual_group)));
        families.flatten().flat_map(|group| group.members.iter().copied())
    }
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
