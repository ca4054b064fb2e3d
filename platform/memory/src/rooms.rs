//! Who may write where: each side takes ranges of its own half of the memory, and lends them to the other.

use std::collections::BTreeMap;

use thiserror::Error;

/// Ranges that are taken at one time, at most: finding room looks at all of them.
const MOST_RANGES: usize = 1024;

/// The half of the memory that one side writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// The first half, of the process.
    Process,
    /// The second half, of the agent.
    Agent,
}

/// Some bytes of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Where they begin, in bytes from the start of the memory.
    pub offset: u64,
    /// How many they are.
    pub length: u64,
}

/// What is wrong with a range that the other side has named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RangeError {
    /// It begins outside the half of who named it.
    #[error("offset_bytes: {offset} is not in {start} to {end}")]
    Offset {
        /// As named.
        offset: u64,
        /// The first byte of the half.
        start: u64,
        /// The first byte after it.
        end: u64,
    },
    /// It ends outside.
    #[error("length_bytes: {length} from {offset} is more than there is, which ends at {end}")]
    Length {
        /// As named.
        length: u64,
        /// As named.
        offset: u64,
        /// The first byte after the half.
        end: u64,
    },
}

impl Half {
    /// The first byte, and the first after it, where each half has so many.
    fn bounds(self, half: u64) -> (u64, u64) {
        match self {
            Self::Process => (0, half),
            Self::Agent => (half, half.saturating_mul(2)),
        }
    }

    /// Checks a range that the side has named which writes this half.
    ///
    /// - `half`: bytes of each half.
    ///
    /// # Errors
    ///
    /// [`RangeError`] names the field; the peer is at fault.
    pub fn check(self, half: u64, range: Range) -> Result<(), RangeError> {
        let (start, end) = self.bounds(half);
        let Range { offset, length } = range;
        if offset < start || offset >= end {
            return Err(RangeError::Offset { offset, start, end });
        }
        if length > end - offset {
            return Err(RangeError::Length { length, offset, end });
        }
        Ok(())
    }
}

/// The ranges that one side has taken of its half.
#[derive(Clone, Debug)]
pub struct Rooms {
    start: u64,
    end: u64,
    taken: BTreeMap<u64, u64>, // length by offset
}

impl Rooms {
    /// A half of so many bytes, none of which are taken.
    #[must_use]
    pub fn new(side: Half, half: u64) -> Self {
        let (start, end) = side.bounds(half);
        Self { start, end, taken: BTreeMap::new() }
    }

    /// Takes so many bytes, as near to the start as there is room: what was used before is used again, and memory
    /// that was never needed is never touched. `None` if there is no room, or for no bytes at all.
    ///
    /// - Cost: O(T) time for T ranges taken, of which there are at most 1024.
    pub fn take(&mut self, length: u64) -> Option<Range> {
        if length == 0 || self.taken.len() >= MOST_RANGES {
            return None;
        }
        let mut offset = self.start;
        for (&from, &taken) in &self.taken {
            if from - offset >= length {
                break;
            }
            offset = from + taken;
        }
        if length > self.end - offset {
            return None;
        }
        self.taken.insert(offset, length);
        Some(Range { offset, length })
    }

    /// Gives a range back, by its offset; answers whether it was taken.
    pub fn give_back(&mut self, offset: u64) -> bool {
        self.taken.remove(&offset).is_some()
    }

    /// Answers how many ranges are taken.
    #[must_use]
    pub fn len(&self) -> usize {
        self.taken.len()
    }

    /// Answers whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.taken.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_outside_a_half_are_refused_with_the_field() {
        let of = |offset, length| Half::Agent.check(100, Range { offset, length });
        assert_eq!(of(100, 100), Ok(()));
        assert_eq!(of(199, 1), Ok(()));
        assert_eq!(of(150, 0), Ok(()));
        for (offset, length) in [(99, 1), (200, 0), (u64::MAX, 1)] {
            assert!(matches!(of(offset, length), Err(RangeError::Offset { .. })), "{offset}");
        }
        for (offset, length) in [(100, 101), (199, 2), (150, u64::MAX)] {
            assert!(matches!(of(offset, length), Err(RangeError::Length { .. })), "{offset}");
        }
        let refused = Half::Process.check(100, Range { offset: 100, length: 1 }).unwrap_err();
        assert_eq!(refused.to_string(), "offset_bytes: 100 is not in 0 to 100");
    }

    #[test]
    fn the_number_of_ranges_is_bounded() {
        let mut rooms = Rooms::new(Half::Process, 1 << 20);
        for _ in 0..MOST_RANGES {
            assert!(rooms.take(1).is_some());
        }
        assert_eq!(rooms.take(1), None);
        assert!(rooms.give_back(7));
        assert!(!rooms.give_back(7), "it is not taken any more");
        assert_eq!(rooms.take(1), Some(Range { offset: 7, length: 1 }));
        assert_eq!(rooms.take(0), None);
    }

    proptest! {
        /// MEMORY-1
        #[test]
        fn taken_ranges_lie_in_their_half_and_never_overlap(
            steps in proptest::collection::vec((1_u64..40, any::<bool>(), any::<u16>()), 1..120),
            agent in any::<bool>(),
        ) {
            let side = if agent { Half::Agent } else { Half::Process };
            let mut rooms = Rooms::new(side, 128);
            let mut taken: Vec<Range> = Vec::new();
            for (length, gives, which) in steps {
                if gives && !taken.is_empty() {
                    let range = taken.swap_remove(usize::from(which) % taken.len());
                    prop_assert!(rooms.give_back(range.offset));
                } else if let Some(range) = rooms.take(length) {
                    prop_assert_eq!(side.check(128, range), Ok(()));
                    let apart = |other: &Range| {
                        range.offset + range.length <= other.offset
                            || other.offset + other.length <= range.offset
                    };
                    prop_assert!(taken.iter().all(apart));
                    taken.push(range);
                } else {
                    let used: u64 = taken.iter().map(|range| range.length).sum();
                    prop_assert!(used + length > 128 || taken.len() > 1, "there was room");
                }
                prop_assert_eq!(rooms.len(), taken.len());
            }
            for range in taken {
                rooms.give_back(range.offset);
            }
            prop_assert!(rooms.is_empty());
            prop_assert!(rooms.take(128).is_some(), "all of it can be taken again");
        }
    }
}
