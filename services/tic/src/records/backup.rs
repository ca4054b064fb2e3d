//! Exports the records of a store to a text file, and imports them into another store.
//!
//! ```text
//!   {"fabricast_records":1,"revision":812}                 the first line
//!   {"key":"tic/records/group/...","value":"{...}"}        one line per key, in order
//!   {"keys":5123,"sha256":"..."}                           the last line: a digest of those before
//! ```
//!
//! An export is complete and of one revision, even while TICs use the etcd. A file that was cut off
//! or changed is refused, and so is one whose records contradict each other; an import never
//! overwrites records. It raises the revision, the epochs of groups, the next group number, the
//! incarnations of nodes that start later, the term of the route service and the numbers of
//! collectives beyond everything that agents and switches may have seen of records that were lost.

use std::fmt::Write as _;
use std::io::{self, BufRead, Write};
use std::sync::Arc;

use fabricast_groups::directory::Limits;
use fabricast_groups::ids::{Epoch, Gn, Incarnation, Revision};
use fabricast_groups::record::{Change, GroupRecord};
use fabricast_rpc::joined;
use fabricast_store::{Expected, Store, StoreError, StoreLocation, Txn, TxnOutcome};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use thiserror::Error;

use crate::domain::collectives::text as collective_text;
use crate::records::keys::{self, Keys, LEADER, RecordsError};
use crate::records::layout;
use crate::records::storage::{Loaded, Storage, store_options};

/// Version of the file format.
const FORMAT: u64 = 1;
/// Present during an import: a key that is no record, so that every TIC refuses the store.
const UNFINISHED: &[u8] = b"tic/unfinished_import";

/// Added by an import to every number that only grows. Agents, nodes and switches accept nothing
/// older than what they have seen, and may have seen what came after the export.
const STEP: u64 = 1 << 32;

/// Contents of a store or a file, in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Layout of the records; the next leader upgrades an older one than this program's.
    pub layout: u64,
    /// Revision of the records.
    pub revision: u64,
    /// Keys in the store.
    pub keys: usize,
    /// Groups that exist.
    pub groups: usize,
    /// Memberships in all groups.
    pub members: usize,
    /// Nodes, failed ones included.
    pub nodes: usize,
}

