//! Keys of the store, and what can be wrong with them.
//!
//! ```text
//!   tic/schema          version of this layout (`layout`)
//!   tic/route_term      the newest term given to a route service
//!   tic/failed/...      failed parts, one key per switch agent that reports them (`elements`)
//!   tic/choices/...     what the route service chose, one key per group (`choices`)
//!   tic/topology/...    the discovered topology, in pieces (`topology`)
//!   tic/collectives/... collectives with their trees, reservations and quotas (`collectives`)
//!   tic/records/...     the directory, one key per record (`fabricast_groups::record`)
//!   tic/redo/...        changes that are decided and not written out yet (`redo_log`)
//!   tic/choice_redo/... the same for choices
//!   election/tic        the TIC that leads, if there are several (`election`)
//! ```

use std::collections::BTreeMap;

use fabricast_groups::directory::LoadError;
use fabricast_groups::record::Change;
use fabricast_store::StoreError;
use fabricast_topology::ibnetdiscover;
use thiserror::Error;

/// Prefix of all keys but [`LEADER`].
pub(crate) const PREFIX: &str = "tic/";
pub(crate) const SCHEMA: &[u8] = b"tic/schema";
pub(crate) const ROUTE_TERM: &[u8] = b"tic/route_term";
pub(crate) const FAILED: &str = "tic/failed/";
pub(crate) const CHOICES: &str = "tic/choices/";
pub(crate) const TOPOLOGY: &str = "tic/topology/";
pub(crate) const COLLECTIVES: &str = "tic/collectives/";
pub(crate) const RECORDS: &str = "tic/records/";
pub(crate) const REDO: &str = "tic/redo/";
pub(crate) const CHOICE_REDO: &str = "tic/choice_redo/";
/// The leader's key: its value is the address that callers are told.
pub(crate) const LEADER: &[u8] = b"election/tic";

/// The layout that this program writes.
pub(crate) const NEWEST_LAYOUT: u64 = 2;

/// Keys and values of a store.
pub(crate) type Keys = BTreeMap<Vec<u8>, Vec<u8>>;

/// Writes of one transaction: the new value of a key, or `None` to delete it.
pub(crate) type Puts = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// Reason why the records could not be read from the store.
#[derive(Debug, Error)]
pub enum RecordsError {
    /// The store failed.
    #[error("the store cannot be read")]
    Store(#[from] StoreError),
    /// A key or number is not of the TIC's layout.
    #[error("the store holds {key:?}, which is no record of a TIC")]
    Foreign {
        /// The offending key.
        key: String,
    },
    /// A record of a collective, or the ledger of collectives, cannot be read.
    #[error("the record {key:?} is damaged")]
    Collective {
        /// Key of the record.
        key: String,
        /// The fault in its text.
        #[source]
        source: serde_json::Error,
    },
    /// A newer program wrote the records.
    #[error(
        "the records have layout {found}, this program reads layouts 1 to {NEWEST_LAYOUT}: use the \
         program that wrote them, or a newer one"
    )]
    Schema {
        /// The layout in the store.
        found: u64,
    },
    /// The discovered topology cannot be parsed.
    #[error("the topology in the store cannot be read")]
    Topology(#[source] ibnetdiscover::ReadError),
    /// The records contradict each other.
    #[error("the records are damaged")]
    Damaged(#[from] LoadError),
}

/// The key of a record of the directory.
pub(crate) fn record(change: &Change) -> Vec<u8> {
    format!("{RECORDS}{}", change.store_key()).into_bytes()
}

/// The key of a reporter's list of failed parts.
pub(crate) fn failed(reporter: &str) -> Vec<u8> {
    format!("{FAILED}{reporter}").into_bytes()
}

/// Encodes a number as decimal text, so that an operator can read it.
pub(crate) fn number(number: u64) -> Vec<u8> {
    number.to_string().into_bytes()
}

pub(crate) fn read_number(key: &str, value: &[u8]) -> Result<u64, RecordsError> {
    let number = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| RecordsError::Foreign { key: key.to_owned() })
}

/// Applies writes to keys that were read.
pub(crate) fn apply(keys: &mut Keys, puts: &Puts) {
    for (key, value) in puts {
        match value {
            Some(value) => drop(keys.insert(key.clone(), value.clone())),
            None => drop(keys.remove(key)),
        }
    }
}
