//! Subnet management packets, on directed routes and by LID.
//!
//! Source: InfiniBand Architecture Specification, volume 1, §14.2.1.1 (by LID) and §14.2.1.2
//! (directed). A directed route names the output port of every hop, so it works before anybody has
//! an address, but every switch on the way handles the packet itself. A packet by LID is forwarded
//! as data is.

use thiserror::Error;

/// Bytes of a management packet.
pub const SMP_BYTES: usize = 256;

/// Largest number of hops of a directed route.
const MAX_HOPS: usize = 63;

const BASE_VERSION: u8 = 1;
const CLASS_VERSION: u8 = 1;
const LID_ROUTED_CLASS: u8 = 0x01;
const DIRECTED_ROUTE_CLASS: u8 = 0x81;
const PERMISSIVE_LID: u16 = 0xffff;
const RESPONSE: u8 = 0x80;
const DIRECTION: u16 = 0x8000;

/// Attribute content of a packet.
pub type Data = [u8; 64];

/// Method and attribute of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Reads an attribute.
    Get,
    /// Writes an attribute; the answer holds the new content.
    Set,
}

/// Attributes of subnet management that we use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Attribute {
    /// Free text of a node.
    NodeDescription,
    /// Kind, GUIDs and number of ports of a node.
    NodeInfo,
    /// Capacities of a switch.
    SwitchInfo,
    /// State of a port; the modifier is its number.
    PortInfo,
    /// A block of a multicast forwarding table; see [`crate::BlockPlace`].
    MulticastForwardingTable,
}

impl Attribute {
    const fn number(self) -> u16 {
        match self {
            Self::NodeDescription => 0x0010,
            Self::NodeInfo => 0x0011,
            Self::SwitchInfo => 0x0012,
            Self::PortInfo => 0x0015,
            Self::MulticastForwardingTable => 0x001b,
        }
    }
}

/// A directed route: the output port of every hop, first hop first. Empty: the local node.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Path(Vec<u8>);

impl Path {
    /// Makes the route to the local node.
    #[must_use]
    pub const fn local() -> Self {
        Self(Vec::new())
    }

    /// Extends the route by one output port.
    ///
    /// # Errors
    ///
    /// [`PathError`] if the route is as long as one can be.
    pub fn by(&self, port: u8) -> Result<Self, PathError> {
        if self.0.len() >= MAX_HOPS {
            return Err(PathError);
        }
        let mut hops = Vec::with_capacity(self.0.len() + 1);
        hops.extend_from_slice(&self.0);
        hops.push(port);
        Ok(Self(hops))
    }

    /// Returns the output ports.
    #[must_use]
    pub fn hops(&self) -> &[u8] {
        &self.0
    }
}

/// The directed route already has the largest number of hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a directed route has at most {MAX_HOPS} hops")]
pub struct PathError;

/// Addressing of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// Directed route, port by port.
    Directed(Path),
    /// LID of the node, routed by the unicast tables; of a switch, that of port 0.
    Lid(u16),
}

/// One packet, request or answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Smp {
    /// Method of the packet.
    pub method: Method,
    /// Attribute that the packet reads or writes.
    pub attribute: Attribute,
    /// Attribute modifier, which selects a part of the attribute.
    pub modifier: u32,
    /// Transaction id, to match answers; some drivers keep only the lower 32 bits.
    pub transaction: u64,
    /// Management key of the node; 0 if it has none.
    pub key: u64,
    /// Addressing of the packet.
    pub route: Route,
    /// Content of the attribute.
    pub data: Data,
}

/// Reason why bytes are no valid answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SmpError {
    /// The packet has another class or version.
    #[error("a packet of class {class:#04x}, base version {base}")]
    Foreign {
        /// Management class of the packet.
        class: u8,
        /// Base version of the packet.
        base: u8,
    },
    /// The packet is a request.
    #[error("a request with method {method:#04x}, not an answer")]
    Request {
        /// Method byte of the packet.
        method: u8,
    },
    /// The node refused.
    #[error("the node answers with status {status:#06x}")]
    Status {
        /// Status without the direction bit.
        status: u16,
    },
}

impl Smp {
    /// Encodes the request for the wire.
    #[must_use]
    pub fn request(&self) -> [u8; SMP_BYTES] {
        let mut bytes = [0; SMP_BYTES];
        bytes[0] = BASE_VERSION;
        bytes[2] = CLASS_VERSION;
        bytes[3] = match self.method {
            Method::Get => 1,
            Method::Set => 2,
        };
        bytes[8..16].copy_from_slice(&self.transaction.to_be_bytes());
        bytes[16..18].copy_from_slice(&self.attribute.number().to_be_bytes());
        bytes[20..24].copy_from_slice(&self.modifier.to_be_bytes());
        bytes[24..32].copy_from_slice(&self.key.to_be_bytes());
        bytes[64..128].copy_from_slice(&self.data);
        match &self.route {
            Route::Lid(_) => bytes[1] = LID_ROUTED_CLASS, // the LID stands in the header below this one
            Route::Directed(path) => put_path(&mut bytes, path.hops()),
        }
        bytes
    }

    /// Reads the transaction id of any packet.
    #[must_use]
    pub fn transaction_of(bytes: &[u8; SMP_BYTES]) -> u64 {
        u64::from_be_bytes(bytes[8..16].try_into().expect("eight bytes"))
    }

