//! A map whose changes can be undone at their cost.

use std::collections::BTreeMap;
use std::collections::btree_map::Range;
use std::mem::take;
use std::ops::RangeBounds;

/// The map, and the values before its changes.
#[derive(Debug)]
pub(super) struct UndoMap<K, V> {
    values: BTreeMap<K, V>,
    /// Value of a key before each change, oldest first.
    before: Vec<(K, Option<V>)>,
}

impl<K, V> Default for UndoMap<K, V> {
    fn default() -> Self {
        Self { values: BTreeMap::new(), before: Vec::new() }
    }
}

impl<K: Ord + Copy, V> UndoMap<K, V> {
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        self.values.get(key)
    }

    pub(super) fn range(&self, keys: impl RangeBounds<K>) -> Range<'_, K, V> {
        self.values.range::<K, _>(keys)
    }

    /// Puts a value, or removes it.
    pub(super) fn set(&mut self, key: K, value: Option<V>) {
        let before = replace(&mut self.values, key, value);
        self.before.push((key, before));
    }

    /// Keeps the changes so far.
    pub(super) fn keep(&mut self) {
        self.before = Vec::new();
    }

    /// Undoes the changes that are not kept.
    pub(super) fn undo(&mut self) {
        for (key, before) in take(&mut self.before).into_iter().rev() {
            replace(&mut self.values, key, before);
        }
    }

    /// Forgets everything for good.
    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.keep();
    }
}

/// Puts or removes a value; returns the one before.
fn replace<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) -> Option<V> {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    }
}
