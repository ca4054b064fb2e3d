//! The fabric's multicast connection of a membership, at a socket of this process.
//!
//! A member says that it hears the connection (`Place::multicast`) only once packets of others have
//! come, and as long as they do: the root of the tree sends one a second at least, and names a
//! member that answers, so that the root hears the connection, too. So a socket at the wrong
//! interface, or a route that is cut, costs a few seconds in which the tree repairs losses.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use fabricast_groups::{Moment, Pn};
use fabricast_messages::Packet;
use fabricast_proto::v1;
use rustix::net::addr::SocketAddrArg as _;
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, netdevice, sendmmsg, sockopt};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockRef, Socket, Type};
use tokio::net::UdpSocket;

use super::packet::{GroupKey, Keys, MAX_PACKET};

/// Bytes that may wait in a socket: a window of several sources. The system may allow less.
const BUFFER: usize = 8 << 20;
/// Packets that are taken from a socket, or given to it, at once.
const BATCH: usize = 64;
/// Pauses between two packets of the root that say that it is there.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LAST_PAUSE: Duration = Duration::from_secs(1);
/// Without a packet for this time, the connection is not heard any more.
const SILENCE: Duration = Duration::from_secs(4);
/// Time for which an address is kept that the group had before.
const LINGER: Duration = Duration::from_secs(5);

/// A socket that takes the packets of addresses that it has joined on one interface.
#[derive(Debug)]
pub(super) struct GroupSocket {
    socket: UdpSocket,
    interface: u32,
}

impl GroupSocket {
    /// Opens a socket beside those of other processes.
    ///
    /// # Errors
    ///
    /// There is no such interface here, or the process may not open the socket.
    pub(super) fn open(interface: &str, port: u16) -> io::Result<Self> {
        let socket = Socket::new(Domain::IPV4, Type::DGRAM.nonblocking(), Some(Protocol::UDP))?;
        let index = netdevice::name_to_index(&socket, interface)?;
        socket.set_reuse_address(true)?;
        socket.set_multicast_all_v4(false)?; // only what this socket has joined
        socket.bind_device(Some(interface.as_bytes()))?;
        // Without the right to it, as much as the system allows everybody.
        if sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER).is_err() {
            socket.set_recv_buffer_size(BUFFER)?;
        }
        socket.set_send_buffer_size(BUFFER)?;
        socket.bind(&SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port).into())?;
        Ok(Self { socket: UdpSocket::from_std(socket.into())?, interface: index })
    }

    fn join(&self, address: Ipv4Addr) -> io::Result<()> {
        let interface = InterfaceIndexOrAddress::Index(self.interface);
        SockRef::from(&self.socket).join_multicast_v4_n(&address, &interface)
    }

    fn leave(&self, address: Ipv4Addr) {
        let interface = InterfaceIndexOrAddress::Index(self.interface);
        // The socket's end leaves everything.
        let _ = SockRef::from(&self.socket).leave_multicast_v4_n(&address, &interface);
    }

    /// Waits for packets and takes some of those that have come.
    ///
    /// # Errors
    ///
    /// The socket is of no use any more.
    pub(super) async fn receive(&self, buffer: &mut [u8]) -> io::Result<Vec<Vec<u8>>> {
        let mut packets = Vec::new();
        self.socket.readable().await?;
        while packets.len() < BATCH {
            match self.socket.try_recv(buffer) {
                Ok(length) => packets.push(buffer[..length].to_vec()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // The interface was down; what is sent meanwhile is lost.
                Err(error) if error.kind() == io::ErrorKind::NetworkDown => break,
                Err(error) => return Err(error),
            }
        }
        Ok(packets)
    }

    /// Sends packets. A packet that the system does not take at once is lost, as on the wire.
    fn send(&self, packets: &[Vec<u8>], to: SocketAddrV4) {
        for batch in packets.chunks(BATCH) {
            let to = to.as_any();
            let slices: Vec<_> = batch.iter().map(|packet| [io::IoSlice::new(packet)]).collect();
            let mut controls: Vec<_> =
                batch.iter().map(|_| SendAncillaryBuffer::default()).collect();
            let each = slices.iter().zip(&mut controls);
            let mut messages: Vec<_> =
                each.map(|(slice, control)| MMsgHdr::new_with_addr(&to, slice, control)).collect();
            let mut rest = messages.as_mut_slice();
            while !rest.is_empty() {
                match sendmmsg(&self.socket, rest, SendFlags::DONTWAIT) {
                    Ok(sent) if sent > 0 => rest = &mut rest[sent..],
                    Ok(_) | Err(_) => return,
                }
            }
        }
    }
}

