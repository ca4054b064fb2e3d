//! Open connections whose client is known, by owner.
//!
//! Servers at their limit ask for every new connection how many its owner has and who has the most,
//! so an answer costs O(log n) for n connections.

use std::collections::{BTreeSet, HashMap};

use crate::limits::Client;

/// Numbers of the connections of each owner.
#[derive(Debug, Default)]
pub(super) struct KnownConnections {
    count: usize,
    by_owner: HashMap<Client, BTreeSet<u64>>,
    /// Each owner after the number of its connections.
    by_count: BTreeSet<(usize, Client)>,
}

impl KnownConnections {
    pub(super) fn insert(&mut self, owner: &Client, number: u64) {
        self.change(owner, |numbers| numbers.insert(number));
    }

    /// Removes a connection, if it is there.
    pub(super) fn remove(&mut self, owner: &Client, number: u64) {
        self.change(owner, |numbers| numbers.remove(&number));
    }

    fn change(&mut self, owner: &Client, change: impl FnOnce(&mut BTreeSet<u64>) -> bool) {
        let numbers = self.by_owner.entry(owner.clone()).or_default();
        let before = numbers.len();
        change(numbers);
        let after = numbers.len();
        self.by_count.remove(&(before, owner.clone()));
        if after == 0 {
            self.by_owner.remove(owner);
        } else {
            self.by_count.insert((after, owner.clone()));
        }
        self.count = self.count - before + after;
    }

    /// Number of connections of all owners.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Number of connections of one owner.
    pub(super) fn count_of(&self, owner: &Client) -> usize {
        self.by_owner.get(owner).map_or(0, BTreeSet::len)
    }

    /// Number of owners.
    pub(super) fn owners(&self) -> usize {
        self.by_owner.len()
    }

    /// The newest connection of the owner with the most; `None` if nobody has more than a part.
    pub(super) fn newest_beyond(&self, part: usize) -> Option<u64> {
        let (_, owner) = self.by_count.last().filter(|(count, _)| *count > part)?;
        self.by_owner.get(owner)?.last().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_connection_of_the_owner_with_the_most_is_found() {
        let (few, many) = (Client::User(1), Client::User(2));
        let mut known = KnownConnections::default();
        for number in [2, 4, 5] {
            known.insert(&many, number);
        }
        known.insert(&few, 3);
        known.remove(&few, 9);
        assert_eq!((known.count(), known.owners()), (4, 2));
        assert_eq!((known.newest_beyond(2), known.newest_beyond(3)), (Some(5), None));
        known.remove(&many, 5);
        known.insert(&few, 6);
        known.insert(&few, 7);
        assert_eq!((known.newest_beyond(2), known.count_of(&many)), (Some(7), 2));
    }

    #[test]
    fn whoever_has_no_connection_is_forgotten() {
        let mut known = KnownConnections::default();
        known.insert(&Client::Unknown, 1);
        known.remove(&Client::Unknown, 1);
        known.remove(&Client::User(7), 1);
        assert_eq!((known.count(), known.owners(), known.by_count.len()), (0, 0, 0));
        assert_eq!(known.newest_beyond(0), None);
    }
}
