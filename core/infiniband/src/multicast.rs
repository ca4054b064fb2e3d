//! A switch's multicast forwarding table and the blocks it is read and written in.
//!
//! Source: InfiniBand Architecture Specification, volume 1, §14.2.5.11. Entry `c` is the multicast
//! LID 0xC000 + c. A block holds 32 entries as masks of 16 ports; port 0 is the switch itself.

use fabricast_topology::PortSet;

use crate::smp::Data;

/// LID of entry 0.
pub const FIRST_MULTICAST_LID: u16 = 0xc000;
/// Table entries in a block.
pub const BLOCK_ENTRIES: u16 = 32;
/// Ports covered by a mask.
const MASK_PORTS: u16 = 16;

/// Position of a block in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockPlace {
    /// Entries 32 * this to 32 * this + 31.
    pub entries: u16,
    /// Ports 16 * this to 16 * this + 15.
    pub ports: u8,
}

impl BlockPlace {
    /// Returns the attribute modifier of the block.
    #[must_use]
    pub const fn modifier(self) -> u32 {
        (self.ports as u32) << 28 | self.entries as u32
    }
}

/// Content of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    /// Position in the table.
    pub place: BlockPlace,
    /// Port mask of each entry.
    pub masks: [u16; BLOCK_ENTRIES as usize],
}

impl Block {
    /// Decodes the content of a packet.
    #[must_use]
    pub fn read(place: BlockPlace, data: &Data) -> Self {
        let mut masks = [0; BLOCK_ENTRIES as usize];
        for (mask, pair) in masks.iter_mut().zip(data.chunks_exact(2)) {
            *mask = u16::from_be_bytes([pair[0], pair[1]]);
        }
        Self { place, masks }
    }

    /// Encodes the content of a packet.
    #[must_use]
    pub fn data(&self) -> Data {
        let mut data = [0; 64];
        for (mask, pair) in self.masks.iter().zip(data.chunks_exact_mut(2)) {
            pair.copy_from_slice(&mask.to_be_bytes());
        }
        data
    }
}

/// Multicast forwarding table of one switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MulticastTable {
    entries: Vec<PortSet>,
    mask_blocks: u8,
}

impl MulticastTable {
    /// Makes an empty table of `entries` entries for ports 0 to `ports`.
    #[must_use]
    pub fn new(entries: u16, ports: u8) -> Self {
        let mask_blocks = u8::try_from(u16::from(ports) / MASK_PORTS + 1).expect("at most 16");
        Self { entries: vec![PortSet::EMPTY; usize::from(entries)], mask_blocks }
    }

    /// Returns the number of entries that the table can hold.
    #[must_use]
    pub fn capacity(&self) -> u16 {
        u16::try_from(self.entries.len()).expect("made from 16 bits")
    }

    /// Returns the output ports of an entry; none beyond the end of the table.
    #[must_use]
    pub fn get(&self, entry: u16) -> PortSet {
        self.entries.get(usize::from(entry)).copied().unwrap_or(PortSet::EMPTY)
    }

    /// Lists the entries with output ports, ascending.
    pub fn used(&self) -> impl Iterator<Item = (u16, PortSet)> + '_ {
        (0u16..).zip(&self.entries).filter(|(_, out)| !out.is_empty()).map(|(at, out)| (at, *out))
    }

    /// Changes an entry.
    ///
    /// # Panics
    ///
    /// If the table has no such entry; callers check against [`Self::capacity`].
    pub fn set(&mut self, entry: u16, out: PortSet) {
        self.entries[usize::from(entry)] = out;
    }

    /// Lists all blocks.
    pub fn places(&self) -> impl Iterator<Item = BlockPlace> + use<> {
        let (blocks, masks) = (self.capacity().div_ceil(BLOCK_ENTRIES), self.mask_blocks);
        (0..blocks)
            .flat_map(move |entries| (0..masks).map(move |ports| BlockPlace { entries, ports }))
    }

    /// Lists the blocks that hold these entries, each once, ascending.
    #[must_use]
    pub fn places_of(&self, entries: impl IntoIterator<Item = u16>) -> Vec<BlockPlace> {
        let mut blocks: Vec<u16> = entries.into_iter().map(|entry| entry / BLOCK_ENTRIES).collect();
        blocks.sort_unstable();
        blocks.dedup();
        let masks = self.mask_blocks;
        let places = blocks.into_iter();
        places
            .flat_map(|entries| (0..masks).map(move |ports| BlockPlace { entries, ports }))
            .collect()
    }

    /// Extracts a block.
    #[must_use]
    pub fn block(&self, place: BlockPlace) -> Block {
        let mut masks = [0; BLOCK_ENTRIES as usize];
        for (entry, mask) in (place.entries * BLOCK_ENTRIES..).zip(&mut masks) {
            let out = self.get(entry);
            for bit in 0..MASK_PORTS {
                let port = u16::from(place.ports) * MASK_PORTS + bit;
                if u8::try_from(port).is_ok_and(|port| out.contains(port)) {
                    *mask |= 1 << bit;
                }
            }
        }
        Block { place, masks }
    }

    /// Stores a block; entries beyond the end of the table are ignored.
    pub fn put(&mut self, block: &Block) {
        let first = usize::from(block.place.entries * BLOCK_ENTRIES);
        for (out, mask) in self.entries.iter_mut().skip(first).zip(block.masks) {
            for bit in 0..MASK_PORTS {
                let port = u16::from(block.place.ports) * MASK_PORTS + bit;
                let Ok(port) = u8::try_from(port) else { continue };
                if mask & (1 << bit) == 0 {
                    out.remove(port);
                } else {
                    out.insert(port);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// §14.2.5.11: position in the upper four bits, block in the lower nine.
    #[test]
    fn the_modifier_names_block_and_position() {
        assert_eq!(BlockPlace { entries: 5, ports: 2 }.modifier(), 0x2000_0005);
        assert_eq!(BlockPlace { entries: 511, ports: 15 }.modifier(), 0xf000_01ff);
    }

    #[test]
    fn masks_are_big_endian_and_start_at_port_0() {
        let mut table = MulticastTable::new(64, 36);
        table.set(33, [1, 17, 36].into_iter().collect());
        let block = |ports| table.block(BlockPlace { entries: 1, ports }).data();
        assert_eq!(block(0)[..6], [0, 0, 0, 0b10, 0, 0]);
        assert_eq!(block(1)[..4], [0, 0, 0, 0b10]);
        assert_eq!(block(2)[..4], [0, 0, 0, 0b1_0000]);
        assert_eq!(table.places_of([33, 40, 2]).len(), 6);
        assert_eq!(table.places().count(), 6);
    }

    proptest! {
        #[test]
        fn a_table_comes_back_from_its_blocks(
            ports in 1u8..=254,
            entries in 1u16..100,
            rows in proptest::collection::vec((0u16..100, proptest::collection::vec(0u8..=254, 0..9)), 0..20),
        ) {
            let mut table = MulticastTable::new(entries, ports);
            for (entry, out) in rows.into_iter().filter(|(entry, _)| *entry < entries) {
                table.set(entry, out.into_iter().filter(|port| *port <= ports).collect());
            }
            let mut copy = MulticastTable::new(entries, ports);
            for place in table.places() {
                let block = table.block(place);
                copy.put(&Block::read(place, &block.data()));
            }
            prop_assert_eq!(copy, table);
        }
    }
}
