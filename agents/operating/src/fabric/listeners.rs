//! Packets on their last step: from an endpoint to the processes that listen.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fabricast_groups::Duplicates;
use fabricast_groups::names::{EndpointName, NodeName};
use fabricast_groups::operating::Membership;
use fabricast_groups::record::MemberRecord;
use fabricast_proto::v1;
use fabricast_topology::Mgid;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::mpsc;

use crate::nodes::Nodes;

/// Messages that may wait for a listener before it loses packets.
const LISTENER_QUEUE: usize = 4096;
/// Listeners at one time.
const MAX_LISTENERS: usize = 1024;

/// Delivers packets to those who listen; clones share the listeners.
#[derive(Clone, Debug)]
pub(crate) struct Listeners(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    nodes: Nodes,
    received: Mutex<Duplicates>,
    listeners: Mutex<Vec<Listener>>,
    /// Packets lost because a listener was too slow.
    dropped: AtomicU64,
}

#[derive(Debug)]
struct Listener {
    /// The node whose packets it gets; `None` for all nodes.
    node: Option<NodeName>,
    packets: mpsc::Sender<v1::ReceivePacketsResponse>,
}

/// The refusal of one more listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{MAX_LISTENERS} processes listen already")]
pub(crate) struct TooManyListeners;

impl Listeners {
    pub(crate) fn new(nodes: Nodes) -> Self {
        Self(Arc::new(Inner {
            nodes,
            received: Mutex::default(),
            listeners: Mutex::default(),
            dropped: AtomicU64::new(0),
        }))
    }

    /// Adds a listener. A slow one loses packets.
    ///
    /// - `node`: the node whose packets it gets; `None` for all nodes.
    pub(crate) fn listen(
        &self,
        node: Option<NodeName>,
    ) -> Result<mpsc::Receiver<v1::ReceivePacketsResponse>, TooManyListeners> {
        self.listen_with_queue(node, LISTENER_QUEUE)
    }

    fn listen_with_queue(
        &self,
        node: Option<NodeName>,
        size: usize,
    ) -> Result<mpsc::Receiver<v1::ReceivePacketsResponse>, TooManyListeners> {
        let mut listeners = self.0.listeners.lock();
        listeners.retain(|listener| !listener.packets.is_closed());
        if listeners.len() >= MAX_LISTENERS {
            return Err(TooManyListeners);
        }
        let (packets, stream) = mpsc::channel(size);
        listeners.push(Listener { node, packets });
        Ok(stream)
    }

    /// Takes the packets that the fabric brings. Copies are dropped; packets of the message layer
    /// go there, all others to those who listen.
    pub(crate) fn receive(&self, packets: Vec<v1::EndpointPacket>) {
        let mut received = Vec::new();
        for v1::EndpointPacket { endpoint, packet } in packets {
            let Some(packet) = packet else { continue };
            let mgid = Mgid(packet.mgid);
            if self.is_first(&endpoint, &packet)
                && !self.0.nodes.message_packet(&endpoint, mgid, &packet.payload)
            {
                received.extend(self.addressed(&endpoint, mgid, &packet.payload, None));
            }
        }
        self.publish(&received);
    }

    /// Delivers a packet of a member to the others that share its endpoint: the fabric sends
    /// nothing back to the port that a packet came from.
    pub(crate) fn deliver_nearby(&self, sender: &Membership, payload: &[u8]) {
        let endpoint = sender.member.endpoint.as_str();
        self.publish(&self.addressed(endpoint, sender.mgid, payload, Some(&sender.member)));
    }

    /// Tells if no copy of a packet has come before.
    fn is_first(&self, endpoint: &str, packet: &v1::Packet) -> bool {
        let (source, number) = (packet.source, packet.sequence);
        EndpointName::new(endpoint).is_ok_and(|endpoint| {
            self.0.received.lock().is_first(&endpoint, Mgid(packet.mgid), source, number)
        })
    }

    /// The packet for each member that accepts it at the endpoint, but for the sender.
    fn addressed(
        &self,
        endpoint: &str,
        mgid: Mgid,
        payload: &[u8],
        sender: Option<&MemberRecord>,
    ) -> Vec<v1::ReceivedPacket> {
        let Ok(endpoint) = EndpointName::new(endpoint) else { return Vec::new() };
        let addressed = self.0.nodes.read_owner(&endpoint, |agent| {
            agent
                .accepts(mgid, &endpoint)
                .filter(|held| sender.is_none_or(|sender| *sender != held.member))
                .map(|held| v1::ReceivedPacket {
                    gn: held.member.gn.0,
                    group: held.group.to_string(),
                    node: held.member.node.to_string(),
                    process: held.member.process.to_string(),
                    pn: held.member.pn.0,
                    payload: payload.to_vec(),
                })
                .collect()
        });
        addressed.unwrap_or_default()
    }

    fn publish(&self, packets: &[v1::ReceivedPacket]) {
        if packets.is_empty() {
            return;
        }
        let mut listeners = self.0.listeners.lock();
        listeners.retain(|listener| !listener.packets.is_closed());
        for listener in listeners.iter() {
            let is_wanted = |packet: &&v1::ReceivedPacket| {
                listener.node.as_ref().is_none_or(|node| node.as_str() == packet.node)
            };
            let packets: Vec<_> = packets.iter().filter(is_wanted).cloned().collect();
            let count = u64::try_from(packets.len()).unwrap_or(u64::MAX);
            let message = v1::ReceivePacketsResponse { packets };
            if count > 0 && listener.packets.try_send(message).is_err() {
                self.0.dropped.fetch_add(count, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::agent;

    fn packet(node: &str) -> v1::ReceivedPacket {
        v1::ReceivedPacket { node: node.to_owned(), ..Default::default() }
    }

    #[tokio::test]
    async fn a_listener_gets_its_node_only_and_loses_packets_when_it_is_slow() {
        let test = agent();
        let listeners = &test.agent.listeners;
        let mut heard = listeners.listen_with_queue(Some(test.node.clone()), 1).unwrap();
        listeners.publish(&[packet("n1"), packet("n0")]);
        listeners.publish(&[packet("n0")]);
        assert_eq!(heard.recv().await.unwrap().packets, [packet("n0")]);
        assert!(heard.try_recv().is_err());
        assert_eq!(listeners.0.dropped.load(Ordering::Relaxed), 1);
        drop(heard);
        listeners.publish(&[packet("n0")]);
        assert!(listeners.0.listeners.lock().is_empty(), "a closed listener is removed");
    }
}
