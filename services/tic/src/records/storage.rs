//! Reads the TIC's records from the store; [`keys`] lists where they are.

use std::fmt;
use std::sync::Arc;

use fabricast_groups::directory::{Directory, Limits};
use fabricast_store::{
    Expected, KeyValue, Options as StoreOptions, Store, StoreError, Txn, TxnOutcome,
};
use fabricast_topology::{Graph, ibnetdiscover};

use crate::domain::choices::text::{self, Texts};
use crate::domain::collectives::text::{self as collective_text, Texts as CollectiveTexts};
use crate::leadership::election::LeaderLease;
use crate::records::keys::{self, Keys, NEWEST_LAYOUT, Puts, RecordsError};
use crate::records::layout;
use crate::records::redo_log::{CHOICES, DECISIONS, Written};

/// Returns the bounds of an embedded store for the records of a TIC.
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

/// The store and what is needed to read it.
#[derive(Clone)]
pub(crate) struct Storage {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) limits: Limits,
}

/// Bytes of choices that are written also if the store has no space: far less than what the store
/// has in reserve.
pub(crate) const MAX_ESSENTIAL_BYTES: usize = 1 << 20;

/// The changes of committed redo logs.
#[derive(Debug)]
pub(crate) struct RedoLogs {
    decisions: Option<Puts>,
    choices: Option<Puts>,
}

/// The choices of the route service.
#[derive(Debug, Default)]
pub(crate) struct StoredChoices {
    pub(crate) texts: Texts,
    /// They stand in a redo log that could not be carried out yet.
    pub(crate) is_unfinished: bool,
}

/// Everything that the store holds, decoded.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) directory: Directory,
    /// The newest term of a route service; 0 if none was given.
    pub(crate) route_term: u64,
    /// Reporter and list of failed parts.
    pub(crate) failed: Vec<(String, String)>,
    pub(crate) choices: StoredChoices,
    pub(crate) collectives: CollectiveTexts,
    /// The discovered topology, as text and parsed.
    pub(crate) topology: Option<(Arc<str>, Arc<Graph>)>,
}

impl Storage {
    /// Prepares the store for a new leader: writes the layout's version if the store is empty,
    /// reads everything, finishes what the previous leader left half done, and upgrades older
    /// records.
    ///
    /// Returns `None` if the term is already over.
    pub(crate) async fn adopt(&self, lease: &LeaderLease) -> Result<Option<Loaded>, RecordsError> {
        let first = lease.fence(Txn::new().essential()).when(keys::SCHEMA, Expected::Absent);
        match self.store.txn(first.put(keys::SCHEMA, keys::number(NEWEST_LAYOUT))).await? {
            TxnOutcome::Committed { .. } | TxnOutcome::Conflict { .. } => {}
        }
        let (mut keys, redo) = self.keys().await?;
        layout::found(&keys)?; // records that cannot be read are left as they are
        if !DECISIONS.settle(&self.store, lease, redo.decisions.as_ref()).await? {
            return Ok(None);
        }
        let choices = finish_choices(&self.store, lease, redo.choices.as_ref());
        let Some(is_unfinished) = choices.await? else { return Ok(None) };
        let upgrade = layout::upgrade(&mut keys)?;
        let mut loaded = self.read(keys)?;
        loaded.choices.is_unfinished = is_unfinished;
        Ok(self.rewrite(lease, upgrade).await?.then_some(loaded))
    }

    /// Writes upgraded records; returns whether this TIC still leads.
    async fn rewrite(&self, lease: &LeaderLease, puts: Puts) -> Result<bool, RecordsError> {
        if puts.is_empty() {
            return Ok(true);
        }
        let txn = Txn::new().essential();
        let done = match DECISIONS.write(&self.store, lease, txn, &puts).await? {
            Written::Whole => true,
            Written::Logged => {
                let finished = DECISIONS.finish(&self.store, lease, &puts).await?;
                matches!(finished, TxnOutcome::Committed { .. })
            }
            Written::Conflict { .. } => false,
        };
        if done {
            tracing::info!(layout = NEWEST_LAYOUT, "records rewritten in the newest layout");
        }
        Ok(done)
    }

    /// Reads and decodes everything.
    pub(crate) async fn load(&self) -> Result<Loaded, RecordsError> {
        let (mut keys, _) = self.keys().await?;
        layout::upgrade(&mut keys)?;
        self.read(keys)
    }

    /// Reads all keys as they are once the redo logs are carried out; also returns those logs.
    pub(crate) async fn keys(&self) -> Result<(Keys, RedoLogs), RecordsError> {
        let snapshot = self.store.range(keys::PREFIX.as_bytes()).await?;
        let (logged, entries): (Vec<KeyValue>, Vec<KeyValue>) =
            snapshot.entries.into_iter().partition(|entry| {
                let logs = [keys::REDO, keys::CHOICE_REDO];
                logs.iter().any(|log| entry.key.starts_with(log.as_bytes()))
            });
        let (decisions, choices) = (DECISIONS.read(&logged)?, CHOICES.read(&logged)?);
        let mut keys: Keys = entries.into_iter().map(|entry| (entry.key, entry.value)).collect();
        for redo in [&decisions, &choices].into_iter().flatten() {
            keys::apply(&mut keys, redo);
        }
        Ok((keys, RedoLogs { decisions, choices }))
    }

