//! Numbers of trees.

/// Number of a tree in a [`TreeStore`](super::tree_store::TreeStore); used again for another tree
/// when it is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub(super) struct TreeIndex(pub(super) u32);

impl TreeIndex {
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}
