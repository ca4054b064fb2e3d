"""Stand-ins for the hardware of an overlay, for pods.py.

The emulated fabric is a pod itself. InfiniBand switches are those of ibsim, in a container whose network the pod of
the switch agent shares. OpenFlow switches are Open vSwitch in user space, in the network of a container.
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
from typing import NamedTuple

import yaml

from engine import Failure, docker, done, inspect, run

HERE = os.path.dirname(os.path.abspath(__file__))
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


class Simulated(Emulated):
    """Switches of programs of this machine, which run in containers beside the pods."""

    def files(self, program):
        """A program or library, and the libraries that it needs."""
        return {program, *re.findall(r"/\S+", done("ldd", program))}

    def mounted(self, files):
        return [word for path in sorted(files) for word in ("--volume", f"{path}:{path}:ro")]

    def program(self, name, files, *words):
        """Words that run a program of this machine, with more of its files, in the image of the pods."""
        path = shutil.which(name)
        if not path:
            raise Failure(f"{name} is not installed: cargo xtask setup")
        words = ["run", "--pull=never", f"--label={self.cluster.label}", *words]
        words += self.mounted(self.files(path) | files)
        return [*words, f"--entrypoint={path}", self.cluster.images["fabricast-infiniband"]]


class Infiniband(Simulated):
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
        self.preloaded = library[0]
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
        files = {path for path in self.files(self.preloaded) if "libibumad" not in path}
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

    def variables(self, host):
        words = (f"LD_PRELOAD={self.preloaded}", f"IBSIM_SOCKNAME={self.SOCKETS}", f"SIM_HOST={host}")
        return [word for variable in words for word in ("--env", variable)]

    def check(self):
        self.is_routed("rows/0", self.cluster.nodes)
        # Clients of ibsim are told apart by the numbers of their processes: those of the agent's
        # container, where that of this one is another.
        agent = self.cluster.pod(f"{AGENT}-0").id
        words = ["--rm", f"--network=container:{self.id}", f"--pid=container:{agent}", *self.variables(self.hosts[-2])]
        words += ["--user=0:0", "--tmpfs=/seen", "--workdir=/seen"]
        told = docker(*self.program("dump_fts", self.files(self.preloaded), *words), "-M")
        entries = re.findall(r"^0x[0-9a-f]+ ", told, re.MULTILINE)
        # The nodes are below switches of their own.
        if len(entries) < 2:
            raise Failure(f"dump_fts reads {len(entries)} entries: {told}")


class Openflow(Simulated):
    """Open vSwitch in user space: a bridge for each switch, and for each node a cable to `eth1` in the network of its
    agent. Bridges and cables are in networks of containers alone. They connect in plain text first, and then with
    certificates."""

    arrival = "Open vSwitch holds the entries and carries datagrams of a program, each once, with certificates"
    SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
    # The overlay whose additions have switches show certificates.
    CERTIFICATES = os.path.join(HERE, "overlays/openflow-certificates/kustomization.yaml")
    # Group id of color 0 without the input port, as `first_group` of the driver.
    FIRST_GROUP = 1
    PROGRAM = os.path.join(HERE, "../lab/program.py")
    GROUP, PORT = "239.1.2.3", "5000"
    COUNT, RATE = 100, 200

    def __init__(self, cluster):
        super().__init__(cluster)
        self.id = f"{cluster.network}-switches"
        self.switches, self.bridges = {}, {}
        self.processes = []
        # The path of a socket is short.
        self.folder = tempfile.mkdtemp(prefix="ovs")

    def connect(self):
        for tool in ("ovs-vswitchd", "ovsdb-server", "ovs-vsctl", "ovs-ofctl", "ip", "nsenter", "setpriv", "ethtool"):
            if not shutil.which(tool):
                raise Failure(f"{tool} is not installed: cargo xtask setup")
        self.switches = cables(self.cluster.fabric())
        self.bridges = {switch: f"s{number}" for number, switch in enumerate(self.switches)}
        # Its network is that of the switches.
        words = ("--detach", "--name", self.id, "--hostname", "switches", "--network", self.cluster.network)
        docker(*self.program("sleep", set(), *words), "infinity")
        self.lay_cables()
        self.start_switches()
        self.set_controller("tcp")

    def inside(self, container):
        """Words that run a command in the network of a container; it ends with this process."""
        process = inspect(container)["State"]["Pid"]
        return "setpriv", "--pdeathsig", "KILL", "--", "nsenter", f"--net=/proc/{process}/ns/net", "--"

    def agent_of(self, node):
        return self.cluster.pod(f"operating-agent-{node}").id

    def address(self, node):
        return f"198.51.100.{1 + self.cluster.nodes.index(node)}"

    def ports(self):
        """All ports of switches, each with what is at the other end of its cable."""
        return [(switch, port, far) for switch, ports in self.switches.items() for port, far in ports.items()]

    def interface(self, switch, port):
        return f"{self.bridges[switch]}-{port}"

    def lay_cables(self):
        """A cable at each port; those of endpoints that are no node of ours end beside the switches."""
        lines = []
        for switch, port, far in self.ports():
            near = self.interface(switch, port)
            if far.switch in self.switches:
                end = self.interface(far.switch, far.port)
                if end < near:
                    continue
            elif far.name in self.cluster.nodes:
                process = inspect(self.agent_of(far.name))["State"]["Pid"]
                end = f"eth1 netns {process}"
            else:
                end = f"{near}-end"
                lines.append(f"link set {end} up")
            lines.insert(0, f"link add {near} type veth peer name {end}")
        lines += [f"link set {self.interface(switch, port)} up" for switch, port, _ in self.ports()]
        done(*self.inside(self.id), "ip", "-batch", "-", input="\n".join(lines) + "\n")
        for node in self.cluster.nodes:
            for command in (f"ip address add {self.address(node)}/24 dev eth1", "ip link set eth1 up",
                            "ip route add 224.0.0.0/4 dev eth1",
                            # Switches in user space want whole checksums.
                            "ethtool --offload eth1 tx off"):
                done(*self.inside(self.agent_of(node)), *command.split())

    def start_switches(self):
        database, socket = f"{self.folder}/conf.db", f"unix:{self.folder}/db.sock"
        done("ovsdb-tool", "create", database, self.SCHEMA)
        self.spawn(*self.inside(self.id), "ovsdb-server", database, f"--remote=p{socket}")
        # The database is there in a moment.
        self.vsctl("--retry", "--no-wait", "init")
        self.spawn(*self.inside(self.id), "ovs-vswitchd", socket)
        for switch, ports in self.switches.items():
            own = self.bridges[switch]
            words = ["add-br", own, "--", "set", "bridge", own, "datapath_type=netdev", "fail_mode=secure",
                     "protocols=OpenFlow13,OpenFlow14", f"other-config:datapath-id={switch}"]
            for port in ports:
                name = self.interface(switch, port)
                words += ["--", "add-port", own, name, "--", "set", "interface", name, f"ofport_request={port}"]
            self.vsctl(*words)

    def vsctl(self, *words):
        done("ovs-vsctl", f"--db=unix:{self.folder}/db.sock", "--timeout=20", *words)

    def spawn(self, *command, **options):
        variables = {name: self.folder for name in ("OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR")}
        options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | options
        process = subprocess.Popen(command, env=os.environ | variables, text=True, **options)
        self.processes.append(process)
        return process

    def set_controller(self, scheme):
        """Has the switches connect to the agent's pod, and waits until the agent has all of them."""
        agent = self.cluster.pod(f"{AGENT}-0")
        target = f"{scheme}:{agent.address()}:{agent.port('openflow')}"
        for own in self.bridges.values():
            self.vsctl("set-controller", own, target, "--", "set", "controller", own, "connection_mode=out-of-band",
                       "max_backoff=1000")

        def connected():
            listed = self.cluster.ask("switch", "list", "--format", "json")
            found = json.loads(listed.stdout).get("switches", []) if listed.returncode == 0 else []
            return len(self.switches) == sum(one.get("live", False) for one in found)
        until(f"all {len(self.switches)} switches are connected with {target}", connected)

    def check(self):
        self.is_held("rows/0")
        self.take_certificates()
        # Writes go over TLS from now on.
        for node in self.cluster.nodes:
            if self.start(node, "member", self.RATE).stdout.readline().strip() != "joined":
                raise Failure(f"no program can join {self.GROUP} in the network of {node}")
        self.is_held("rows/0")
        self.is_held(f"ip/{self.GROUP}")
        until(f"{self.COUNT} datagrams arrive, each once", self.arrives)

    def is_held(self, group):
        """Waits until a group is routed, and follows its packets through the groups that Open vSwitch tells."""
        nodes = self.cluster.nodes
        self.is_routed(group, nodes)
        told = self.cluster.ask("route", "explain", "--group", group, "--format", "json")
        color = json.loads(told.stdout).get("color") if told.returncode == 0 else None
        if color is None:
            raise Failure(f"route explain --group {group}: {told.stdout}{told.stderr}")
        entries = {switch: self.entries(switch) for switch in self.switches}
        for sender in nodes:
            reached = self.reached(sender, color, entries)
            if reached != [node for node in nodes if node != sender]:
                raise Failure(f"packets of {sender} for {group} reach {reached}: color {color}, {entries}")

    def entries(self, switch):
        """Ports that each group of a switch sends to, by the number of the group."""
        told = done("ovs-ofctl", "--no-names", "--protocols=OpenFlow13", "dump-groups",
                    f"unix:{self.folder}/{self.bridges[switch]}.mgmt")
        groups = re.findall(r"group_id=(\d+),type=all,(.*)", told)
        return {int(group): [int(port) for port in re.findall(r"output:(\d+)", buckets)] for group, buckets in groups}

    def reached(self, sender, color, entries):
        """Names of the endpoints that packets of a node arrive at, as often as they do, in their order."""
        places = [(switch, port) for switch, port, far in self.ports() if far.name == sender]
        reached = []
        # No way is longer than all switches.
        for _ in self.switches:
            groups = [(switch, entries[switch].get(port << 16 | self.FIRST_GROUP + color, []))
                      for switch, port in places]
            ends = [self.switches[switch][port] for switch, ports in groups for port in ports]
            reached += [far.name for far in ends if far.switch not in self.switches]
            places = [(far.switch, far.port) for far in ends if far.switch in self.switches]
        if places:
            raise Failure(f"packets of {sender} go round: color {color}, {entries}")
        return sorted(reached)

    def take_certificates(self):
        """Adds to the agent's pod what the overlay for certificates has, and gives the switches one."""
        files, pod = self.cluster.files, self.cluster.pod(f"{AGENT}-0")
        files.issue("openflow-tls", "agent-ca", ["switch-agent/openflow"], ["openflow"])
        files.issue("switches", "switch-ca", [], ["switches"])
        # Each believes the authority of the other.
        ends = files.data["secret", "openflow-tls"], files.data["secret", "switches"]
        ends[0]["ca.crt"], ends[1]["ca.crt"] = ends[1]["ca.crt"], ends[0]["ca.crt"]
        with open(self.CERTIFICATES, encoding="utf-8") as file:
            added = yaml.safe_load(file)
        spec = yaml.safe_load(added["patches"][0]["patch"])["spec"]["template"]["spec"]
        pod.spec["volumes"] += spec["volumes"]
        pod.container["volumeMounts"] += spec["containers"][0]["volumeMounts"]
        for literal in added["configMapGenerator"][0]["literals"]:
            name, _, value = literal.partition("=")
            pod.container["env"].append({"name": name, "value": value})
        docker("rm", "--force", pod.id)
        pod.start()
        pod.wait("readinessProbe")
        folder = files.mounted("secret", "switches", 0o440)
        self.vsctl("set-ssl", f"{folder}/tls.key", f"{folder}/tls.crt", f"{folder}/ca.crt")
        self.set_controller("ssl")

    def start(self, node, verb, *words):
        """An ordinary program in the network of a node: it knows nothing of Fabricast."""
        command = [*self.inside(self.agent_of(node)), sys.executable, self.PROGRAM, verb, self.GROUP, self.PORT]
        command += [self.address(node), *map(str, words)]
        return self.spawn(*command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None)

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
        shutil.rmtree(self.folder, ignore_errors=True)


class End(NamedTuple):
    """The far end of a cable."""

    # Digits of the switch; the node id of an endpoint's adapter.
    switch: str
    port: int
    name: str


def cables(fabric):
    """The far end of the cable at each port of each switch, by the digits of the switch, out of what `ibnetdiscover`
    prints."""
    switches, own = {}, None
    for line in fabric.splitlines():
        if found := re.match(r'Switch\s+\d+\s+"S-([0-9a-f]+)"', line):
            own = switches.setdefault(found[1], {})
        elif re.match(r"(Ca|Rt)\s", line):
            own = None
        elif own is not None and (found := re.match(r'\[(\d+)\]\s+"(?:S-)?([^"]+)"\[(\d+)\].*?# "([^"]*)"', line)):
            own[int(found[1])] = End(found[2], int(found[3]), found[4])
    return switches
