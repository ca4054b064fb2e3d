//! State of every port and buffer, laid out so that a hop of a packet touches few cache lines.

use fabricast_topology::EndpointId;

use crate::slab::NONE;
use crate::wiring::Wiring;

/// In a copy, instead of a hop of a tree.
pub(super) const UNICAST: u32 = NONE;

/// Fields shared by all copies of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketInfo {
    pub(crate) source: EndpointId,
    /// Of a unicast packet.
    pub(crate) to: EndpointId,
    pub(crate) bytes: u32,
    /// Copies of a multicast packet that are under way; 0 of a unicast packet, which has one.
    pub(super) copies: u32,
    pub(crate) born_ps: u64,
    pub(crate) sent_ps: u64,
    pub(crate) tag: u64,
}

/// A copy in a buffer, or on its way to an endpoint.
#[derive(Clone, Copy, Debug)]
pub(super) struct Transit {
    pub(super) packet: u32,
    pub(super) hop: u32,
    pub(super) next: u32,      // behind it in the buffer
    pub(super) to: EndpointId, // of a unicast packet
    pub(super) bytes: u32,
    pub(super) ready_ps: u64,
}

/// A port: its wiring, and what it does as an output.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Port {
    /// The port at the other end, or none.
    pub(super) far: u32,
    /// Its switch; none at an endpoint.
    pub(super) switch: u32,
    /// The first queue of its switch.
    pub(super) first_queue: u32,
    /// The buffer it sends from, or is held for.
    pub(super) holder: u32,
    /// The buffer that gets it next (early grants only).
    pub(super) next_holder: u32,
    /// Outputs that its own buffers are leaving by.
    pub(super) reading: u16,
    /// True if the packet of the holder is a multicast one, as the bulletin board shows.
    pub(super) multicast: bool,
    /// True if the link is cut.
    pub(super) dead: bool,
    /// True if no credit is needed: endpoints and cut links take everything.
    pub(super) endless: bool,
    /// True if no wire lies between it and the port at the other end.
    pub(super) has_no_wire: bool,
    /// Those of the first 64 queues of its switch that ask for it.
    pub(super) requests: u64,
    /// Picoseconds that a byte takes, no less than the model's.
    pub(super) ps_per_byte: u64,
    /// Bytes that the port sent.
    pub(super) sent_bytes: u64,
    /// Picoseconds that packets waited at the head of a buffer for it, each output of a packet.
    pub(super) waited_ps: u64,
}

/// A queue: the input buffer of a port and channel, and the credit that the port has as an output.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Queue {
    pub(super) head: u32,
    pub(super) tail: u32,
    /// Of the packet at the head, once it is ready: its length, its hop, and its output if unicast.
    pub(super) bytes: u32,
    pub(super) hop: u32,
    pub(super) single: u32,
    /// Outputs that the packet at the head has not got yet.
    pub(super) wanting: u16,
    /// Outputs that it is leaving by.
    pub(super) sending: u16,
    pub(super) stage: Stage,
    /// True if a sender was refused for lack of credit: then returning credit is an event.
    pub(super) is_short: bool,
    /// Time when it was served last, counted in grants; the least is preferred (a matrix arbiter).
    pub(super) served: u64,
    /// Absolute credits in bytes, modulo 2^32.
    sent: u32,
    limit: u32,
    /// Credit in flight without an event: bytes, 0 for none, and time of arrival.
    coming_bytes: u32,
    coming_ps: u64,
}

/// State of the packet at the head of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// There is none, or its head is still on the wire.
    Idle,
    /// It asks for outputs and holds none.
    Waiting,
    /// It holds some outputs and waits for the rest.
    Acquiring,
    /// It has got all outputs it needs.
    Leaving,
}

impl Port {
    /// Makes the ports of a fabric at rest.
    pub(super) fn all(wiring: &Wiring, ps_per_byte: u64) -> Vec<Self> {
        let ports = (0..).zip(&wiring.far).map(|(port, far)| {
            let switch = wiring.switch.get(port).copied().unwrap_or(NONE);
            Self {
                far: *far,
                switch,
                first_queue: if switch == NONE { 0 } else { wiring.first_queue(switch) },
                holder: NONE,
                next_holder: NONE,
                reading: 0,
                multicast: false,
                dead: wiring.dead[port],
                endless: wiring.dead[port] || wiring.is_endpoint(*far),
                has_no_wire: false,
                requests: 0,
                ps_per_byte,
                sent_bytes: 0,
                waited_ps: 0,
            }
        });
        ports.collect()
    }

    /// Tells whether nobody sends by it, holds it or is promised it.
    pub(super) const fn is_idle(&self) -> bool {
        self.holder == NONE && self.next_holder == NONE
    }
}

impl Queue {
    /// Makes an empty buffer of so many bytes.
    pub(super) const fn new(buffer_bytes: u32) -> Self {
        Self {
            head: NONE,
            tail: NONE,
            bytes: 0,
            hop: UNICAST,
            single: NONE,
            wanting: 0,
            sending: 0,
            stage: Stage::Idle,
            is_short: false,
            served: 0,
            sent: 0,
            limit: buffer_bytes,
            coming_bytes: 0,
            coming_ps: 0,
        }
    }

    /// Returns the bytes that may be sent at a time.
    pub(super) const fn room(&self, now_ps: u64) -> u32 {
        let come = if self.coming_ps <= now_ps { self.coming_bytes } else { 0 };
        self.limit.wrapping_add(come).wrapping_sub(self.sent)
    }

    /// Takes credit that is there.
    pub(super) const fn spend(&mut self, bytes: u32) {
        self.sent = self.sent.wrapping_add(bytes);
        self.is_short = false;
    }

    /// Adds credit that has arrived.
    pub(super) const fn add(&mut self, bytes: u32) {
        self.limit = self.limit.wrapping_add(bytes);
    }

    /// Notes credit that will come; returns whether that is enough, or it has to be an event.
    pub(super) const fn expect(&mut self, now_ps: u64, at_ps: u64, bytes: u32) -> bool {
        self.settle(now_ps);
        let noted = !self.is_short && self.coming_bytes == 0;
        if noted {
            (self.coming_bytes, self.coming_ps) = (bytes, at_ps);
        }
        noted
    }

    /// Somebody has been refused: gives the credit on its way, now to be an event.
    pub(super) fn request_credit_event(&mut self, now_ps: u64) -> Option<(u64, u32)> {
        self.settle(now_ps);
        self.is_short = true;
        let bytes = std::mem::take(&mut self.coming_bytes);
        (bytes > 0).then_some((self.coming_ps, bytes))
    }

    /// Adds credit that was noted and has come meanwhile.
    const fn settle(&mut self, now_ps: u64) {
        if self.coming_ps <= now_ps {
            self.add(self.coming_bytes);
            self.coming_bytes = 0;
        }
    }
}