/// A buffer for [`GroupSocket::receive`]; one byte more shows that a packet is too long.
pub(super) fn buffer() -> Vec<u8> {
    vec![0; MAX_PACKET + 1]
}

/// Content of a packet of another member.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    /// For the message layer.
    Packet(Packet),
    /// The root, or a member that it has named, is there.
    Presence,
    /// The root is there and wants to know whether this member is.
    Question,
}

/// The multicast connection of a membership.
#[derive(Debug, Default)]
pub(super) struct Multicast {
    offered: Option<v1::DirectMulticast>,
    socket: Option<Arc<GroupSocket>>,
    target: Option<SocketAddrV4>,
    /// Addresses of earlier trees, and when they are left.
    past: Vec<(Moment, Ipv4Addr)>,
    pub(super) keys: Keys,
    /// Time of the last packet of another member, unless that is too long ago.
    heard_at: Option<Moment>,
    speaks_at: Moment,
    pause: Duration,
    /// Number of questions so far.
    questions: usize,
    outgoing: Vec<Vec<u8>>,
}

impl Multicast {
    /// Takes what the agent offers; returns a new socket, which is to be served. Without one, or if
    /// there can be none, messages go along the tree.
    pub(super) fn offer(
        &mut self,
        now: Moment,
        offered: Option<v1::DirectMulticast>,
    ) -> Option<Arc<GroupSocket>> {
        if self.offered == offered {
            return None;
        }
        let before = std::mem::replace(&mut self.offered, offered.clone());
        let is_same = offered.as_ref().zip(before).is_some_and(|(now, before)| {
            (&now.interface, now.port) == (&before.interface, before.port)
        });
        if !is_same {
            self.close();
        }
        let v1::DirectMulticast { interface, address, port } = offered?;
        let address = address.parse().ok().filter(Ipv4Addr::is_multicast);
        let target = SocketAddrV4::new(address?, u16::try_from(port).ok()?);
        self.speak_soon(now);
        let new = match self.socket {
            Some(_) => None,
            None => Some(Arc::new(GroupSocket::open(&interface, target.port()).ok()?)),
        };
        self.move_to(now, new.clone(), target).ok()?;
        new
    }

    /// Joins an address, and keeps the one before for a while: others may send there still.
    fn move_to(
        &mut self,
        now: Moment,
        new: Option<Arc<GroupSocket>>,
        target: SocketAddrV4,
    ) -> io::Result<()> {
        let Some(socket) = new.or_else(|| self.socket.clone()) else { return Ok(()) };
        if !self.past.iter().any(|(_, past)| past == target.ip()) {
            socket.join(*target.ip())?;
        }
        let before = self.target.replace(target).map(|before| *before.ip());
        self.past.extend(before.map(|before| (now.after(LINGER), before)));
        self.past.retain(|(_, past)| past != target.ip());
        self.socket = Some(socket);
        Ok(())
    }

    fn close(&mut self) {
        (self.socket, self.target, self.heard_at) = (None, None, None);
        self.past.clear();
    }

    /// True if this socket is in use.
    pub(super) fn uses(&self, socket: &Arc<GroupSocket>) -> bool {
        self.socket.as_ref().is_some_and(|used| Arc::ptr_eq(used, socket))
    }

    /// True if packets of others have come lately.
    pub(super) fn is_heard(&self) -> bool {
        self.heard_at.is_some()
    }

    /// Lets the root make the key, if it has none and packets can be sent.
    pub(super) fn make_key(&mut self) {
        let is_missing = self.socket.is_some() && self.keys.current().is_none();
        if let Some(key) = GroupKey::random().filter(|_| is_missing) {
            self.keys.adopt(key);
        }
    }

    /// Has the root speak again soon: members may be new, or have a new key.
    pub(super) fn speak_soon(&mut self, now: Moment) {
        (self.speaks_at, self.pause) = (now, FIRST_PAUSE);
    }

