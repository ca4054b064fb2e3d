//! Calls to the nodes: probes, and hints to the hosts of group agents.

use std::collections::BTreeMap;
use std::time::Duration;

use fabricast_proto::v1;
use fabricast_rpc::{Peer, Security};
use parking_lot::Mutex;
use v1::group_agent_service_client::GroupAgentServiceClient;
use v1::operating_agent_service_client::OperatingAgentServiceClient;

/// Most addresses whose channels are kept, far more than needed: one server hosts many nodes.
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

    /// Returns the channel to an address; `None` if the address is not valid.
    fn get(&self, address: &str) -> Option<Peer> {
        let mut known = self.known.lock();
        if let Some(peer) = known.get(address) {
            return Some(peer.clone());
        }
        let peer = self.security.peer(address).ok()?;
        if known.len() >= MAX_PEERS {
            known.clear(); // channels are cheap to make again
        }
        known.insert(address.to_owned(), peer.clone());
        Some(peer)
    }

    /// Probes a node once; returns whether it still has this incarnation.
    pub(crate) async fn probe(
        &self,
        address: &str,
        node: &str,
        incarnation: u64,
        timeout: Duration,
    ) -> bool {
        let Some(peer) = self.get(address) else { return false };
        let mut client = OperatingAgentServiceClient::new(peer.channel());
        let request = v1::ProbeNodeRequest { node: node.to_owned() };
        let answer = tokio::time::timeout(timeout, client.probe_node(request)).await;
        matches!(answer, Ok(Ok(answer)) if answer.get_ref().incarnation == incarnation)
    }

    /// Notifies a host of group agents of groups to fetch; best effort.
    pub(crate) async fn notify(&self, address: &str, node: &str, gns: Vec<u64>, timeout: Duration) {
        let Some(peer) = self.get(address) else { return };
        let mut client = GroupAgentServiceClient::new(peer.channel());
        let request = v1::NotifyGroupsRequest { agent_node: node.to_owned(), gns };
        // The host learns the same from the answer to its next report, so a loss costs time only.
        match tokio::time::timeout(timeout, client.notify_groups(request)).await {
            Ok(Ok(_)) => {}
            Ok(Err(status)) => {
                tracing::debug!(peer = address, error = status.message(), "hint not delivered");
            }
            Err(_elapsed) => tracing::debug!(peer = address, "hint not answered"),
        }
    }
}
