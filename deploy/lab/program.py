"""An ordinary program of IP multicast, which knows nothing of Fabricast; the demo runs it on the lab's hosts.

program.py listen GROUP PORT OWN [INTERFACE]   joins, prints "listens", receives until its input ends, and prints what
    came as JSON; with an interface it joins nothing, and looks at every packet that comes in there
program.py send GROUP PORT OWN COUNT RATE   joins nothing, sends numbered datagrams, so many a second, and prints how
    many, and when the first one was sent
program.py joins GROUP PORT OWN COUNT   joins and leaves so often, and prints how long each first datagram took; before
    it joins it waits until nothing comes in any more
program.py member GROUP PORT OWN RATE   joins, prints "joined", sends from its first line of input to the end of its
    input, and prints the same

Times are of the clock that all hosts of the lab share.
"""

import json
import select
import socket
import struct
import sys
import time

verb, group, port, own = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
more = sys.argv[5:]
PLACE = socket.inet_aton(group) + socket.inet_aton(own)
MADE_UP = 10  # datagrams that a sender who is late sends at once
SO_RCVBUFFORCE = 33  # of Linux: beyond the limit for everybody
SO_MEMINFO, MEMINFO = 55, struct.Struct("9I")  # of Linux; the last number counts what had no room
IPV4, UDP_START = 0x0800, 14 + 20  # of a frame: our packets of IP have no options
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


def looking(interface):
    """A socket that gets every frame of IPv4 that comes in."""
    frames = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(IPV4))
    frames.bind((interface, 0))
    return frames


def payload(frame, kind):
    """The datagram of a frame for the group that came in; None for others."""
    if kind == socket.PACKET_OUTGOING or frame[23] != socket.IPPROTO_UDP or frame[30:34] != socket.inet_aton(group):
        return None
    return frame[UDP_START + 8:] if struct.unpack("!H", frame[UDP_START + 2:UDP_START + 4])[0] == port else None


def listen():
    """Counts datagrams by their numbers: received, received again and when, lost in between, and dropped because the
    own socket had no room; and the longest pause."""
    heard = looking(more[0]) if more else sock
    try:
        heard.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 22)
    except PermissionError:
        heard.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    joined = time.monotonic()
    if not more:
        sock.bind((group, port))
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, PLACE)
    print("listens", flush=True)
    numbers, again_at, last, pause, first_after, gaps = set(), [], None, 0.0, None, []
    newest = -1
    watched, ends = [heard, sys.stdin], None
    while ends is None or time.monotonic() < ends:
        ready, _, _ = select.select(watched, [], [], 0.05)
        if sys.stdin in ready:
            if not sys.stdin.readline():
                watched.remove(sys.stdin)
                ends = time.monotonic() + 0.4  # for what is still on its way
        if heard in ready:
            data, source = heard.recvfrom(2048)
            data = payload(data, source[2]) if more else data
            if data is None:
                continue
            number = struct.unpack("!I", data[:4])[0]
            now = time.monotonic()
            if last is None:
                first_after = now - joined
            else:
                pause = max(pause, now - last)
            last = now
            if number in numbers:
                again_at.append(now)
            if numbers and number > newest + 1:
                gaps.append((now, range(newest + 1, number)))
            newest = max(newest, number)
            numbers.add(number)
    # A datagram that another one overtook was missed, and not lost.
    gaps = [(when, sum(number not in numbers for number in missed)) for when, missed in gaps]
    lost = max(numbers) - min(numbers) + 1 - len(numbers) if numbers else 0
    known = {"received": len(numbers), "again": len(again_at), "again_at": again_at, "lost_between": lost}
    known["longest_pause_ms"] = round(pause * 1e3, 1)
    known["first_after_ms"] = None if first_after is None else round(first_after * 1e3, 2)
    known["first_at"] = None if first_after is None else joined + first_after
    known["last"], known["gaps"] = max(numbers, default=None), gaps
    known["dropped"] = MEMINFO.unpack(heard.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, MEMINFO.size))[-1]
    print(json.dumps(known), flush=True)


def joins(count):
    """Times of joins, in milliseconds."""
    frames, times = looking("eth0"), []
    for _ in range(count):
        frames.settimeout(0.1)
        try:
            while True:
                frames.recv(2048)
        except TimeoutError:
            pass
        program = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        program.settimeout(10)
        program.bind((group, port))
        joined = time.monotonic()
        program.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, PLACE)
        program.recv(2048)
        times.append(round((time.monotonic() - joined) * 1e3, 2))
        program.close()
    print(json.dumps({"first_after_ms": times}), flush=True)


def send(rate, goes_on):
    """Keeps the pace; prints how many it sent. After a pause it makes up for the last few only: more of them at once
    are lost at the first switch.
    """
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(own))
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 0)
    due, number = time.monotonic(), 0
    first_at = due
    while goes_on(number):
        sock.sendto(struct.pack("!I", number).ljust(64, b"."), (group, port))
        number += 1
        now = time.monotonic()
        due = max(due + 1 / rate, now - MADE_UP / rate)
        time.sleep(max(0.0, due - now))
    print(json.dumps({"sent": number, "first_at": first_at}), flush=True)


def has_input(_number):
    """False once the input has ended."""
    ready, _, _ = select.select([sys.stdin], [], [], 0)
    return not ready or sys.stdin.readline() != ""


if verb == "listen":
    listen()
elif verb == "joins":
    joins(int(more[0]))
elif verb == "send":
    send(int(more[1]), lambda number: number < int(more[0]))
else:
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, PLACE)
    print("joined", flush=True)
    if sys.stdin.readline():
        send(int(more[0]), has_input)
