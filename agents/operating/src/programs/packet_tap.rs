//! Sees what programs send by an interface: one packet of each address that is watched.
//!
//! A packet socket gets a copy of everything that leaves this machine, which needs `CAP_NET_RAW`. A
//! filter in the kernel (classic BPF) passes on what leaves by the interface, is IPv4 and goes to a
//! watched address, so that a program that sends a lot is seen once in a while. Nothing but the
//! destination is read. The socket is not bound to the interface: the filter knows its number.

use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::task::Poll;

use fabricast_groups::programs::{AddressRange, Watched};
use socket2::{Domain, Protocol, SockFilter, SockRef, Socket, Type};
use tokio::net::UdpSocket;
use tracing::{debug, warn};

/// All protocols (`ETH_P_ALL`): only these sockets get what is sent.
const ALL_PROTOCOLS: u16 = 3;
/// Bytes of a packet that are kept: a header of IPv4 without options.
const HEADER_BYTES: u32 = 20;
/// Most packets that are read at a time. Then the filter is set anew.
const MOST_AT_ONCE: usize = 256;
/// Size of the socket's buffer in bytes: for some hundred packets.
const BUFFER: usize = 1 << 18;

/// Header of IPv4 without options.
type Header = [u8; HEADER_BYTES as usize];

/// Socket with copies of packets that an interface sends.
#[derive(Debug)]
pub(super) struct PacketTap {
    /// Tokio has no type for packet sockets; receiving is the same. `None` if nothing is seen.
    socket: Option<UdpSocket>,
    /// Number of the interface and addresses that the filter passes on.
    filter: Option<(u32, Watched)>,
}

impl PacketTap {
    /// Opens the socket, by which nothing comes yet.
    pub(super) fn open() -> Self {
        let socket = open().inspect_err(|error| {
            warn!(%error, "packets of programs cannot be seen: senders have to join");
        });
        Self { socket: socket.ok(), filter: None }
    }

    /// A tap that sees nothing.
    pub(super) const fn closed() -> Self {
        Self { socket: None, filter: None }
    }

    /// Has packets to some addresses come, and no others.
    ///
    /// - `interface`: number of the interface.
    pub(super) fn watch(&mut self, interface: u32, ranges: &[AddressRange], watched: Watched) {
        let Some(socket) = &self.socket else { return };
        let wanted = (interface, watched);
        if self.filter.as_ref() == Some(&wanted) {
            return;
        }
        let Err(error) = attach(socket, &program(interface, ranges, &wanted.1)) else {
            self.filter = Some(wanted);
            return;
        };
        // Linux before 6.8 has room for some 600 addresses (`optmem_max`), of the new filter and
        // the one before together. There is more once this one is gone, or in the next period.
        debug!(%error, "filter for packets of programs not set");
        self.filter = None;
        if let Err(error) = attach(socket, &[PASS_NOTHING]) {
            warn!(%error, "packets of programs cannot be filtered: senders have to join");
            self.socket = None;
        }
    }

    /// Destinations of the packets that have come.
    pub(super) fn take(&mut self) -> Vec<Ipv4Addr> {
        let Some(socket) = &self.socket else { return Vec::new() };
        let (mut found, mut header) = (Vec::new(), Header::default());
        while found.len() < MOST_AT_ONCE {
            match socket.try_recv(&mut header) {
                Ok(length) if length == header.len() => found.push(destination(&header)),
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                Err(error) => {
                    warn!(%error, "packets of programs are not seen any more: senders have to join");
                    self.socket = None;
                    break;
                }
            }
        }
        found
    }
}

