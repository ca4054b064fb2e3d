//! What a transaction says, and the checks that need no store.

use crate::error::StoreError;
use crate::store::LeaseId;

/// "If all of this holds, do all of that."
///
/// Operations of one transaction must not touch the same key (as in etcd), so their order has no
/// meaning.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Txn {
    /// What must hold. Empty: always.
    pub compares: Vec<Compare>,
    /// What to do.
    pub ops: Vec<Op>,
}

impl Txn {
    /// Starts an empty transaction.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Demands `expected` of `key`.
    #[must_use]
    pub fn when(mut self, key: impl Into<Vec<u8>>, expected: Expected) -> Self {
        self.compares.push(Compare { key: key.into(), expected });
        self
    }

    /// Writes a key that lives on no lease.
    #[must_use]
    pub fn put(mut self, key: impl Into<Vec<u8>>, value: impl Into<Vec<u8>>) -> Self {
        self.ops.push(Op::Put { key: key.into(), value: value.into(), lease: None });
        self
    }

    /// Writes a key that dies with `lease`.
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

    /// Deletes a key; no error if it does not exist.
    #[must_use]
    pub fn delete(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.ops.push(Op::Delete { key: key.into() });
        self
    }

    /// Deletes every key that begins with `prefix`.
    #[must_use]
    pub fn delete_prefix(mut self, prefix: impl Into<Vec<u8>>) -> Self {
        self.ops.push(Op::DeletePrefix { prefix: prefix.into() });
        self
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

    /// Checks that no two operations touch one key.
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
    /// The key looked at.
    pub key: Vec<u8>,
    /// What it must be.
    pub expected: Expected,
}

/// What a key must be for a transaction to happen.
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
    /// Writes a key; it then lives on `lease` only, whatever it lived on before.
    Put {
        /// The key.
        key: Vec<u8>,
        /// Its new value.
        value: Vec<u8>,
        /// The lease it dies with.
        lease: Option<LeaseId>,
    },
    /// Deletes one key, if it exists.
    Delete {
        /// The key.
        key: Vec<u8>,
    },
    /// Deletes every key that begins with a prefix.
    DeletePrefix {
        /// The prefix; an empty one deletes everything.
        prefix: Vec<u8>,
    },
}

/// How a transaction ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TxnOutcome {
    /// Everything was done and is durable.
    Committed {
        /// The revision it got; the newest one before it if there was nothing to change.
        revision: u64,
    },
    /// A comparison did not hold; nothing was done.
    Conflict {
        /// The key of the first comparison that failed.
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
