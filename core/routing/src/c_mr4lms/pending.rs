//! Rounds and spanning trees that have to be computed again.

use fixedbitset::FixedBitSet;

use crate::c_mr4lms::fabric::NONE;

/// Rounds or spanning trees that have to be computed again, each listed once.
#[derive(Clone, Debug)]
pub(super) struct Pending<T> {
    listed: FixedBitSet,
    list: Vec<T>,
}

impl<T: Copy + Into<usize>> Pending<T> {
    pub(super) fn new(count: u32) -> Self {
        Self { listed: FixedBitSet::with_capacity(count as usize), list: Vec::new() }
    }

    /// Adds one; [`NONE`] is nothing.
    pub(super) fn add(&mut self, number: T) {
        let at = number.into();
        if at != NONE as usize && !self.listed.put(at) {
            self.list.push(number);
        }
    }

    pub(super) fn contains(&self, number: T) -> bool {
        self.listed.contains(number.into())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.list.iter().copied()
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let number = self.list.pop()?;
        self.listed.remove(number.into());
        Some(number)
    }
}
