//! Management packets to and from an InfiniBand port, through the system's libibumad.
//!
//! The library is loaded when a [`Port`] is opened, so a program that never opens one runs where it
//! is not installed. All calls block; give a port a thread of its own.
//!
//! Unsafe code: calls into C. Only this crate and `clients/c`, which C calls, have any.

mod library;

use std::ffi::{CString, c_int};
use std::time::Duration;

use thiserror::Error;

use library::{Address, Umad, Wait};

/// Bytes of a management packet.
pub const PACKET_BYTES: usize = 256;

const LID_ROUTED_CLASS: c_int = 0x01;
const DIRECTED_ROUTE_CLASS: c_int = 0x81;
const PERFORMANCE_CLASS: c_int = 0x04;
const CLASS_VERSION: c_int = 1;
const PERMISSIVE_LID: c_int = 0xffff;
/// Key of queue pair 1, which every node listens on (§3.5.3 of the specification, volume 1).
const QUEUE_KEY_1: u32 = 0x8001_0000;
const WOULD_BLOCK: c_int = -11;
const TIMED_OUT: c_int = -110;

/// Error of opening or using a port.
#[derive(Debug, Error)]
pub enum UmadError {
    /// The library is not installed or too old.
    #[error("libibumad cannot be used; install the package libibumad3")]
    Library(#[source] libloading::Error),
    /// The name of the adapter holds a zero byte.
    #[error("adapter name '{name}' holds a zero byte")]
    AdapterName {
        /// Name as given.
        name: String,
    },
    /// A call failed.
    #[error("{call} failed with status {status}")]
    Call {
        /// Name of the C function.
        call: &'static str,
        /// Returned status, usually a negated error number.
        status: i32,
    },
}

/// Destination of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// The end of the directed route in the packet: subnet management.
    Route,
    /// To the node with a LID: subnet management, which listens on queue pair 0.
    SubnetLid(u16),
    /// To the node with a LID: performance management, which listens on queue pair 1.
    Lid(u16),
}

/// Result of waiting for a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// A packet from the port.
    Packet(Box<[u8; PACKET_BYTES]>),
    /// A request of ours that was not answered in time.
    Unanswered(Box<[u8; PACKET_BYTES]>),
}

/// An open port, registered for subnet management, on directed routes and by LID, and for
/// performance management.
#[derive(Debug)]
pub struct Port {
    umad: Umad,
    port: c_int,
    agents: Agents,
    header: usize,
    buffer: Vec<u8>,
}

/// Registrations on a port, one for each class of packets.
#[derive(Clone, Copy, Debug)]
struct Agents {
    directed: c_int,
    addressed: c_int,
    performance: c_int,
}

impl Port {
    /// Opens a port.
    ///
    /// - `adapter`: such as `mlx5_0`; none takes the first with an active port.
    /// - `port`: its number, 0 for the first active one.
    ///
    /// # Errors
    ///
    /// [`UmadError`]: the library is missing, or there is no such port or no right to use it.
    pub fn open(adapter: Option<&str>, port: u8) -> Result<Self, UmadError> {
        let umad = Umad::load().map_err(UmadError::Library)?;
        let name = adapter
            .map(CString::new)
            .transpose()
            .map_err(|_| UmadError::AdapterName { name: adapter.unwrap_or_default().to_owned() })?;
        checked("umad_init", umad.init())?;
        let port = checked("umad_open_port", umad.open_port(name.as_deref(), port.into()))?;
        let register = |class| {
            // Closing the port ends what is registered on it.
            let agent = umad.register(port, class, CLASS_VERSION);
            checked("umad_register", agent).inspect_err(|_| umad.close_port(port))
        };
        let directed = register(DIRECTED_ROUTE_CLASS)?;
        let addressed = register(LID_ROUTED_CLASS)?;
        let performance = register(PERFORMANCE_CLASS)?;
        let header = umad.header_bytes();
        let buffer = vec![0; header + PACKET_BYTES];
        let agents = Agents { directed, addressed, performance };
        Ok(Self { umad, port, agents, header, buffer })
    }

    /// Sends a request.
    ///
    /// - `timeout`: time after which it is sent again, `retries` times; then it is returned as
    ///   [`Received::Unanswered`].
    ///
    /// # Errors
    ///
    /// [`UmadError::Call`] if the port refuses it.
    pub fn send(
        &mut self,
        to: To,
        packet: &[u8; PACKET_BYTES],
        timeout: Duration,
        retries: u16,
    ) -> Result<(), UmadError> {
        self.buffer.fill(0);
        self.buffer[self.header..].copy_from_slice(packet);
        let (agent, address) = match to {
            To::Route => (self.agents.directed, Address::subnet(PERMISSIVE_LID)),
            To::SubnetLid(lid) => (self.agents.addressed, Address::subnet(lid.into())),
            To::Lid(lid) => {
                let (queue_pair, queue_key) = (1, QUEUE_KEY_1);
                (self.agents.performance, Address { lid: lid.into(), queue_pair, queue_key })
            }
        };
        checked("umad_set_addr", self.umad.set_address(&mut self.buffer, address))?;
        let wait = Wait { milliseconds: milliseconds(timeout), retries: retries.into() };
        let sent = self.umad.send(self.port, agent, &mut self.buffer, wait);
        checked("umad_send", sent).map(drop)
    }

    /// Receives the next packet; `None` if there is none within `timeout`.
    ///
    /// # Errors
    ///
    /// [`UmadError::Call`] if the port is gone.
    pub fn receive(&mut self, timeout: Duration) -> Result<Option<Received>, UmadError> {
        let status = self.umad.receive(self.port, &mut self.buffer, milliseconds(timeout));
        if status == WOULD_BLOCK || status == TIMED_OUT {
            return Ok(None);
        }
        checked("umad_recv", status)?;
        let packet = self.buffer[self.header..].try_into().expect("the buffer holds one packet");
        let packet = Box::new(packet);
        let answered = self.umad.status(&mut self.buffer) == 0;
        Ok(Some(if answered { Received::Packet(packet) } else { Received::Unanswered(packet) }))
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let Agents { directed, addressed, performance } = self.agents;
        for agent in [directed, addressed, performance] {
            self.umad.unregister(self.port, agent);
        }
        self.umad.close_port(self.port);
    }
}

fn milliseconds(time: Duration) -> c_int {
    c_int::try_from(time.as_millis()).unwrap_or(c_int::MAX)
}

fn checked(call: &'static str, status: c_int) -> Result<c_int, UmadError> {
    if status < 0 { Err(UmadError::Call { call, status }) } else { Ok(status) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_call_is_named_with_its_status() {
        let error = checked("umad_open_port", -19).unwrap_err();
        assert_eq!(error.to_string(), "umad_open_port failed with status -19");
        assert_eq!(checked("umad_open_port", 0).unwrap(), 0);
    }

    #[test]
    fn an_adapter_name_with_a_zero_byte_or_no_library_is_an_error() {
        let error = Port::open(Some("mlx5\0"), 1).unwrap_err();
        assert!(matches!(error, UmadError::AdapterName { .. } | UmadError::Library(_)), "{error}");
    }
}
