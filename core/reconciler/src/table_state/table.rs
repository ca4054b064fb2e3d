//! The entries of one switch.

use fabricast_topology::PortSet;

use super::Write;

/// Input port (0 for per-switch tables) and color of an entry.
type Key = (u8, u16);

/// Most writes that are applied one by one; more are applied in one pass over the table.
const FEW: usize = 8;

/// Entries ascending by input port and color. A vector, because a table is read as a whole more
/// often than it changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Table(Vec<(Key, PortSet)>);

impl Table {
    pub(super) const EMPTY: Self = Self(Vec::new());

    /// Makes a table of entries that rise by input port and color; those without output ports are
    /// left out.
    pub(super) fn of_rising(entries: impl Iterator<Item = Write>) -> Self {
        let entries = entries.filter(|write| !write.out.is_empty());
        let mut rows: Vec<_> =
            entries.map(|write| ((write.in_port, write.color), write.out)).collect();
        rows.shrink_to_fit(); // it stays, and its length was not known
        debug_assert!(rows.is_sorted_by(|a, b| a.0 < b.0), "entries rise");
        Self(rows)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Output ports of an entry; none if there is no such entry.
    pub(super) fn out(&self, in_port: u8, color: u16) -> PortSet {
        self.place((in_port, color)).map_or(PortSet::EMPTY, |at| self.0[at].1)
    }

    /// Applies a write.
    pub(super) fn record(&mut self, write: &Write) {
        let key = (write.in_port, write.color);
        match (self.place(key), write.out.is_empty()) {
            (Ok(at), true) => drop(self.0.remove(at)),
            (Ok(at), false) => self.0[at].1 = write.out,
            (Err(_), true) => {}
            (Err(at), false) => self.0.insert(at, (key, write.out)),
        }
    }

    /// Applies many writes, in their order.
    pub(super) fn record_all(&mut self, writes: &[Write]) {
        if writes.len() <= FEW {
            return writes.iter().for_each(|write| self.record(write));
        }
        self.0.extend(writes.iter().map(|write| ((write.in_port, write.color), write.out)));
        // Stable, so that the later of two writes comes last; fast on sorted runs.
        self.0.sort_by_key(|(key, _)| *key);
        self.0.dedup_by(|later, earlier| {
            let is_same = later.0 == earlier.0;
            if is_same {
                earlier.1 = later.1;
            }
            is_same
        });
        self.0.retain(|(_, out)| !out.is_empty());
    }

    /// Input port, color and output ports of all entries.
    pub(super) fn rows(&self) -> impl Iterator<Item = (u8, u16, PortSet)> {
        self.0.iter().map(|((in_port, color), out)| (*in_port, *color, *out))
    }

    /// All entries, each with the output ports that another table has there: input port, color, own
    /// ports, other ports. Cost: linear in the sizes of both tables.
    pub(super) fn beside(&self, other: &Self) -> impl Iterator<Item = (u8, u16, PortSet, PortSet)> {
        let mut others = other.0.iter().peekable();
        self.0.iter().map(move |(key, out)| {
            while others.next_if(|(other, _)| other < key).is_some() {}
            let there = others.next_if(|(other, _)| other == key);
            (key.0, key.1, *out, there.map_or(PortSet::EMPTY, |(_, out)| *out))
        })
    }

    /// Index of an entry, or the index at which to insert it.
    fn place(&self, key: Key) -> Result<usize, usize> {
        match self.0.last() {
            Some((last, _)) if *last >= key => self.0.binary_search_by_key(&key, |(key, _)| *key),
            Some(_) | None => Err(self.0.len()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn write(in_port: u8, color: u16, port: u8) -> Write {
        let out = if port == 0 { PortSet::EMPTY } else { PortSet::single(port) };
        Write { in_port, color, out }
    }

    proptest! {
        #[test]
        fn many_writes_at_once_equal_the_same_writes_one_by_one(
            rows in prop::collection::vec((0..4u8, 0..6u16, 0..3u8), 0..60),
            cut in 0..60usize,
        ) {
            let writes: Vec<Write> = rows.into_iter().map(|(in_port, color, port)| write(in_port, color, port)).collect();
            let mut one_by_one = Table::default();
            writes.iter().for_each(|write| one_by_one.record(write));
            let mut together = Table::default();
            let (first, second) = writes.split_at(cut.min(writes.len()));
            together.record_all(first);
            together.record_all(second);
            prop_assert_eq!(&together, &one_by_one);
            prop_assert!(together.0.is_sorted_by(|a, b| a.0 < b.0));
            for (in_port, color, out) in together.rows() {
                prop_assert_eq!(together.out(in_port, color), out);
            }
        }

        #[test]
        fn beside_gives_the_ports_that_each_table_has_alone(
            one in prop::collection::vec((0..4u8, 0..6u16, 1..3u8), 0..20),
            other in prop::collection::vec((0..4u8, 0..6u16, 1..3u8), 0..20),
        ) {
            let table = |rows: Vec<(u8, u16, u8)>| {
                let mut table = Table::default();
                table.record_all(&rows.into_iter().map(|(i, c, port)| write(i, c, port)).collect::<Vec<_>>());
                table
            };
            let (one, other) = (table(one), table(other));
            let both: Vec<_> = one.beside(&other).collect();
            let alone = one.rows().map(|(i, c, out)| (i, c, out, other.out(i, c)));
            prop_assert_eq!(both, alone.collect::<Vec<_>>());
        }
    }
}