    /// Decodes keys of the newest layout.
    pub(crate) fn read(&self, keys: Keys) -> Result<Loaded, RecordsError> {
        let mut records = Vec::with_capacity(keys.len());
        let mut route_term = 0;
        let mut failed = Vec::new();
        let mut choices = StoredChoices::default();
        let mut collectives = CollectiveTexts::new();
        let mut topology = String::new();
        for (key, value) in keys {
            let key = String::from_utf8(key).map_err(|error| RecordsError::Foreign {
                key: String::from_utf8_lossy(error.as_bytes()).into_owned(),
            })?;
            if key.as_bytes() == keys::SCHEMA {
                // It was checked before.
            } else if key.as_bytes() == keys::ROUTE_TERM {
                route_term = keys::read_number(&key, &value)?;
            } else if let Some(reporter) = key.strip_prefix(keys::FAILED) {
                let list = String::from_utf8(value);
                let list = list.map_err(|_not_text| RecordsError::Foreign { key: key.clone() })?;
                failed.push((reporter.to_owned(), list));
            } else if let Some(rest) = key.strip_prefix(keys::CHOICES) {
                let read = text::read(rest, value);
                let (topic, text) =
                    read.ok_or_else(|| RecordsError::Foreign { key: key.clone() })?;
                choices.texts.insert(topic, text.into());
            } else if let Some(rest) = key.strip_prefix(keys::COLLECTIVES) {
                let text = String::from_utf8(value);
                let text = text.map_err(|_not_text| RecordsError::Foreign { key: key.clone() })?;
                match collective_text::check(rest, &text) {
                    Some(Ok(())) => drop(collectives.insert(rest.to_owned(), text.into())),
                    Some(Err(source)) => return Err(RecordsError::Collective { key, source }),
                    None => return Err(RecordsError::Foreign { key }),
                }
            } else if key.starts_with(keys::TOPOLOGY) {
                let piece = String::from_utf8(value); // in order, as keys are
                topology += &piece.map_err(|_not_text| RecordsError::Foreign { key })?;
            } else if let Some(record) = key.strip_prefix(keys::RECORDS) {
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
        Ok(Loaded { directory, route_term, failed, choices, collectives, topology })
    }
}

/// Finishes what was left half done of choices; returns whether that is not possible for lack of
/// space, or `None` if another TIC leads.
async fn finish_choices(
    store: &Arc<dyn Store>,
    lease: &LeaderLease,
    committed: Option<&Puts>,
) -> Result<Option<bool>, StoreError> {
    let bytes =
        |(key, value): (&Vec<u8>, &Option<Vec<u8>>)| key.len() + value.as_ref().map_or(0, Vec::len);
    let all: usize = committed.into_iter().flatten().map(bytes).sum();
    let log = CHOICES.at_once().essential(all <= MAX_ESSENTIAL_BYTES);
    match log.settle(store, lease, committed).await {
        Ok(leads) => Ok(leads.then_some(false)),
        // They are durable in the log, and carried out once there is room.
        Err(StoreError::NoSpace) => Ok(Some(true)),
        Err(error) => Err(error),
    }
}

/// Reads the choices of the route service, after what was left half done of them is finished, if
/// there is room for it; `None` if another TIC leads.
pub(crate) async fn settle_choices(
    store: &Arc<dyn Store>,
    lease: &LeaderLease,
) -> Result<Option<StoredChoices>, RecordsError> {
    let log = store.range(keys::CHOICE_REDO.as_bytes()).await?;
    let log = CHOICES.read(&log.entries)?;
    let Some(is_unfinished) = finish_choices(store, lease, log.as_ref()).await? else {
        return Ok(None);
    };
    let stored = store.range(keys::CHOICES.as_bytes()).await?.entries;
    let mut keys: Keys = stored.into_iter().map(|entry| (entry.key, entry.value)).collect();
    if let Some(log) = log.filter(|_| is_unfinished) {
        keys::apply(&mut keys, &log);
    }
    let mut texts = Texts::new();
    for (key, value) in keys {
        let key = String::from_utf8_lossy(&key).into_owned();
        let rest = key.strip_prefix(keys::CHOICES).unwrap_or_default();
        let (topic, text) = text::read(rest, value).ok_or(RecordsError::Foreign { key })?;
        texts.insert(topic, text.into());
    }
    Ok(Some(StoredChoices { texts, is_unfinished }))
}

impl fmt::Debug for Storage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Storage").field("limits", &self.limits).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use fabricast_store::EmbeddedStore;

    use super::*;

    async fn adopt_error(txn: Txn) -> String {
        let store = Arc::new(EmbeddedStore::in_memory().unwrap());
        store.txn(txn).await.unwrap();
        let storage = Storage { store, limits: Limits::default() };
        storage.adopt(&LeaderLease::sole()).await.unwrap_err().to_string()
    }

    #[tokio::test]
    async fn records_of_another_layout_are_left_alone() {
        let error =
            adopt_error(Txn::new().put(keys::SCHEMA, keys::number(NEWEST_LAYOUT + 1))).await;
        let expected = "the records have layout 3, this program reads layouts 1 to 2: use the program \
                        that wrote them, or a newer one";
        assert_eq!(error, expected);
    }

    #[tokio::test]
    async fn a_foreign_key_is_named() {
        let error = adopt_error(Txn::new().put("tic/other", "1")).await;
        assert_eq!(error, "the store holds \"tic/other\", which is no record of a TIC");
    }

    /// Without them numbers of trees would be used again, and quotas would be gone.
    #[tokio::test]
    async fn damaged_records_of_collectives_are_named_and_not_left_out() {
        for key in ["tic/collectives/ledger", "tic/collectives/by-name/sum"] {
            let error = adopt_error(Txn::new().put(key, "{}")).await;
            assert_eq!(error, format!("the record {key:?} is damaged"));
        }
        let error = adopt_error(Txn::new().put("tic/collectives/other", "{}")).await;
        assert!(error.ends_with("which is no record of a TIC"), "{error}");
    }
}
