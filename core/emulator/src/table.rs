//! The multicast table of one switch.
//!
//! A row (one input port, or the whole switch) takes memory only while it holds an entry; an entry
//! takes as many bits as the switch has ports, rounded up to 64. A full 40-port switch with 32
//! colors holds 10 KiB, 7 680 of them 79 MB.

use fabricast_topology::{PortSet, SwitchId, TableEntry, TableKind};
use thiserror::Error;

/// Authority of a writer: a newer term beats an older one, within a term a newer generation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fence {
    /// Term of the route service's leader.
    pub term: u64,
    /// Generation of the plan.
    pub generation: u64,
}

/// One entry to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryWrite {
    /// Physical number of the input port; 0 in per-switch tables.
    pub in_port: u8,
    /// Number of the entry.
    pub color: u16,
    /// Physical numbers of the output ports; the empty set deletes the entry.
    pub out: PortSet,
}

/// Reason why an entry does not fit the switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EntryProblem {
    /// The table has no entry of that number.
    #[error("color {color} is not below {colors}")]
    Color {
        /// Color of the entry.
        color: u16,
        /// Entries of the table.
        colors: u16,
    },
    /// The switch has no such input port.
    #[error("input port {in_port} is not one of 1..={ports}")]
    InPort {
        /// Input port of the entry.
        in_port: u8,
        /// Ports of the switch.
        ports: u8,
    },
    /// A per-switch table has no input ports.
    #[error("input port {in_port} named for a per-switch table, which takes only 0")]
    InPortNotZero {
        /// Input port of the entry.
        in_port: u8,
    },
    /// The switch has no such output port.
    #[error("output port {out_port} is not one of 1..={ports}")]
    OutPort {
        /// First output port that the switch does not have.
        out_port: u8,
        /// Ports of the switch.
        ports: u8,
    },
}

/// Multicast table of one switch.
#[derive(Clone, Debug)]
pub(crate) struct SwitchTable {
    /// One row per input port, from port 1, or one for the whole switch.
    rows: Vec<Row>,
    kind: TableKind,
    colors: u16,
    ports: u8,
    /// 64-bit words of an entry; bit n stands for port n.
    words: u8,
    fence: Fence,
}

/// Entries of one row, by color; empty bits mean no entries.
#[derive(Clone, Debug, Default)]
struct Row {
    bits: Box<[u64]>,
    used: u16,
}

impl SwitchTable {
    /// Makes an empty table.
    pub(crate) fn new(kind: TableKind, colors: u16, ports: u8) -> Self {
        let rows = match kind {
            TableKind::PerPort => usize::from(ports),
            TableKind::PerSwitch => 1,
        };
        let rows = vec![Row::default(); rows];
        Self { rows, kind, colors, ports, words: ports / 64 + 1, fence: Fence::default() }
    }

    /// Clears table and fence, as in a power cycle.
    pub(crate) fn clear(&mut self) {
        self.rows.fill(Row::default());
        self.fence = Fence::default();
    }

    pub(crate) fn fence(&self) -> Fence {
        self.fence
    }

    pub(crate) fn set_fence(&mut self, fence: Fence) {
        self.fence = fence;
    }

    /// Checks an entry without writing it.
    pub(crate) fn check(&self, entry: &EntryWrite) -> Result<(), EntryProblem> {
        let EntryWrite { in_port, color, out } = *entry;
        let ports = self.ports;
        if color >= self.colors {
            return Err(EntryProblem::Color { color, colors: self.colors });
        }
        self.check_in_port(in_port)?;
        match out.iter().find(|port| *port == 0 || *port > ports) {
            Some(out_port) => Err(EntryProblem::OutPort { out_port, ports }),
            None => Ok(()),
        }
    }

    fn check_in_port(&self, in_port: u8) -> Result<(), EntryProblem> {
        match self.kind {
            TableKind::PerPort if in_port == 0 || in_port > self.ports => {
                Err(EntryProblem::InPort { in_port, ports: self.ports })
            }
            TableKind::PerSwitch if in_port != 0 => Err(EntryProblem::InPortNotZero { in_port }),
            TableKind::PerPort | TableKind::PerSwitch => Ok(()),
        }
    }