/// Waits until a packet has come by any of some taps.
pub(super) async fn any_packet(taps: Vec<&PacketTap>) {
    std::future::poll_fn(|context| {
        let sockets = taps.iter().filter_map(|tap| tap.socket.as_ref());
        let mut polls = sockets.map(|socket| socket.poll_recv_ready(context));
        // An error counts, too: it is found when the packet is read.
        if polls.any(|poll| poll.is_ready()) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

fn open() -> std::io::Result<UdpSocket> {
    let protocol = Protocol::from(i32::from(ALL_PROTOCOLS.to_be()));
    let socket = Socket::new(Domain::PACKET, Type::DGRAM, Some(protocol))?;
    socket.set_nonblocking(true)?;
    socket.attach_filter(&[SockFilter::from(PASS_NOTHING)])?;
    socket.set_recv_buffer_size(BUFFER)?;
    // Packets that came before there was a filter.
    while socket.recv(&mut [MaybeUninit::uninit()]).is_ok() {}
    UdpSocket::from_std(socket.into())
}

fn attach(socket: &UdpSocket, program: &[Instruction]) -> std::io::Result<()> {
    let program: Vec<SockFilter> = program.iter().copied().map(SockFilter::from).collect();
    SockRef::from(socket).attach_filter(&program)
}

fn destination(header: &Header) -> Ipv4Addr {
    let [.., a, b, c, d] = *header;
    Ipv4Addr::new(a, b, c, d)
}

/// One instruction of a filter, as in Linux's `struct sock_filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Instruction {
    code: u16,
    /// Instructions to skip if the condition holds, and if it does not.
    skip: [u8; 2],
    value: u32,
}

impl From<Instruction> for SockFilter {
    fn from(one: Instruction) -> Self {
        let [holds, does_not] = one.skip;
        Self::new(one.code, holds, does_not, one.value)
    }
}

// Codes of instructions: load from an offset, compare with a value, end.
const LOAD_WORD: u16 = 0x20;
const LOAD_BYTE: u16 = 0x30;
const IF_EQUAL: u16 = 0x15;
const IF_ABOVE: u16 = 0x25;
const IF_AT_LEAST: u16 = 0x35;
const END: u16 = 0x06;

// Offsets: what the kernel knows of a packet (SKF_AD_OFF and above), and fields of its IPv4 header.
const ETHERNET_PROTOCOL: u32 = 0xffff_f000;
const PACKET_TYPE: u32 = ETHERNET_PROTOCOL + 4;
const INTERFACE: u32 = ETHERNET_PROTOCOL + 8;
const IP_PROTOCOL: u32 = 9;
const DESTINATION: u32 = 16;

/// Ethernet protocol of IPv4.
const IPV4: u32 = 0x0800;
/// Type of packets that leave this machine (`PACKET_OUTGOING`).
const OUTGOING: u32 = 4;
/// Protocol number of IGMP: reports are no packets of programs.
const IGMP: u32 = 2;

/// Ends without a copy.
const PASS_NOTHING: Instruction = Instruction { code: END, skip: [0, 0], value: 0 };
/// Ends with a copy of the header.
const PASS_HEADER: Instruction = Instruction { code: END, skip: [0, 0], value: HEADER_BYTES };

/// The filter for packets that an interface sends.
fn program(interface: u32, ranges: &[AddressRange], watched: &Watched) -> Vec<Instruction> {
    let load = |code, value| Instruction { code, skip: [0, 0], value };
    let compare = |code, value, skip| Instruction { code, skip, value };
    let mut program = Vec::new();
    for (offset, value) in
        [(ETHERNET_PROTOCOL, IPV4), (PACKET_TYPE, OUTGOING), (INTERFACE, interface)]
    {
        let check = compare(IF_EQUAL, value, [1, 0]);
        program.extend([load(LOAD_WORD, offset), check, PASS_NOTHING]);
    }
    let is_report = compare(IF_EQUAL, IGMP, [0, 1]);
    program.extend([load(LOAD_BYTE, IP_PROTOCOL), is_report, PASS_NOTHING]);
    program.push(load(LOAD_WORD, DESTINATION));
    let is = |address: &Ipv4Addr| compare(IF_EQUAL, u32::from(*address), [0, 1]);
    match watched {
        Watched::AllBut(addresses) => {
            program.extend(addresses.iter().flat_map(|address| [is(address), PASS_NOTHING]));
            program.extend(ranges.iter().flat_map(|range| {
                let begins = compare(IF_AT_LEAST, u32::from(range.first()), [0, 2]);
                let ends = compare(IF_ABOVE, u32::from(range.last()), [1, 0]);
                [begins, ends, PASS_HEADER]
            }));
        }
        Watched::Only(addresses) => {
            program.extend(addresses.iter().flat_map(|address| [is(address), PASS_HEADER]));
        }
    }
    program.push(PASS_NOTHING);
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts of a packet that a filter sees.
    #[derive(Clone, Copy)]
    struct Packet {
        ethernet_protocol: u32,
        kind: u32,
        interface: u32,
        ip_protocol: u32,
        destination: Ipv4Addr,
    }

    const GOOD: Packet = Packet {
        ethernet_protocol: IPV4,
        kind: OUTGOING,
        interface: 7,
        ip_protocol: 17,
        destination: Ipv4Addr::new(239, 0, 0, 1),
    };

    /// Runs a filter as the kernel does.
    fn passes(program: &[Instruction], packet: Packet) -> bool {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let Instruction { code, skip: [holds, does_not], value } = program[at];
            let is_met = match code {
                LOAD_WORD | LOAD_BYTE => {
                    loaded = match value {
                        ETHERNET_PROTOCOL => packet.ethernet_protocol,
                        PACKET_TYPE => packet.kind,
                        INTERFACE => packet.interface,
                        IP_PROTOCOL => packet.ip_protocol,
                        DESTINATION => u32::from(packet.destination),
                        other => panic!("nothing is at {other}"),
                    };
                    at += 1;
                    continue;
                }
                IF_EQUAL => loaded == value,
                IF_ABOVE => loaded > value,
                IF_AT_LEAST => loaded >= value,
                END => return value > 0,
                other => panic!("no code is {other}"),
            };
            at += 1 + usize::from(if is_met { holds } else { does_not });
        }
    }

    fn ranges() -> Vec<AddressRange> {
        ["239.0.0.0/24", "239.2.0.0/16"].map(|text| text.parse::<AddressRange>().unwrap()).to_vec()
    }

    #[test]
    fn only_packets_that_the_interface_sends_pass() {
        let program = program(7, &ranges(), &Watched::AllBut([].into()));
        assert!(passes(&program, GOOD));
        let others = [
            Packet { ethernet_protocol: 0x86dd, ..GOOD },
            Packet { kind: 0, ..GOOD },
            Packet { interface: 8, ..GOOD },
            Packet { ip_protocol: IGMP, ..GOOD },
        ];
        assert!(others.iter().all(|other| !passes(&program, *other)));
    }

    #[test]
    fn only_watched_addresses_pass() {
        let to = |a, b, c, d| Packet { destination: Ipv4Addr::new(a, b, c, d), ..GOOD };
        let (seen, other) = (Ipv4Addr::new(239, 0, 0, 1), Ipv4Addr::new(239, 2, 0, 0));
        let all_but = program(7, &ranges(), &Watched::AllBut([seen, other].into()));
        let passed = [to(239, 0, 0, 0), to(239, 0, 0, 255), to(239, 2, 0, 1), to(239, 2, 255, 255)];
        assert!(passed.iter().all(|packet| passes(&all_but, *packet)));
        let held = [
            to(239, 0, 0, 1),
            to(239, 2, 0, 0),
            to(238, 255, 255, 255),
            to(239, 0, 1, 0),
            to(239, 1, 255, 255),
            to(239, 3, 0, 0),
        ];
        assert!(held.iter().all(|packet| !passes(&all_but, *packet)));
        let only = program(7, &ranges(), &Watched::Only([seen].into()));
        assert!(passes(&only, to(239, 0, 0, 1)) && !passes(&only, to(239, 0, 0, 0)));
        let nothing = program(7, &ranges(), &Watched::Only([].into()));
        assert!(!passes(&nothing, GOOD));
    }

    #[tokio::test]
    async fn a_filter_that_is_too_long_for_the_kernel_makes_way_for_a_shorter_one() {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut tap = PacketTap { socket: Some(socket), filter: None };
        let addresses = |count: u32| {
            let addresses = (0..count).map(|low| Ipv4Addr::from(0xef00_0000 + low));
            Watched::Only(addresses.collect())
        };
        tap.watch(7, &ranges(), addresses(1));
        tap.watch(7, &ranges(), addresses(3_000)); // no filter has 4097 instructions
        assert_eq!(tap.filter, None);
        tap.watch(7, &ranges(), addresses(2));
        assert_eq!(tap.filter, Some((7, addresses(2))));
    }

    #[test]
    fn the_destination_is_read_from_a_header() {
        let mut header = Header::default();
        header[16..].copy_from_slice(&[239, 1, 2, 3]);
        assert_eq!(destination(&header), Ipv4Addr::new(239, 1, 2, 3));
    }
}