    /// Returns what a packet brings; `None` if it is a stranger's.
    pub(super) fn read(&mut self, now: Moment, own: Pn, bytes: &[u8]) -> Option<Heard> {
        let (_, content) = self.keys.open(own, bytes)?;
        let heard = match <[u8; 4]>::try_from(content.as_slice()) {
            Ok(named) if u32::from_le_bytes(named) == own.0 => Heard::Question,
            Ok(_) => Heard::Presence,
            Err(_) if content.is_empty() => Heard::Presence,
            Err(_) => Heard::Packet(Packet::decode(&content).ok()??),
        };
        self.heard_at = Some(now);
        Some(heard)
    }

    /// Keeps content for the next [`Multicast::flush`].
    pub(super) fn queue(&mut self, own: Pn, content: &[u8]) {
        if self.socket.is_some() {
            self.outgoing.extend(self.keys.seal(own, content));
        }
    }

    /// Sends what is kept.
    pub(super) fn flush(&mut self) {
        let outgoing = std::mem::take(&mut self.outgoing);
        if let (Some(socket), Some(target), false) =
            (&self.socket, self.target, outgoing.is_empty())
        {
            socket.send(&outgoing, target);
        }
    }

    /// Does what is due.
    ///
    /// - `children`: the root's neighbours; `None` for others.
    pub(super) fn tick(&mut self, now: Moment, own: Pn, children: Option<&[Pn]>) {
        if self.heard_at.is_some_and(|at| at.after(SILENCE) <= now) {
            self.heard_at = None;
        }
        let (left, kept) = self.past.drain(..).partition(|(at, _)| *at <= now);
        self.past = kept;
        let left: Vec<(Moment, Ipv4Addr)> = left;
        if let Some(socket) = &self.socket {
            left.iter().for_each(|(_, address)| socket.leave(*address));
        }
        let Some(children) = children.filter(|_| self.speaks_at <= now) else { return };
        let named = children.get(self.questions % children.len().max(1));
        self.questions = self.questions.wrapping_add(1);
        let question = named.map(|pn| pn.0.to_le_bytes());
        self.queue(own, question.as_ref().map_or(&[], |named| named.as_slice()));
        self.speaks_at = now.after(self.pause);
        self.pause = (self.pause * 2).min(LAST_PAUSE);
    }

    /// Time of the next [`Multicast::tick`]; `None` without a socket.
    pub(super) fn next_tick(&self, is_root: bool) -> Option<Moment> {
        self.socket.as_ref()?;
        let silence = self.heard_at.map(|at| at.after(SILENCE));
        let left = self.past.iter().map(|(at, _)| *at).min();
        let speaks = is_root.then_some(self.speaks_at);
        let never = Moment(u64::MAX);
        Some([silence, left, speaks].into_iter().flatten().min().unwrap_or(never))
    }
}

#[cfg(test)]
mod tests {
    use fabricast_groups::{Gn, Revision};
    use fabricast_messages::{Notice, Part, Source};
    use tokio::time::timeout;

    use super::*;

    /// Of no program; each test has an address of its own.
    const PORT: u32 = 7419;
    const START: Moment = Moment(1_000_000_000);

    fn offered(last: u8) -> Option<v1::DirectMulticast> {
        let address = Ipv4Addr::new(239, 193, 0, last).to_string();
        Some(v1::DirectMulticast { interface: "lo".to_owned(), address, port: PORT })
    }

    /// A member at the loopback interface, with its socket.
    fn member(last: u8, key: GroupKey) -> (Multicast, Arc<GroupSocket>) {
        let mut multicast = Multicast::default();
        let socket = multicast.offer(START, offered(last)).unwrap();
        multicast.keys.adopt(key);
        (multicast, socket)
    }

    /// The packets that come within a moment.
    async fn arrived(socket: &GroupSocket) -> Vec<Vec<u8>> {
        let (mut all, mut buffer) = (Vec::new(), buffer());
        let moment = Duration::from_millis(200);
        while let Ok(packets) = timeout(moment, socket.receive(&mut buffer)).await {
            all.extend(packets.unwrap());
        }
        all
    }

    fn packet() -> Packet {
        let source = Source { pn: Pn(0), joined: Revision(1) };
        let payload = vec![7; 3_000];
        let part = Part { source, number: 1, floor: 0, first: true, last: true, payload };
        Packet { gn: Gn(3), notice: Notice::Part(Arc::new(part)) }
    }

