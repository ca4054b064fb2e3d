//! Tables of the store in its file.

use std::ops::Bound;

use redb::{Database, ReadTransaction, ReadableDatabase, Table, TableDefinition, WriteTransaction};

use crate::lease::LeaseId;
use crate::store::{KeyValue, Snapshot};
use crate::watch::{Change, WatchBatch};

/// The layout described by the definitions below. Raise it with every change of them.
pub(crate) const SCHEMA_VERSION: u64 = 1;

/// Marks a database as ours, and holds the counters named by the `META_*` keys.
pub(crate) const META: TableDefinition<'_, &str, u64> = TableDefinition::new("fabricast_store");
/// The layout, [`SCHEMA_VERSION`].
pub(crate) const META_SCHEMA: &str = "schema_version";
/// The newest revision.
pub(crate) const META_REVISION: &str = "revision";
/// The newest revision that the change log no longer holds.
pub(crate) const META_COMPACTED: &str = "compacted";
/// The last lease granted.
pub(crate) const META_LEASE: &str = "last_lease";

/// The revision that wrote a key, its lease or 0, and its value.
type DataEntry<'a> = (u64, u64, &'a [u8]);
/// Present values by key.
pub(crate) const DATA: TableDefinition<'_, &[u8], DataEntry<'_>> = TableDefinition::new("data");
/// Position of a change in the log: its revision and its number within it.
type LogKey = (u64, u32);
/// A change: the key, and its value unless it was deleted.
type LogEntry<'a> = (&'a [u8], Option<&'a [u8]>);

/// The change log.
pub(crate) const LOG: TableDefinition<'_, LogKey, LogEntry<'_>> = TableDefinition::new("log");
/// lease -> time to live in milliseconds.
pub(crate) const LEASES: TableDefinition<'_, u64, u64> = TableDefinition::new("leases");
/// (lease, key): the keys that are attached to a lease.
pub(crate) const LEASE_KEYS: TableDefinition<'_, (u64, &[u8]), ()> =
    TableDefinition::new("lease_keys");

/// All tables of one write transaction.
pub(crate) struct Tables<'t> {
    pub(crate) meta: Table<'t, &'static str, u64>,
    pub(crate) data: Table<'t, &'static [u8], DataEntry<'static>>,
    pub(crate) log: Table<'t, LogKey, LogEntry<'static>>,
    pub(crate) leases: Table<'t, u64, u64>,
    pub(crate) lease_keys: Table<'t, (u64, &'static [u8]), ()>,
}

impl<'t> Tables<'t> {
    /// Opens (and on first use creates) every table.
    pub(crate) fn open(txn: &'t WriteTransaction) -> Result<Self, redb::Error> {
        Ok(Self {
            meta: txn.open_table(META)?,
            data: txn.open_table(DATA)?,
            log: txn.open_table(LOG)?,
            leases: txn.open_table(LEASES)?,
            lease_keys: txn.open_table(LEASE_KEYS)?,
        })
    }
}

/// The bounds of all keys that begin with `prefix`; `end` is scratch space that must outlive them.
pub(crate) fn prefix_bounds<'a>(
    prefix: &'a [u8],
    end: &'a mut Vec<u8>,
) -> (Bound<&'a [u8]>, Bound<&'a [u8]>) {
    let kept = prefix.iter().rposition(|byte| *byte != u8::MAX).map_or(0, |last| last + 1);
    end.extend_from_slice(&prefix[..kept]);
    match end.last_mut() {
        Some(last) => {
            *last += 1;
            (Bound::Included(prefix), Bound::Excluded(end.as_slice()))
        }
        // No key is greater than all that begin with only 0xff bytes.
        None => (Bound::Included(prefix), Bound::Unbounded),
    }
}

/// Reads one key.
pub(crate) fn read_key(db: &Database, key: &[u8]) -> Result<Option<KeyValue>, redb::Error> {
    let txn = db.begin_read()?;
    let entry = txn.open_table(DATA)?.get(key)?;
    Ok(entry.map(|entry| key_value(key, entry.value())))
}

