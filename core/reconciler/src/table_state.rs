//! Entries of all switches, as held or as desired, and the order of writes from one to the other.
//!
//! Make before break (rule R5): [`Tables::additions`] come first. Then senders learn the new
//! colors, and only then come [`Tables::swaps`] and [`Tables::removals`]. In between, an
//! entry is the union of old and new wherever that cannot make a loop.

mod rebuilt_trees;
mod table;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fabricast_topology::{Graph, Peer, PortSet, SwitchId, TableEntry};
use serde::{Deserialize, Serialize};

use table::Table;

/// One entry to be written; an empty set removes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// Port by which packets come in; 0 in tables per switch.
    pub in_port: u8,
    /// Color of the packets.
    pub color: u16,
    /// Ports by which copies leave.
    pub out: PortSet,
}

/// An input port of a switch and a color: the key of the entry that a packet meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntryPoint {
    pub(crate) switch: SwitchId,
    pub(crate) in_port: u8,
    pub(crate) color: u16,
}

/// The senders at an entry point, which is an endpoint's port.
pub(crate) trait Senders {
    /// True if there are senders and all of them keep their tree.
    fn are_kept(&self, at: EntryPoint) -> bool;

    /// True if senders are to leave the entry, or may still use it by a route that was replaced,
    /// and none stays.
    fn are_leaving(&self, at: EntryPoint) -> bool;
}

/// Writes by switch.
pub(crate) type Writes = BTreeMap<SwitchId, Vec<Write>>;

/// Entries of all switches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TableState {
    switches: BTreeMap<SwitchId, Arc<Table>>,
}

/// Held and desired entries of all switches, and the switches where they differ. A switch that
/// holds what it ought to has one table for both.
///
/// All writes of a phase are found from the switches that differ, so a turn costs what differs and
/// not what is there.
///
/// Invariants
/// - TABLES-1: `differing` has exactly the switches whose held entries are not the desired ones;
///   `uncovered` those where a desired output port is not held; `altered` those where any desired
///   entry is not held as it is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tables {
    held: TableState,
    desired: TableState,
    differing: BTreeSet<SwitchId>,
    uncovered: BTreeSet<SwitchId>,
    altered: BTreeSet<SwitchId>,
}

/// Number of entries of a table that differ from another table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Entries that only the first table has.
    pub missing: u32,
    /// Entries that only the second table has.
    pub extra: u32,
    /// Entries whose output ports differ.
    pub altered: u32,
}

impl Write {
    pub(crate) fn at(&self, switch: SwitchId) -> EntryPoint {
        EntryPoint { switch, in_port: self.in_port, color: self.color }
    }
}

#[cfg(test)]
impl FromIterator<TableEntry> for TableState {
    fn from_iter<I: IntoIterator<Item = TableEntry>>(entries: I) -> Self {
        let mut state = Self::default();
        let mut entries = entries.into_iter().peekable();
        let mut writes = Vec::new(); // of one switch
        while let Some(TableEntry { switch, in_port, color, out }) = entries.next() {
            writes.push(Write { in_port, color, out });
            if entries.peek().is_none_or(|next| next.switch != switch) {
                state.record_all(switch, &writes);
                writes.clear();
            }
        }
        state
    }
}

impl TableState {
    /// Applies writes to one switch, in their order.
    pub(crate) fn record_all(&mut self, switch: SwitchId, writes: &[Write]) {
        let table = self.switches.entry(switch).or_default();
        *table = Arc::new(table.with(writes));
        // States are compared as a whole: no table and an empty one must be equal.
        if table.is_empty() {
            self.switches.remove(&switch);
        }
    }

    /// Replaces all entries of one switch.
    pub(crate) fn replace(&mut self, switch: SwitchId, writes: impl IntoIterator<Item = Write>) {
        self.forget(switch);
        self.record_all(switch, &writes.into_iter().collect::<Vec<_>>());
    }

    /// The entries of one switch, rising by input port and color.
    pub(crate) fn entries(&self, switch: SwitchId) -> impl Iterator<Item = Write> {
        self.table(switch).rows().map(|(in_port, color, out)| Write { in_port, color, out })
    }

    /// Removes one switch and returns a state that has only this one.
    pub(crate) fn take(&mut self, switch: SwitchId) -> Self {
        let table = self.switches.remove_entry(&switch);
        Self { switches: table.into_iter().collect() }
    }

    /// Removes all entries of one switch.
    pub(crate) fn forget(&mut self, switch: SwitchId) {
        self.switches.remove(&switch);
    }

