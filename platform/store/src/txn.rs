//! Transactions, and the checks of them that need no store.

use crate::error::StoreError;
use crate::lease::LeaseId;

/// Operations that are carried out together if all comparisons hold.
///
/// Operations of one transaction must not touch the same key (as in etcd), so their order has no
/// meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// Comparisons that must all hold.
    pub compares: Vec<Compare>,
    /// Operations to carry out.
    pub ops: Vec<Op>,
    /// True to carry them out also when the store has no space left, as they free some, or complete
    /// what is durable already. A transaction that only deletes is essential without this.
    pub essential: bool,
}

impl Txn {
    /// Starts an empty transaction.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a comparison: `key` must be as `expected`.
    #[must_use]
    pub fn when(mut self, key: impl Into<Vec<u8>>, expected: Expected) -> Self {
        self.compares.push(Compare { key: key.into(), expected });
        self
    }

    /// Adds a write of a key without a lease.
    #[must_use]
    pub fn put(mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        self.ops.push(Op::Put { key: key.into(), value: value.into(), lease: None });
        self
    }

    /// Adds a write of a key that is deleted when `lease` ends.
    #[must_use]
    pub fn put_leased(
        mut self,
        key: impl Into<Vec<u8>>,
        value: impl Into<Vec<u8>>,
        lease: LeaseId,
    ) -> Self {
        self.ops.push(Op::Put { key: key.into(), value: value.into(), lease: Some(lease) });
        self
    }

    /// Adds the deletion of a key; no error if it does not exist.
    #[must_use]
    pub fn delete(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.ops.push(Op::Delete { key: key.into() });
        self
    }

    /// Adds the deletion of every key that begins with `prefix`.
    #[must_use]
    pub fn delete_prefix(mut self, prefix: impl Into<Vec<u8>>) -> Self {
        self.ops.push(Op::DeletePrefix { prefix: prefix.into() });
        self
    }

    /// Marks it as one that is carried out also when the store has no space left.
    #[must_use]
    pub fn essential(mut self) -> Self {
        self.essential = true;
        self
    }

    /// True if a store without space refuses it.
    #[must_use]
    pub fn needs_space(&self) -> bool {
        !self.essential && self.ops.iter().any(|op| matches!(op, Op::Put { .. }))
    }

    /// Counts the bytes of all keys and values.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let compares: usize = self
            .compares
            .iter()
            .map(|compare| match &compare.expected {
                Expected::Absent | Expected::ModRevision(_) => compare.key.len(),
                Expected::Value(value) => compare.key.len() + value.len(),
            })
            .sum();
        let ops: usize = self
            .ops
            .iter()
            .map(|op| match op {
                Op::Put { key, value, .. } => key.len() + value.len(),
                Op::Delete { key } => key.len(),
                Op::DeletePrefix { prefix } => prefix.len(),
            })
            .sum();
        compares + ops
    }

    /// Checks that no two operations touch the same key.
    ///
    /// Cost: O(n log n) for n operations.
    ///
    /// # Errors
    ///
    /// [`StoreError::OverlappingOps`] naming the key.
    pub fn check_overlaps(&self) -> Result<(), StoreError> {
        let mut keys: Vec<&[u8]> = Vec::with_capacity(self.ops.len());
        let mut prefixes: Vec<&[u8]> = Vec::new();
        for op in &self.ops {
            match op {
                Op::Put { key, .. } | Op::Delete { key } => keys.push(key),
                Op::DeletePrefix { prefix } => prefixes.push(prefix),
            }
        }
        keys.sort_unstable();
        prefixes.sort_unstable();
        let overlap = |key: &[u8]| StoreError::OverlappingOps { key: key.to_vec() };
        if let Some(twice) = keys.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(overlap(twice[0]));
        }
        if let Some(twice) = prefixes.windows(2).find(|pair| pair[1].starts_with(pair[0])) {
            return Err(overlap(twice[1]));
        }
        for prefix in prefixes {
            let first = keys.partition_point(|key| *key < prefix);
            if let Some(covered) = keys.get(first).filter(|key| key.starts_with(prefix)) {
                return Err(overlap(covered));
            }
        }
        Ok(())
    }
}

/// One condition of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compare {
    /// Key to compare.
    pub key: Vec<u8>,
    /// Condition on the key.
    pub expected: Expected,
}

/// Condition on a key of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The key does not exist.
    Absent,
    /// The key exists and was last written by this revision.
    ModRevision(u64),
    /// The key exists and has this value.
    Value(Vec<u8>),
}

/// One operation of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    /// Writes a key and attaches it to `lease` only.
    Put {
        /// Key to write.
        key: Vec<u8>,
        /// Value to write.
        value: Vec<u8>,
        /// Lease whose end deletes the key.
        lease: Option<LeaseId>,
    },
    /// Deletes one key, if it exists.
    Delete {
        /// Key to delete.
        key: Vec<u8>,
    },
    /// Deletes every key that begins with a prefix.
    DeletePrefix {
        /// Prefix of the keys; an empty one deletes everything.
        prefix: Vec<u8>,
    },
}

/// Outcome of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxnOutcome {
    /// All operations were carried out and are durable.
    Committed {
        /// Revision of the transaction; the newest one before it if nothing changed.
        revision: u64,
    },
    /// A comparison did not hold; nothing was changed.
    Conflict {
        /// Key of the first comparison that did not hold.
        key: Vec<u8>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_on_different_keys_do_not_overlap() {
        let txn = Txn::new().put("a", "1").delete("ab").delete_prefix("b/").put("b", "2");
        assert!(txn.check_overlaps().is_ok());
    }

    #[test]
    fn overlap_names_the_key_touched_twice() {
        let cases = [
            (Txn::new().put("a", "1").delete("a"), "a"),
            (Txn::new().put("b/1", "1").delete_prefix("b/"), "b/1"),
            (Txn::new().delete_prefix("b/").delete_prefix("b/c"), "b/c"),
            (Txn::new().delete_prefix("").put("x", ""), "x"),
        ];
        for (txn, key) in cases {
            let error = txn.check_overlaps().expect_err("overlaps");
            assert_eq!(
                error.to_string(),
                format!("two operations of one transaction touch key {key:?}")
            );
        }
    }
}
