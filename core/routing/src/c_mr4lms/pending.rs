//! Rounds and spanning trees that have to be computed again.

use std::marker::PhantomData;

use crate::c_mr4lms::fabric::{NONE, dense};

/// Rounds or spanning trees that have to be computed again, each listed once.
#[derive(Clone, Debug)]
pub(super) struct Pending<T> {
    listed: fixedbitset::FixedBitSet,
    list: Vec<u32>,
    kind: PhantomData<T>,
}

impl<T: From<u32> + Into<u32>> Pending<T> {
    pub(super) fn new(count: u32) -> Self {
        let listed = fixedbitset::FixedBitSet::with_capacity(count as usize);
        Self { listed, list: Vec::new(), kind: PhantomData }
    }

    /// Adds one; [`NONE`] is nothing.
    pub(super) fn add(&mut self, at: T) {
        let at = at.into();
        if at != NONE && !self.listed.put(at as usize) {
            self.list.push(at);
        }
    }

    pub(super) fn add_all(&mut self) {
        for at in 0..dense(self.listed.len()) {
            self.add(at.into());
        }
    }

    pub(super) fn contains(&self, at: T) -> bool {
        self.listed.contains(at.into() as usize)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = T> + '_ {
        self.list.iter().map(|at| (*at).into())
    }

    pub(super) fn pop(&mut self) -> Option<T> {
        let at = self.list.pop()?;
        self.listed.remove(at as usize);
        Some(at.into())
    }
}
