//! What waits to be computed again.

use crate::engine::fabric::{NONE, dense};

/// Rounds or spanning trees that wait, each once.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    listed: fixedbitset::FixedBitSet,
    list: Vec<u32>,
}

impl Pending {
    pub(super) fn new(count: u32) -> Self {
        let listed = fixedbitset::FixedBitSet::with_capacity(count as usize);
        Self { listed, list: Vec::new() }
    }

    /// Adds one; [`NONE`] is nothing.
    pub(super) fn add(&mut self, at: u32) {
        if at != NONE && !self.listed.put(at as usize) {
            self.list.push(at);
        }
    }

    pub(super) fn add_all(&mut self) {
        for at in 0..dense(self.listed.len()) {
            self.add(at);
        }
    }

    pub(super) fn contains(&self, at: u32) -> bool {
        self.listed.contains(at as usize)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.list.iter().copied()
    }

    pub(super) fn pop(&mut self) -> Option<u32> {
        let at = self.list.pop()?;
        self.listed.remove(at as usize);
        Some(at)
    }
}
