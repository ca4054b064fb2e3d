//! Disjoint sets of dense numbers (union-find with path halving).

use crate::ids::dense;

/// A partition of `0..n`; a set is named by its smallest member.
pub(crate) struct DisjointSets(Vec<u32>);

impl DisjointSets {
    /// Creates `n` sets of one member each.
    pub(crate) fn new(n: usize) -> Self {
        Self((0..dense(n)).collect())
    }

    /// Returns the smallest member of the set of `item`.
    pub(crate) fn find(&mut self, mut item: u32) -> u32 {
        while self.0[item as usize] != item {
            let above = self.0[self.0[item as usize] as usize];
            self.0[item as usize] = above;
            item = above;
        }
        item
    }

    /// Joins the sets of `a` and `b`; returns false if they were one already.
    pub(crate) fn join(&mut self, a: u32, b: u32) -> bool {
        let (a, b) = (self.find(a), self.find(b));
        self.0[a.max(b) as usize] = a.min(b);
        a != b
    }
}
