//! Spanning trees that hold the color of one round, by endpoint.

use crate::c_mr4lms::numbers::EndpointSlot;

/// Spanning trees that hold the color of the round, by slot.
#[derive(Clone, Debug, Default)]
pub(super) struct ColorHolders {
    by_slot: Vec<u32>, // base + tree in round
    base: u32,
    step: u32,
}

impl ColorHolders {
    pub(super) fn start_round(&mut self, slots: usize, trees: u32) {
        if self.by_slot.len() != slots || self.base > u32::MAX - 2 * trees {
            self.by_slot = vec![0; slots];
            (self.base, self.step) = (1, 0);
        }
        self.base += self.step;
        self.step = trees;
    }

    pub(super) fn other_than(&self, slot: EndpointSlot, tree: u32) -> Option<u32> {
        let holder = self.by_slot[slot.index()];
        (holder >= self.base && holder != self.base + tree).then(|| holder - self.base)
    }

    pub(super) fn hold(&mut self, slot: EndpointSlot, tree: u32) {
        self.by_slot[slot.index()] = self.base + tree;
    }
}
