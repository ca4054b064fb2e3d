//! Disjoint sets of groups, each named by its smallest.

/// Disjoint sets of the numbers from 0 on.
#[derive(Clone, Debug, Default)]
pub(super) struct DisjointSets {
    parents: Vec<u32>, // never larger than the number itself
}

impl DisjointSets {
    /// Starts again with so many sets of one.
    pub(super) fn reset(&mut self, count: u32) {
        self.parents.clear();
        self.parents.extend(0..count);
    }

    fn find(&mut self, mut at: u32) -> u32 {
        while self.parents[at as usize] != at {
            let above = self.parents[self.parents[at as usize] as usize];
            self.parents[at as usize] = above;
            at = above;
        }
        at
    }

    pub(super) fn unite(&mut self, a: u32, b: u32) {
        if self.parents[a as usize] != self.parents[b as usize] {
            let (a, b) = (self.find(a), self.find(b));
            self.parents[a.max(b) as usize] = a.min(b);
        }
    }

    /// Gives the smallest of its set for every number.
    pub(super) fn settle(&mut self) -> &[u32] {
        for at in 0..self.parents.len() {
            // Its parent is smaller and final already.
            self.parents[at] = self.parents[self.parents[at] as usize];
        }
        &self.parents
    }
}
