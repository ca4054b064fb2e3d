//! Port counters: performance management packets to a node's address.
//!
//! Source: InfiniBand Architecture Specification, volume 1, §13.4 and §16.1. Unlike subnet
//! management these packets are addressed by LID, so they go nowhere before a subnet manager has
//! given any.

use crate::smp::{Data, SMP_BYTES, SmpError};

const BASE_VERSION: u8 = 1;
const CLASS: u8 = 0x04;
const CLASS_VERSION: u8 = 1;
const GET: u8 = 1;
const RESPONSE: u8 = 0x80;
/// Bytes of a word, the unit of the data counters.
const WORD: u64 = 4;

/// Request for the counters of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counters {
    /// Errors and losses, which stop at their largest value (§16.1.3.5).
    Basic,
    /// Packets and data, 64 bits wide (§16.1.4.11).
    Extended,
}

impl Counters {
    const fn number(self) -> u16 {
        match self {
            Self::Basic => 0x0012,
            Self::Extended => 0x001d,
        }
    }
}

/// A request for the counters of one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountersQuery {
    /// LID of the node; of a switch, that of port 0.
    pub lid: u16,
    /// Kind of counters to read.
    pub counters: Counters,
    /// Number of the port.
    pub port: u8,
    /// Transaction id, to match answers; some drivers keep only the lower 32 bits.
    pub transaction: u64,
}

impl CountersQuery {
    /// Encodes the request for the wire.
    #[must_use]
    pub fn request(&self) -> [u8; SMP_BYTES] {
        let mut bytes = [0; SMP_BYTES];
        bytes[..4].copy_from_slice(&[BASE_VERSION, CLASS, CLASS_VERSION, GET]);
        bytes[8..16].copy_from_slice(&self.transaction.to_be_bytes());
        bytes[16..18].copy_from_slice(&self.counters.number().to_be_bytes());
        bytes[65] = self.port;
        bytes
    }

    /// Decodes the content of an answer.
    ///
    /// # Errors
    ///
    /// [`SmpError`] if it is no answer or the node refused.
    pub fn answer(bytes: &[u8; SMP_BYTES]) -> Result<Data, SmpError> {
        if bytes[0] != BASE_VERSION || bytes[1] != CLASS {
            return Err(SmpError::Foreign { class: bytes[1], base: bytes[0] });
        }
        if bytes[3] & RESPONSE == 0 {
            return Err(SmpError::Request { method: bytes[3] });
        }
        match u16::from_be_bytes([bytes[4], bytes[5]]) {
            0 => Ok(bytes[64..128].try_into().expect("64 bytes")),
            status => Err(SmpError::Status { status }),
        }
    }
}

/// Traffic of a port (PortCountersExtended).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes that the port sent.
    pub sent_bytes: u64,
    /// Bytes that the port received.
    pub received_bytes: u64,
    /// Packets that the port sent.
    pub sent_packets: u64,
    /// Packets that the port received.
    pub received_packets: u64,
}

impl Traffic {
    /// Decodes the attribute; words are converted to bytes.
    #[must_use]
    pub fn read(data: &Data) -> Self {
        let at = |at: usize| {
            u64::from_be_bytes(data[at..at + 8].try_into().expect("eight bytes of sixty-four"))
        };
        Self {
            sent_bytes: at(8).saturating_mul(WORD),
            received_bytes: at(16).saturating_mul(WORD),
            sent_packets: at(24),
            received_packets: at(32),
        }
    }
}

/// Reads from PortCounters how many packets a port has dropped: received ones that led nowhere
/// (PortRcvSwitchRelayErrors), and such as could not go out (PortXmitDiscards).
#[must_use]
pub fn dropped_packets(data: &Data) -> u64 {
    let at = |at: usize| u64::from(u16::from_be_bytes([data[at], data[at + 1]]));
    at(12) + at(14)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// §13.4.3 and §16.1.3.5: the header, and the port in the second byte of the attribute.
    #[test]
    fn a_question_has_its_fields_where_the_specification_wants_them() {
        let query = CountersQuery {
            lid: 9,
            counters: Counters::Extended,
            port: 17,
            transaction: 0x1122_3344,
        };
        let bytes = query.request();
        assert_eq!(bytes[..8], [1, 4, 1, 1, 0, 0, 0, 0]);
        assert_eq!(bytes[8..20], [0, 0, 0, 0, 0x11, 0x22, 0x33, 0x44, 0, 0x1d, 0, 0]);
        assert_eq!(bytes[64..68], [0, 17, 0, 0]);
    }

    #[test]
    fn only_answers_without_an_error_are_read() {
        let query = CountersQuery { lid: 9, counters: Counters::Basic, port: 1, transaction: 1 };
        let mut bytes = query.request();
        assert_eq!(CountersQuery::answer(&bytes), Err(SmpError::Request { method: 1 }));
        bytes[3] = GET | RESPONSE;
        bytes[64..68].copy_from_slice(&[0, 1, 2, 3]);
        assert_eq!(CountersQuery::answer(&bytes).unwrap()[..4], [0, 1, 2, 3]);
        bytes[5] = 0x0c;
        assert_eq!(CountersQuery::answer(&bytes), Err(SmpError::Status { status: 0x0c }));
        bytes[1] = 0x81;
        assert_eq!(CountersQuery::answer(&bytes), Err(SmpError::Foreign { class: 0x81, base: 1 }));
    }

    #[test]
    fn counters_are_read_where_the_specification_has_them() {
        let mut data = [0; 64];
        for (number, field) in (1u64..).zip(data[8..40].chunks_exact_mut(8)) {
            field.copy_from_slice(&number.to_be_bytes());
        }
        let expected =
            Traffic { sent_bytes: 4, received_bytes: 8, sent_packets: 3, received_packets: 4 };
        assert_eq!(Traffic::read(&data), expected);
        data[12..16].copy_from_slice(&[1, 0, 0, 7]);
        assert_eq!(dropped_packets(&data), 263);
    }
}