    /// True if an entry is there with at least these output ports.
    pub(crate) fn covers(&self, entry: &TableEntry) -> bool {
        let held = self.switches.get(&entry.switch);
        let out = held.map(|table| table.out(entry.in_port, entry.color));
        out.is_some_and(|out| !out.is_empty() && entry.out.difference(out).is_empty())
    }

    /// Counts the entries of one switch that differ from those in another state.
    pub(crate) fn difference(&self, other: &Self, switch: SwitchId) -> Difference {
        let (own, other) = (self.table(switch), other.table(switch));
        let mut difference = Difference::default();
        for (_, _, out, found) in own.beside(other) {
            if found.is_empty() {
                difference.missing += 1;
            } else if found != out {
                difference.altered += 1;
            }
        }
        let extra = other.beside(own).filter(|(_, _, _, own)| own.is_empty()).count();
        difference.extra = u32::try_from(extra).unwrap_or(u32::MAX);
        difference
    }

    /// The entries of one switch.
    fn table(&self, switch: SwitchId) -> &Table {
        const NONE: &Table = &Table::EMPTY;
        self.switches.get(&switch).map_or(NONE, Arc::as_ref)
    }

    /// Number of entries on all switches.
    pub(crate) fn len(&self) -> usize {
        self.switches.values().map(|table| table.len()).sum()
    }
}

impl Tables {
    #[cfg(test)]
    pub(crate) fn new(held: TableState, desired: TableState) -> Self {
        let switches = [&held, &desired].into_iter().flat_map(|state| state.switches.keys());
        let switches: BTreeSet<SwitchId> = switches.copied().collect();
        let mut tables = Self { held, desired, ..Self::default() };
        switches.into_iter().for_each(|switch| tables.compare(switch));
        tables
    }

    /// Entries that the switches have confirmed.
    pub(crate) fn held(&self) -> &TableState {
        &self.held
    }

    /// Entries that the switches ought to hold.
    pub(crate) fn desired(&self) -> &TableState {
        &self.desired
    }

    /// True if every switch holds what it ought to.
    pub(crate) fn are_equal(&self) -> bool {
        self.differing.is_empty()
    }

    /// Replaces the entries that one switch ought to hold, given rising by input port and color.
    pub(crate) fn set_desired(
        &mut self,
        switch: SwitchId,
        entries: impl IntoIterator<Item = TableEntry>,
    ) {
        let write = |entry: TableEntry| Write {
            in_port: entry.in_port,
            color: entry.color,
            out: entry.out,
        };
        let table = Table::of_rising(entries.into_iter().map(write));
        if table.is_empty() {
            self.desired.forget(switch);
        } else {
            self.desired.switches.insert(switch, Arc::new(table));
        }
        self.compare(switch);
    }

    /// Notes writes that one switch has confirmed, in their order.
    pub(crate) fn record(&mut self, switch: SwitchId, writes: &[Write]) {
        self.held.record_all(switch, writes);
        self.compare(switch);
    }

    /// Notes that nothing is known of what one switch holds.
    pub(crate) fn forget(&mut self, switch: SwitchId) {
        self.held.forget(switch);
        self.compare(switch);
    }

    /// Replaces what one switch holds by what was read; returns the difference.
    pub(crate) fn replace_held(
        &mut self,
        switch: SwitchId,
        writes: impl IntoIterator<Item = Write>,
    ) -> Difference {
        let confirmed = self.held.take(switch);
        self.held.replace(switch, writes);
        self.compare(switch);
        confirmed.difference(&self.held, switch)
    }

    /// Counts the desired entries of one switch that it does not hold, and those it holds besides.
    pub(crate) fn difference(&self, switch: SwitchId) -> Difference {
        if self.differing.contains(&switch) {
            self.held.difference(&self.desired, switch)
        } else {
            Difference::default()
        }
    }

    fn compare(&mut self, switch: SwitchId) {
        fn set(switches: &mut BTreeSet<SwitchId>, switch: SwitchId, is_in: bool) {
            if is_in {
                switches.insert(switch);
            } else {
                switches.remove(&switch);
            }
        }
        let (held, desired) = (self.held.table(switch), self.desired.table(switch));
        let (mut is_uncovered, mut is_altered) = (false, false);
        let differs = held != desired;
        if differs {
            for (_, _, new, old) in desired.beside(held) {
                is_uncovered |= !new.difference(old).is_empty();
                is_altered |= new != old;
            }
        } else if let Some(table) = self.desired.switches.get(&switch) {
            self.held.switches.insert(switch, Arc::clone(table)); // most switches are at rest
        }
        set(&mut self.differing, switch, differs);
        set(&mut self.uncovered, switch, is_uncovered);
        set(&mut self.altered, switch, is_altered);
    }

