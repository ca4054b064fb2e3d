//! Ranges of shared memory: each side allocates them in its own half and lends them to the other.

use std::collections::BTreeMap;

use thiserror::Error;

/// Most ranges allocated at one time: an allocation looks at all of them.
const MAX_RANGES: usize = 1024;

/// A half of the memory. Only one side writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// The first half, written by the process.
    Process,
    /// The second half, written by the agent.
    Agent,
}

/// Consecutive bytes of the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Bytes from the start of the memory.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
}

/// Error in a range that the other side has sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RangeError {
    /// The range begins outside the sender's half.
    #[error("offset_bytes: {offset} is not in {start} to {end}")]
    Offset {
        /// Offset of the range.
        offset: u64,
        /// The first byte of the half.
        start: u64,
        /// The first byte after it.
        end: u64,
    },
    /// The range ends outside the sender's half.
    #[error("length_bytes: {length} from {offset} is more than there is, which ends at {end}")]
    Length {
        /// Length of the range.
        length: u64,
        /// Offset of the range.
        offset: u64,
        /// The first byte after the half.
        end: u64,
    },
}

impl Half {
    /// The first byte of this half and the first after it, for halves of `half` bytes.
    fn bounds(self, half: u64) -> (u64, u64) {
        match self {
            Self::Process => (0, half),
            Self::Agent => (half, half.saturating_mul(2)),
        }
    }

    /// Checks that a range lies in this half.
    ///
    /// - `half`: bytes of each half.
    ///
    /// # Errors
    ///
    /// [`RangeError`] names the field; the peer that sent the range is at fault.
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

/// The ranges that one side has allocated in its half, first fit.
#[derive(Clone, Debug)]
pub struct RangeAllocator {
    start: u64,
    end: u64,
    allocated: BTreeMap<u64, u64>, // length by offset
}

impl RangeAllocator {
    /// Creates an allocator for a half of `half` bytes, all of them free.
    #[must_use]
    pub fn new(side: Half, half: u64) -> Self {
        let (start, end) = side.bounds(half);
        Self { start, end, allocated: BTreeMap::new() }
    }

    /// Allocates `length` bytes as near to the start as they fit, so that memory that was never
    /// needed is never touched. `None` if they do not fit, or if `length` is 0.
    ///
    /// - Cost: O(A) time for A allocated ranges, at most 1024.
    pub fn allocate(&mut self, length: u64) -> Option<Range> {
        if length == 0 || self.allocated.len() >= MAX_RANGES {
            return None;
        }
        let mut offset = self.start;
        for (&next, &bytes) in &self.allocated {
            if next - offset >= length {
                break;
            }
            offset = next + bytes;
        }
        if length > self.end - offset {
            return None;
        }
        self.allocated.insert(offset, length);
        Some(Range { offset, length })
    }

    /// Frees the range at an offset; returns whether one was allocated there.
    pub fn free(&mut self, offset: u64) -> bool {
        self.allocated.remove(&offset).is_some()
    }

    /// Number of allocated ranges.
    #[must_use]
    pub fn len(&self) -> usize {
        self.allocated.len()
    }

    /// Returns whether no range is allocated.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.allocated.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_outside_a_half_are_refused_with_the_field() {
        let check = |offset, length| Half::Agent.check(100, Range { offset, length });
        assert_eq!(check(100, 100), Ok(()));
        assert_eq!(check(199, 1), Ok(()));
        assert_eq!(check(150, 0), Ok(()));
        for (offset, length) in [(99, 1), (200, 0), (u64::MAX, 1)] {
            assert!(matches!(check(offset, length), Err(RangeError::Offset { .. })), "{offset}");
        }
        for (offset, length) in [(100, 101), (199, 2), (150, u64::MAX)] {
            assert!(matches!(check(offset, length), Err(RangeError::Length { .. })), "{offset}");
        }
        let refused = Half::Process.check(100, Range { offset: 100, length: 1 }).unwrap_err();
        assert_eq!(refused.to_string(), "offset_bytes: 100 is not in 0 to 100");
    }

    #[test]
    fn the_number_of_ranges_is_bounded() {
        let mut allocator = RangeAllocator::new(Half::Process, 1 << 20);
        for _ in 0..MAX_RANGES {
            assert!(allocator.allocate(1).is_some());
        }
        assert_eq!(allocator.allocate(1), None);
        assert!(allocator.free(7));
        assert!(!allocator.free(7), "it was freed already");
        assert_eq!(allocator.allocate(1), Some(Range { offset: 7, length: 1 }));
        assert_eq!(allocator.allocate(0), None);
    }

    proptest! {
        /// MEMORY-1: no two allocated ranges overlap.
        #[test]
        fn allocated_ranges_lie_in_their_half_and_never_overlap(
            steps in proptest::collection::vec((1_u64..40, any::<bool>(), any::<u16>()), 1..120),
            agent in any::<bool>(),
        ) {
            let side = if agent { Half::Agent } else { Half::Process };
            let mut allocator = RangeAllocator::new(side, 128);
            let mut allocated: Vec<Range> = Vec::new();
            for (length, frees, which) in steps {
                if frees && !allocated.is_empty() {
                    let range = allocated.swap_remove(usize::from(which) % allocated.len());
                    prop_assert!(allocator.free(range.offset));
                } else if let Some(range) = allocator.allocate(length) {
                    prop_assert_eq!(side.check(128, range), Ok(()));
                    let apart = |other: &Range| {
                        range.offset + range.length <= other.offset
                            || other.offset + other.length <= range.offset
                    };
                    prop_assert!(allocated.iter().all(apart));
                    allocated.push(range);
                } else {
                    let used: u64 = allocated.iter().map(|range| range.length).sum();
                    prop_assert!(used + length > 128 || allocated.len() > 1, "the range would have fit");
                }
                prop_assert_eq!(allocator.len(), allocated.len());
            }
            for range in allocated {
                allocator.free(range.offset);
            }
            prop_assert!(allocator.is_empty());
            prop_assert!(allocator.allocate(128).is_some(), "all of it can be allocated again");
        }
    }
}
