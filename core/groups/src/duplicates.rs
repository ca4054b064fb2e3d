//! Drops repeated copies of packets.
//!
//! With fault tolerance every packet arrives over two trees (C-MR4LMS §3.4). A sender numbers its
//! packets in a group from 1. A receiver keeps, for every sender, the highest number and a bitmap
//! of the [`WINDOW`] numbers below it. A packet that is further behind counts as a copy: the second
//! of two trees is never that late.

use std::collections::BTreeMap;

use crate::names::EndpointName;
use fabricast_topology::Mgid;

/// Numbers below the highest one that are remembered individually.
pub const WINDOW: u64 = 1024;

/// Limit on remembered senders; beyond it the one silent for longest is removed.
const SENDERS: usize = 16_384;

/// Receiving endpoint, group, and incarnation of the sender.
type Stream = (EndpointName, Mgid, u64);

/// Packet numbers received so far, by stream.
#[derive(Clone, Debug, Default)]
pub struct Duplicates {
    streams: BTreeMap<Stream, (u64, Window)>, // with the turn in which they were heard last
    turns: BTreeMap<u64, Stream>,
    turn: u64,
}

impl Duplicates {
    /// Returns whether a packet is the first one with its number, and records it.
    ///
    /// - `source`: incarnation of the sender; 0 for senders that do not number their packets, which
    ///   are never copies.
    ///
    /// Cost: logarithmic in the streams.
    pub fn is_first(
        &mut self,
        endpoint: &EndpointName,
        mgid: Mgid,
        source: u64,
        number: u64,
    ) -> bool {
        if source == 0 {
            return true;
        }
        self.turn += 1;
        let stream = (endpoint.clone(), mgid, source);
        let (heard, window) = self.streams.entry(stream.clone()).or_default();
        self.turns.remove(heard);
        *heard = self.turn;
        let is_first = window.take(number);
        self.turns.insert(self.turn, stream);
        if self.streams.len() > SENDERS
            && let Some((_, silent)) = self.turns.pop_first()
        {
            self.streams.remove(&silent);
        }
        is_first
    }
}

/// Numbers received from one sender.
#[derive(Clone, Debug, Default)]
struct Window {
    highest: u64,
    seen: [u64; (WINDOW / 64) as usize], // a bit for each number, modulo the window
}

impl Window {
    fn take(&mut self, number: u64) -> bool {
        if number > self.highest {
            if number - self.highest >= WINDOW {
                self.seen.fill(0);
            } else {
                (self.highest + 1..number).for_each(|skipped| self.set(skipped, false));
            }
            self.highest = number;
            self.set(number, true);
            return true;
        }
        let is_first = self.highest - number < WINDOW && !self.get(number);
        if is_first {
            self.set(number, true);
        }
        is_first
    }

    const fn place(number: u64) -> (usize, u64) {
        let bit = number % WINDOW;
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    fn get(&self, number: u64) -> bool {
        let (word, bit) = Self::place(number);
        self.seen[word] & bit != 0
    }

    fn set(&mut self, number: u64, seen: bool) {
        let (word, bit) = Self::place(number);
        self.seen[word] = if seen { self.seen[word] | bit } else { self.seen[word] & !bit };
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn endpoint() -> EndpointName {
        EndpointName::new("h0").unwrap()
    }

    proptest! {
        /// Each number is let through once, however copies are mixed, as long as none is far
        /// behind.
        #[test]
        fn every_number_passes_once(start in 1u64..5000, steps in prop::collection::vec((0u64..40, 0u64..900), 1..300)) {
            let (mut duplicates, mut passed) = (Duplicates::default(), BTreeSet::new());
            let mut highest = start;
            for (ahead, behind) in steps {
                highest += ahead;
                for number in [highest, highest.saturating_sub(behind).max(1)] {
                    let is_first = duplicates.is_first(&endpoint(), Mgid(7), 9, number);
                    prop_assert_eq!(is_first, passed.insert(number), "number {}", number);
                }
            }
        }
    }

    #[test]
    fn a_packet_far_behind_counts_as_a_copy() {
        let mut duplicates = Duplicates::default();
        assert!(duplicates.is_first(&endpoint(), Mgid(7), 9, 5000));
        assert!(duplicates.is_first(&endpoint(), Mgid(7), 9, 5001 - WINDOW));
        assert!(!duplicates.is_first(&endpoint(), Mgid(7), 9, 5000 - WINDOW));
    }

    #[test]
    fn streams_are_separate_and_unnumbered_packets_always_pass() {
        let mut duplicates = Duplicates::default();
        for _ in 0..2 {
            assert!(duplicates.is_first(&endpoint(), Mgid(7), 0, 1));
        }
        let other = EndpointName::new("h1").unwrap();
        assert!(duplicates.is_first(&endpoint(), Mgid(7), 9, 1));
        assert!(duplicates.is_first(&endpoint(), Mgid(8), 9, 1));
        assert!(duplicates.is_first(&endpoint(), Mgid(7), 10, 1), "a sender that joined again");
        assert!(duplicates.is_first(&other, Mgid(7), 9, 1));
        assert!(!duplicates.is_first(&endpoint(), Mgid(7), 9, 1));
    }

    #[test]
    fn the_senders_silent_for_longest_are_forgotten() {
        let mut duplicates = Duplicates::default();
        let most = u64::try_from(SENDERS).unwrap();
        assert!(duplicates.is_first(&endpoint(), Mgid(7), 1, 1));
        assert!(duplicates.is_first(&endpoint(), Mgid(7), 2, 1));
        for source in 3..=most + 1 {
            assert!(duplicates.is_first(&endpoint(), Mgid(7), source, 1));
            assert!(!duplicates.is_first(&endpoint(), Mgid(7), 2, 1));
        }
        assert_eq!((duplicates.streams.len(), duplicates.turns.len()), (SENDERS, SENDERS));
        assert!(duplicates.is_first(&endpoint(), Mgid(7), 1, 1), "forgotten");
        assert!(!duplicates.is_first(&endpoint(), Mgid(7), 2, 1), "heard all the time");
    }
}