    /// Held and desired entries of some switches.
    fn pairs<'a>(
        &'a self,
        switches: &'a BTreeSet<SwitchId>,
    ) -> impl Iterator<Item = (SwitchId, &'a Table, &'a Table)> {
        let switches = switches.iter().copied();
        switches.map(|at| (at, self.held.table(at), self.desired.table(at)))
    }

    /// True if every desired entry is held with at least its output ports.
    pub(crate) fn covers_desired(&self) -> bool {
        self.uncovered.is_empty()
    }

    /// True if a switch lacks an output port of any desired entry.
    pub(crate) fn lacks_entries(&self, switch: SwitchId) -> bool {
        self.uncovered.contains(&switch)
    }

    /// Writes of the first phase: all desired entries that can be there beside what is held.
    pub(crate) fn additions(&self, graph: &Graph, senders: &dyn Senders) -> Writes {
        self.writes(&self.uncovered, |at, old, new| {
            union_is_safe(graph, at, old, new, senders).then(|| old.union(new))
        })
    }

    /// Writes of the second phase: entries that lead packets of an endpoint up another tree than
    /// before.
    ///
    /// The new tree must be there before. An entry may have the color that another group had; the
    /// senders of that group must have heard of their new color before.
    pub(crate) fn swaps(&self, graph: &Graph, senders: &dyn Senders) -> Writes {
        self.writes(&self.altered, |at, old, new| {
            (!union_is_safe(graph, at, old, new, senders)).then_some(new)
        })
    }

    /// Writes of the third phase: all held entries that still differ from the desired ones.
    pub(crate) fn removals(&self) -> Writes {
        let mut writes = Writes::new();
        for (switch, held, desired) in self.pairs(&self.differing) {
            for (in_port, color, old, out) in held.beside(desired) {
                if out != old {
                    writes.entry(switch).or_default().push(Write { in_port, color, out });
                }
            }
        }
        writes
    }

    /// Writes for the desired entries that differ from what is held.
    ///
    /// - `target`: output ports to write, given the place of an entry, its held and its desired
    ///   output ports; `None` to leave the entry alone.
    fn writes(
        &self,
        switches: &BTreeSet<SwitchId>,
        target: impl Fn(EntryPoint, PortSet, PortSet) -> Option<PortSet>,
    ) -> Writes {
        let mut writes = Writes::new();
        for (switch, held, desired) in self.pairs(switches) {
            for (in_port, color, new, old) in desired.beside(held) {
                match target(EntryPoint { switch, in_port, color }, old, new) {
                    Some(out) if out != old => {
                        writes.entry(switch).or_default().push(Write { in_port, color, out });
                    }
                    Some(_) | None => {}
                }
            }
        }
        writes
    }
}

/// True if an entry may hold old and new output ports at once.
///
/// A link between two switches belongs to one spanning tree of a color. A packet that comes in
/// there stays in that tree, and the union is part of it. A packet from an endpoint may belong to
/// another spanning tree than before. Two ways up at once would deliver it twice, and a way up that
/// is left over would lead it to endpoints of other groups. So at an endpoint's port the switch
/// ports of one set must contain those of the other. If one set has no switch ports, they do not
/// tell whether the tree is the same: it is if all senders there keep their tree. Where nothing is
/// held, as in a switch that came back empty, senders may still count on another tree.
fn union_is_safe(
    graph: &Graph,
    at: EntryPoint,
    old: PortSet,
    new: PortSet,
    senders: &dyn Senders,
) -> bool {
    let peer_of =
        |number| graph.port(at.switch, number).map_or(Peer::None, |port| graph.peer(port));
    if old == new || !matches!(peer_of(at.in_port), Peer::Endpoint(_)) {
        return true;
    }
    if old.is_empty() {
        return !senders.are_leaving(at);
    }
    let upward = |set: PortSet| -> PortSet {
        set.iter().filter(|number| matches!(peer_of(*number), Peer::Switch(_))).collect()
    };
    let (old, new) = (upward(old), upward(new));
    if old.is_empty() || new.is_empty() {
        return senders.are_kept(at);
    }
    old.difference(new).is_empty() || new.difference(old).is_empty()
}

#[cfg(test)]
mod tests {
    use fabricast_topology::ibnetdiscover;
    use proptest::prelude::*;

    use super::*;