    fn row_index(&self, in_port: u8) -> usize {
        match self.kind {
            TableKind::PerPort => usize::from(in_port) - 1,
            TableKind::PerSwitch => 0,
        }
    }

    /// Writes an entry that [`Self::check`] has accepted.
    pub(crate) fn write(&mut self, entry: &EntryWrite) {
        let index = self.row_index(entry.in_port);
        let words = usize::from(self.words);
        let row = &mut self.rows[index];
        if row.bits.is_empty() {
            if entry.out.is_empty() {
                return;
            }
            row.bits = vec![0; usize::from(self.colors) * words].into();
        }
        let start = usize::from(entry.color) * words;
        let slot = &mut row.bits[start..start + words];
        let was_used = slot.iter().any(|word| *word != 0);
        slot.copy_from_slice(&entry.out.words()[..words]);
        match (was_used, entry.out.is_empty()) {
            (false, false) => row.used += 1,
            (true, true) => row.used -= 1,
            (false, true) | (true, false) => {}
        }
        if row.used == 0 {
            *row = Row::default();
        }
    }

    /// Finds the output ports of a packet, port n in bit n; empty if there is no entry.
    ///
    /// `in_port` is the port that received the packet, also for per-switch tables.
    pub(crate) fn lookup(&self, in_port: u8, color: u16) -> &[u64] {
        let words = usize::from(self.words);
        let start = usize::from(color) * words;
        self.rows[self.row_index(in_port)].bits.get(start..start + words).unwrap_or_default()
    }

    /// Lists all entries by input port and color.
    pub(crate) fn read(&self, switch: SwitchId) -> Vec<TableEntry> {
        let first_port = u8::from(self.kind == TableKind::PerPort);
        let words = usize::from(self.words);
        let mut entries = Vec::new();
        for (in_port, row) in (first_port..).zip(&self.rows) {
            for (color, slot) in (0_u16..).zip(row.bits.chunks_exact(words)) {
                let mut bits = [0; 4];
                bits[..words].copy_from_slice(slot);
                let out = PortSet::from_words(bits);
                if !out.is_empty() {
                    entries.push(TableEntry { switch, in_port, color, out });
                }
            }
        }
        entries
    }

    /// Counts the unused entries of an input port; 0 for a port that does not exist.
    pub(crate) fn free(&self, in_port: u8) -> u16 {
        match self.check_in_port(in_port) {
            Ok(()) => self.colors - self.rows[self.row_index(in_port)].used,
            Err(_) => 0,
        }
    }

    /// Counts the bytes of heap memory in use.
    pub(crate) fn bytes(&self) -> usize {
        let rows = self.rows.len() * size_of::<Row>();
        rows + self.rows.iter().map(|row| row.bits.len() * size_of::<u64>()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(ports: u8, colors: u16) -> SwitchTable {
        let mut table = SwitchTable::new(TableKind::PerPort, colors, ports);
        for in_port in 1..=ports {
            for color in 0..colors {
                table.write(&EntryWrite { in_port, color, out: (1..=ports).collect() });
            }
        }
        table
    }

    #[test]
    fn full_tables_of_a_large_machine_fit_in_memory() {
        let table = full(40, 32);
        assert_eq!(table.read(SwitchId(0)).len(), 40 * 32);
        assert_eq!(table.free(1), 0);
        assert!(7_680 * table.bytes() < 100_000_000, "{} bytes", table.bytes());
    }

    #[test]
    fn deleted_entries_give_their_memory_back() {
        let mut table = full(36, 4);
        for entry in table.read(SwitchId(0)) {
            let out = PortSet::EMPTY;
            table.write(&EntryWrite { in_port: entry.in_port, color: entry.color, out });
        }
        assert_eq!(table.bytes(), SwitchTable::new(TableKind::PerPort, 4, 36).bytes());
        assert_eq!(table.free(36), 4);
    }

    #[test]
    fn the_last_port_of_the_largest_switch_can_be_used() {
        let mut table = SwitchTable::new(TableKind::PerPort, 1, 255);
        let entry = EntryWrite { in_port: 255, color: 0, out: PortSet::single(255) };
        assert_eq!(table.check(&entry), Ok(()));
        table.write(&entry);
        assert_eq!(table.lookup(255, 0), [0, 0, 0, 1 << 63]);
    }
}
