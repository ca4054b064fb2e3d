//! Calls to the nodes: probes, and hints to the hosts of group agents.

use std::time::Duration;

use fabricast_proto::v1;
use fabricast_rpc::{Peers, Security};
use v1::group_agent_service_client::GroupAgentServiceClient;
use v1::operating_agent_service_client::OperatingAgentServiceClient;

/// Channels to the servers of nodes.
#[derive(Debug)]
pub(crate) struct NodePeers(Peers);

impl NodePeers {
    pub(crate) fn new(security: Security) -> Self {
        Self(Peers::new(security))
    }

    /// Probes a node once; returns whether it still has this incarnation.
    pub(crate) async fn probe(
        &self,
        address: &str,
        node: &str,
        incarnation: u64,
        timeout: Duration,
    ) -> bool {
        let Ok(peer) = self.0.get(address) else { return false };
        let mut client = OperatingAgentServiceClient::new(peer.channel());
        let request = v1::ProbeNodeRequest { node: node.to_owned() };
        let answer = tokio::time::timeout(timeout, client.probe_node(request)).await;
        matches!(answer, Ok(Ok(answer)) if answer.get_ref().incarnation == incarnation)
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