    #[tokio::test]
    async fn members_hear_each_other_and_no_strangers() {
        let key = GroupKey::random().unwrap();
        let (mut root, _) = member(1, key);
        let (mut other, socket) = member(1, key);
        let (mut stranger, _) = member(1, GroupKey::random().unwrap());
        stranger.queue(Pn(0), &packet().encode());
        stranger.outgoing.push(vec![0; MAX_PACKET * 2]);
        stranger.outgoing.push(Vec::new());
        stranger.outgoing.push(b"\x89FCcast1".to_vec());
        stranger.flush();
        let packets = arrived(&socket).await;
        assert_eq!(packets.len(), 4);
        assert!(packets.iter().all(|bytes| other.read(START, Pn(1), bytes).is_none()));
        assert!(!other.is_heard());
        root.queue(Pn(0), &packet().encode());
        root.flush();
        let packets = arrived(&socket).await;
        assert_eq!(other.read(START, Pn(1), &packets[0]), Some(Heard::Packet(packet())));
        assert!(other.is_heard());
    }

    #[tokio::test]
    async fn the_root_asks_one_after_the_other_and_nobody_is_heard_without_packets() {
        let key = GroupKey::random().unwrap();
        let (mut root, heard_by_root) = member(2, key);
        let (mut other, socket) = member(2, key);
        root.tick(START, Pn(0), Some(&[Pn(1), Pn(2)]));
        root.tick(START, Pn(0), Some(&[Pn(1), Pn(2)])); // not again so soon
        root.flush();
        let packets = arrived(&socket).await;
        assert_eq!(packets.len(), 1);
        assert_eq!(other.read(START, Pn(2), &packets[0]), Some(Heard::Presence));
        assert_eq!(other.read(START, Pn(1), &packets[0]), Some(Heard::Question));
        let later = root.next_tick(true).unwrap();
        root.tick(later, Pn(0), Some(&[Pn(1), Pn(2)]));
        root.flush();
        let packets = arrived(&socket).await;
        assert_eq!(other.read(START, Pn(2), &packets[0]), Some(Heard::Question));
        other.queue(Pn(2), &[]);
        other.flush();
        let packets = arrived(&heard_by_root).await;
        let answers = packets.iter().filter_map(|bytes| root.read(START, Pn(0), bytes));
        assert_eq!(answers.collect::<Vec<_>>(), [Heard::Presence]);
        let silent = other.next_tick(false).unwrap();
        assert_eq!(silent, START.after(SILENCE));
        other.tick(silent, Pn(2), None);
        assert!(!other.is_heard());
    }

    #[tokio::test]
    async fn an_address_is_kept_for_a_while_when_the_tree_has_moved() {
        let key = GroupKey::random().unwrap();
        let (mut behind, _) = member(3, key);
        let (mut ahead, socket) = member(3, key);
        assert!(ahead.offer(START, offered(4)).is_none(), "the socket is the same");
        let count = async |behind: &mut Multicast| {
            behind.queue(Pn(1), &[]);
            behind.flush();
            arrived(&socket).await.len()
        };
        assert_eq!(count(&mut behind).await, 1);
        ahead.tick(START.after(LINGER), Pn(0), None);
        assert_eq!(count(&mut behind).await, 0);
        behind.offer(START, offered(4));
        assert_eq!(count(&mut behind).await, 1);
        assert!(ahead.offer(START, None).is_none() && !ahead.uses(&socket));
    }

    #[tokio::test]
    async fn without_a_socket_nothing_is_heard_or_sent() {
        let wrong = [("none-such", "239.193.0.5"), ("lo", "10.0.0.1"), ("lo", "?")];
        for (interface, address) in wrong {
            let (interface, address) = (interface.to_owned(), address.to_owned());
            let mut multicast = Multicast::default();
            let offered = v1::DirectMulticast { interface, address, port: PORT };
            assert!(multicast.offer(START, Some(offered)).is_none());
            multicast.make_key();
            multicast.queue(Pn(0), b"content");
            assert!(multicast.keys.current().is_none() && multicast.outgoing.is_empty());
            assert_eq!(multicast.next_tick(true), None);
        }
    }
}
