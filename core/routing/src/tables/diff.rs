//! Difference between the tables of two plans.
//!
//! Plans that follow each other share the parts that did not change, so only changed parts are
//! looked at, in them only the virtual groups that differ, and of their trees only the switches
//! that do.

use std::cmp::Ordering;
use std::iter::Peekable;

use fabricast_topology::{Graph, PortId, SwitchId, TableKind};

use super::{Run, SwitchTable, TableImage, runs};
use crate::plan::{Plan, VirtualGroup};

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
        for tree in 0..2 {
            let old = before.virtual_groups_on(part, tree).peekable();
            let new = now.virtual_groups_on(part, tree).peekable();
            each_difference([old, new], |old, new| match (old, new) {
                (Some(old), Some(new)) if old.color == new.color => {
                    push_differing_runs(graph, &old, &new, &mut all);
                }
                (old, new) => {
                    for (group, is_new) in [(old, false), (new, true)] {
                        let Some(VirtualGroup { color, ports, .. }) = group else { continue };
                        let change = |run| Change { run, color, is_new };
                        all.extend(runs(graph, ports).map(change));
                    }
                }
            });
        }
    }
    drop_pairs(&mut all);
    all.sort_by_key(|change| change.run.switch);
    all
}

/// Walks the trees of a part that are not the same in two plans, the old one beside the new one.
fn each_difference<'a, I: Iterator<Item = VirtualGroup<'a>>>(
    [mut old, mut new]: [Peekable<I>; 2],
    mut each: impl FnMut(Option<VirtualGroup<'a>>, Option<VirtualGroup<'a>>),
) {
    loop {
        let next = match (old.peek(), new.peek()) {
            (None, None) => break,
            (Some(a), Some(b)) => a.id.cmp(&b.id),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
        };
        let before = old.next_if(|_| next.is_le());
        let now = new.next_if(|_| next.is_ge());
        match (before, now) {
            (Some(a), Some(b)) if (a.color, a.ports) == (b.color, b.ports) => {}
            (before, now) => each(before, now),
        }
    }
}

/// Lists the ports of two trees in the switches where they differ.
fn push_differing_runs<'a>(
    graph: &'a Graph,
    old: &VirtualGroup<'a>,
    new: &VirtualGroup<'a>,
    all: &mut Vec<Change<'a>>,
) {
    let mut before = runs(graph, old.ports).peekable();
    let mut now = runs(graph, new.ports).peekable();
    loop {
        let next = match (before.peek(), now.peek()) {
            (None, None) => break,
            (Some(a), Some(b)) => a.switch.cmp(&b.switch),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
        };
        let gone = before.next_if(|_| next.is_le());
        let come = now.next_if(|_| next.is_ge());
        if gone != come {
            let change = |run, is_new| Change { run, color: new.color, is_new };
            all.extend(gone.map(|run| change(run, false)));
            all.extend(come.map(|run| change(run, true)));
        }
    }
}

/// Drops what is there twice: the old plan and the new one have it, be it for another part.
fn drop_pairs(all: &mut Vec<Change<'_>>) {
    fn what<'a>(change: &Change<'a>) -> (&'a [PortId], u16) {
        (change.run.ports, change.color)
    }
    all.sort_by(|a, b| what(a).cmp(&what(b)));
    let (mut kept, mut at) = (0, 0);
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
    /// Follows to another plan of the same engine and lists the switches whose rows changed,
    /// rising.
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
        let trees: usize = self.switches.iter().map(|table| table.colors.len()).sum();
        if changed_ports > trees {
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
