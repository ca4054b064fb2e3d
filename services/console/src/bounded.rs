//! A bounded number of values by key (CONSOLE-2).

use std::collections::VecDeque;

/// Values by key; the one that was not asked for longest makes room for a new one.
#[derive(Debug)]
pub(crate) struct Bounded<V> {
    most: usize,
    /// The latest used is the last.
    entries: VecDeque<(String, V)>,
}

impl<V: Clone + Default> Bounded<V> {
    /// - `most`: number of values that are kept; at least 1.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, entries: VecDeque::new() }
    }

    /// The value of a key; a default one if there is none.
    pub(crate) fn get(&mut self, key: &str) -> V {
        let found = self.entries.iter().position(|(own, _)| own == key);
        let entry = found.and_then(|at| self.entries.remove(at));
        let entry = entry.unwrap_or_else(|| (key.to_owned(), V::default()));
        if self.entries.len() >= self.most {
            self.entries.pop_front();
        }
        let value = entry.1.clone();
        self.entries.push_back(entry);
        value
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn only_the_value_that_was_not_asked_for_longest_makes_room() {
        let mut bounded = Bounded::<Arc<()>>::new(2);
        let (first, second) = (bounded.get("first"), bounded.get("second"));
        assert!(Arc::ptr_eq(&first, &bounded.get("first")));
        bounded.get("third");
        assert!(Arc::ptr_eq(&first, &bounded.get("first")));
        assert!(!Arc::ptr_eq(&second, &bounded.get("second")));
        assert_eq!(bounded.entries.len(), 2);
    }
}
