//! Changes tables behind the back of their writers, as a faulty switch does.

use fabricast_emulator::EntryWrite;
use fabricast_topology::{PortSet, SwitchId, TableEntry};

use crate::fabric::Fabric;

/// Empties the table of a switch. Returns the number of removed entries; `None` if the switch is
/// dead.
pub(crate) fn wipe(fabric: &Fabric, switch: SwitchId) -> Option<u32> {
    disturb(fabric, switch, |entries| {
        let gone = |entry: &TableEntry| changed(entry, PortSet::EMPTY);
        entries.iter().map(gone).collect()
    })
}

/// Changes `count` entries, spread over the table of a switch: port 1 becomes an output port where
/// it was none, and the other way round. Returns the number of changed entries; `None` if the
/// switch is dead.
pub(crate) fn corrupt(fabric: &Fabric, switch: SwitchId, count: u32) -> Option<u32> {
    let count = usize::try_from(count.max(1)).unwrap_or(usize::MAX);
    disturb(fabric, switch, |entries| {
        let step = entries.len().div_ceil(count).max(1);
        let first = PortSet::single(1);
        let turned = |entry: &TableEntry| match entry.out.difference(first) {
            // Without port 1 the entry would be empty, which means removed.
            rest if rest.is_empty() => changed(entry, PortSet::single(2)),
            rest if rest == entry.out => changed(entry, rest.union(first)),
            rest => changed(entry, rest),
        };
        entries.iter().step_by(step).map(turned).collect()
    })
}

const fn changed(entry: &TableEntry, out: PortSet) -> EntryWrite {
    EntryWrite { in_port: entry.in_port, color: entry.color, out }
}

fn disturb(
    fabric: &Fabric,
    switch: SwitchId,
    change: impl FnOnce(&[TableEntry]) -> Vec<EntryWrite>,
) -> Option<u32> {
    let mut core = fabric.core();
    let writes = change(&core.emulator.read_table(switch).ok()?);
    core.emulator.disturb_table(switch, &writes).ok()?;
    Some(u32::try_from(writes.len()).expect("a table has fewer entries"))
}
