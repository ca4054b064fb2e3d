//! What changes in the tables from one plan to the next.
//!
//! Plans that follow each other share the parts that did not change, so only changed parts are looked
//! at, in them only the virtual groups that differ, and of their trees only the switches that do.

use std::cmp::Ordering;

use fabricast_topology::{Graph, PortId, SwitchId, TableEntry, TableKind};

use super::{Run, SwitchTable, TableImage, key, runs};
use crate::plan::Plan;

/// The changes of one switch's table between two plans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchDiff {
    /// Rows to add.
    pub added: Vec<TableEntry>,
    /// Rows whose output ports change, as they become.
    pub changed: Vec<TableEntry>,
    /// Rows to remove, as they were.
    pub removed: Vec<TableEntry>,
}

/// Compares the tables of two plans of one engine; switches without changes are left out.
///
/// # Panics
///
/// If the plans are not of one engine.
#[must_use]
pub fn table_diff(graph: &Graph, before: &Plan, now: &Plan) -> Vec<(SwitchId, SwitchDiff)> {
    let tables = now.tables();
    let changes = changes(graph, before, now);
    let mut diffs = Vec::new();
    for changes in changes.chunk_by(|a, b| a.run.switch == b.run.switch) {
        let rows = |is_new: bool| {
            let of_side = changes.iter().filter(move |change| change.is_new == is_new);
            let mut rows: Vec<_> =
                of_side.flat_map(|change| change.run.rows(tables, change.color)).collect();
            rows.sort_unstable_by_key(key);
            rows
        };
        let diff = compare(&rows(false), &rows(true));
        if diff != SwitchDiff::default() {
            diffs.push((changes[0].run.switch, diff));
        }
    }
    diffs
}

/// Compares the rows of one switch, both sorted.
fn compare(before: &[TableEntry], now: &[TableEntry]) -> SwitchDiff {
    let mut diff = SwitchDiff::default();
    let (mut before, mut now) = (before.iter().peekable(), now.iter().peekable());
    loop {
        let order = match (before.peek(), now.peek()) {
            (None, None) => return diff,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => key(old).cmp(&key(new)),
        };
        let old = if order.is_le() { before.next() } else { None };
        let new = if order.is_ge() { now.next() } else { None };
        match (old, new) {
            (Some(old), Some(new)) if old.out != new.out => diff.changed.push(*new),
            (Some(old), None) => diff.removed.push(*old),
            (None, Some(new)) => diff.added.push(*new),
            (Some(_), Some(_)) | (None, None) => {}
        }
    }
}

/// The ports of a tree in a switch, which only one of two plans has.
#[derive(Clone, Copy, Debug)]
struct Change<'a> {
    run: Run<'a>,
    color: u16,
    is_new: bool,
}

/// Lists what only one of two plans has, rising by switch.
fn changes<'a>(graph: &'a Graph, before: &'a Plan, now: &'a Plan) -> Vec<Change<'a>> {
    let mut all = Vec::new();
    for part in now.changed_since(before) {
        let first = all.len();
        let mut old = before.virtual_groups_on(part).peekable();
        let mut new = now.virtual_groups_on(part).peekable();
        loop {
            let is_new = match (old.peek(), new.peek()) {
                (None, None) => break,
                (Some(a), Some(b)) if (a.id, a.color, a.ports) == (b.id, b.color, b.ports) => {
                    old.next();
                    new.next();
                    continue;
                }
                (Some(a), Some(b)) => a.id > b.id,
                (a, _) => a.is_none(),
            };
            let group = if is_new { new.next() } else { old.next() };
            let group = group.expect("it was there when it was peeked at");
            let change = |run| Change { run, color: group.color, is_new };
            all.extend(runs(graph, group.ports).map(change));
        }
        drop_pairs(&mut all, first);
    }
    all.sort_by_key(|change| change.run.switch);
    all
}

/// Drops what is there twice from `first` on: the old plan and the new one have it.
fn drop_pairs(all: &mut Vec<Change<'_>>, first: usize) {
    fn what<'a>(change: &Change<'a>) -> (&'a [PortId], u16) {
        (change.run.ports, change.color)
    }
    all[first..].sort_by(|a, b| what(a).cmp(&what(b)));
    let (mut kept, mut at) = (first, first);
    while at < all.len() {
        if at + 1 < all.len() && what(&all[at]) == what(&all[at + 1]) {
            at += 2;
        } else {
            all[kept] = all[at];
            (kept, at) = (kept + 1, at + 1);
        }
    }
    all.truncate(kept);
}

impl TableImage {
    /// Follows to another plan of the same engine and lists the switches whose rows changed, rising.
    ///
    /// Cost: the virtual groups that changed, and the rows of the switches where their trees did.
    ///
    /// # Panics
    ///
    /// If the plans are not of one engine.
    pub fn update(&mut self, graph: &Graph, plan: &Plan) -> Vec<SwitchId> {
        let before = std::mem::replace(&mut self.plan, plan.clone());
        let tables = plan.tables();
        let changes = changes(graph, &before, plan);
        let changed_ports: usize = changes.iter().map(|change| change.run.ports.len()).sum();
        if changed_ports > self.len() {
            return self.replace(Self::new(graph, plan));
        }
        let mut touched = Vec::new();
        for changes in changes.chunk_by(|a, b| a.run.switch == b.run.switch) {
            let switch = changes[0].run.switch;
            self.switches[switch.index()].change(changes, tables);
            touched.push(switch);
        }
        touched
    }

    /// Takes over all tables and lists the switches where they differ.
    fn replace(&mut self, now: Self) -> Vec<SwitchId> {
        let switches = self.switches.iter().zip(&now.switches);
        let differing = (0u32..).zip(switches).filter(|(_, (before, now))| before != now);
        let touched = differing.map(|(at, _)| SwitchId(at)).collect();
        *self = now;
        touched
    }
}

impl PartialEq for TableImage {
    /// Tells whether both hold the same rows, for whichever plans.
    fn eq(&self, other: &Self) -> bool {
        self.switches == other.switches
    }
}

impl Eq for TableImage {}

impl SwitchTable {
    /// Follows the changes of one switch.
    fn change(&mut self, changes: &[Change<'_>], tables: TableKind) {
        for change in changes.iter().filter(|change| !change.is_new) {
            let at = self.place(change, tables).expect("what goes was there");
            self.colors.remove(at);
            self.sets.drain(at * self.words..(at + 1) * self.words);
        }
        for change in changes.iter().filter(|change| change.is_new) {
            let at = self.place(change, tables).expect_err("what comes was not there");
            self.colors.insert(at, change.color);
            let words = change.run.set(tables).words();
            let at = at * self.words;
            self.sets.splice(at..at, words[..self.words].iter().copied());
        }
    }

    /// Finds a tree, or the place where it belongs.
    fn place(&self, change: &Change<'_>, tables: TableKind) -> Result<usize, usize> {
        let tree = (change.color, change.run.set(tables));
        let (mut first, mut end) = (0, self.colors.len());
        while first < end {
            let middle = usize::midpoint(first, end);
            match (self.colors[middle], self.set(middle)).cmp(&tree) {
                Ordering::Less => first = middle + 1,
                Ordering::Equal => return Ok(middle),
                Ordering::Greater => end = middle,
            }
        }
        Err(first)
    }
}
