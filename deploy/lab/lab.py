"""The running lab, its command line, and ordinary programs on its hosts, for the other scripts of this folder."""

import json
import os
import re
import subprocess
import sys
import time
from typing import NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
RUN = os.environ.get("FABRICAST_LAB", os.path.join(HERE, "run"))
PORT = 5000
RATE = 1000  # datagrams a second: far less than the switches carry
ADDRESS = "239.1.2.3"  # what programs join by themselves
ADDRESSES = (239 << 24) + (192 << 16)  # of color 0, as [switch_agent.driver_options] has it


def check_running():
    """Ends the program with a message if no whole lab is running."""
    status = os.path.join(HERE, "status")
    if subprocess.run([status, "--brief"], stdout=subprocess.DEVNULL, check=False).returncode:
        sys.exit(f"{os.path.basename(sys.argv[0])}: the lab is not running, or not all of it; {status} says more")


class Failed(Exception):
    """A check that did not hold."""


def call(script, *words):
    """Runs a script of the lab; returns what it prints."""
    done = subprocess.run([os.path.join(HERE, script), *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Failed(f"{script} {' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


def fabricast(*words):
    """Runs the command line; returns its answer."""
    return json.loads(call("fabricast", *words, "--format", "json"))


def complaints():
    """The last warnings in the logs of all parts."""
    folder = os.path.join(RUN, "log")
    lines = []
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
            warned = [line.rstrip() for line in file if "WARN" in line or "ERROR" in line]
            lines += [f"{name}: {line}" for line in warned[-3:]]
    return "\n".join(lines)


def eventually(what, holds):
    """Waits until something holds; returns it."""
    ends = time.monotonic() + 30
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > ends:
            raise Failed(f"not within 30 s: {what}")
        time.sleep(0.05)


def read_wiring():
    with open(os.path.join(RUN, "wiring"), encoding="utf-8") as file:
        return [line.rstrip("\n").split("\t") for line in file]


check_running()
WIRING = read_wiring()
with open(os.path.join(RUN, "driver"), encoding="utf-8") as text:
    DRIVER = text.read().strip()  # of the switch agent
HOSTS = {line[1]: f"10.0.0.{line[4]}" for line in WIRING if line[0] == "host"}
NAMES = {f"S-{line[3]}": line[1] for line in WIRING if line[0] == "switch"}
LEAVES = {line[1]: line[2] for line in WIRING if line[0] == "host"}  # by host


class Program:
    """The ordinary program, on a host."""

    def __init__(self, host, verb, group, *words):
        # Its clock is the measure: a machine with other work must not stop it.
        command = [os.path.join(HERE, "exec"), host, "--", os.path.join(HERE, "urgent"), "python3"]
        command.append(os.path.join(HERE, "program.py"))
        command += [verb, group, str(PORT), HOSTS[host], *map(str, words)]
        self.host = host
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def says(self, word):
        line = self.process.stdout.readline()
        if line.strip() != word:
            raise Failed(f"the program on {self.host} ended: {line!r}")

    def end(self):
        """Ends it, or waits until a sender has sent all; a listener tells what it has received."""
        self.process.stdin.close()
        text = self.process.stdout.read()
        if self.process.wait():
            raise Failed(f"the program on {self.host} failed")
        return json.loads(text) if text else None


def listen(hosts, group, *words):
    """Starts listeners, and waits until they listen."""
    programs = [Program(host, "listen", group, *words) for host in hosts]
    for program in programs:
        program.says("listens")
    return programs


def carry(sender, group, members, count):
    """Sends from a member, and looks at what comes in at every host: each datagram once at the other members, and
    nothing at anybody else, be it that some program wants it or not."""
    looking = listen([host for host in HOSTS if host != sender], group, "eth0")
    Program(sender, "send", group, count, RATE).end()
    wrong = []
    for program in looking:
        got = program.end()
        expected = count if program.host in members else 0
        if (got["received"], got["again"]) != (expected, 0):
            wrong.append(f"{program.host} got {got['received']} of {expected}, {got['again']} again")
    if wrong:
        raise Failed("; ".join(wrong))
    others = set(members) - {sender}
    print(f"   {count} datagrams from {sender}: all at {' '.join(sorted(others))}, each once; "
          f"none at {len(HOSTS) - len(others) - 1} other hosts")


def route(group, members):
    """The group's route, once it has so many members and nothing changes any more."""
    seen = {}

    def settled():
        try:
            listed = {one["name"]: one for one in fabricast("group", "list").get("groups", [])}
            seen["group"] = listed.get(group)
            seen["status"] = call("fabricast", "route", "status")
            if listed.get(group, {}).get("memberCount") != members or "settled" not in seen["status"]:
                return None
            return fabricast("route", "explain", "--group", group)
        except Failed as failure:
            seen["failure"] = failure
            return None  # the machine is busy
    try:
        found = eventually(f"{group} has {members} members and is routed", settled)
    except Failed as failure:
        last = "\n".join(f"{name}: {value}" for name, value in seen.items())
        raise Failed(f"{failure}\n{last}\n{complaints()}") from None
    if found.get("color") is None:
        raise Failed(f"{group} has no route: {found}")
    return found


def color_address(color):
    number = ADDRESSES + color
    return ".".join(str(number >> shift & 255) for shift in (24, 16, 8, 0))


class Counts(NamedTuple):
    """What a port of a switch has carried since it was made."""

    packets_sent: int
    bytes_sent: int
    bytes_received: int


def counted():
    """Counts of the ports of all switches, by the name of their interfaces."""
    names = [line[2] for line in WIRING if line[0] == "switch"]
    if DRIVER == "bridge":
        script = 'for at; do ip -netns "$at" -json -statistics link show master br0; done'
        return kernel_counts(call("exec", "--", "sh", "-c", script, "-", *names))
    script = 'for at; do echo "switch ${at##*/}"; ovs-ofctl -O OpenFlow13 dump-ports "unix:$at.mgmt"; done'
    text = call("exec", "--", "sh", "-c", script, "-", *[f"{RUN}/ovs/{name}" for name in names])
    counts = {}
    for part in text.split("switch ")[1:]:
        found = re.findall(r"port +(\d+): rx pkts=\d+, bytes=(\d+).*?tx pkts=(\d+), bytes=(\d+)", part, re.DOTALL)
        for port, received, packets, sent in found:
            counts[f"{part.split()[0]}-{port}"] = Counts(int(packets), int(sent), int(received))
    return counts


def kernel_counts(text):
    """Reads what `ip -json -statistics link` prints, a line for each time that it ran."""
    ports = [port for line in text.splitlines() for port in json.loads(line)]
    each = {port["ifname"]: (port["stats64"]["tx"], port["stats64"]["rx"]) for port in ports}
    return {name: Counts(tx["packets"], tx["bytes"], rx["bytes"]) for name, (tx, rx) in each.items()}


def sent_packets():
    """Packets sent by the ports to hosts, by host, as the switches count them."""
    counts = counted()
    return {line[1]: counts[line[3]].packets_sent for line in WIRING if line[0] == "host"}


def busy_cables(rate):
    """Ends of the cables between switches that carry at this moment what a program sends, `rate` datagrams a second."""
    before = counted()
    time.sleep(0.2)
    after = counted()
    sent = {port: after[port].packets_sent - counts.packets_sent for port, counts in before.items() if port in after}
    return [(line[1], line[3]) for line in WIRING
            if line[0] == "link" and max(sent.get(line[2], 0), sent.get(line[4], 0)) > rate / 20]


def dropped():
    """Packets that came to ports of switches so far while the sockets of these ports had no room."""
    names = [line[2] for line in WIRING if line[0] == "switch"]
    script = 'for at; do ip netns exec "$at" ss --packet --memory; done'
    return sum(int(count) for count in re.findall(r",d(\d+)\)", call("exec", "--", "sh", "-c", script, "-", *names)))


def check_nothing_lost(losses, before):
    """Raises if a receiver lost more datagrams than sockets had no room for, as they have on a busy machine.

    - losses: by receiver, the datagrams that it lost, and those that its own socket dropped.
    - before: what `dropped` counted before the first of them was sent.
    """
    losses = {host: counts for host, counts in losses.items() if counts[0]}
    if not losses:
        return
    in_switches = dropped() - before
    said = ", ".join(f"{host} lost {lost} (its own socket {own})" for host, (lost, own) in losses.items())
    said += f"; sockets of the switches' ports dropped {in_switches}"
    if any(lost > in_switches + own for lost, own in losses.values()):
        raise Failed(said)
    print(f"   the machine was too busy: {said}")


def member(host, rate=RATE):
    """A program that joins and then sends when it is told to."""
    program = Program(host, "member", ADDRESS, rate)
    program.says("joined")
    return program


def used_cables(explained):
    """Ends of the cables between switches of a route."""
    return [[NAMES[link["switchName"]], NAMES[link["peer"]]] for link in explained["links"] if link["peerPort"]]


def has_two_trees(explained):
    """True if packets of the group may take one of two trees."""
    return any(link.get("tree") for link in explained["links"])


def is_unused(name, ends):
    """True if a group has a route, and no cable between these switches is a part of it."""
    try:
        explained = fabricast("route", "explain", "--group", name)
    except Failed:
        return False  # the machine is busy
    return explained.get("color") is not None and all(set(cable) != set(ends) for cable in used_cables(explained))


def await_other_tree(name, explained, ends):
    """Waits until no tree of a group uses the cable between two switches; groups of two trees stay on them."""
    if not has_two_trees(explained):
        eventually(f"no tree of {name} uses {' - '.join(ends)}", lambda: is_unused(name, ends))


def cut(explained):
    """Cuts the first cable between switches of a route; returns its ends."""
    ends = used_cables(explained)[0]
    call("cut", *ends)
    return ends


def set_service(verb, ends):
    """Takes the cables between two switches out of service (`drain`), or back (`resume`)."""
    ids = {name: node for node, name in NAMES.items()}
    call("fabricast", "link", verb, *[ids[end] for end in ends])
