//! Announces the endpoints of this machine on its interfaces, for a switch agent that finds the
//! topology: the first switch tells it the port by which an announcement came in.
//!
//! Each is a datagram to an address of the local network, sent without a route and without a right
//! that other programs lack. One that is lost is made up for by the next.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddrV4;

use fabricast_config::OperatingAgentConfig;
use fabricast_openflow::Announcement;
use socket2::{Domain, Protocol, Socket, Type};
use tracing::warn;

/// Endpoints by interface, as announcements.
#[derive(Debug)]
pub(crate) struct Announcements(Vec<Announced>);

#[derive(Debug)]
struct Announced {
    interface: String,
    datagram: Vec<u8>,
}

impl Announcements {
    /// The interfaces of the settings; none unless they are to be announced.
    pub(crate) fn of(config: &OperatingAgentConfig) -> Self {
        let interfaces = config.nodes.iter().flat_map(|node| &node.interfaces);
        let announced = interfaces.map(|(interface, endpoint)| Announced {
            interface: interface.clone(),
            datagram: Announcement { endpoint: endpoint.clone() }.encode(),
        });
        Self(announced.filter(|_| config.announce).collect())
    }

    /// Announces them, forever.
    pub(crate) async fn run(self) {
        if self.0.is_empty() {
            return std::future::pending().await;
        }
        let mut failed = BTreeSet::new();
        loop {
            for one in &self.0 {
                match one.send() {
                    Ok(()) => {
                        failed.remove(&one.interface);
                    }
                    Err(error) if failed.insert(&one.interface) => {
                        warn!(interface = one.interface, %error, "endpoint not announced");
                    }
                    Err(_told_before) => {}
                }
            }
            tokio::time::sleep(Announcement::INTERVAL).await;
        }
    }
}

impl Announced {
    /// Sends a datagram by the interface as it is now: it may have been made again.
    fn send(&self) -> io::Result<()> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
        socket.bind_device(Some(self.interface.as_bytes()))?;
        let to = SocketAddrV4::new(Announcement::ADDRESS, Announcement::PORT);
        socket.send_to(&self.datagram, &to.into())?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, UdpSocket};
    use std::time::Duration;

    use fabricast_config::{RawNode, RawOperatingAgentConfig, checked};

    use super::*;

    fn config(announce: bool) -> OperatingAgentConfig {
        let interfaces = [("lo".to_owned(), "h0 HCA-1".to_owned())].into();
        let endpoints = Some(vec!["h0 HCA-1".to_owned()]);
        let node = RawNode { name: Some("h0".to_owned()), endpoints, interfaces };
        checked(RawOperatingAgentConfig { nodes: vec![node], announce, ..<_>::default() }).unwrap()
    }

    #[test]
    fn interfaces_are_announced_by_datagrams_where_the_settings_say_so() {
        assert!(Announcements::of(&config(false)).0.is_empty());
        let Announcements(announced) = Announcements::of(&config(true));
        let [one] = &announced[..] else { panic!("{announced:?}") };
        let bound = SocketAddrV4::new(Announcement::ADDRESS, Announcement::PORT);
        let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.bind(&bound.into()).unwrap();
        socket.join_multicast_v4(&Announcement::ADDRESS, &Ipv4Addr::LOCALHOST).unwrap();
        let heard = UdpSocket::from(socket);
        heard.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        one.send().unwrap();
        let mut buffer = [0; 64];
        let length = heard.recv(&mut buffer).unwrap();
        assert_eq!(buffer[..length], *b"FCendpt1h0 HCA-1");
    }

    #[test]
    fn an_interface_that_is_not_there_is_an_error() {
        let (interface, datagram) = ("nowhere0".to_owned(), vec![1]);
        assert!(Announced { interface, datagram }.send().is_err());
    }
}
