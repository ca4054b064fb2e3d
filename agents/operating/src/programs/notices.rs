//! Notices that memberships of this machine have changed: its own IGMP reports.
//!
//! A raw socket of IGMP that has joined the addresses to which reports and leaves go gets a copy of
//! every report that the kernel sends (IGMPv3 and v2), which needs `CAP_NET_RAW`. The content of a
//! report is not looked at: it only says that the kernel's list has changed.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockRef, Socket, Type};
use tokio::net::UdpSocket;
use tracing::{debug, warn};

/// Protocol number of IGMP.
const IGMP: i32 = 2;
/// Address to which hosts send reports of IGMPv3, and leaves of IGMPv2. Reports of IGMPv2 go to the
/// address that is joined, which the kernel has joined then.
const REPORTS: [Ipv4Addr; 2] = [Ipv4Addr::new(224, 0, 0, 22), Ipv4Addr::new(224, 0, 0, 2)];

/// Socket with the notices; without one, a waiting task has to look by itself.
#[derive(Debug)]
pub(super) struct NoticeSocket {
    /// Tokio has no type for raw sockets; receiving is the same.
    socket: Option<UdpSocket>,
    /// Interfaces whose reports come, by number.
    watched: BTreeSet<u32>,
}

impl NoticeSocket {
    pub(super) fn open() -> Self {
        let socket = open().inspect_err(|error| {
            warn!(%error, "IGMP reports cannot be read: joins of programs are noticed later");
        });
        Self { socket: socket.ok(), watched: BTreeSet::new() }
    }

    /// Has the reports of an interface come, too.
    ///
    /// - `index`: number of the interface; one that is made again has another one.
    pub(super) fn watch(&mut self, index: u32) {
        let Some(socket) = &self.socket else { return };
        if !self.watched.insert(index) {
            return;
        }
        let interface = InterfaceIndexOrAddress::Index(index);
        for address in REPORTS {
            if let Err(error) = SockRef::from(socket).join_multicast_v4_n(&address, &interface) {
                warn!(index, %address, %error, "IGMP reports of an interface cannot be read");
            }
        }
    }

    /// Waits for a notice; several at one time are one.
    pub(super) async fn next(&self) {
        let Some(socket) = &self.socket else { return std::future::pending().await };
        // The content does not matter, and what does not fit is cut off.
        let mut buffer = [0; 64];
        if let Err(error) = socket.recv(&mut buffer).await {
            debug!(%error, "IGMP reports not read");
            return std::future::pending().await;
        }
        while socket.try_recv(&mut buffer).is_ok() {}
    }
}

fn open() -> std::io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(IGMP)))?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket.into())
}
