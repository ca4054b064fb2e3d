//! Reports of IGMP, by which hosts say what they have joined, go no further than the first switch.

use super::*;

/// Looks at the packets of all hosts, which are its arguments. The first and the last one join an
/// address, and the first leaves and joins again once its datagrams come to the last one. Prints
/// how many reports all hosts have sent, and the hosts that have received any.
const WATCH: &str = "
import ctypes, select, socket, sys, time
LIBC, GROUP, ALL, OUTGOING = ctypes.CDLL(None), '239.1.2.9', 3, 4
IGMP, UDP = 2, 17

def enter(host):
    with open('/run/netns/' + host) as space:
        assert LIBC.setns(space.fileno(), 0) == 0, host

def look(host):
    enter(host)
    frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ALL))
    frames.bind(('eth0', 0))
    return frames

def join(host):
    enter(host)
    program = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    place = socket.inet_aton(GROUP) + bytes(4)
    program.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, place)
    return program

hosts = sys.argv[1:]
looking = {look(host): host for host in hosts}
sent, received, reached = 0, set(), set()

def watch(seconds):
    global sent
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0:
        for frames in select.select(looking, [], [], left)[0]:
            frame, source = frames.recvfrom(2048)
            goes_out, host = source[2] == OUTGOING, looking[frames]
            if frame[12:14] != bytes((8, 0)):
                continue
            if frame[23] == IGMP and goes_out:
                sent += 1
            elif frame[23] == IGMP:
                received.add(host)
            elif frame[23] == UDP and not goes_out and frame[30:34] == socket.inet_aton(GROUP):
                reached.add(host)

last, first = join(hosts[-1]), join(hosts[0])
ends = time.monotonic() + 30
while hosts[-1] not in reached:
    assert time.monotonic() < ends, 'the last host gets nothing'
    first.sendto(b'.', (GROUP, 5000))
    watch(0.05)
first.close()
watch(0.2)
first = join(hosts[0])
watch(1.5)
print(sent, *sorted(received))
";

/// Has two hosts join, and one of them leave and join again, and expects that no host hears of it.
pub(super) fn stay_at_their_switch(lab: &Lab) {
    let wiring = std::fs::read_to_string(lab.folder().join("wiring")).expect("a list");
    let hosts = wiring.lines().filter_map(|line| line.strip_prefix("host\t")?.split('\t').next());
    let words: Vec<&str> = ["--", "python3", "-c", WATCH].into_iter().chain(hosts).collect();
    let said = lab.succeeds("exec", &words);
    let mut said = said.split_whitespace();
    let sent: usize = said.next().expect("a count").parse().expect("a count");
    assert!(sent >= 3, "two joined, one left and joined again, in {sent} reports");
    assert_eq!(said.collect::<Vec<_>>(), Vec::<&str>::new(), "hosts that received reports");
}
