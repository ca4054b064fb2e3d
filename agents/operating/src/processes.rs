//! Processes attached at the socket: their sessions, the groups they take part in, shared memory.

pub(crate) mod direct;
pub(crate) mod group_members;
pub(crate) mod memory;
pub(crate) mod participants;
pub(crate) mod reservations;
pub(crate) mod sessions;
pub(crate) mod user_rules;
pub(crate) mod user_shares;
