//! Keys and values of records in a store.

use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use thiserror::Error;

use super::{Change, MemberRecord};
use crate::ids::{Gn, Pn, Revision};
use crate::names::{EndpointName, NodeName, ProcessName};

impl Change {
    /// Returns the key of the record; keys sort by kind, then by number or name.
    pub fn store_key(&self) -> String {
        match self {
            Self::NodePut(node) => format!("node/{}", node.name),
            Self::NodeRemoved(name) => format!("node/{name}"),
            Self::GroupPut(group) => format!("group/{:016x}", group.gn.0),
            Self::GroupDeleted(gn) => format!("group/{:016x}", gn.0),
            Self::MemberPut(member) | Self::MemberDeleted(member) => {
                format!("member/{:016x}/{:08x}", member.gn.0, member.pn.0)
            }
            Self::MgidRetired(mgid, _) | Self::MgidReleased(mgid) => format!("mgid/{:08x}", mgid.0),
            Self::JobPut(job) => format!("job/{}", job.name),
            Self::JobDeleted(name) => format!("job/{name}"),
            Self::RequestPut(request) => format!("request/{:016x}", request.sequence),
            Self::RequestDeleted(sequence) => format!("request/{sequence:016x}"),
            Self::NextGnPut(_) => "counter/gn".to_owned(),
            Self::FirstIncarnationPut(_) => "counter/incarnation".to_owned(),
            Self::RevisionPut(_) => "counter/revision".to_owned(),
        }
    }

    /// Returns the value to store under the key, or `None` if the key is to be deleted.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let value = match self {
            Self::NodePut(node) => serde_json::to_vec(node),
            Self::GroupPut(group) => serde_json::to_vec(group),
            Self::MemberPut(member) => {
                // The rest is its key. Earlier versions read those that receive.
                let MemberRecord { gn: _, pn: _, node, process, endpoint, joined, sends_only } =
                    &**member;
                match sends_only {
                    false => serde_json::to_vec(&(node, process, endpoint, joined)),
                    true => serde_json::to_vec(&(node, process, endpoint, joined, true)),
                }
            }
            Self::MgidRetired(mgid, at) => serde_json::to_vec(&(mgid, at)),
            Self::JobPut(job) => serde_json::to_vec(job),
            Self::RequestPut(request) => serde_json::to_vec(request),
            Self::NextGnPut(gn) => serde_json::to_vec(gn),
            Self::FirstIncarnationPut(incarnation) => serde_json::to_vec(incarnation),
            Self::RevisionPut(revision) => serde_json::to_vec(revision),
            Self::NodeRemoved(_)
            | Self::GroupDeleted(_)
            | Self::MemberDeleted(_)
            | Self::MgidReleased(_)
            | Self::JobDeleted(_)
            | Self::RequestDeleted(_) => return None,
        };
        Some(value.expect("records have string keys only, which JSON can always hold"))
    }

    /// Decodes a stored record.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the key or value is invalid, or the record belongs under another key: the
    /// store was damaged or written by another program.
    pub fn decode(key: &str, value: &[u8]) -> Result<Self, DecodeError> {
        let change = match key.split_once('/') {
            Some(("node", _)) => Self::NodePut(read(key, value)?),
            Some(("group", _)) => Self::GroupPut(read(key, value)?),
            Some(("member", numbers)) => {
                let (gn, pn) = member_numbers(numbers)
                    .ok_or_else(|| DecodeError::UnknownKey { key: key.to_owned() })?;
                let MemberValue(node, process, endpoint, joined, sends_only) = read(key, value)?;
                Self::MemberPut(Arc::new(MemberRecord {
                    gn,
                    pn,
                    node,
                    process,
                    endpoint,
                    joined,
                    sends_only,
                }))
            }
            Some(("mgid", _)) => {
                let (mgid, at) = read(key, value)?;
                Self::MgidRetired(mgid, at)
            }
            Some(("job", _)) => Self::JobPut(read(key, value)?),
            Some(("request", _)) => Self::RequestPut(read(key, value)?),
            Some(("counter", "gn")) => Self::NextGnPut(read(key, value)?),
            Some(("counter", "incarnation")) => Self::FirstIncarnationPut(read(key, value)?),
            Some(("counter", "revision")) => Self::RevisionPut(read(key, value)?),
            Some(_) | None => return Err(DecodeError::UnknownKey { key: key.to_owned() }),
        };
        if change.store_key() == key {
            Ok(change)
        } else {
            Err(DecodeError::Misplaced { key: key.to_owned(), belongs: change.store_key() })
        }
    }
}

/// Value of a member's record; the last element may be left out.
#[derive(Deserialize)]
struct MemberValue(NodeName, ProcessName, EndpointName, Revision, #[serde(default)] bool);

fn member_numbers(key: &str) -> Option<(Gn, Pn)> {
    let (gn, pn) = key.split_once('/')?;
    let gn = u64::from_str_radix(gn, 16).ok()?;
    Some((Gn(gn), Pn(u32::from_str_radix(pn, 16).ok()?)))
}

fn read<T: DeserializeOwned>(key: &str, value: &[u8]) -> Result<T, DecodeError> {
    serde_json::from_slice(value)
        .map_err(|source| DecodeError::BadValue { key: key.to_owned(), source })
}

/// Reason why a stored record cannot be decoded.
#[derive(Debug, Error)]
pub enum DecodeError {
    /// No record has such a key.
    #[error("unknown record key {key:?}")]
    UnknownKey {
        /// The key as given.
        key: String,
    },
    /// The value cannot be parsed as the kind of record that the key names.
    #[error("the value of {key:?} is damaged")]
    BadValue {
        /// The key as given.
        key: String,
        /// Error of the parser.
        source: serde_json::Error,
    },
    /// The value belongs under another key.
    #[error("the value of {key:?} belongs under {belongs:?}")]
    Misplaced {
        /// Key that it was found under.
        key: String,
        /// Key that the value belongs under.
        belongs: String,
    },
}
