//! Who holds the colors that pass 1 gives out.

/// Which spanning tree holds the color of the round at each seat.
#[derive(Clone, Debug, Default)]
pub(super) struct Holders {
    by_seat: Vec<u32>, // base + tree in round
    base: u32,
    step: u32,
}

impl Holders {
    pub(super) fn start_round(&mut self, seats: usize, trees: u32) {
        if self.by_seat.len() != seats || self.base > u32::MAX - 2 * trees {
            self.by_seat = vec![0; seats];
            (self.base, self.step) = (1, 0);
        }
        self.base += self.step;
        self.step = trees;
    }

    pub(super) fn other_than(&self, seat: u32, tree: u32) -> Option<u32> {
        let holder = self.by_seat[seat as usize];
        (holder >= self.base && holder != self.base + tree).then(|| holder - self.base)
    }

    pub(super) fn hold(&mut self, seat: u32, tree: u32) {
        self.by_seat[seat as usize] = self.base + tree;
    }
}