    /// Two leaves, two spines, one endpoint a leaf: leaf ports 1, 2 go up, port 3 to the endpoint.
    const FABRIC: &str = r#"
Switch 3 "S-0000000000000001" # "leaf1"
[1] "S-0000000000000003"[1]
[2] "S-0000000000000004"[1]
[3] "H-0000000000000011"[1]
Switch 3 "S-0000000000000002" # "leaf2"
[1] "S-0000000000000003"[2]
[2] "S-0000000000000004"[2]
[3] "H-0000000000000012"[1]
Switch 2 "S-0000000000000003" # "spine1"
[1] "S-0000000000000001"[1]
[2] "S-0000000000000002"[1]
Switch 2 "S-0000000000000004" # "spine2"
[1] "S-0000000000000001"[2]
[2] "S-0000000000000002"[2]
Ca 1 "H-0000000000000011" # "h0"
[1] "S-0000000000000001"[3]
Ca 1 "H-0000000000000012" # "h1"
[1] "S-0000000000000002"[3]
"#;

    fn state(entries: &[(u32, u8, u16, &[u8])]) -> TableState {
        entries
            .iter()
            .map(|&(switch, in_port, color, out)| TableEntry {
                switch: SwitchId(switch),
                in_port,
                color,
                out: out.iter().copied().collect(),
            })
            .collect()
    }

    /// Senders that all keep their tree, or none.
    struct Kept(bool);

    impl Senders for Kept {
        fn are_kept(&self, _: EntryPoint) -> bool {
            self.0
        }

        fn are_leaving(&self, _: EntryPoint) -> bool {
            false
        }
    }

    struct Leaving;

    impl Senders for Leaving {
        fn are_kept(&self, _: EntryPoint) -> bool {
            false
        }

        fn are_leaving(&self, _: EntryPoint) -> bool {
            true
        }
    }

    /// Found by the simulation: a switch came back empty, got the entries of other groups, and a
    /// group that had its tree there again was led to their endpoints.
    #[test]
    fn an_entry_that_senders_count_on_is_given_to_no_other_tree_while_it_is_empty() {
        let graph = ibnetdiscover::read(FABRIC).unwrap();
        let tables = tables(&[], &[(0, 3, 5, &[1]), (0, 1, 5, &[3])]);
        let additions = tables.additions(&graph, &Leaving);
        assert_eq!(additions[&SwitchId(0)].len(), 1, "where no endpoint sends");
        let swap = [Write { in_port: 3, color: 5, out: PortSet::single(1) }];
        assert_eq!(tables.swaps(&graph, &Leaving)[&SwitchId(0)], swap);
        assert_eq!(tables.additions(&graph, &Kept(false))[&SwitchId(0)].len(), 2);
    }

    fn tables(held: &[(u32, u8, u16, &[u8])], desired: &[(u32, u8, u16, &[u8])]) -> Tables {
        Tables::new(state(held), state(desired))
    }

    fn apply(tables: &mut Tables, writes: &Writes) {
        for (&switch, writes) in writes {
            tables.record(switch, writes);
        }
    }

    #[test]
    fn a_growing_entry_keeps_its_branches_and_a_leaving_one_goes_last() {
        let graph = ibnetdiscover::read(FABRIC).unwrap();
        let mut tables = tables(&[(2, 1, 5, &[2]), (2, 2, 5, &[1])], &[(2, 1, 6, &[2])]);
        let additions = tables.additions(&graph, &Kept(true));
        apply(&mut tables, &additions);
        assert_eq!(tables.held, state(&[(2, 1, 5, &[2]), (2, 2, 5, &[1]), (2, 1, 6, &[2])]));
        assert!(!tables.are_equal());
        let removals = tables.removals();
        apply(&mut tables, &removals);
        assert_eq!(tables.held, tables.desired);
        assert!(tables.are_equal());
        assert!(tables.additions(&graph, &Kept(true)).is_empty());
        assert!(tables.removals().is_empty());
    }

    #[test]
    fn desired_entries_are_covered_by_the_same_and_by_more_output_ports() {
        let held: &[(u32, u8, u16, &[u8])] = &[(1, 1, 5, &[2, 3]), (2, 1, 5, &[2])];
        let covers = |desired| tables(held, desired).covers_desired();
        assert!(covers(&[]) && covers(&[(1, 1, 5, &[3])]) && covers(held));
        assert!(!covers(&[(1, 1, 5, &[4])]) && !covers(&[(1, 1, 6, &[2])]));
        assert!(!covers(&[(2, 1, 5, &[2]), (3, 1, 5, &[2])]));
    }

