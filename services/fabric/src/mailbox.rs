//! The bounded queue of packets for one attached process; it drops packets when it is full.
//!
//! The copies of one packet share its payload, so a packet for thousands of endpoints of one
//! process needs little memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fabricast_emulator::Packet;
use fabricast_rpc::Caller;
use fabricast_topology::EndpointId;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

/// Most payload bytes in the queue; every copy counts.
const QUEUE_BYTES: usize = 64 * 1024 * 1024;
/// Most packets in one message to the process.
const BATCH_PACKETS: usize = 1024;
/// Payload bytes at which a message is full: well below the default limit of receivers, 4 MiB.
const BATCH_BYTES: usize = 1024 * 1024;

/// One copy of a packet at its endpoint.
pub(crate) type Delivery = (EndpointId, Arc<Packet>);

/// The queue of one attached process.
#[derive(Debug)]
pub(crate) struct Mailbox {
    /// The caller that has attached the endpoints.
    pub(crate) owner: Caller,
    queue: Mutex<Queue>,
    filled: Notify,
    capacity: usize,
    dropped: Arc<AtomicU64>,
}

#[derive(Debug, Default)]
struct Queue {
    deliveries: VecDeque<Delivery>,
    bytes: usize,
    closed: bool,
    overflowed: bool,
}

impl Mailbox {
    /// Creates an empty queue.
    ///
    /// - `capacity`: most deliveries in the queue.
    /// - `dropped`: count of dropped deliveries, shared by all mailboxes of the fabric.
    pub(crate) fn new(owner: Caller, capacity: usize, dropped: Arc<AtomicU64>) -> Self {
        Self { owner, queue: Mutex::default(), filled: Notify::new(), capacity, dropped }
    }

    /// Queues a delivery, or drops and counts it if the queue is full or closed. Never waits.
    pub(crate) fn push(&self, endpoint: EndpointId, packet: &Arc<Packet>) {
        let mut queue = self.lock();
        let bytes = queue.bytes + packet.payload.len();
        if queue.closed || queue.deliveries.len() >= self.capacity || bytes > QUEUE_BYTES {
            self.dropped.fetch_add(1, Ordering::Relaxed);
            if !std::mem::replace(&mut queue.overflowed, true) {
                tracing::warn!("receiver too slow, packets dropped");
            }
            return;
        }
        queue.bytes = bytes;
        queue.deliveries.push_back((endpoint, Arc::clone(packet)));
        let was_empty = queue.deliveries.len() == 1;
        drop(queue);
        if was_empty {
            self.filled.notify_one();
        }
    }

    /// Refuses further deliveries; those in the queue can still be taken.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
    }

    /// Waits for deliveries and takes some, oldest first; `None` when closed and empty.
    ///
    /// For one consumer. Cancelling loses nothing.
    pub(crate) async fn next_batch(&self) -> Option<Vec<Delivery>> {
        loop {
            {
                let mut queue = self.lock();
                let batch = queue.take_batch();
                if !batch.is_empty() {
                    return Some(batch);
                }
                if queue.closed {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock()
    }
}

impl Queue {
    fn take_batch(&mut self) -> Vec<Delivery> {
        let mut bytes = 0;
        let mut batch = Vec::new();
        while batch.len() < BATCH_PACKETS && bytes < BATCH_BYTES {
            let Some(delivery) = self.deliveries.pop_front() else { break };
            bytes += delivery.1.payload.len();
            batch.push(delivery);
        }
        self.bytes -= bytes;
        batch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mailbox(capacity: usize) -> (Mailbox, Arc<AtomicU64>) {
        let dropped = Arc::default();
        (Mailbox::new(Caller::default(), capacity, Arc::clone(&dropped)), dropped)
    }

    fn packet(mgid: u32, bytes: usize) -> Arc<Packet> {
        Arc::new(Packet { mgid, payload: vec![0; bytes], ..Packet::default() })
    }

    async fn mgids(mailbox: &Mailbox) -> Option<Vec<u32>> {
        let batch = mailbox.next_batch().await?;
        Some(batch.iter().map(|(_, packet)| packet.mgid).collect())
    }

    #[tokio::test]
    async fn deliveries_that_do_not_fit_are_dropped_and_counted() {
        let (mailbox, dropped) = mailbox(2);
        for mgid in 0..5 {
            mailbox.push(EndpointId(0), &packet(mgid, 1));
        }
        assert_eq!((mgids(&mailbox).await, dropped.load(Ordering::Relaxed)), (Some(vec![0, 1]), 3));
        mailbox.push(EndpointId(0), &packet(5, 1));
        assert_eq!(mgids(&mailbox).await, Some(vec![5]));
    }

    #[tokio::test]
    async fn a_batch_ends_before_it_is_too_long_for_a_message() {
        let (mailbox, _) = mailbox(usize::MAX);
        let count = 2 * BATCH_BYTES / 4096 + 1;
        for _ in 0..count {
            mailbox.push(EndpointId(0), &packet(0, 4096));
        }
        let half = BATCH_BYTES / 4096;
        for expected in [half, half, 1] {
            assert_eq!(mgids(&mailbox).await.unwrap().len(), expected);
        }
    }

    #[tokio::test]
    async fn the_payload_bytes_in_the_queue_are_bounded() {
        let (mailbox, dropped) = mailbox(usize::MAX);
        let large = packet(0, QUEUE_BYTES / 2);
        for _ in 0..3 {
            mailbox.push(EndpointId(0), &large);
        }
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
        assert_eq!(mgids(&mailbox).await, Some(vec![0]));
        mailbox.push(EndpointId(0), &large);
        assert_eq!(dropped.load(Ordering::Relaxed), 1, "what was read has left its room");
    }

    #[tokio::test]
    async fn a_closed_queue_gives_what_it_holds_and_ends() {
        let (mailbox, _) = mailbox(2);
        mailbox.push(EndpointId(0), &packet(7, 1));
        mailbox.close();
        mailbox.push(EndpointId(0), &packet(8, 1));
        assert_eq!(mgids(&mailbox).await, Some(vec![7]));
        assert_eq!(mgids(&mailbox).await, None);
    }
}
