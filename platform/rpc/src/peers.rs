//! Channels to servers at many addresses.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use crate::client::{Peer, PeerError};
use crate::security::Security;

/// Most channels kept: more than a process calls at one time, as one server hosts many nodes.
const MOST: usize = 8192;

/// Channels by address, made when first needed.
///
/// Nodes come and go under new addresses, so that only channels in use are kept: of too many, the
/// half that was used last.
#[derive(Debug)]
pub struct Peers {
    security: Security,
    most: usize,
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// Channels with the number of their last use.
    peers: BTreeMap<String, (Peer, u64)>,
    uses: u64,
}

impl Peers {
    /// Starts without channels.
    #[must_use]
    pub fn new(security: Security) -> Self {
        Self { security, most: MOST, known: Mutex::default() }
    }

    /// Returns the channel to `host:port`; nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`PeerError`] if the address is invalid, or may not be called.
    pub fn get(&self, address: &str) -> Result<Peer, PeerError> {
        let mut known = self.known.lock();
        known.uses += 1;
        let now = known.uses;
        if let Some((peer, used)) = known.peers.get_mut(address) {
            *used = now;
            return Ok(peer.clone());
        }
        let peer = self.security.peer(address)?;
        if known.peers.len() >= self.most {
            known.forget_half();
        }
        known.peers.insert(address.to_owned(), (peer.clone(), now));
        Ok(peer)
    }
}

impl Peers {
    /// Replaces a channel on which a call was not answered, unless that has been done: its
    /// connection may be dead though the server is not, as after a failure of the network. Calls
    /// under way are left alone.
    pub fn renew(&self, silent: &Peer) {
        let mut known = self.known.lock();
        let Some((peer, _)) = known.peers.get_mut(silent.address()) else { return };
        if peer.is_same(silent)
            && let Ok(new) = self.security.peer(silent.address())
        {
            *peer = new;
        }
    }
}

impl Known {
    fn forget_half(&mut self) {
        let mut uses: Vec<u64> = self.peers.values().map(|(_, used)| *used).collect();
        let middle = uses.len() / 2;
        let (_, median, _) = uses.select_nth_unstable(middle);
        let median = *median;
        self.peers.retain(|_, (_, used)| *used >= median);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_silent_channel_is_replaced_once() {
        let peers = Peers::new(Security::plaintext());
        let old = peers.get("127.0.0.1:7404").unwrap();
        assert!(peers.get("127.0.0.1:7404").unwrap().is_same(&old));
        peers.renew(&old);
        let new = peers.get("127.0.0.1:7404").unwrap();
        assert!(!new.is_same(&old));
        peers.renew(&old);
        assert!(peers.get("127.0.0.1:7404").unwrap().is_same(&new));
    }

    #[tokio::test]
    async fn channels_are_bounded_and_the_ones_in_use_are_kept() {
        let peers = Peers { most: 8, ..Peers::new(Security::plaintext()) };
        for port in 1..100 {
            peers.get("127.0.0.1:7404").unwrap();
            peers.get(&format!("127.0.0.1:{port}")).unwrap();
            let known = peers.known.lock();
            assert!(known.peers.len() <= 8, "{}", known.peers.len());
            assert!(known.peers.contains_key("127.0.0.1:7404"));
        }
        assert!(peers.get("no%address:1").is_err());
        assert!(!peers.known.lock().peers.contains_key("no%address:1"));
    }
}
