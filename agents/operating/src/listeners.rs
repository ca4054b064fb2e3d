//! Packets on their last step: from an endpoint to the processes that listen.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::atomic::Ordering;

use fabricast_groups::Duplicates;
use fabricast_groups::ids::{Gn, Pn};
use fabricast_groups::names::{EndpointName, NodeName};
use fabricast_proto::v1;
use fabricast_routing::Mgid;
use tokio::sync::mpsc;

use crate::host::{Host, lock};

/// Whoever listens to packets: of one node, or of all.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) node: Option<NodeName>,
    pub(crate) packets: mpsc::Sender<v1::ReceivePacketsResponse>,
}

/// The numbers of packets: those sent, group by group, and those received.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// Tells what this process sends from what others do, and from what it did in an earlier life.
    source: u64,
    sent: BTreeMap<Mgid, u64>,
    received: Duplicates,
}

impl Default for Numbers {
    fn default() -> Self {
        // The one source of chance that the standard library has; 0 would say that nothing is numbered.
        let source = RandomState::new().build_hasher().finish() | 1;
        Self { source, sent: BTreeMap::new(), received: Duplicates::default() }
    }
}

impl Host {
    /// Numbers a packet that is to be sent: this process's life, and the packet's number in the group.
    pub(crate) fn number_packet(&self, mgid: Mgid) -> (u64, u64) {
        let mut numbers = lock(&self.0.numbers);
        let number = numbers.sent.entry(mgid).or_default();
        *number += 1;
        let number = *number;
        (numbers.source, number)
    }

    /// Whether a packet that arrived is no copy of one that did before.
    pub(crate) fn is_first(&self, endpoint: &str, mgid: u32, origin: (u64, u64)) -> bool {
        let endpoint = EndpointName::new(endpoint);
        endpoint.is_ok_and(|endpoint| {
            lock(&self.0.numbers).received.is_first(&endpoint, Mgid(mgid), origin)
        })
    }

    /// Hands packets to the members they are for; the sender is left out.
    pub(crate) fn deliver(
        &self,
        endpoint: &str,
        mgid: u32,
        payload: &[u8],
        sender: Option<(Gn, Pn)>,
    ) -> Vec<v1::ReceivedPacket> {
        let Ok(endpoint) = EndpointName::new(endpoint) else { return Vec::new() };
        let state = self.state();
        let hosted = state.owners.get(&endpoint).and_then(|node| state.nodes.get(node));
        let Some(hosted) = hosted else { return Vec::new() };
        hosted
            .operating
            .accepts(Mgid(mgid), &endpoint)
            .filter(|held| sender != Some((held.member.gn, held.member.pn)))
            .map(|held| v1::ReceivedPacket {
                gn: held.member.gn.0,
                group: held.group.to_string(),
                node: held.member.node.to_string(),
                process: held.member.process.to_string(),
                pn: held.member.pn.0,
                payload: payload.to_vec(),
            })
            .collect()
    }

    /// Passes received packets to whoever listens; a listener that is too slow loses packets.
    pub(crate) fn publish(&self, packets: Vec<v1::ReceivedPacket>) {
        if packets.is_empty() {
            return;
        }
        let mut listeners = lock(&self.0.listeners);
        listeners.retain(|listener| !listener.packets.is_closed());
        for listener in listeners.iter() {
            let wanted: Vec<v1::ReceivedPacket> = packets
                .iter()
                .filter(|packet| {
                    listener.node.as_ref().is_none_or(|node| node.as_str() == packet.node)
                })
                .cloned()
                .collect();
            let count = u64::try_from(wanted.len()).unwrap_or(u64::MAX);
            let message = v1::ReceivePacketsResponse { packets: wanted };
            if count > 0 && listener.packets.try_send(message).is_err() {
                self.0.dropped.fetch_add(count, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::tests::host;

    fn packet(node: &str) -> v1::ReceivedPacket {
        v1::ReceivedPacket { node: node.to_owned(), ..Default::default() }
    }

    #[tokio::test]
    async fn a_listener_gets_its_node_only_and_loses_packets_when_it_is_slow() {
        let (host, node) = host();
        let (packets, mut heard) = mpsc::channel(1);
        lock(&host.0.listeners).push(Listener { node: Some(node), packets });
        host.publish(vec![packet("n1"), packet("n0")]);
        host.publish(vec![packet("n0")]);
        assert_eq!(heard.recv().await.unwrap().packets, [packet("n0")]);
        assert!(heard.try_recv().is_err());
        assert_eq!(host.0.dropped.load(Ordering::Relaxed), 1);
        drop(heard);
        host.publish(vec![packet("n0")]);
        assert!(lock(&host.0.listeners).is_empty(), "a listener that is gone is forgotten");
    }
}
