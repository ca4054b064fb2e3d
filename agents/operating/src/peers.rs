//! Channels to other processes, one per address, made when first needed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use fabricast_rpc::{Peer, PeerError, Security};

/// Channels by address.
#[derive(Debug)]
pub(crate) struct Peers {
    security: Security,
    known: Mutex<BTreeMap<String, Peer>>,
}

impl Peers {
    pub(crate) fn new(security: Security) -> Self {
        Self { security, known: Mutex::default() }
    }

    /// The channel to `host:port`.
    pub(crate) fn get(&self, address: &str) -> Result<Peer, PeerError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(peer) = known.get(address) {
            return Ok(peer.clone());
        }
        let peer = self.security.peer(address)?;
        known.insert(address.to_owned(), peer.clone());
        Ok(peer)
    }
}
