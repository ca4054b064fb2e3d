//! Switches that misbehave on demand: tables that change by themselves, writes that are slow or fail.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use fabricast_emulator::EntryWrite;
use fabricast_proto::v1;
use fabricast_topology::{PortSet, SwitchId, TableEntry};

use crate::fabric::Fabric;

/// The longest that a write can be made to take.
const LONGEST_DELAY: Duration = Duration::from_secs(60);

/// How switches take writes; those that are not here take them as they should.
#[derive(Debug, Default)]
pub(crate) struct Programming {
    by_switch: Mutex<BTreeMap<SwitchId, Manner>>,
}

#[derive(Clone, Copy, Debug)]
struct Manner {
    delay: Duration,
    fails: bool,
}

impl Programming {
    /// Sets how a switch takes writes from now on.
    pub(crate) fn set(&self, switch: SwitchId, asked: v1::Programming) {
        let delay = asked.delay.and_then(|delay| Duration::try_from(delay).ok());
        let delay = delay.unwrap_or_default().min(LONGEST_DELAY);
        let mut by_switch = self.by_switch.lock().expect("nothing panics under the lock");
        if asked.fails || !delay.is_zero() {
            by_switch.insert(switch, Manner { delay, fails: asked.fails });
        } else {
            by_switch.remove(&switch);
        }
    }

    /// How long a write to some switches takes: as long as to the slowest.
    pub(crate) fn delay(&self, switches: impl Iterator<Item = SwitchId>) -> Duration {
        let by_switch = self.by_switch.lock().expect("nothing panics under the lock");
        switches.filter_map(|at| Some(by_switch.get(&at)?.delay)).max().unwrap_or_default()
    }

    /// Whether a switch takes no writes.
    pub(crate) fn fails(&self, switch: SwitchId) -> bool {
        let by_switch = self.by_switch.lock().expect("nothing panics under the lock");
        by_switch.get(&switch).is_some_and(|manner| manner.fails)
    }
}

/// Empties a table; `None` if the switch is dead, else how many entries are gone.
pub(crate) fn wipe(fabric: &Fabric, switch: SwitchId) -> Option<u32> {
    disturb(fabric, switch, |entries| {
        let gone = |entry: &TableEntry| changed(entry, PortSet::EMPTY);
        entries.iter().map(gone).collect()
    })
}

/// Lets entries, spread over the table, lead to port 1 where they did not, and no more where they did; `None`
/// if the switch is dead, else how many changed.
pub(crate) fn corrupt(fabric: &Fabric, switch: SwitchId, count: u32) -> Option<u32> {
    let count = usize::try_from(count.max(1)).unwrap_or(usize::MAX);
    disturb(fabric, switch, |entries| {
        let step = entries.len().div_ceil(count).max(1);
        let first = PortSet::single(1);
        let turned = |entry: &TableEntry| match entry.out.difference(first) {
            // With port 1 the entry would be gone, and that is another disturbance.
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