    /// Found by the simulation: the new tree does not leave its leaf, so the old one was taken for
    /// the same.
    #[test]
    fn a_tree_of_one_leaf_does_not_share_an_entry_with_the_tree_before_it() {
        let graph = ibnetdiscover::read(FABRIC).unwrap();
        let held: &[(u32, u8, u16, &[u8])] = &[(0, 3, 5, &[1])];
        let grown = tables(held, &[(0, 3, 5, &[2, 1])]).additions(&graph, &Kept(false));
        assert_eq!(grown.len(), 1, "the ways up say that it is one tree");
        let tables = tables(held, &[(0, 3, 5, &[3])]);
        for (kept, phases) in [(true, (1, 0)), (false, (0, 1))] {
            let additions = tables.additions(&graph, &Kept(kept));
            let swaps = tables.swaps(&graph, &Kept(kept));
            assert_eq!((additions.len(), swaps.len()), phases, "kept: {kept}");
        }
    }

    /// Found by the simulation: what the new tree needs was there already, and so was a way up to
    /// strangers.
    #[test]
    fn a_tree_of_one_leaf_waits_until_the_way_up_of_the_tree_before_it_is_gone() {
        let graph = ibnetdiscover::read(FABRIC).unwrap();
        let tables = tables(&[(0, 3, 5, &[1, 4])], &[(0, 3, 5, &[4])]);
        assert!(tables.additions(&graph, &Kept(false)).is_empty());
        let swap = [Write { in_port: 3, color: 5, out: PortSet::single(4) }];
        assert_eq!(tables.swaps(&graph, &Kept(false))[&SwitchId(0)], swap);
        assert!(tables.swaps(&graph, &Kept(true)).is_empty(), "its own tree has become smaller");
    }

    #[test]
    fn an_endpoint_never_sends_up_two_trees_at_once() {
        let graph = ibnetdiscover::read(FABRIC).unwrap();
        let mut tables =
            tables(&[(0, 3, 5, &[1]), (0, 1, 5, &[3])], &[(0, 3, 5, &[2]), (0, 2, 5, &[3])]);
        let additions = tables.additions(&graph, &Kept(true));
        apply(&mut tables, &additions);
        assert_eq!(tables.held, state(&[(0, 3, 5, &[1]), (0, 1, 5, &[3]), (0, 2, 5, &[3])]));
        let swaps = tables.swaps(&graph, &Kept(true));
        assert_eq!(swaps[&SwitchId(0)], [Write { in_port: 3, color: 5, out: PortSet::single(2) }]);
        apply(&mut tables, &swaps);
        assert!(tables.swaps(&graph, &Kept(true)).is_empty());
        let removals = tables.removals();
        apply(&mut tables, &removals);
        assert!(tables.are_equal() && tables.held == tables.desired);
    }

    #[test]
    fn a_switch_at_rest_has_one_table_in_memory() {
        let mut tables = tables(&[(0, 3, 5, &[1])], &[(0, 3, 5, &[1, 4])]);
        let (at, writes) = (SwitchId(0), tables.removals());
        apply(&mut tables, &writes);
        assert!(Arc::ptr_eq(&tables.held.switches[&at], &tables.desired.switches[&at]));
        tables.record(at, &[Write { in_port: 3, color: 5, out: PortSet::single(2) }]);
        assert_eq!(tables.held, state(&[(0, 3, 5, &[2])]));
        assert_eq!(tables.desired, state(&[(0, 3, 5, &[1, 4])]));
    }

    proptest! {
        /// TABLES-1.
        #[test]
        fn differing_switches_follow_every_change(
            steps in prop::collection::vec((0..3u32, 0..3u8, 0..4u16, 0..3u8), 0..60),
        ) {
            let mut tables = Tables::default();
            for (switch, step, color, port) in steps {
                let switch = SwitchId(switch);
                let out = if port == 0 { PortSet::EMPTY } else { PortSet::single(port) };
                match step {
                    0 => tables.record(switch, &[Write { in_port: 1, color, out }]),
                    1 if port == 0 => tables.set_desired(switch, []),
                    1 => tables.set_desired(switch, [TableEntry { switch, in_port: 1, color, out }]),
                    _ => tables.forget(switch),
                }
                for switch in (0..3).map(SwitchId) {
                    let difference = tables.held.difference(&tables.desired, switch);
                    prop_assert_eq!(tables.difference(switch), difference);
                    let differs = difference != Difference::default();
                    prop_assert_eq!(tables.differing.contains(&switch), differs);
                    let lacks = difference.extra > 0 || difference.altered > 0;
                    prop_assert!(lacks || !tables.uncovered.contains(&switch));
                    prop_assert!(difference.extra == 0 || tables.uncovered.contains(&switch));
                    prop_assert_eq!(tables.altered.contains(&switch), lacks);
                }
                prop_assert_eq!(tables.are_equal(), tables.held == tables.desired);
            }
        }
    }
}
