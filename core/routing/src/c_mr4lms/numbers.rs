//! Numbers that must not be mixed up. All are plain 32-bit numbers at run time.

/// Number of a group in the registry; used again for another group when it is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(super) struct GroupIndex(pub(super) u32);

impl GroupIndex {
    pub(super) const fn at(self) -> usize {
        self.0 as usize
    }
}
