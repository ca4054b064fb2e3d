//! Processes that send to the fabric's multicast connection themselves, here on the loopback
//! interface.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::Duration;

use fabricast_client::{Group, GroupPath, Message, Reduction};
use fabricast_integration::{Cluster, Layout, eventually, soon};
use socket2::{Domain, Socket, Type};

use crate::talking::{NODES, all, form};

/// UDP port of the packets of processes.
const PORT: u16 = 7409;
const LONG: usize = 300_000;

/// Nodes of both agents that multicast reaches. In a group of [`NODES`] they have the ranks 1 and
/// 3, of which 3 is the root.
const HEARING: [&str; 2] = [NODES[1], NODES[3]];

fn layout() -> Layout {
    Layout::leaf_spine().with_direct_paths().with_loopback(&HEARING)
}

/// Waits until the processes have these paths.
async fn have_paths(groups: &[Group], paths: &[GroupPath]) {
    eventually("multicast reaches processes", async || {
        let found: Vec<GroupPath> = groups.iter().map(Group::path).collect();
        if found == paths { Ok(()) } else { Err(format!("{found:?}")) }
    })
    .await;
}

/// Another program of the machine at the address of a group.
struct Stranger {
    socket: UdpSocket,
    address: SocketAddrV4,
}

impl Stranger {
    async fn join(cluster: &Cluster, group: &str) -> Self {
        let color = cluster.client.explain(group).await.unwrap().color.expect("a hardware route");
        let address = Ipv4Addr::from(u32::from(Layout::color_addresses()) + color);
        let socket = Socket::new(Domain::IPV4, Type::DGRAM.nonblocking(), None).unwrap();
        socket.set_reuse_address(true).unwrap();
        socket.set_recv_buffer_size(4 << 20).unwrap();
        socket.join_multicast_v4(&address, &Ipv4Addr::LOCALHOST).unwrap();
        socket.set_multicast_if_v4(&Ipv4Addr::LOCALHOST).unwrap();
        let address = SocketAddrV4::new(address, PORT);
        socket.bind(&address.into()).unwrap();
        Self { socket: socket.into(), address }
    }

    /// The packets that have come.
    fn packets(&self) -> Vec<Vec<u8>> {
        let mut buffer = vec![0; 1 << 16];
        let mut packets = Vec::new();
        while let Ok(length) = self.socket.recv(&mut buffer) {
            packets.push(buffer[..length].to_vec());
        }
        packets
    }

    /// Sends everything that has come again and again, whole, cut and changed.
    async fn disturb(&self) {
        loop {
            for packet in self.packets() {
                let mut changed = packet.clone();
                *changed.last_mut().unwrap() ^= 1;
                for bytes in [&packet[..], &packet[..packet.len() / 2], &changed, &[0; 50_000]] {
                    let _ = self.socket.send_to(bytes, self.address);
                }
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_for_all_goes_by_multicast_to_those_that_it_reaches() {
    use GroupPath::{Direct, DirectMulticast};
    let cluster = Cluster::start(layout()).await;
    let groups = form(&cluster, "g", &NODES).await;
    have_paths(&groups, &[Direct, DirectMulticast, Direct, DirectMulticast]).await;
    let stranger = Stranger::join(&cluster, "g").await;
    for (source, group) in (0_u32..).zip(&groups) {
        let long = vec![7; LONG];
        stranger.packets();
        assert_eq!(soon(group.multicast(&long)).await.unwrap(), Vec::<u32>::new());
        for (_, other) in (0_u32..).zip(&groups).filter(|(rank, _)| *rank != source) {
            let message = soon(other.receive()).await.unwrap();
            assert!(message == Message { sender: source, payload: long.clone() });
        }
        let carried: usize = stranger.packets().iter().map(Vec::len).sum();
        // The root sends what members send that multicast does not reach.
        assert!((LONG..2 * LONG).contains(&carried), "{carried} bytes of {source}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stranger_at_the_address_changes_nothing() {
    let cluster = Cluster::start(layout()).await;
    let groups = form(&cluster, "g", &HEARING).await;
    have_paths(&groups, &[GroupPath::DirectMulticast; 2]).await;
    let stranger = Stranger::join(&cluster, "g").await;
    let work = async {
        for turn in 0..20_u8 {
            let long = vec![turn; LONG];
            for (group, other) in [(&groups[0], &groups[1]), (&groups[1], &groups[0])] {
                group.multicast(&long).await.unwrap();
                let message = soon(other.receive()).await.unwrap();
                assert!(message.payload == long && message.sender == group.rank());
            }
            let ends = all(&groups, |group| async move {
                let sum = group.all_reduce(Reduction::Sum, &[group.rank()]).await?;
                Ok((sum, group.broadcast(1, &[turn; LONG]).await?))
            });
            assert!(ends.await.iter().all(|end| *end == (vec![1], vec![turn; LONG])));
        }
    };
    tokio::select! {
        () = work => {}
        () = stranger.disturb() => {}
    }
    let more = tokio::time::timeout(Duration::from_millis(200), groups[0].receive()).await;
    assert!(more.is_err(), "{more:?}");
    have_paths(&groups, &[GroupPath::DirectMulticast; 2]).await;
}
