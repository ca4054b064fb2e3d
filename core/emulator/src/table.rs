//! The multicast table of one switch.
//!
//! A row (one input port, or the whole switch) takes memory only while it holds an entry: a bit for
//! each color, and for each entry as many bits as the switch has ports, both rounded up to 64. A
//! full 40-port switch with 32 colors takes 11 KiB, 7 680 of them 88 MB. Most rows have few.

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

/// Entries of one row: first the colors that have one, as a set of bits, then the output ports of
/// each, by color. Without entries it is empty.
type Row = Vec<u64>;

/// Returns how many entries of a row have lower colors, as `Err` if the color itself has none.
///
/// - `colors`: the set of colors at the beginning of the row, or nothing.
fn place(colors: &[u64], color: u16) -> Result<usize, usize> {
    let (word, bit) = (usize::from(color / 64), color % 64);
    let Some(&own) = colors.get(word) else { return Err(0) };
    let before: u32 = colors[..word].iter().map(|bits| bits.count_ones()).sum();
    let lower = (before + (own & ((1_u64 << bit) - 1)).count_ones()) as usize;
    if (own >> bit) & 1 == 1 { Ok(lower) } else { Err(lower) }
}

impl SwitchTable {
    /// Makes an empty table.
    pub(crate) fn new(kind: TableKind, colors: u16, ports: u8) -> Self {
        let rows = match kind {
            TableKind::PerPort => usize::from(ports),
            TableKind::PerSwitch => 1,
        };
        let rows = vec![Row::new(); rows];
        Self { rows, kind, colors, ports, words: ports / 64 + 1, fence: Fence::default() }
    }

    /// Clears table and fence, as in a power cycle.
    pub(crate) fn clear(&mut self) {
        self.rows.fill(Row::new());
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

    /// Words of a row that are a set of colors.
    fn color_words(&self) -> usize {
        usize::from(self.colors).div_ceil(64)
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
        let (words, first) = (usize::from(self.words), self.color_words());
        let row = &mut self.rows[index];
        let out = entry.out.words();
        let (word, bit) = (usize::from(entry.color / 64), 1_u64 << (entry.color % 64));
        let found = place(row.get(..first).unwrap_or_default(), entry.color);
        let (Ok(at) | Err(at)) = found;
        let start = first + at * words;
        match (found.is_ok(), entry.out.is_empty()) {
            (true, false) => row[start..start + words].copy_from_slice(&out[..words]),
            (true, true) => {
                row[word] &= !bit;
                row[start..].rotate_left(words);
                row.truncate(row.len() - words);
                if row.len() == first {
                    *row = Row::new();
                }
            }
            (false, false) => {
                if row.is_empty() {
                    row.resize(first, 0);
                }
                if row.capacity() < row.len() + words {
                    // Twice the room would be wasted on most rows, which have few entries.
                    row.reserve_exact(words.max(row.len() / 8));
                }
                row[word] |= bit;
                row.extend_from_slice(&out[..words]);
                row[start..].rotate_right(words);
            }
            (false, true) => {}
        }
    }

    /// Finds the output ports of a packet, port n in bit n; empty if there is no entry.
    ///
    /// `in_port` is the port that received the packet, also for per-switch tables.
    pub(crate) fn lookup(&self, in_port: u8, color: u16) -> &[u64] {
        let (words, first) = (usize::from(self.words), self.color_words());
        let row = &self.rows[self.row_index(in_port)];
        let Some((colors, outs)) = row.split_at_checked(first) else { return &[] };
        place(colors, color).map_or(&[], |at| &outs[at * words..(at + 1) * words])
    }

    /// Lists all entries by input port and color.
    pub(crate) fn read(&self, switch: SwitchId) -> Vec<TableEntry> {
        let first_port = u8::from(self.kind == TableKind::PerPort);
        let (words, first) = (usize::from(self.words), self.color_words());
        let mut entries = Vec::new();
        for (in_port, row) in (first_port..).zip(&self.rows) {
            let Some((colors, outs)) = row.split_at_checked(first) else { continue };
            let used = (0_u16..).zip(colors).flat_map(|(word, bits)| {
                let used = (0..64_u16).filter(move |bit| (*bits >> *bit) & 1 == 1);
                used.map(move |bit| word * 64 + bit)
            });
            for (color, slot) in used.zip(outs.chunks_exact(words)) {
                let mut bits = [0; 4];
                bits[..words].copy_from_slice(slot);
                entries.push(TableEntry { switch, in_port, color, out: PortSet::from_words(bits) });
            }
        }
        entries
    }

    /// Counts the unused entries of an input port; 0 for a port that does not exist.
    pub(crate) fn free(&self, in_port: u8) -> u16 {
        match self.check_in_port(in_port) {
            Ok(()) => {
                let row = &self.rows[self.row_index(in_port)];
                let used = row.len().saturating_sub(self.color_words()) / usize::from(self.words);
                self.colors - u16::try_from(used).unwrap_or(self.colors)
            }
            Err(_) => 0,
        }
    }

    /// Counts the bytes of heap memory in use.
    pub(crate) fn bytes(&self) -> usize {
        let rows = self.rows.len() * size_of::<Row>();
        rows + self.rows.iter().map(|row| row.capacity() * size_of::<u64>()).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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

    proptest::proptest! {
        #[test]
        fn a_table_holds_what_was_written_last(
            ports in proptest::sample::select(vec![3_u8, 64, 200]),
            writes in proptest::collection::vec((1..=3_u8, 0..130_u16, 0..4_u8), 0..300),
        ) {
            let mut table = SwitchTable::new(TableKind::PerPort, 130, ports);
            let mut model = BTreeMap::new();
            for (in_port, color, which) in writes {
                let out = [(1_u8, 1), (2, ports)].into_iter();
                let out = out.filter(|(bit, _)| which & *bit != 0);
                let out: PortSet = out.map(|(_, port)| port).collect();
                table.write(&EntryWrite { in_port, color, out });
                model.insert((in_port, color), out);
            }
            model.retain(|_, out| !out.is_empty());
            let read = table.read(SwitchId(0)).into_iter();
            let read = read.map(|entry| ((entry.in_port, entry.color), entry.out));
            let read: Vec<_> = read.collect();
            let all: Vec<_> = model.iter().map(|(key, out)| (*key, *out)).collect();
            proptest::prop_assert_eq!(read, all);
            for in_port in 1..=3 {
                for color in 0..140 {
                    let found = table.lookup(in_port, color);
                    let mut words = [0; 4];
                    words[..found.len()].copy_from_slice(found);
                    let out = model.get(&(in_port, color)).copied().unwrap_or_default();
                    proptest::prop_assert_eq!(PortSet::from_words(words), out);
                }
                let used = model.keys().filter(|(port, _)| *port == in_port).count();
                proptest::prop_assert_eq!(usize::from(table.free(in_port)), 130 - used);
            }
        }
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