/// Reason why an export, an import or a check failed. Nothing was changed.
#[derive(Debug, Error)]
pub enum BackupError {
    /// The store cannot be opened.
    #[error("the store cannot be opened")]
    Open(#[from] fabricast_store::OpenError),
    /// The store failed.
    #[error("the store failed")]
    Store(#[from] StoreError),
    /// The records cannot be used.
    #[error("the records cannot be used")]
    Records(#[from] RecordsError),
    /// The file cannot be read or written.
    #[error("the file cannot be used")]
    File(#[from] io::Error),
    /// A line of the file is wrong.
    #[error("line {line}: {what}")]
    Line {
        /// Number of the line, from 1.
        line: usize,
        /// Description of the fault.
        what: String,
    },
    /// The store holds no records: no TIC has used it.
    #[error("the store holds no records of a TIC")]
    Empty,
    /// The store holds records, or a TIC uses it.
    #[error("the store is not empty: it holds {key:?}")]
    NotEmpty {
        /// One of its keys.
        key: String,
    },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    fabricast_records: u64,
    revision: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    key: String,
    value: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Tail {
    keys: usize,
    sha256: String,
}

/// Opens a store for [`import`]; creates it if there is none.
///
/// # Errors
///
/// [`BackupError::Open`]; an embedded store that a TIC has open cannot be opened a second time.
pub async fn open(location: &StoreLocation) -> Result<Arc<dyn Store>, BackupError> {
    Ok(location.open(store_options()).await?)
}

/// Opens a store for [`export`].
///
/// # Errors
///
/// [`BackupError::Open`], also if there is none.
pub async fn open_existing(location: &StoreLocation) -> Result<Arc<dyn Store>, BackupError> {
    Ok(location.open_existing(store_options()).await?)
}

/// Writes all records of a store to a file.
///
/// # Errors
///
/// [`BackupError`]; records that contradict each other are not written out, and a store without
/// any is no store of a TIC.
pub async fn export(store: Arc<dyn Store>, file: &mut impl Write) -> Result<Summary, BackupError> {
    let (summary, lines) = lines(Storage { store, limits: Limits::default() }).await?;
    for line in lines {
        file.write_all(line.as_bytes())?;
    }
    file.flush()?;
    Ok(summary)
}

/// Reads all records, as of one revision; returns what they are, and the lines of a file with them.
///
/// # Errors
///
/// As [`export`].
pub(crate) async fn lines(storage: Storage) -> Result<(Summary, Lines), BackupError> {
    let keys = storage.keys().await?.0;
    if keys.is_empty() {
        return Err(BackupError::Empty);
    }
    let summarized = tokio::task::spawn_blocking(move || {
        let summary = summarize(&storage, &keys)?;
        let head = Head { fabricast_records: FORMAT, revision: summary.revision };
        let (keys, digest, stage) = (keys.into_iter(), Sha256::new(), Stage::Head(head));
        Ok((summary, Lines { keys, count: summary.keys, digest, stage }))
    });
    joined(summarized.await).await
}

/// The lines of a file of records.
pub(crate) struct Lines {
    keys: std::collections::btree_map::IntoIter<Vec<u8>, Vec<u8>>,
    count: usize,
    digest: Sha256,
    stage: Stage,
}

/// The line that comes next.
enum Stage {
    Head(Head),
    Keys,
    End,
}

impl Iterator for Lines {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let line = match std::mem::replace(&mut self.stage, Stage::Keys) {
            Stage::Head(head) => json(&head),
            Stage::Keys => match self.keys.next() {
                Some((key, value)) => {
                    // Everything that a TIC writes is text.
                    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                    json(&Line { key: text(key), value: text(value) })
                }
                None => {
                    self.stage = Stage::End;
                    let sha256 = hex(&self.digest.finalize_reset());
                    return Some(json(&Tail { keys: self.count, sha256 }));
                }
            },
            Stage::End => {
                self.stage = Stage::End;
                return None;
            }
        };
        self.digest.update(&line);
        Some(line)
    }
}

/// Checks a file that [`export`] wrote, and counts what is in it.
///
/// # Errors
///
/// [`BackupError`] naming the line, or what the records contradict.
pub fn check(file: &mut impl BufRead) -> Result<Summary, BackupError> {
    let keys = read(file)?;
    let store = Arc::new(fabricast_store::EmbeddedStore::in_memory()?);
    summarize(&Storage { store, limits: Limits::default() }, &keys)
}

/// Checks that [`import`] would find a store empty. Creates none.
///
/// # Errors
///
/// [`BackupError::NotEmpty`], or that of a store that cannot be opened.
pub async fn check_empty(location: &StoreLocation) -> Result<(), BackupError> {
    match location {
        StoreLocation::File(file) if !file.exists() => Ok(()),
        StoreLocation::File(_) | StoreLocation::Memory | StoreLocation::Etcd { .. } => {
            refuse_records(&open(location).await?).await
        }
    }
}

async fn refuse_records(store: &Arc<dyn Store>) -> Result<(), BackupError> {
    match store.range(b"").await?.entries.first() {
        Some(entry) => {
            let key = String::from_utf8_lossy(&entry.key).into_owned();
            Err(BackupError::NotEmpty { key })
        }
        None => Ok(()),
    }
}

/// Writes the records of a file into an empty store, with every number that only grows raised: by
/// 2^32, those of trees and reservations by 2^20.
///
/// # Errors
///
/// [`BackupError`]; the store is as it was, except that after a [`BackupError::Store`] it may hold
/// a part of a file that is larger than a transaction. No TIC accepts that part: empty the store
/// and begin again.
pub async fn import(
    store: Arc<dyn Store>,
    file: &mut impl BufRead,
) -> Result<Summary, BackupError> {
    let mut keys = read(file)?;
    let storage = Storage { store: Arc::clone(&store), limits: Limits::default() };
    layout::upgrade(&mut keys)?;
    let copied = summarize(&storage, &keys)?;
    let revision = copied.revision.saturating_add(STEP);
    raise(&storage, &mut keys)?;
    let summary = Summary { revision, keys: keys.len(), ..copied };
    refuse_records(&store).await?;
    let schema = keys.remove(keys::SCHEMA).unwrap_or_default();
    commit(&store, Txn::new().put(UNFINISHED, "")).await?;
    let limits = store.limits();
    let (mut txn, mut bytes) = (Txn::new(), 0);
    for (key, value) in keys {
        let more = key.len() + value.len();
        if txn.ops.len() + 2 > limits.txn_ops || bytes + more + 4_096 > limits.txn_bytes {
            commit(&store, std::mem::take(&mut txn)).await?;
            bytes = 0;
        }
        bytes += more;
        txn = txn.put(key, value);
    }
    commit(&store, txn).await?;
    commit(&store, Txn::new().put(keys::SCHEMA, schema).delete(UNFINISHED)).await?;
    Ok(summary)
}

/// Raises every number that only grows.
fn raise(storage: &Storage, keys: &mut Keys) -> Result<(), BackupError> {
    let Loaded { directory, route_term, collectives, .. } = storage.read(keys.clone())?;
    let later = |number: u64| number.saturating_add(STEP);
    let incarnations = directory.nodes().map(|node| node.incarnation);
    let incarnation = incarnations.fold(directory.first_incarnation(), Incarnation::max);
    let counters = [
        Change::FirstIncarnationPut(Incarnation(later(incarnation.0))),
        Change::RevisionPut(Revision(later(directory.revision().0))),
        Change::NextGnPut(Gn(later(directory.next_gn().0))),
    ];
    let groups = directory.groups_from(Gn(0)).map(|group| {
        let epoch = Epoch(later(group.epoch.0));
        Change::GroupPut(GroupRecord { epoch, ..group.clone() })
    });
    for change in groups.chain(counters) {
        keys.insert(keys::record(&change), change.encode().unwrap_or_default());
    }
    // Also if none was given yet: switches may have seen terms, trees and collectives since.
    keys.insert(keys::ROUTE_TERM.to_vec(), keys::number(later(route_term)));
    let ledger = format!("{}{}", keys::COLLECTIVES, collective_text::LEDGER);
    let text: Option<&str> = collectives.get(collective_text::LEDGER).map(AsRef::as_ref);
    let raised = collective_text::raised_ledger(text, STEP)
        .map_err(|source| RecordsError::Collective { key: ledger.clone(), source })?;
    keys.insert(ledger.into_bytes(), raised.into_bytes());
    Ok(())
}

/// Writes a part, unless a TIC uses the store by now.
async fn commit(store: &Arc<dyn Store>, txn: Txn) -> Result<(), BackupError> {
    let txn = txn.when(keys::SCHEMA, Expected::Absent).when(LEADER, Expected::Absent);
    match store.txn(txn).await? {
        TxnOutcome::Committed { .. } => Ok(()),
        TxnOutcome::Conflict { key } => {
            Err(BackupError::NotEmpty { key: String::from_utf8_lossy(&key).into_owned() })
        }
    }
}

fn summarize(storage: &Storage, keys: &Keys) -> Result<Summary, BackupError> {
    let (layout, mut newest) = (layout::found(keys)?, keys.clone());
    layout::upgrade(&mut newest)?;
    let loaded = storage.read(newest)?;
    let groups: Vec<_> = loaded.directory.groups_from(Gn(0)).collect();
    Ok(Summary {
        layout,
        revision: loaded.directory.revision().0,
        keys: keys.len(),
        groups: groups.len(),
        members: groups.iter().map(|group| loaded.directory.member_count(group.gn)).sum(),
        nodes: loaded.directory.nodes().count(),
    })
}

/// Reads the lines of a file and checks that they are complete.
fn read(file: &mut impl BufRead) -> Result<Keys, BackupError> {
    let (mut keys, mut digest, mut line) = (Keys::new(), Sha256::new(), 0);
    let mut text = String::new();
    loop {
        text.clear();
        line += 1;
        let wrong = |what: String| BackupError::Line { line, what };
        if file.read_line(&mut text)? == 0 {
            return Err(wrong("the file ends before its last line".to_owned()));
        }
        if line == 1 {
            let head: Head = parse(&text, line, "records of Fabricast")?;
            if head.fabricast_records != FORMAT {
                let found = head.fabricast_records;
                return Err(wrong(format!("format {found}, this program reads format {FORMAT}")));
            }
        } else if text.starts_with("{\"keys\"") {
            let tail: Tail = parse(&text, line, "the last line of a file")?;
            if tail.keys != keys.len() || tail.sha256 != hex(&digest.finalize()) {
                return Err(wrong("lines before it are missing or were changed".to_owned()));
            }
            if !keys.contains_key(keys::SCHEMA) {
                let schema = String::from_utf8_lossy(keys::SCHEMA);
                return Err(wrong(format!("the layout of the records, {schema:?}, is missing")));
            }
            return Ok(keys);
        } else {
            let Line { key, value } = parse(&text, line, "a key and a value")?;
            if keys.insert(key.clone().into_bytes(), value.into_bytes()).is_some() {
                return Err(wrong(format!("key {key:?} is there twice")));
            }
        }
        digest.update(&text);
    }
}

fn parse<'de, T: Deserialize<'de>>(
    text: &'de str,
    line: usize,
    what: &str,
) -> Result<T, BackupError> {
    serde_json::from_str(text)
        .map_err(|error| BackupError::Line { line, what: format!("not {what}: {error}") })
}

fn json(line: &impl Serialize) -> String {
    let text = serde_json::to_string(line).expect("texts and numbers have a form in JSON");
    text + "\n"
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a text grows");
        text
    })
}
