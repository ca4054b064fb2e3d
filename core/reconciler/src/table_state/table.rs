//! The entries of one switch.

use fabricast_topology::PortSet;

use super::Write;

/// Input port (0 for per-switch tables) and color of an entry.
type Key = (u8, u16);

/// Entries ascending by input port and color. Vectors, because a table is read as a whole more
/// often than it changes. An entry takes 12 bytes if no port of the switch has a number above 64.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    keys: Vec<Key>,
    outs: Outs,
}

/// Output ports, one set for each entry. The ports alone decide the form, so equal tables have
/// the same one.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outs {
    /// Ports 1 to 64, as bits.
    Low(Vec<u64>),
    /// Sets of any ports, for tables with others, too.
    All(Vec<PortSet>),
}

const fn key(write: &Write) -> Key {
    (write.in_port, write.color)
}

/// The ports 1 to 64 as bits; `None` if there are others.
const fn low_bits(out: PortSet) -> Option<u64> {
    let [first, second, third, fourth] = out.words();
    let others = (first & 1) | (second >> 1) | third | fourth;
    if others == 0 { Some((first >> 1) | (second << 63)) } else { None }
}

const fn of_low_bits(bits: u64) -> PortSet {
    PortSet::from_words([bits << 1, bits >> 63, 0, 0])
}

impl Outs {
    fn push(&mut self, out: PortSet) {
        let low = low_bits(out);
        if let (Self::Low(all), None) = (&*self, low) {
            let all = all.iter().map(|bits| of_low_bits(*bits)).collect();
            *self = Self::All(all);
        }
        match self {
            Self::Low(all) => all.extend(low),
            Self::All(all) => all.push(out),
        }
    }

    fn get(&self, at: usize) -> PortSet {
        match self {
            Self::Low(all) => of_low_bits(all[at]),
            Self::All(all) => all[at],
        }
    }

    fn shrink_to_fit(&mut self) {
        match self {
            Self::Low(all) => all.shrink_to_fit(),
            Self::All(all) => all.shrink_to_fit(),
        }
    }
}

impl Default for Table {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Table {
    pub(super) const EMPTY: Self = Self { keys: Vec::new(), outs: Outs::Low(Vec::new()) };

    /// Makes a table of entries that rise by input port and color; those without output ports are
    /// left out.
    pub(super) fn of_rising(entries: impl Iterator<Item = Write>) -> Self {
        let mut table = Self::EMPTY;
        entries.for_each(|entry| table.push(entry));
        table.shrunk()
    }

    /// Returns the table after many writes, in their order.
    pub(super) fn with(&self, writes: &[Write]) -> Self {
        let mut writes = writes.to_vec();
        // Stable, so that the later of two writes comes last; fast on sorted runs.
        writes.sort_by_key(key);
        writes.dedup_by(|later, earlier| {
            let is_same = key(later) == key(earlier);
            if is_same {
                earlier.out = later.out;
            }
            is_same
        });
        let mut writes = writes.into_iter().peekable();
        let mut table = Self::EMPTY;
        for (in_port, color, out) in self.rows() {
            let place = (in_port, color);
            while let Some(new) = writes.next_if(|write| key(write) < place) {
                table.push(new);
            }
            let changed = writes.next_if(|write| key(write) == place);
            table.push(changed.unwrap_or(Write { in_port, color, out }));
        }
        writes.for_each(|write| table.push(write));
        table.shrunk()
    }

    /// Adds an entry behind all others, unless it has no output ports.
    fn push(&mut self, entry: Write) {
        if !entry.out.is_empty() {
            debug_assert!(self.keys.last() < Some(&key(&entry)), "entries rise");
            self.keys.push(key(&entry));
            self.outs.push(entry.out);
        }
    }

    /// Gives memory back: a table stays, and its length was not known.
    fn shrunk(mut self) -> Self {
        self.keys.shrink_to_fit();
        self.outs.shrink_to_fit();
        self
    }

