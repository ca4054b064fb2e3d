//! How the TIC's records lie in the store.
//!
//! ```text
//!   tic/schema          version of this layout (`layout`)
//!   tic/route_term      the newest term given to a route service
//!   tic/failed/...      what each switch agent reported as failed, one key per agent (`elements`)
//!   tic/choices/...     what the route service chose, one key per group (`choices`)
//!   tic/topology/...    the topology that was discovered, in pieces (`topology`)
//!   tic/collectives/... collectives with their trees, and what is kept for whom (`collectives`)
//!   tic/records/...     the directory, one key per record (`fabricast_groups::record`)
//!   tic/redo/...        changes that are decided and not written out yet (`commit`)
//!   election/tic        the TIC that leads, if there are several (`election`)
//! ```

use std::fmt;
use std::sync::Arc;

use fabricast_groups::directory::{Directory, Limits, LoadError};
use fabricast_groups::record::Change;
use fabricast_store::{
    Expected, KeyValue, Options as StoreOptions, Store, StoreError, Txn, TxnOutcome,
};
use fabricast_topology::{Graph, ibnetdiscover};
use thiserror::Error;

use crate::choices::text::CHOICES;
use crate::choices::{self, Puts, Texts};
use crate::collectives::{self, COLLECTIVES};
use crate::commit::{self, REDO, Written};
use crate::election::Tenure;
use crate::layout::{self, Keys, NEWEST};
use crate::topology::TOPOLOGY;

const PREFIX: &str = "tic/";
pub(crate) const SCHEMA_KEY: &[u8] = b"tic/schema";
/// Where the newest term lies.
pub(crate) const TERM_KEY: &[u8] = b"tic/route_term";
const FAILED: &str = "tic/failed/";
pub(crate) const RECORDS: &str = "tic/records/";

/// Bounds of an embedded store that a TIC keeps its records in.
pub(crate) fn store_options() -> StoreOptions {
    StoreOptions {
        // Nobody watches the store: watches are served from the records.
        keep_revisions: 1,
        // The end of the largest group is one transaction.
        max_txn_ops: 4 << 20,
        max_txn_bytes: 1 << 30,
        ..StoreOptions::default()
    }
}

/// Why the records could not be read from the store.
#[derive(Debug, Error)]
pub enum RecordsError {
    /// The store failed.
    #[error("the store cannot be read")]
    Store(#[from] StoreError),
    /// A key or number is not of the TIC's layout.
    #[error("the store holds {key:?}, which is no record of a TIC")]
    Foreign {
        /// The key.
        key: String,
    },
    /// A version that this one does not know wrote the records.
    #[error(
        "the records have layout {found}, this program reads layouts 1 to {NEWEST}: use the program that \
         wrote them, or a newer one"
    )]
    Schema {
        /// The layout in the store.
        found: u64,
    },
    /// The topology that was discovered cannot be read.
    #[error("the topology in the store cannot be read")]
    Topology(#[source] ibnetdiscover::ReadError),
    /// The records contradict each other.
    #[error("the records are damaged")]
    Damaged(#[from] LoadError),
}

/// The store and what is needed to read it.
#[derive(Clone)]
pub(crate) struct Storage {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) limits: Limits,
}

/// What the store holds.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) directory: Directory,
    pub(crate) term: u64,
    /// Reporter and list of failed parts.
    pub(crate) failed: Vec<(String, String)>,
    pub(crate) choices: Texts,
    pub(crate) collectives: collectives::Texts,
    /// The topology that was discovered, as text and read.
    pub(crate) topology: Option<(Arc<str>, Arc<Graph>)>,
}

impl Storage {
    /// Takes office: writes the layout's version if the store is new, reads everything, finishes
    /// what an earlier leader has left half done, and writes older records anew.
    ///
    /// `None` if the term of office is over already.
    pub(crate) async fn adopt(&self, tenure: &Tenure) -> Result<Option<Loaded>, RecordsError> {
        let first = tenure.fence(Txn::new()).when(SCHEMA_KEY, Expected::Absent);
        match self.store.txn(first.put(SCHEMA_KEY, number(NEWEST))).await? {
            TxnOutcome::Committed { .. } | TxnOutcome::Conflict { .. } => {}
        }
        let (mut keys, redo) = self.keys().await?;
        layout::found(&keys)?; // records that cannot be read are left as they are
        let cleaned = match &redo {
            Some(redo) => commit::finish(&self.store, tenure, redo).await?,
            None => commit::clear(&self.store, tenure).await?,
        };
        if !matches!(cleaned, TxnOutcome::Committed { .. }) {
            return Ok(None);
        }
        let upgrade = layout::upgrade(&mut keys)?;
        let loaded = self.read(keys)?;
        Ok(self.rewrite(tenure, upgrade).await?.then_some(loaded))
    }

    /// Writes records of an older layout anew; answers whether this one still leads.
    async fn rewrite(&self, tenure: &Tenure, puts: Puts) -> Result<bool, RecordsError> {
        if puts.is_empty() {
            return Ok(true);
        }
        let done = match commit::write(&self.store, tenure, Txn::new(), &puts).await? {
            Written::Whole => true,
            Written::Logged => {
                let finished = commit::finish(&self.store, tenure, &puts).await?;
                matches!(finished, TxnOutcome::Committed { .. })
            }
            Written::Conflict { .. } => false,
        };
        if done {
            tracing::info!(revision = NEWEST, "records written anew in the newest layout");
        }
        Ok(done)
    }

