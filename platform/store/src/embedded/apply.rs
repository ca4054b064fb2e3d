//! Effects of one command on the tables, inside the write transaction of its batch.

use redb::ReadableTable;

use crate::embedded::leases::LeaseTimer;
use crate::embedded::tables::{Tables, lease_of, prefix_bounds};
use crate::error::StoreError;
use crate::lease::LeaseId;
use crate::txn::{Expected, Op, Txn, TxnOutcome};

/// Carries out a transaction as a whole or not at all. `revision` is the newest one so far.
///
/// The outer error means that the storage failed, the inner one that the transaction was refused.
pub(crate) fn apply_txn(
    tables: &mut Tables<'_>,
    leases: &LeaseTimer,
    revision: u64,
    txn: &Txn,
) -> Result<Result<TxnOutcome, StoreError>, redb::Error> {
    for compare in &txn.compares {
        if !holds(tables, &compare.key, &compare.expected)? {
            return Ok(Ok(TxnOutcome::Conflict { key: compare.key.clone() }));
        }
    }
    let missing = txn.ops.iter().find_map(|op| match op {
        Op::Put { lease: Some(lease), .. } if !leases.contains(*lease) => Some(*lease),
        Op::Put { .. } | Op::Delete { .. } | Op::DeletePrefix { .. } => None,
    });
    if let Some(lease) = missing {
        return Ok(Err(StoreError::LeaseNotFound { lease }));
    }
    let mut changes = Changes { tables, revision: revision + 1, count: 0 };
    for op in &txn.ops {
        match op {
            Op::Put { key, value, lease } => changes.put(key, value, *lease)?,
            Op::Delete { key } => changes.delete(key)?,
            Op::DeletePrefix { prefix } => changes.delete_prefix(prefix)?,
        }
    }
    Ok(Ok(TxnOutcome::Committed { revision: changes.newest() }))
}

/// Ends a lease and deletes its keys; returns the newest revision afterwards.
pub(crate) fn apply_lease_end(
    tables: &mut Tables<'_>,
    revision: u64,
    lease: LeaseId,
) -> Result<u64, redb::Error> {
    tables.leases.remove(lease.0)?;
    let keys = tables
        .lease_keys
        .range::<(u64, &[u8])>((lease.0, &[][..])..(lease.0 + 1, &[][..]))?
        .map(|row| row.map(|(key, _)| key.value().1.to_vec()))
        .collect::<Result<Vec<_>, _>>()?;
    let mut changes = Changes { tables, revision: revision + 1, count: 0 };
    for key in keys {
        changes.delete(&key)?;
    }
    Ok(changes.newest())
}

fn holds(tables: &Tables<'_>, key: &[u8], expected: &Expected) -> Result<bool, redb::Error> {
    let found = tables.data.get(key)?;
    Ok(match (found.as_ref().map(|entry| entry.value()), expected) {
        (None, Expected::Absent) => true,
        (Some((revision, _, _)), Expected::ModRevision(wanted)) => revision == *wanted,
        (Some((_, _, value)), Expected::Value(wanted)) => value == wanted.as_slice(),
        (Some(_), Expected::Absent) | (None, Expected::ModRevision(_) | Expected::Value(_)) => {
            false
        }
    })
}

/// Writes the changes of one revision to the tables.
struct Changes<'a, 't> {
    tables: &'a mut Tables<'t>,
    revision: u64,
    count: u32,
}

impl Changes<'_, '_> {
    fn put(&mut self, key: &[u8], value: &[u8], lease: Option<LeaseId>) -> Result<(), redb::Error> {
        let lease_id = lease.map_or(0, |lease| lease.0);
        let entry = (self.revision, lease_id, value);
        let before = self.tables.data.insert(key, entry)?.map(|entry| entry.value().1);
        self.detach(key, before)?;
        if lease.is_some() {
            self.tables.lease_keys.insert((lease_id, key), ())?;
        }
        self.record(key, Some(value))
    }

    fn delete(&mut self, key: &[u8]) -> Result<(), redb::Error> {
        let Some(before) = self.tables.data.remove(key)?.map(|entry| entry.value().1) else {
            return Ok(());
        };
        self.detach(key, Some(before))?;
        self.record(key, None)
    }

    fn delete_prefix(&mut self, prefix: &[u8]) -> Result<(), redb::Error> {
        let mut end = Vec::new();
        let keys = self
            .tables
            .data
            .range::<&[u8]>(prefix_bounds(prefix, &mut end))?
            .map(|row| row.map(|(key, _)| key.value().to_vec()))
            .collect::<Result<Vec<_>, _>>()?;
        keys.iter().try_for_each(|key| self.delete(key))
    }

    fn detach(&mut self, key: &[u8], lease: Option<u64>) -> Result<(), redb::Error> {
        if let Some(lease) = lease.and_then(lease_of) {
            self.tables.lease_keys.remove((lease.0, key))?;
        }
        Ok(())
    }

    fn record(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), redb::Error> {
        self.tables.log.insert((self.revision, self.count), (key, value))?;
        self.count += 1;
        Ok(())
    }

    fn newest(&self) -> u64 {
        if self.count == 0 { self.revision - 1 } else { self.revision }
    }
}
