//! Messages of a part, its latest state, and the reason for its end.

use fabricast_status::RpcError;

use crate::Error;

/// A message of another member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Rank of the sender.
    pub sender: u32,
    /// Bytes that were sent.
    pub payload: Vec<u8>,
}

/// Latest state of a part.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) participants: Vec<u32>,
    pub(crate) end: Option<End>,
}

/// Reason why a part has ended.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// The agent ended the call.
    Closed,
    /// The call failed.
    Failed(RpcError),
    /// The agent sent something that cannot be read.
    BadPayload(String),
}

impl End {
    pub(crate) fn into_error(self, group: &str) -> Error {
        match self {
            Self::Closed => Error::ended("the agent has ended the call"),
            Self::Failed(error) => Error::of_group(group, error),
            Self::BadPayload(what) => Error::bad_answer(what),
        }
    }
}