    pub(super) fn len(&self) -> usize {
        self.keys.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Output ports of an entry; none if there is no such entry.
    pub(super) fn out(&self, in_port: u8, color: u16) -> PortSet {
        let place = self.keys.binary_search(&(in_port, color));
        place.map_or(PortSet::EMPTY, |at| self.outs.get(at))
    }

    /// Input port, color and output ports of all entries.
    pub(super) fn rows(&self) -> impl Iterator<Item = (u8, u16, PortSet)> {
        let keys = self.keys.iter().enumerate();
        keys.map(|(at, (in_port, color))| (*in_port, *color, self.outs.get(at)))
    }

    /// All entries, each with the output ports that another table has there: input port, color, own
    /// ports, other ports. Cost: linear in the sizes of both tables.
    pub(super) fn beside(&self, other: &Self) -> impl Iterator<Item = (u8, u16, PortSet, PortSet)> {
        let mut others = other.rows().peekable();
        self.rows().map(move |(in_port, color, out)| {
            let place = (in_port, color);
            while others.next_if(|other| (other.0, other.1) < place).is_some() {}
            let there = others.next_if(|other| (other.0, other.1) == place);
            (in_port, color, out, there.map_or(PortSet::EMPTY, |(_, _, out)| out))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// - `which`: 0 for no port, or one of three ports.
    fn write(in_port: u8, color: u16, which: usize) -> Write {
        let out = [PortSet::EMPTY, PortSet::single(1), PortSet::single(64), PortSet::single(65)];
        Write { in_port, color, out: out[which] }
    }

    fn writes(rows: Vec<(u8, u16, usize)>) -> Vec<Write> {
        rows.into_iter().map(|(in_port, color, which)| write(in_port, color, which)).collect()
    }

    #[test]
    fn ports_1_to_64_take_8_bytes() {
        for port in 0..=u8::MAX {
            let low = low_bits(PortSet::single(port));
            assert_eq!(low.is_some(), (1..=64).contains(&port), "{port}");
            assert!(low.is_none_or(|low| of_low_bits(low) == PortSet::single(port)), "{port}");
        }
        let table = Table::EMPTY.with(&[write(1, 0, 2)]);
        assert_eq!(table.outs, Outs::Low(vec![1 << 63]));
    }

    proptest! {
        #[test]
        fn a_table_holds_what_was_written_last(
            rows in prop::collection::vec((0..4u8, 0..6u16, 0..4usize), 0..60),
            cut in 0..60usize,
        ) {
            let writes = writes(rows);
            let (first, second) = writes.split_at(cut.min(writes.len()));
            let table = Table::EMPTY.with(first).with(second);
            let one_by_one = writes.iter().fold(Table::EMPTY, |table, write| table.with(&[*write]));
            prop_assert_eq!(&table, &one_by_one);
            let mut model: BTreeMap<Key, PortSet> =
                writes.iter().map(|write| (key(write), write.out)).collect();
            for ((in_port, color), out) in &model {
                prop_assert_eq!(table.out(*in_port, *color), *out);
            }
            model.retain(|_, out| !out.is_empty());
            let rows: Vec<_> = table.rows().map(|(i, c, out)| ((i, c), out)).collect();
            prop_assert_eq!(rows, Vec::from_iter(model));
            let rising = table.rows().map(|(in_port, color, out)| Write { in_port, color, out });
            prop_assert_eq!(&Table::of_rising(rising), &table);
        }

        #[test]
        fn beside_gives_the_ports_that_each_table_has_alone(
            one in prop::collection::vec((0..4u8, 0..6u16, 1..4usize), 0..20),
            other in prop::collection::vec((0..4u8, 0..6u16, 1..4usize), 0..20),
        ) {
            let (one, other) = (Table::EMPTY.with(&writes(one)), Table::EMPTY.with(&writes(other)));
            let both: Vec<_> = one.beside(&other).collect();
            let alone = one.rows().map(|(i, c, out)| (i, c, out, other.out(i, c)));
            prop_assert_eq!(both, alone.collect::<Vec<_>>());
        }
    }
}
