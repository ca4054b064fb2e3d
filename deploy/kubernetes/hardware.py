"""Stand-ins for the hardware of an overlay, for pods.py.

The emulated fabric is a pod itself. OpenFlow switches are Open vSwitch in user space, beside the docker engine.
InfiniBand switches are those of ibsim, in a container whose network the pod of the switch agent shares.
"""

import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

from engine import Failure, docker, done, inspect, run

LAB_PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lab/program.py")
AGENT = "switch-agent"
PATIENCE = 60


def driver(documents):
    """The driver of the switch agent, as the variables of the overlay name it."""
    variables = {}
    for one in documents:
        if one["kind"] == "ConfigMap":
            variables |= one["data"]
    return variables.get("FABRICAST_SWITCH_AGENT__DRIVER", "emulated")


def hardware(cluster):
    """The stand-in for the driver of an overlay."""
    kinds = {"emulated": Emulated, "infiniband": Infiniband, "openflow": Openflow}
    return kinds[driver(cluster.documents)](cluster)


def until(what, holds):
    """Waits until something holds; returns what it gave then."""
    ends = time.monotonic() + PATIENCE
    while True:
        found = holds()
        if found:
            return found
        if time.monotonic() > ends:
            raise Failure(f"not within {PATIENCE} s: {what}")
        time.sleep(0.5)


class Emulated:
    """The emulated fabric, which carries packets by itself."""

    arrival = "a packet arrives"

    def __init__(self, cluster):
        self.cluster = cluster

    def network(self, pod):
        """Words of `docker run` for the network of a pod, and for what its node has of the hardware."""
        return pod.network()

    def connect(self):
        """Connects switches and nodes, when all parts serve."""

    def check(self):
        """Checks that packets of the group `rows/0`, which both nodes have joined, arrive."""
        self.cluster.until("group", "send", "rows/0", "--node", self.cluster.nodes[0])

    def end(self):
        """Ends what `connect` has started."""

    def is_routed(self, group, members):
        """Waits until the switches have the entries of a group, and packets would reach its members alone."""
        ask = self.cluster.ask

        def routed():
            shown = ask("group", "show", group).stdout.split()
            return {"routed", *members} <= set(shown)
        until(f"{group} is routed for {', '.join(members)}", routed)
        agents = f"{AGENT}-0.{AGENT}:7405"
        addresses = ("--router", ",".join(self.cluster.routers), "--switch-agents", agents)
        self.cluster.until("route", "verify", "--live", "--all-senders", *addresses)


