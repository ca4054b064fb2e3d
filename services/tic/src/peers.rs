//! Calls to the nodes: probes, and hints to the hosts of group agents.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_rpc::{Peer, Security};
use v1::group_agent_service_client::GroupAgentServiceClient;
use v1::operating_agent_service_client::OperatingAgentServiceClient;

/// Addresses whose channels are kept; one server hosts many nodes, so this is far above need.
const MAX_PEERS: usize = 8192;

/// Channels to the servers of nodes, one per address, made when first needed.
#[derive(Debug)]
pub(crate) struct Peers {
    security: Security,
    known: Mutex<BTreeMap<String, Peer>>,
}

impl Peers {
    pub(crate) fn new(security: Security) -> Self {
        Self { security, known: Mutex::default() }
    }

    /// Gives the channel to an address; `None` if the address cannot be dialled.
    fn get(&self, address: &str) -> Option<Peer> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(peer) = known.get(address) {
            return Some(peer.clone());
        }
        let peer = self.security.peer(address).ok()?;
        if known.len() >= MAX_PEERS {
            known.clear(); // they are cheap to make again
        }
        known.insert(address.to_owned(), peer.clone());
        Some(peer)
    }

    /// Asks a node whether it still lives the life given; one attempt, as the detector counts them.
    pub(crate) async fn probe(
        &self,
        address: &str,
        node: &str,
        incarnation: u64,
        patience: Duration,
    ) -> bool {
        let Some(peer) = self.get(address) else { return false };
        let mut client = OperatingAgentServiceClient::new(peer.channel());
        let request = v1::ProbeNodeRequest { node: node.to_owned() };
        let answer = tokio::time::timeout(patience, client.probe_node(request)).await;
        matches!(answer, Ok(Ok(answer)) if answer.get_ref().incarnation == incarnation)
    }

    /// Tells a host of group agents which groups to fetch; best effort. Answers whether it worked.
    pub(crate) async fn notify(
        &self,
        address: &str,
        node: &str,
        gns: Vec<u64>,
        patience: Duration,
    ) -> bool {
        let Some(peer) = self.get(address) else { return false };
        let mut client = GroupAgentServiceClient::new(peer.channel());
        let request = v1::NotifyGroupsRequest { agent_node: node.to_owned(), gns };
        // The host learns the same from the answer to its next report, so a loss costs time only.
        match tokio::time::timeout(patience, client.notify_groups(request)).await {
            Ok(Ok(_)) => return true,
            Ok(Err(status)) => {
                tracing::debug!(peer = address, error = status.message(), "hint not delivered");
            }
            Err(_elapsed) => tracing::debug!(peer = address, "hint not answered"),
        }
        false
    }
}
