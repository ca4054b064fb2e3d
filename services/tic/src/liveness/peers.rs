//! Calls to the nodes: probes, and hints to the hosts of group agents.

use std::time::Duration;

use fabricast_proto::v1;
use fabricast_rpc::{Peers, Security, reason_of};
use v1::group_agent_service_client::GroupAgentServiceClient;
use v1::operating_agent_service_client::OperatingAgentServiceClient;

/// Channels to the servers of nodes.
#[derive(Debug)]
pub(crate) struct NodePeers(Peers);

impl NodePeers {
    pub(crate) fn new(security: Security) -> Self {
        Self(Peers::new(security))
    }

    /// Probes a node; returns whether it still has this incarnation. Without an answer in time it
    /// is asked once more over a new connection, for as long again as `patience` says.
    pub(crate) async fn probe(
        &self,
        address: &str,
        node: &str,
        incarnation: u64,
        [timeout, patience]: [Duration; 2],
    ) -> bool {
        for limit in [timeout, patience] {
            let Ok(peer) = self.0.get(address) else { return false };
            let mut client = OperatingAgentServiceClient::new(peer.channel());
            let request = v1::ProbeNodeRequest { node: node.to_owned() };
            match tokio::time::timeout(limit, client.probe_node(request)).await {
                Ok(Ok(answer)) => return answer.get_ref().incarnation == incarnation,
                Ok(Err(status)) if reason_of(&status).is_some() => return false,
                Ok(Err(_)) | Err(_) => self.0.renew(&peer),
            }
        }
        false
    }

    /// Notifies a host of group agents of groups to fetch; best effort.
    pub(crate) async fn notify(&self, address: &str, node: &str, gns: Vec<u64>, timeout: Duration) {
        let Ok(peer) = self.0.get(address) else { return };
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
