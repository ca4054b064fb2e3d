//! Entries of multicast tables, in the terms that routing and switches share.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::ids::SwitchId;

/// Key of a switch's multicast table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TableKind {
    /// One table for every input port (Sunway).
    #[default]
    PerPort,
    /// One table for the whole switch (InfiniBand); a copy never goes back out of its input port.
    PerSwitch,
}

/// One table row: where copies of a packet of `color` go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableEntry {
    /// The switch that holds the row.
    pub switch: SwitchId,
    /// The port the packet came in by; 0 in per-switch tables.
    pub in_port: u8,
    /// The entry number.
    pub color: u16,
    /// Physical output ports.
    pub out: PortSet,
}

/// A set of physical port numbers, 0 to 255; serialized as the list of its ports.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "Vec<u8>", into = "Vec<u8>")]
pub struct PortSet([u64; 4]);

impl PortSet {
    /// The set with nothing in it.
    pub const EMPTY: Self = Self([0; 4]);

    /// Makes the set of one port.
    #[must_use]
    pub const fn single(port: u8) -> Self {
        let mut set = Self::EMPTY;
        set.insert(port);
        set
    }

    /// Adds a port.
    pub const fn insert(&mut self, port: u8) {
        self.0[(port >> 6) as usize] |= 1 << (port & 63);
    }

    /// Takes a port out.
    pub const fn remove(&mut self, port: u8) {
        self.0[(port >> 6) as usize] &= !(1 << (port & 63));
    }

    /// Returns whether a port is in the set.
    #[must_use]
    pub const fn contains(&self, port: u8) -> bool {
        self.0[(port >> 6) as usize] >> (port & 63) & 1 == 1
    }

    /// Returns whether the set has no port.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0[0] | self.0[1] | self.0[2] | self.0[3] == 0
    }

    /// Counts the ports, 0 to 256.
    #[must_use]
    pub const fn len(&self) -> u32 {
        self.0[0].count_ones()
            + self.0[1].count_ones()
            + self.0[2].count_ones()
            + self.0[3].count_ones()
    }

    /// Gives this set less one port: the usual output set for packets from that port.
    #[must_use]
    pub const fn without(mut self, port: u8) -> Self {
        self.remove(port);
        self
    }

    /// Returns the ports that are in either set.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    /// Returns the ports that are in both sets.
    #[must_use]
    pub fn intersection(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & other.0[word]))
    }

    /// Returns the ports of this set that are not in the other.
    #[must_use]
    pub fn difference(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] & !other.0[word]))
    }

    /// Returns the raw bits, port 0 in the lowest bit of the first word.
    #[must_use]
    pub const fn words(&self) -> [u64; 4] {
        self.0
    }

    /// Makes a set of raw bits as [`PortSet::words`] gives them.
    #[must_use]
    pub const fn from_words(words: [u64; 4]) -> Self {
        Self(words)
    }

    /// Iterates over the ports in rising order.
    pub fn iter(&self) -> impl Iterator<Item = u8> + use<> {
        let words = self.0;
        (0u8..4).flat_map(move |word| {
            let mut bits = words[usize::from(word)];
            std::iter::from_fn(move || {
                let bit = u8::try_from(bits.trailing_zeros()).expect("at most 64");
                (bits != 0).then(|| {
                    bits &= bits - 1;
                    word * 64 + bit
                })
            })
        })
    }
}

impl From<Vec<u8>> for PortSet {
    fn from(ports: Vec<u8>) -> Self {
        ports.into_iter().collect()
    }
}

impl From<PortSet> for Vec<u8> {
    fn from(set: PortSet) -> Self {
        set.iter().collect()
    }
}

impl FromIterator<u8> for PortSet {
    fn from_iter<I: IntoIterator<Item = u8>>(ports: I) -> Self {
        let mut set = Self::EMPTY;
        set.extend(ports);
        set
    }
}

impl Extend<u8> for PortSet {
    fn extend<I: IntoIterator<Item = u8>>(&mut self, ports: I) {
        for port in ports {
            self.insert(port);
        }
    }
}

impl fmt::Debug for PortSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    proptest::proptest! {
        #[test]
        fn a_port_set_is_a_set(a: BTreeSet<u8>, b: BTreeSet<u8>, port: u8) {
            let (left, right) = (PortSet::from_iter(a.clone()), PortSet::from_iter(b.clone()));
            proptest::prop_assert!(left.iter().eq(a.iter().copied()));
            proptest::prop_assert_eq!(left.len() as usize, a.len());
            proptest::prop_assert_eq!(left.is_empty(), a.is_empty());
            proptest::prop_assert_eq!(left.contains(port), a.contains(&port));
            proptest::prop_assert!(left.union(right).iter().eq(a.union(&b).copied()));
            proptest::prop_assert!(left.intersection(right).iter().eq(a.intersection(&b).copied()));
            proptest::prop_assert!(left.difference(right).iter().eq(a.difference(&b).copied()));
            proptest::prop_assert!(!left.without(port).contains(port));
            proptest::prop_assert_eq!(PortSet::from_words(left.words()), left);
        }
    }
}
