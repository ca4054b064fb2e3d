//! Packets, their outcome, and the counters of the ports they pass.

use fabricast_topology::EndpointId;

/// Bytes of a packet beside its payload: MGID and color, 4 each, source and sequence, 8 each.
pub const HEADER_BYTES: u64 = 24;

/// A multicast packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// Group address that endpoints filter by; switches ignore it.
    pub mgid: u32,
    /// Number of the table entry that switches look up.
    pub color: u16,
    /// Payload of the packet.
    pub payload: Vec<u8>,
    /// Sender and its packet number, by which endpoints recognize copies; switches ignore it.
    pub origin: (u64, u64),
}

impl Packet {
    /// Counts the bytes that the packet takes on a link.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        HEADER_BYTES + self.payload.len() as u64
    }
}

/// The endpoints that one packet reached. Reuse it from packet to packet to save the allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deliveries(pub(crate) Vec<EndpointId>);

impl Deliveries {
    /// Makes an empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lists the endpoints in the order of arrival, once for each copy.
    #[must_use]
    pub fn as_slice(&self) -> &[EndpointId] {
        &self.0
    }
}

/// Outcome of one injected packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Copies that reached an endpoint.
    pub delivered: u64,
    /// Links that copies crossed, including that of the sender.
    pub hops: u64,
    /// Copies that were dropped.
    pub dropped: Drops,
}

impl Outcome {
    /// True if the packet used up its hop budget: the tables hold a loop, or more paths than a tree
    /// has.
    #[must_use]
    pub const fn looped(&self) -> bool {
        self.dropped.hop_budget > 0
    }
}

/// Dropped copies by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// The switch had no entry, or one whose only output is the input port.
    pub no_entry: u64,
    /// The link, switch or endpoint has failed, or the port has no cable. 1 if the packet never
    /// left its sender.
    pub dead_port: u64,
    /// The packet had used up its hop budget.
    pub hop_budget: u64,
}

impl Drops {
    /// Counts all dropped copies.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.no_entry + self.dead_port + self.hop_budget
    }
}

/// Traffic of a switch port since its switch was powered on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Packets that the port received.
    pub received: u64,
    /// Packets that the port sent.
    pub sent: u64,
    /// Bytes received, with headers.
    pub received_bytes: u64,
    /// Bytes sent, with headers.
    pub sent_bytes: u64,
    /// Packets dropped: received here without an entry, or to be sent here over a dead link.
    pub dropped: u64,
}

impl PortCounters {
    pub(crate) const fn receive(&mut self, bytes: u64) {
        self.received += 1;
        self.received_bytes += bytes;
    }

    pub(crate) const fn send(&mut self, bytes: u64) {
        self.sent += 1;
        self.sent_bytes += bytes;
    }
}