class Infiniband(Emulated):
    """The switches of ibsim, with the cables of the overlay's topology, which the switch agent has to discover."""

    arrival = "the InfiniBand diagnostics read the entries of a group"
    READY = "Network simulator ready"
    # The names of sockets that ibsim and its clients share; they hold in one network only.
    SOCKETS = "fabricast"

    def __init__(self, cluster):
        super().__init__(cluster)
        self.id = f"{cluster.network}-ibsim"
        library = glob.glob("/usr/lib/*/umad2sim/libumad2sim.so")
        if not library:
            raise Failure("ibsim is not installed: cargo xtask setup")
        self.library = library[0]
        self.hosts = []

    def network(self, pod):
        if pod.workload["metadata"]["name"] != AGENT:
            return pod.network()
        self.start(pod)
        # The library keeps files about the adapter in the folder where a program runs, by the
        # number of its process, which is 1 here. The settings are mounted there, for reading only.
        settings = next(mount for mount in pod.mounts() if mount.split(":")[1] == "/etc/fabricast").split(":")[0]
        os.makedirs(os.path.join(settings, "sys-1"), exist_ok=True)
        adapter = self.cluster.files.writable("adapter")
        # The image has a libibumad of its own, and has to do with it.
        files = {path for path in self.files(self.library) if "libibumad" not in path}
        words = ["--network", f"container:{self.id}", "--volume", f"{adapter}:/etc/fabricast/sys-1"]
        return words + self.mounted(files) + self.variables(self.hosts[-1])

    def start(self, pod):
        fabric = self.cluster.fabric()
        self.hosts = re.findall(r'^Ca\s+\d+\s+"(H-[0-9a-f]+)"', fabric, re.MULTILINE)
        file = self.cluster.files.path("ibsim")
        with open(file, "w", encoding="utf-8") as written:
            written.write(fabric)
        os.chmod(file, 0o644)
        words = [*pod.network(), "--detach", "--name", self.id, "--volume", f"{file}:/fabric:ro"]
        words += ["--env", f"IBSIM_SOCKNAME={self.SOCKETS}"]
        docker(*self.program("ibsim", set(), *words), "-s", "-n", "/fabric")

        def ready():
            if not inspect(self.id)["State"]["Running"]:
                raise Failure(f"ibsim has ended: {self.said()}")
            return self.READY in self.said()
        until("ibsim is ready", ready)

    def said(self):
        log = run("docker", "logs", "--tail", "20", self.id)
        return log.stdout + log.stderr

    def files(self, program):
        """A program or library, and the libraries that it needs."""
        return {program, *re.findall(r"/\S+", done("ldd", program))}

    def mounted(self, files):
        return [word for path in sorted(files) for word in ("--volume", f"{path}:{path}:ro")]

    def variables(self, host):
        words = (f"LD_PRELOAD={self.library}", f"IBSIM_SOCKNAME={self.SOCKETS}", f"SIM_HOST={host}")
        return [word for variable in words for word in ("--env", variable)]

    def program(self, name, files, *words):
        """Words that run a program of this machine, with more of its files, in the image of the pods."""
        path = shutil.which(name)
        if not path:
            raise Failure(f"{name} is not installed: cargo xtask setup")
        words = ["run", "--pull=never", f"--label={self.cluster.label}", *words]
        words += self.mounted(self.files(path) | files)
        return [*words, f"--entrypoint={path}", self.cluster.images["fabricast-infiniband"]]

    def check(self):
        self.is_routed("rows/0", self.cluster.nodes)
        # Clients of ibsim are told apart by the numbers of their processes: those of the agent's
        # container, where that of this one is another.
        agent = self.cluster.pod(f"{AGENT}-0").id
        words = ["--rm", f"--network=container:{self.id}", f"--pid=container:{agent}", *self.variables(self.hosts[-2])]
        words += ["--user=0:0", "--tmpfs=/seen", "--workdir=/seen"]
        told = docker(*self.program("dump_fts", self.files(self.library), *words), "-M")
        entries = re.findall(r"^0x[0-9a-f]+ ", told, re.MULTILINE)
        # The nodes are below switches of their own.
        if len(entries) < 2:
            raise Failure(f"dump_fts reads {len(entries)} entries: {told}")


