//! What switches have to hold for a plan, and what changes between two such images.

use fabricast_topology::{Graph, PortId, PortSet, SwitchId, TableEntry, TableKind};

use crate::plan::{Plan, VirtualGroup};

/// Writes out all table rows of a plan, rising by switch, input port and color.
///
/// With per-port tables every port of a tree gets the other ports of the tree in its switch; with
/// per-switch tables a switch gets all of them in one row, and never sends back where a packet came from.
#[must_use]
pub fn table_entries(graph: &Graph, plan: &Plan) -> Vec<TableEntry> {
    let tables = plan.tables();
    // Colors rise from virtual group to virtual group, so that a place per table sorts the rows.
    let mut places = vec![0u32; graph.port_count() + 1];
    for group in plan.virtual_groups() {
        each_table(graph, tables, group.ports, |table| places[table + 1] += 1);
    }
    let mut count = 0;
    for place in &mut places {
        count += *place;
        *place = count;
    }
    let none = TableEntry { switch: SwitchId(0), in_port: 0, color: 0, out: PortSet::EMPTY };
    let mut entries = vec![none; count as usize];
    for group in plan.virtual_groups() {
        expand(graph, tables, &group, |entry| {
            let first = graph.port(entry.switch, entry.in_port.max(1)).expect("a port of the tree");
            let place = &mut places[first.index()];
            entries[*place as usize] = entry;
            *place += 1;
        });
    }
    entries
}

/// Names the tables a tree has rows in: its ports, or for per-switch tables the first ports of its switches.
fn each_table(graph: &Graph, tables: TableKind, ports: &[PortId], mut each: impl FnMut(usize)) {
    match tables {
        TableKind::PerPort => ports.iter().for_each(|port| each(port.index())),
        TableKind::PerSwitch => {
            for ports in ports.chunk_by(|a, b| graph.switch_of(*a) == graph.switch_of(*b)) {
                let first = graph.port(graph.switch_of(ports[0]), 1);
                each(first.expect("it has ports").index());
            }
        }
    }
}

/// Writes out the table rows of one virtual group, rising by switch and input port.
#[must_use]
pub fn virtual_group_entries(
    graph: &Graph,
    tables: TableKind,
    group: &VirtualGroup<'_>,
) -> Vec<TableEntry> {
    let mut entries = Vec::new();
    expand(graph, tables, group, |entry| entries.push(entry));
    entries
}

/// Writes out the table rows of a tree given by its switch ports, rising.
pub(crate) fn expand_ports(
    graph: &Graph,
    tables: TableKind,
    color: u16,
    ports: &[PortId],
    mut each: impl FnMut(TableEntry),
) {
    for ports in ports.chunk_by(|a, b| graph.switch_of(*a) == graph.switch_of(*b)) {
        let switch = graph.switch_of(ports[0]);
        let first = ports[0].0 + 1 - u32::from(graph.port_number(ports[0]));
        let number = |port: &PortId| {
            u8::try_from(port.0 + 1 - first).expect("a switch has at most 255 ports")
        };
        let all: PortSet = ports.iter().map(number).collect();
        match tables {
            TableKind::PerPort => {
                for in_port in ports.iter().map(number) {
                    each(TableEntry { switch, in_port, color, out: all.without(in_port) });
                }
            }
            TableKind::PerSwitch => each(TableEntry { switch, in_port: 0, color, out: all }),
        }
    }
}

fn expand(
    graph: &Graph,
    tables: TableKind,
    group: &VirtualGroup<'_>,
    each: impl FnMut(TableEntry),
) {
    expand_ports(graph, tables, group.color, group.ports, each);
}

/// The changes of one switch's table between two images.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SwitchDiff {
    /// Rows to add.
    pub added: Vec<TableEntry>,
    /// Rows whose output ports change, as they become.
    pub changed: Vec<TableEntry>,
    /// Rows to remove, as they were.
    pub removed: Vec<TableEntry>,
}

/// Compares two images, both sorted as [`table_entries`] gives them; switches without changes are left out.
#[must_use]
pub fn table_diff(before: &[TableEntry], now: &[TableEntry]) -> Vec<(SwitchId, SwitchDiff)> {
    let mut diffs: Vec<(SwitchId, SwitchDiff)> = Vec::new();
    let mut note = |entry: &TableEntry, list: fn(&mut SwitchDiff) -> &mut Vec<TableEntry>| {
        if diffs.last().is_none_or(|(switch, _)| *switch != entry.switch) {
            diffs.push((entry.switch, SwitchDiff::default()));
        }
        let (_, diff) = diffs.last_mut().expect("pushed above");
        list(diff).push(*entry);
    };
    let (mut before, mut now) = (before.iter().peekable(), now.iter().peekable());
    loop {
        let order = match (before.peek(), now.peek()) {
            (None, None) => return diffs,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some(old), Some(new)) => key(old).cmp(&key(new)),
        };
        let old = if order.is_le() { before.next() } else { None };
        let new = if order.is_ge() { now.next() } else { None };
        match (old, new) {
            (Some(old), Some(new)) if old.out != new.out => note(new, |diff| &mut diff.changed),
            (Some(old), None) => note(old, |diff| &mut diff.removed),
            (None, Some(new)) => note(new, |diff| &mut diff.added),
            (Some(_), Some(_)) | (None, None) => {}
        }
    }
}

pub(crate) const fn key(entry: &TableEntry) -> (u32, u8, u16) {
    (entry.switch.0, entry.in_port, entry.color)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn image() -> impl Strategy<Value = Vec<TableEntry>> {
        proptest::collection::btree_map((0u32..3, 0u8..3, 0u16..2), 0u8..4, 0..12).prop_map(
            |rows| {
                rows.into_iter()
                    .map(|((switch, in_port, color), out)| TableEntry {
                        switch: SwitchId(switch),
                        in_port,
                        color,
                        out: PortSet::single(out),
                    })
                    .collect()
            },
        )
    }

    proptest! {
        #[test]
        fn a_diff_turns_the_old_image_into_the_new_one(before in image(), now in image()) {
            let mut rows: BTreeMap<_, _> =
                before.iter().map(|entry| (key(entry), *entry)).collect();
            let mut last = None;
            for (switch, diff) in table_diff(&before, &now) {
                prop_assert!(last.replace(switch) < Some(switch));
                for entry in diff.removed {
                    prop_assert_eq!(rows.remove(&key(&entry)), Some(entry));
                }
                for entry in diff.changed {
                    let old = rows.insert(key(&entry), entry);
                    prop_assert!(old.is_some_and(|old| old.out != entry.out));
                }
                for entry in diff.added {
                    prop_assert_eq!(rows.insert(key(&entry), entry), None);
                }
            }
            prop_assert_eq!(rows.into_values().collect::<Vec<_>>(), now);
        }
    }
}