    /// Decodes the content of an answer.
    ///
    /// # Errors
    ///
    /// [`SmpError`] if it is no answer or the node refused.
    pub fn answer(bytes: &[u8; SMP_BYTES]) -> Result<Data, SmpError> {
        // Only on a directed route one bit of the status is not an error but the direction.
        let no_error = match (bytes[0], bytes[1]) {
            (BASE_VERSION, DIRECTED_ROUTE_CLASS) => DIRECTION,
            (BASE_VERSION, LID_ROUTED_CLASS) => 0,
            (base, class) => return Err(SmpError::Foreign { class, base }),
        };
        if bytes[3] & RESPONSE == 0 {
            return Err(SmpError::Request { method: bytes[3] });
        }
        let status = u16::from_be_bytes([bytes[4], bytes[5]]) & !no_error;
        if status != 0 {
            return Err(SmpError::Status { status });
        }
        Ok(bytes[64..128].try_into().expect("64 bytes"))
    }
}

/// Encodes the fields that only packets on directed routes have.
fn put_path(bytes: &mut [u8; SMP_BYTES], hops: &[u8]) {
    bytes[1] = DIRECTED_ROUTE_CLASS;
    bytes[7] = u8::try_from(hops.len()).expect("a path has at most 63 hops");
    bytes[32..34].copy_from_slice(&PERMISSIVE_LID.to_be_bytes());
    bytes[34..36].copy_from_slice(&PERMISSIVE_LID.to_be_bytes());
    // Element 0 of the initial path is not used.
    bytes[129..129 + hops.len()].copy_from_slice(hops);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(path: Path) -> Smp {
        by(Route::Directed(path))
    }

    fn by(route: Route) -> Smp {
        Smp {
            method: Method::Get,
            attribute: Attribute::PortInfo,
            modifier: 7,
            transaction: 0x1122_3344,
            key: 0x5566,
            route,
            data: [9; 64],
        }
    }

    /// §14.2.1.2, figure of the directed-route packet.
    #[test]
    fn a_request_has_its_fields_where_the_specification_wants_them() {
        let path = Path::local().by(3).unwrap().by(17).unwrap();
        let bytes = request(path).request();
        assert_eq!(bytes[..8], [1, 0x81, 1, 1, 0, 0, 0, 2]);
        assert_eq!(bytes[8..16], [0, 0, 0, 0, 0x11, 0x22, 0x33, 0x44]);
        assert_eq!(bytes[16..24], [0, 0x15, 0, 0, 0, 0, 0, 7]);
        assert_eq!(bytes[30..36], [0x55, 0x66, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!((bytes[64], bytes[127], bytes[128..132].to_vec()), (9, 9, vec![0, 3, 17, 0]));
        assert_eq!(Smp::transaction_of(&bytes), 0x1122_3344);
    }

    /// §14.2.1.1, figure of the LID-routed packet: no hops, no permissive LIDs, nothing after the
    /// attribute.
    #[test]
    fn a_request_by_lid_has_its_fields_where_the_specification_wants_them() {
        let bytes = Smp { method: Method::Set, ..by(Route::Lid(0x4321)) }.request();
        assert_eq!(bytes[..8], [1, 0x01, 1, 2, 0, 0, 0, 0]);
        assert_eq!(bytes[8..16], [0, 0, 0, 0, 0x11, 0x22, 0x33, 0x44]);
        assert_eq!(bytes[16..24], [0, 0x15, 0, 0, 0, 0, 0, 7]);
        assert_eq!(bytes[24..32], [0, 0, 0, 0, 0, 0, 0x55, 0x66]);
        assert_eq!(bytes[32..64], [0; 32]);
        assert_eq!(bytes[64..128], [9; 64]);
        assert_eq!(bytes[128..], [0; 128]);
    }

    #[test]
    fn an_answer_by_lid_has_no_direction() {
        let mut bytes = by(Route::Lid(7)).request();
        bytes[3] |= RESPONSE;
        assert_eq!(Smp::answer(&bytes), Ok([9; 64]));
        bytes[4] = 0x80;
        assert_eq!(Smp::answer(&bytes), Err(SmpError::Status { status: 0x8000 }));
    }

    #[test]
    fn only_answers_without_an_error_are_read() {
        let mut bytes = request(Path::local()).request();
        assert_eq!(Smp::answer(&bytes), Err(SmpError::Request { method: 1 }));
        bytes[3] |= RESPONSE;
        bytes[4] = 0x80; // on its way back
        assert_eq!(Smp::answer(&bytes), Ok([9; 64]));
        bytes[5] = 0x1c;
        assert_eq!(Smp::answer(&bytes), Err(SmpError::Status { status: 0x1c }));
        bytes[1] = 4;
        assert_eq!(Smp::answer(&bytes), Err(SmpError::Foreign { class: 4, base: 1 }));
    }

    #[test]
    fn a_route_ends_after_63_hops() {
        let mut path = Path::local();
        for _ in 0..63 {
            path = path.by(1).unwrap();
        }
        assert_eq!(path.by(1), Err(PathError));
        assert_eq!(request(path).request()[7], 63);
    }
}
