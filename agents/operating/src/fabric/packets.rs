//! Packets on their way to the fabric.

use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use fabricast_groups::names::EndpointName;
use fabricast_groups::record::Colors;
use fabricast_proto::v1;
use fabricast_topology::Mgid;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// Messages that may wait for the stream to the fabric.
const QUEUE: usize = 4096;

/// Numbers packets and queues them for the stream to the fabric; clones share the queue.
#[derive(Clone, Debug)]
pub(crate) struct PacketSender(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    queue: mpsc::Sender<v1::AttachEndpointsRequest>,
    is_attached: AtomicBool,
    /// Random and odd: tells the packets of this process from those of others and of its earlier
    /// runs. 0 would mean that packets are not numbered.
    source: u64,
    last_numbers: Mutex<BTreeMap<Mgid, u64>>,
}

/// A packet that was not queued for the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum PacketError {
    #[error("no connection to the fabric")]
    NotAttached,
    #[error("too many packets wait for the fabric")]
    QueueFull,
}

impl PacketSender {
    /// Returns the sender, and the messages to be put on the stream.
    pub(crate) fn new() -> (Self, mpsc::Receiver<v1::AttachEndpointsRequest>) {
        Self::with_queue(QUEUE)
    }

    pub(crate) fn with_queue(size: usize) -> (Self, mpsc::Receiver<v1::AttachEndpointsRequest>) {
        let (queue, messages) = mpsc::channel(size);
        let inner = Inner {
            queue,
            is_attached: AtomicBool::new(false),
            // The one source of randomness of the standard library.
            source: RandomState::new().build_hasher().finish() | 1,
            last_numbers: Mutex::default(),
        };
        (Self(Arc::new(inner)), messages)
    }

    /// Queues a packet, once for each color of its group. Packets in the queue when the stream ends
    /// are lost, as on a wire.
    ///
    /// # Errors
    ///
    /// [`PacketError`] if the packet is lost at once.
    pub(crate) fn send(
        &self,
        endpoint: &EndpointName,
        mgid: Mgid,
        colors: Colors,
        payload: &[u8],
    ) -> Result<(), PacketError> {
        if !self.0.is_attached.load(Ordering::Relaxed) {
            return Err(PacketError::NotAttached);
        }
        let sequence = self.next_number(mgid);
        let packet = |color: u16| v1::EndpointPacket {
            endpoint: endpoint.to_string(),
            packet: Some(v1::Packet {
                mgid: mgid.0,
                color: u32::from(color),
                payload: payload.to_vec(),
                source: self.0.source,
                sequence,
            }),
        };
        let packets = [colors.first].into_iter().chain(colors.second).map(packet).collect();
        let message = v1::AttachEndpointsRequest { packets, ..Default::default() };
        self.0.queue.try_send(message).map_err(|error| match error {
            TrySendError::Full(_) => PacketError::QueueFull,
            TrySendError::Closed(_) => PacketError::NotAttached,
        })
    }

    /// Attaches endpoints to the fabric, or detaches them, in order with the packets. Without a
    /// stream the message is lost: the next stream attaches what is live then.
    pub(crate) async fn plug(&self, message: v1::AttachEndpointsRequest) {
        let _ = self.0.queue.send(message).await;
    }

    /// Notes that the stream is up or has ended.
    pub(crate) fn set_attached(&self, is_attached: bool) {
        self.0.is_attached.store(is_attached, Ordering::Relaxed);
    }

    fn next_number(&self, mgid: Mgid) -> u64 {
        let mut numbers = self.0.last_numbers.lock();
        let number = numbers.entry(mgid).or_default();
        *number += 1;
        *number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_refused_without_a_stream_and_when_too_many_wait() {
        let (sender, mut messages) = PacketSender::with_queue(1);
        let endpoint = EndpointName::new("h0").unwrap();
        let colors = Colors { first: 1, second: Some(2) };
        let send = || sender.send(&endpoint, Mgid(7), colors, b"payload");
        assert_eq!(send(), Err(PacketError::NotAttached));
        assert!(messages.try_recv().is_err(), "nothing was queued");
        sender.set_attached(true);
        send().unwrap();
        assert_eq!(send(), Err(PacketError::QueueFull));
        let queued = messages.try_recv().unwrap().packets;
        let packets = queued.into_iter().map(|packet| packet.packet.unwrap());
        let numbers: Vec<_> = packets.map(|packet| (packet.color, packet.sequence)).collect();
        assert_eq!(numbers, [(1, 1), (2, 1)], "copies of one packet have one number");
        drop(messages);
        assert_eq!(send(), Err(PacketError::NotAttached));
    }
}
