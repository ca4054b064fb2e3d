//! Events of the fabric, packed into the word that an event queue stores.

/// An event at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The packet at the head of a queue may ask for outputs.
    Ready { queue: u32 },
    /// Handles the tail of a packet leaving a port.
    Sent { port: u32 },
    /// The tails of all copies of the packet at the head of a queue have left their ports.
    SentAll { queue: u32 },
    /// Credit has returned: `queue` is port and channel of the sender.
    Credit { queue: u32, bytes: u32 },
    /// The tail of a copy has reached an endpoint.
    Arrived { port: u32, copy: u32 },
    /// An adapter asked to be reminded.
    Wake { port: u32 },
}

/// Bits of the first number; the second has 32.
const FIRST_BITS: u32 = 29;

impl Event {
    pub(crate) fn pack(self) -> u64 {
        let (kind, first, second) = match self {
            Self::Ready { queue } => (0, queue, 0),
            Self::Sent { port } => (1, port, 0),
            Self::Credit { queue, bytes } => (2, queue, bytes),
            Self::Arrived { port, copy } => (3, port, copy),
            Self::Wake { port } => (4, port, 0),
            Self::SentAll { queue } => (5, queue, 0),
        };
        debug_assert!(first < 1 << FIRST_BITS, "the wiring has fewer queues");
        (kind << FIRST_BITS | u64::from(first)) << 32 | u64::from(second)
    }

    pub(crate) fn unpack(word: u64) -> Self {
        let low = |word: u64| u32::try_from(word & 0xFFFF_FFFF).expect("32 bits");
        let (first, second) = (low(word >> 32) & ((1 << FIRST_BITS) - 1), low(word));
        match word >> (32 + FIRST_BITS) {
            0 => Self::Ready { queue: first },
            1 => Self::Sent { port: first },
            2 => Self::Credit { queue: first, bytes: second },
            3 => Self::Arrived { port: first, copy: second },
            4 => Self::Wake { port: first },
            _ => Self::SentAll { queue: first },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_survive_packing() {
        let most = (1 << FIRST_BITS) - 1;
        for event in [
            Event::Ready { queue: most },
            Event::Sent { port: 0 },
            Event::SentAll { queue: most },
            Event::Credit { queue: most, bytes: u32::MAX },
            Event::Arrived { port: 7, copy: u32::MAX - 1 },
            Event::Wake { port: most },
        ] {
            assert_eq!(Event::unpack(event.pack()), event);
        }
    }
}