class Openflow(Emulated):
    """Open vSwitch: a bridge for each switch, and for each node a cable to `eth1` in the network of its agent."""

    arrival = "datagrams of a program arrive through Open vSwitch, each once"
    SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
    GROUP, PORT = "239.1.2.3", "5000"
    COUNT, RATE = 100, 200

    def __init__(self, cluster):
        super().__init__(cluster)
        # The path of a socket is short.
        self.folder = tempfile.mkdtemp(prefix="ovs")
        self.processes = []
        self.ends = {}

    def vsctl(self, *words):
        done("ovs-vsctl", f"--db=unix:{self.folder}/db.sock", "--timeout=20", *words)

    def spawn(self, *command, **options):
        variables = {name: self.folder for name in ("OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR")}
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | options
        process = subprocess.Popen(command, env=os.environ | variables, text=True, **options)
        self.processes.append(process)
        return process

    def connect(self):
        for tool in ("ovs-vswitchd", "ovsdb-server", "ovs-vsctl", "ip", "nsenter", "ethtool"):
            if not shutil.which(tool):
                raise Failure(f"{tool} is not installed: cargo xtask setup")
        switches = cables(self.cluster.fabric())
        for number, node in enumerate(self.cluster.nodes, start=1):
            self.lay_cable(node, number)
        done("ovsdb-tool", "create", f"{self.folder}/conf.db", self.SCHEMA)
        self.spawn("ovsdb-server", f"{self.folder}/conf.db", f"--remote=punix:{self.folder}/db.sock")
        # The database is there in a moment.
        self.vsctl("--retry", "--no-wait", "init")
        # Datapaths of the kind `dummy` need no interface of this machine for a bridge.
        self.spawn("ovs-vswitchd", "--enable-dummy", f"unix:{self.folder}/db.sock")
        for datapath in switches:
            self.vsctl(*self.bridge(datapath, switches))

        def connected():
            listed = self.cluster.ask("switch", "list", "--format", "json")
            found = json.loads(listed.stdout).get("switches", []) if listed.returncode == 0 else []
            return len(switches) == sum(one.get("live", False) for one in found)
        until(f"all {len(switches)} switches are connected with pod {AGENT}-0", connected)

    def bridge(self, datapath, switches):
        """Words of `ovs-vsctl` for a switch, its ports, and the agent as its controller."""
        names = {id: f"s{number}" for number, id in enumerate(switches)}
        own = names[datapath]
        words = ["add-br", own, "--", "set", "bridge", own, "datapath_type=dummy", "fail_mode=secure",
                 "protocols=OpenFlow13,OpenFlow14", f"other-config:datapath-id={datapath}"]
        for port, (far, far_port, name) in switches[datapath].items():
            interface, options = f"{own}-{port}", ["type=dummy"]
            if far in names:
                options = ["type=patch", f"options:peer={names[far]}-{far_port}"]
            elif name in self.ends:
                interface, options = self.ends[name], []
            words += ["--", "add-port", own, interface, "--", "set", "interface", interface,
                      f"ofport_request={port}", *options]
        address = self.cluster.pod(f"{AGENT}-0").address()
        return [*words, "--", "set-controller", own, f"tcp:{address}:6653", "--", "set", "controller", own,
                "connection_mode=out-of-band", "max_backoff=1000"]

    def lay_cable(self, node, number):
        """The cable of a node, with `eth1` at its end there; the other end is for Open vSwitch."""
        process = self.process_of(node)
        end = f"fp{os.getpid()}-{number}"
        done("ip", "link", "add", end, "type", "veth", "peer", "name", "eth1", "netns", str(process))
        self.ends[node] = end
        done("ip", "link", "set", end, "up")
        for command in (f"ip address add {self.address(node)}/24 dev eth1", "ip link set eth1 up",
                        "ip route add 224.0.0.0/4 dev eth1", "ethtool --offload eth1 tx off"):
            done(*self.inside(node), *command.split())

    def process_of(self, node):
        return inspect(self.cluster.pod(f"operating-agent-{node}").id)["State"]["Pid"]

    def inside(self, node):
        return "nsenter", f"--net=/proc/{self.process_of(node)}/ns/net", "--"

    def address(self, node):
        return f"198.51.100.{1 + self.cluster.nodes.index(node)}"

    def start(self, node, verb, *words):
        """An ordinary program in the network of a node: it knows nothing of Fabricast."""
        command = [*self.inside(node), sys.executable, LAB_PROGRAM, verb, self.GROUP, self.PORT, self.address(node)]
        return self.spawn(*command, *map(str, words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None)

    def check(self):
        self.is_routed("rows/0", self.cluster.nodes)
        for node in self.cluster.nodes:
            if self.start(node, "member", self.RATE).stdout.readline().strip() != "joined":
                raise Failure(f"no program can join {self.GROUP} in the network of {node}")
        self.is_routed(f"ip/{self.GROUP}", self.cluster.nodes)
        until(f"{self.COUNT} datagrams arrive, each once", self.arrives)

    def arrives(self):
        sender, receiver = self.cluster.nodes
        listener = self.start(receiver, "listen")
        listener.stdout.readline()
        self.start(sender, "send", self.COUNT, self.RATE).wait()
        listener.stdin.close()
        found = json.loads(listener.stdout.read() or "{}")
        return (found.get("received"), found.get("again")) == (self.COUNT, 0)

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()
        for end in self.ends.values():
            run("ip", "link", "delete", end)
        shutil.rmtree(self.folder, ignore_errors=True)


def cables(fabric):
    """Cables in the output of `ibnetdiscover`, by the digits of a switch: for each port the digits or the node id of
    the far end, its port, and its description."""
    switches, own = {}, None
    for line in fabric.splitlines():
        if found := re.match(r'Switch\s+\d+\s+"S-([0-9a-f]+)"', line):
            own = switches.setdefault(found[1], {})
        elif re.match(r"(Ca|Rt)\s", line):
            own = None
        elif own is not None and (found := re.match(r'\[(\d+)\]\s+"(?:S-)?([^"]+)"\[(\d+)\].*?# "([^"]*)"', line)):
            own[int(found[1])] = (found[2], int(found[3]), found[4])
    return switches
