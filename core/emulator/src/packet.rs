//! What goes through the fabric, and what became of it.

use fabricast_topology::EndpointId;

/// Bytes of a packet beside its payload: MGID and color, 4 each, source and sequence, 8 each.
pub const HEADER_BYTES: u64 = 24;

/// A multicast packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// The group, for endpoints to filter by; switches do not look at it.
    pub mgid: u32,
    /// The table entry that switches look up.
    pub color: u16,
    /// What is carried.
    pub payload: Vec<u8>,
    /// Whose packet it is and its number there, for endpoints to tell copies by; switches do not look at it.
    pub origin: (u64, u64),
}

impl Packet {
    /// Counts the bytes that it takes on a link.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        HEADER_BYTES + self.payload.len() as u64
    }
}

/// The endpoints that one packet reached. Reuse it from packet to packet to save the allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deliveries(pub(crate) Vec<EndpointId>);

impl Deliveries {
    /// Starts empty.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives the endpoints in the order of arrival; one that got two copies is there twice.
    #[must_use]
    pub fn as_slice(&self) -> &[EndpointId] {
        &self.0
    }
}

/// What became of one injected packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Copies that reached an endpoint.
    pub delivered: u64,
    /// Links that copies went over, the sender's included.
    pub hops: u64,
    /// Copies that went nowhere.
    pub dropped: Drops,
}

impl Outcome {
    /// Tells whether the hop budget ended the packet: the tables hold a loop (or more paths than a
    /// tree has).
    #[must_use]
    pub const fn looped(&self) -> bool {
        self.dropped.hop_budget > 0
    }
}

/// Dropped copies by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// The switch had no entry, or one that leads nowhere but back.
    pub no_entry: u64,
    /// The way was dead: link, switch or endpoint failed, or nothing is plugged in. Counts 1 if the
    /// packet never left its sender.
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