/// Reads all keys under a prefix, as of one revision.
pub(crate) fn read_range(db: &Database, prefix: &[u8]) -> Result<Snapshot, redb::Error> {
    let txn = db.begin_read()?;
    let mut end = Vec::new();
    let entries = txn
        .open_table(DATA)?
        .range::<&[u8]>(prefix_bounds(prefix, &mut end))?
        .map(|row| row.map(|(key, entry)| key_value(key.value(), entry.value())))
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Snapshot { revision: counter(&txn, META_REVISION)?, entries })
}

/// Reads the newest revision.
pub(crate) fn read_revision(db: &Database) -> Result<u64, redb::Error> {
    counter(&db.begin_read()?, META_REVISION)
}

/// Reads the oldest revision that the change log holds.
pub(crate) fn read_oldest(db: &Database) -> Result<u64, redb::Error> {
    Ok(counter(&db.begin_read()?, META_COMPACTED)? + 1)
}

/// A piece of the change log.
pub(crate) struct LogPage {
    /// Changes under the prefix.
    pub(crate) batches: Vec<WatchBatch>,
    /// Revision where the next page begins.
    pub(crate) next: u64,
    /// The oldest revision that the log holds.
    pub(crate) oldest: u64,
}

/// Reads whole revisions from `from` on, until about `limit` rows have been read.
pub(crate) fn read_log(
    db: &Database,
    prefix: &[u8],
    from: u64,
    limit: usize,
) -> Result<LogPage, redb::Error> {
    let txn = db.begin_read()?;
    let oldest = counter(&txn, META_COMPACTED)? + 1;
    let mut page = LogPage { batches: Vec::new(), next: from, oldest };
    let head = counter(&txn, META_REVISION)?;
    for (number, row) in txn.open_table(LOG)?.range((from, 0)..)?.enumerate() {
        let (position, row) = row?;
        let revision = position.value().0;
        if number >= limit && revision >= page.next {
            return Ok(page);
        }
        page.next = revision + 1;
        let (key, value) = row.value();
        if !key.starts_with(prefix) {
            continue;
        }
        let change = Change { key: key.to_vec(), value: value.map(<[u8]>::to_vec) };
        match page.batches.last_mut() {
            Some(batch) if batch.revision == revision => batch.changes.push(change),
            _ => page.batches.push(WatchBatch { revision, changes: vec![change] }),
        }
    }
    page.next = page.next.max(head + 1);
    Ok(page)
}

/// Reads one of the counters.
pub(crate) fn counter(txn: &ReadTransaction, name: &str) -> Result<u64, redb::Error> {
    Ok(txn.open_table(META)?.get(name)?.map_or(0, |value| value.value()))
}

/// The lease that a stored number stands for.
pub(crate) fn lease_of(stored: u64) -> Option<LeaseId> {
    (stored != 0).then_some(LeaseId(stored))
}

/// - `entry`: of [`DATA`].
fn key_value(key: &[u8], entry: DataEntry<'_>) -> KeyValue {
    let (mod_revision, lease, value) = entry;
    KeyValue { key: key.to_vec(), value: value.to_vec(), mod_revision, lease: lease_of(lease) }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn bounds_hold_exactly_the_keys_with_the_prefix(
            prefix in proptest::collection::vec(proptest::num::u8::ANY, 0..4),
            tail in proptest::collection::vec(proptest::num::u8::ANY, 0..3),
            other in proptest::collection::vec(proptest::num::u8::ANY, 0..6),
        ) {
            use std::ops::RangeBounds;
            let mut end = Vec::new();
            let bounds = prefix_bounds(&prefix, &mut end);
            let inside = [prefix.clone(), tail].concat();
            let hold = |key: &[u8]| RangeBounds::<&[u8]>::contains(&bounds, &key);
            proptest::prop_assert!(hold(&inside));
            proptest::prop_assert_eq!(hold(&other), other.starts_with(&prefix));
        }
    }

    #[test]
    fn a_prefix_of_the_greatest_bytes_has_no_upper_bound() {
        let mut end = Vec::new();
        assert_eq!(prefix_bounds(&[255, 255], &mut end).1, Bound::Unbounded);
    }
}
