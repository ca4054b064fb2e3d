"""Stand-ins for the hardware of an overlay, for pods.py.

The emulated fabric is a pod itself. InfiniBand switches are those of ibsim, in a container whose network the pod of
the switch agent shares.
"""

import glob
import os
import re
import shutil
import time

from engine import Failure, docker, done, inspect, run

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
    kinds = {"emulated": Emulated, "infiniband": Infiniband}
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

    def files(self, program):
        """A program or library, and the libraries that it needs."""
        return {program, *re.findall(r"/\S+", done("ldd", program))}

    def mounted(self, files):
        return [word for path in sorted(files) for word in ("--volume", f"{path}:{path}:ro")]

    def variables(self, host):
        words = (f"LD_PRELOAD={self.preloaded}", f"IBSIM_SOCKNAME={self.SOCKETS}", f"SIM_HOST={host}")
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
        told = docker(*self.program("dump_fts", self.files(self.preloaded), *words), "-M")
        entries = re.findall(r"^0x[0-9a-f]+ ", told, re.MULTILINE)
        # The nodes are below switches of their own.
        if len(entries) < 2:
            raise Failure(f"dump_fts reads {len(entries)} entries: {told}")
