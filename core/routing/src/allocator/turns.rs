//! Numbers that are taken on one spanning tree, and the first that is not.

use std::collections::BTreeSet;

/// A set of numbers that are mostly consecutive from 0. Every operation takes logarithmic time.
#[derive(Clone, Debug, Default)]
pub(super) struct TakenTurns {
    /// Everything below is taken but the holes; `end` itself is not.
    end: u32,
    holes: BTreeSet<u32>,
    /// Taken, above `end`.
    beyond: BTreeSet<u32>,
}

impl TakenTurns {
    pub(super) fn contains(&self, turn: u32) -> bool {
        if turn < self.end { !self.holes.contains(&turn) } else { self.beyond.contains(&turn) }
    }

    pub(super) fn first_free(&self) -> u32 {
        self.holes.first().copied().unwrap_or(self.end)
    }

    pub(super) fn insert(&mut self, turn: u32) {
        if turn < self.end {
            self.holes.remove(&turn);
        } else {
            self.beyond.insert(turn);
            while self.beyond.remove(&self.end) {
                self.end += 1;
            }
        }
    }

    pub(super) fn remove(&mut self, turn: u32) {
        if turn < self.end {
            self.holes.insert(turn);
            while self.end > 0 && self.holes.remove(&(self.end - 1)) {
                self.end -= 1;
            }
        } else {
            self.beyond.remove(&turn);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_holds_what_a_set_holds(
            steps in proptest::collection::vec((any::<bool>(), 0u32..12), 0..60),
        ) {
            let (mut turns, mut model) = (TakenTurns::default(), BTreeSet::new());
            for (is_insert, turn) in steps {
                if is_insert {
                    turns.insert(turn);
                    model.insert(turn);
                } else {
                    turns.remove(turn);
                    model.remove(&turn);
                }
                let free = (0..).find(|turn| !model.contains(turn)).unwrap();
                prop_assert_eq!(turns.first_free(), free);
                prop_assert!((0..13).all(|turn| turns.contains(turn) == model.contains(&turn)));
                prop_assert!(turns.holes.len() + turns.beyond.len() <= 12);
            }
        }
    }

    #[test]
    fn all_numbers_in_a_row_take_no_memory() {
        let mut turns = TakenTurns::default();
        (0..100_000).for_each(|turn| turns.insert(turn));
        assert_eq!((turns.first_free(), turns.holes.len(), turns.beyond.len()), (100_000, 0, 0));
        (0..100_000).for_each(|turn| turns.remove(turn));
        assert_eq!((turns.first_free(), turns.holes.len(), turns.beyond.len()), (0, 0, 0));
    }
}