    /// Reads everything.
    pub(crate) async fn load(&self) -> Result<Loaded, RecordsError> {
        let (mut keys, _) = self.keys().await?;
        layout::upgrade(&mut keys)?;
        self.read(keys)
    }

    /// Reads all keys, with what is durable and not carried out yet; answers that, too.
    pub(crate) async fn keys(&self) -> Result<(Keys, Option<Puts>), RecordsError> {
        let snapshot = self.store.range(PREFIX.as_bytes()).await?;
        let (logged, entries): (Vec<KeyValue>, Vec<KeyValue>) =
            snapshot.entries.into_iter().partition(|entry| entry.key.starts_with(REDO.as_bytes()));
        let redo = commit::read(&logged)?;
        let mut keys: Keys = entries.into_iter().map(|entry| (entry.key, entry.value)).collect();
        for (key, value) in redo.iter().flatten() {
            match value {
                Some(value) => drop(keys.insert(key.clone(), value.clone())),
                None => drop(keys.remove(key)),
            }
        }
        Ok((keys, redo))
    }

    /// Makes sense of keys of the newest layout.
    pub(crate) fn read(&self, keys: Keys) -> Result<Loaded, RecordsError> {
        let mut records = Vec::with_capacity(keys.len());
        let mut term = 0;
        let mut failed = Vec::new();
        let mut choices = Texts::new();
        let mut collectives = collectives::Texts::new();
        let mut topology = String::new();
        for (key, value) in keys {
            let key = String::from_utf8(key).map_err(|error| RecordsError::Foreign {
                key: String::from_utf8_lossy(error.as_bytes()).into_owned(),
            })?;
            if key.as_bytes() == SCHEMA_KEY {
                // It has been looked at.
            } else if key.as_bytes() == TERM_KEY {
                term = read_number(&key, &value)?;
            } else if let Some(reporter) = key.strip_prefix(FAILED) {
                let list = String::from_utf8(value);
                let list = list.map_err(|_not_text| RecordsError::Foreign { key: key.clone() })?;
                failed.push((reporter.to_owned(), list));
            } else if let Some(rest) = key.strip_prefix(CHOICES) {
                let read = choices::text::read(rest, value);
                let (topic, text) =
                    read.ok_or_else(|| RecordsError::Foreign { key: key.clone() })?;
                choices.insert(topic, text.into());
            } else if let Some(rest) = key.strip_prefix(COLLECTIVES) {
                let text = String::from_utf8(value);
                let text = text.map_err(|_not_text| RecordsError::Foreign { key: key.clone() })?;
                collectives.insert(rest.to_owned(), text.into());
            } else if key.starts_with(TOPOLOGY) {
                let piece = String::from_utf8(value); // in order, as keys are
                topology += &piece.map_err(|_not_text| RecordsError::Foreign { key })?;
            } else if let Some(record) = key.strip_prefix(RECORDS) {
                records.push((record.to_owned(), value));
            } else {
                return Err(RecordsError::Foreign { key });
            }
        }
        let directory = Directory::load(self.limits.clone(), records)?;
        let topology = match topology.as_str() {
            "" => None,
            text => {
                let graph = ibnetdiscover::read(text).map_err(RecordsError::Topology)?;
                Some((text.into(), Arc::new(graph)))
            }
        };
        Ok(Loaded { directory, term, failed, choices, collectives, topology })
    }
}

impl fmt::Debug for Storage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Storage").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// The key of a record in the store.
pub(crate) fn key(change: &Change) -> Vec<u8> {
    format!("{RECORDS}{}", change.store_key()).into_bytes()
}

/// The key of a reporter's list of failed parts.
pub(crate) fn failed_key(reporter: &str) -> Vec<u8> {
    format!("{FAILED}{reporter}").into_bytes()
}

/// A number as it lies in the store: decimal, so that an operator can read it.
pub(crate) fn number(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}

pub(crate) fn read_number(key: &str, value: &[u8]) -> Result<u64, RecordsError> {
    let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| RecordsError::Foreign { key: key.to_owned() })
}

#[cfg(test)]
mod tests {
    use fabricast_store::EmbeddedStore;

    use super::*;

    async fn complaint(txn: Txn) -> String {
        let store = Arc::new(EmbeddedStore::in_memory().unwrap());
        store.txn(txn).await.unwrap();
        let storage = Storage { store, limits: Limits::default() };
        storage.adopt(&Tenure::alone()).await.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn records_of_another_layout_are_left_alone() {
        let error = complaint(Txn::new().put(SCHEMA_KEY, number(NEWEST + 1))).await;
        let expected = "the records have layout 3, this program reads layouts 1 to 2: use the program \
                        that wrote them, or a newer one";
        assert_eq!(error, expected);
    }

    #[tokio::test]
    async fn a_foreign_key_is_named() {
        let error = complaint(Txn::new().put("tic/other", "1")).await;
        assert_eq!(error, "the store holds \"tic/other\", which is no record of a TIC");
    }
}
