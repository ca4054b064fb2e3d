"""Runs the pods of an overlay in the docker engine, with what `kubectl kustomize` has made of it.

    kubectl kustomize deploy/kubernetes/overlays/dev |
        python pods.py FABRICAST IMAGE INFINIBAND_IMAGE ETCD_IMAGE [--mistakes]

With --mistakes it then makes one mistake after the other in the overlay, and demands that each is found and named.

FABRICAST is the program, which issues certificates; the images are in the engine. Each container has the command,
environment, user, rights and mounts of its pod, and the names that services give it. Secrets come from the commands of
docs/kubernetes.md. Probes have to pass and metrics have to be there, then two nodes form a group, whose packets have to
arrive (hardware.py says how, and what stands for the hardware), a process joins at the socket of each node, and the job
that copies the records has to make a good copy. Where there are etcds and no hardware, restore.py then copies and
restores the records by hand. Ends with 0 if all do, otherwise with the pod and the container that do not.

Where this differs from Kubernetes: an operating agent is called by the name of its node and not by an address, a pod in
the network of its node has that network alone, services do not translate ports, and network policies are not in force.
"""

import base64
import copy
import glob
import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import yaml

import page
from engine import Failure, docker, done, inspect, run
from hardware import driver, hardware
from restore import restore

WORKLOADS = ("StatefulSet", "Deployment", "DaemonSet")
PROBES = ("startupProbe", "readinessProbe", "livenessProbe")
# Nodes with the label fabricast/node, as the base's topology names their endpoints; they are below
# different switches.
NODES = ("h0", "h8")
# A container that ends is started again, as a kubelet does, but not for ever.
RESTARTS = 5
OURS = 65532


def is_part(wanted, labels):
    return bool(wanted) and wanted.items() <= labels.items()


class Files:
    """ConfigMaps, Secrets, claims and folders of nodes, as folders to mount."""

    def __init__(self, folder, documents, program):
        self.folder, self.program = folder, program
        self.data = {}
        for one in documents:
            name = one["metadata"]["name"]
            if one["kind"] == "ConfigMap":
                self.data["configMap", name] = {key: text.encode() for key, text in one["data"].items()}
            if one["kind"] == "Secret":
                held = {key: base64.b64decode(text) for key, text in one.get("data", {}).items()}
                held |= {key: text.encode() for key, text in one.get("stringData", {}).items()}
                self.data["secret", name] = held
        self.authorities = set()

    def issue(self, secret, authority, identities, hosts):
        """A secret of the form that cert-manager makes, as docs/kubernetes.md has it."""
        if authority not in self.authorities:
            self.certs("authority", "--out", self.path(authority))
            self.authorities.add(authority)
        words = [word for identity in identities for word in ("--identity", identity)]
        words += [word for host in (*hosts, "127.0.0.1") for word in ("--host", host)]
        out = self.path(f"issued-{secret}")
        self.certs("issue", "--authority", self.path(authority), "--out", out, *words)
        self.data["secret", secret] = self.files_in(out)

    def make(self, commands):
        """Makes the secrets, and their authorities, that commands of docs/kubernetes.md make."""
        made = self.path("made")
        os.mkdir(made)
        functions = f"""fabricast() {{ {shlex.quote(os.path.abspath(self.program))} "$@"; }}
kubectl() {{
    case $* in
    'create namespace fabricast') ;;
    '--namespace fabricast create secret generic '*' --from-file '*) cp -r "$8" "made/$6" ;;
    '--namespace fabricast create secret generic '*' --from-literal '*)
        mkdir "made/$6" && printf %s "${{8#*=}}" >"made/$6/${{8%%=*}}" ;;
    *) echo "no secret by: kubectl $*" >&2 && return 2 ;;
    esac
}}"""
        done("bash", "-c", "\n".join(["set -eu", functions, commands]), cwd=self.folder)
        self.authorities |= {"ca", "store-ca"}
        for secret in os.listdir(made):
            self.data["secret", secret] = self.files_in(os.path.join(made, secret))

    def files_in(self, folder):
        held = {}
        for name in os.listdir(folder):
            with open(os.path.join(folder, name), "rb") as file:
                held[name] = file.read()
        return held

    def certs(self, *arguments):
        done = run(self.program, "certs", *arguments)
        if done.returncode:
            raise Failure(f"fabricast certs {' '.join(arguments)}: {done.stderr.strip()}")

    def path(self, name):
        return os.path.join(self.folder, name)

    def mounted(self, kind, name, mode):
        """A folder with the files of a ConfigMap or Secret, which belong to root and the group of the pod."""
        if (kind, name) not in self.data:
            return None
        folder = self.path(f"{kind}-{name}")
        if not os.path.exists(folder):
            os.mkdir(folder, 0o755)
            for key, content in self.data[kind, name].items():
                with open(os.path.join(folder, key), "wb") as file:
                    file.write(content)
                os.chown(file.name, 0, OURS)
                os.chmod(file.name, mode)
        return folder

    def writable(self, name):
        """An empty folder for the user of the pods, the same each time."""
        folder = self.path(name)
        if not os.path.exists(folder):
            os.mkdir(folder, 0o770)
            os.chown(folder, OURS, OURS)
        return folder


class Pod:
    """One container, which is all that our pods have."""

    def __init__(self, cluster, workload, name, node):
        self.cluster, self.workload, self.name = cluster, workload, name
        job = workload["kind"] == "CronJob"
        template = workload["spec"]["jobTemplate"]["spec"]["template"] if job else workload["spec"]["template"]
        self.spec, self.labels = template["spec"], template["metadata"]["labels"]
        self.known = {"metadata.name": name, "spec.nodeName": node, "status.hostIP": node}
        self.node = node
        if len(self.spec["containers"]) != 1 or self.spec.get("initContainers"):
            raise Failure(f"pod {name}: this test knows pods of one container only")
        self.container = self.spec["containers"][0]
        self.id = f"{cluster.network}-{name}"

    def fail(self, text):
        title = f"pod {self.name}, container {self.container['name']} ({self.workload['kind']})"
        log = run("docker", "logs", "--tail", "8", self.id)
        raise Failure(f"{title}: {text}\n{log.stdout}{log.stderr}".rstrip())

    def environment(self):
        variables, files = {}, self.cluster.files
        for source in self.container.get("envFrom", []):
            for kind in ("configMap", "secret"):
                if f"{kind}Ref" in source:
                    name = source[f"{kind}Ref"]["name"]
                    if (kind, name) not in files.data:
                        self.fail(f"there is no {kind} {name}")
                    variables |= {key: text.decode() for key, text in files.data[kind, name].items()}
        for variable in self.container.get("env", []):
            variables[variable["name"]] = self.value(variable, variables)
        return variables

    def value(self, variable, variables):
        if "value" in variable:
            text = self.expanded(variable["value"], variables)
            if "$(" in text:
                self.fail(f"{variable['name']}: no variable before it has what it names: {text}")
            return text
        source = variable["valueFrom"]
        if "fieldRef" in source:
            return self.known[source["fieldRef"]["fieldPath"]]
        for kind in ("configMap", "secret"):
            if f"{kind}KeyRef" in source:
                key = source[f"{kind}KeyRef"]
                held = self.cluster.files.data.get((kind, key["name"]), {})
                if key["key"] not in held:
                    self.fail(f"{variable['name']}: {kind} {key['name']} has no {key['key']}")
                return held[key["key"]].decode()
        return self.fail(f"{variable['name']}: this test knows no such source: {source}")

    def expanded(self, text, variables):
        for name, value in variables.items():
            text = text.replace(f"$({name})", value)
        return text

    def mounts(self):
        volumes = {volume["name"]: volume for volume in self.spec.get("volumes", [])}
        claims = self.workload["spec"].get("volumeClaimTemplates", [])
        claims = {claim["metadata"]["name"] for claim in claims}
        for mount in self.container.get("volumeMounts", []):
            name, files = mount["name"], self.cluster.files
            volume = volumes.get(name, {})
            folder = None
            if name in claims:
                folder = files.writable(f"claim-{name}-{self.name}")
            elif "persistentVolumeClaim" in volume:
                folder = files.writable(f"claim-{volume['persistentVolumeClaim']['claimName']}")
            elif "configMap" in volume:
                folder = files.mounted("configMap", volume["configMap"]["name"], 0o644)
            elif "secret" in volume:
                secret = volume["secret"]
                folder = files.mounted("secret", secret["secretName"], secret.get("defaultMode", 0o644))
            elif "hostPath" in volume:
                folder = self.cluster.of_node(self.node, volume["hostPath"]["path"])
            if folder is None or "subPath" in mount:
                self.fail(f"nothing to mount at {mount['mountPath']}: {volume or name}")
            yield f"{folder}:{mount['mountPath']}{':ro' if mount.get('readOnly') else ''}"

    def start(self):
        spec, container = self.spec["securityContext"], self.container
        inner = container.get("securityContext", {})
        words = ["--name", self.id, f"--label={self.cluster.label}", *self.cluster.hardware.network(self)]
        words += ["--user", f"{spec['runAsUser']}:{spec['runAsGroup']}", "--restart", f"on-failure:{RESTARTS}"]
        if self.workload["kind"] == "CronJob":
            words[-2:] = []
        words += [f"--cap-drop={name}" for name in inner.get("capabilities", {}).get("drop", [])]
        if not inner.get("allowPrivilegeEscalation", True):
            words.append("--security-opt=no-new-privileges")
        if inner.get("readOnlyRootFilesystem"):
            words.append("--read-only")
        memory = container.get("resources", {}).get("limits", {}).get("memory")
        if memory:
            words.append(f"--memory={memory.replace('i', '').lower()}")
        variables = self.environment()
        words += [word for name, value in variables.items() for word in ("--env", f"{name}={value}")]
        words += [word for mount in self.mounts() for word in ("--volume", mount)]
        command = [self.expanded(word, variables) for word in container.get("command", [])]
        arguments = [self.expanded(word, variables) for word in container.get("args", [])]
        if command:
            words.append(f"--entrypoint={command[0]}")
        started = run("docker", "run", "--detach", "--pull=never", *words, self.cluster.image(container), *command[1:], *arguments)
        if started.returncode:
            self.fail(started.stderr.strip())

    def network(self):
        """Words of `docker run` for a network of its own, with all names by which it is called."""
        words = ["--hostname", self.name, "--network", self.cluster.network]
        return words + [word for alias in self.aliases() for word in ("--network-alias", alias)]

    def address(self):
        state = self.state()
        # The network may be that of a container which stands for the hardware.
        kind, _, other = state["HostConfig"]["NetworkMode"].partition(":")
        if kind == "container":
            state = inspect(other)
        return state["NetworkSettings"]["Networks"][self.cluster.network]["IPAddress"]

    def aliases(self):
        service = self.workload["spec"].get("serviceName")
        names = [f"{self.name}.{service}"] if service else []
        if self.workload["kind"] == "DaemonSet":
            names.append(self.node)
        for one in self.cluster.documents:
            if one["kind"] == "Service" and is_part(one["spec"].get("selector"), self.labels):
                names.append(one["metadata"]["name"])
        return names

    def state(self):
        return inspect(self.id)

    def must_go_on(self):
        state = self.state()
        if state["State"]["Status"] == "exited" or state["RestartCount"] >= RESTARTS:
            self.fail(f"has ended with {state['State']['ExitCode']}")

    def port(self, wanted):
        ports = {port["name"]: port["containerPort"] for port in self.container.get("ports", [])}
        return ports.get(wanted, wanted)

    def probe(self, probe):
        """What is wrong, or nothing."""
        patience = probe.get("timeoutSeconds", 1)
        try:
            if "exec" in probe:
                done = run("docker", "exec", self.id, *probe["exec"]["command"], timeout=patience + 5)
                return None if done.returncode == 0 else f"exit {done.returncode}: {done.stdout}{done.stderr}".strip()
            if "tcpSocket" in probe:
                with socket.create_connection((self.address(), self.port(probe["tcpSocket"]["port"])), patience):
                    return None
            if "httpGet" in probe:
                asked = probe["httpGet"]
                at = f"{self.address()}:{self.port(asked['port'])}"
                url = f"{asked.get('scheme', 'HTTP').lower()}://{at}{asked['path']}"
                with urllib.request.urlopen(url, timeout=patience):
                    return None
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        return self.fail(f"this test knows no such probe: {probe}")

    def metrics(self):
        """Reads the metrics, as Prometheus does, if the pod names a port for them."""
        if self.port("metrics") == "metrics":
            return
        url = f"http://{self.address()}:{self.port('metrics')}/metrics"
        # Pods are reached without the proxy of this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(url, timeout=10) as answer:
                told = answer.read().decode()
        except OSError as error:
            self.fail(f"{url}: {error}")
        if "fabricast_build_info{" not in told:
            self.fail(f"{url} lacks fabricast_build_info: {told[:500]}")

    def mounted_at(self, path):
        """The folder that is mounted at a path, or nothing."""
        folders = [mount.split(":")[0] for mount in self.mounts() if mount.split(":")[1] == path]
        return folders[0] if folders else None

    def wait(self, kind):
        """Until a probe has passed, as long as a kubelet would give it, and ten times its period at least."""
        probe = self.container[kind]
        period = probe.get("periodSeconds", 10)
        patience = max(period * probe.get("failureThreshold", 3), 10 * period)
        ends = time.monotonic() + patience
        while True:
            # Others may only wait for one that has ended.
            for pod in self.cluster.started:
                pod.must_go_on()
            state = self.state()
            wrong = self.probe(probe) if state["State"]["Running"] else "it does not run"
            if wrong is None:
                return
            if time.monotonic() > ends:
                self.fail(f"{kind} has not passed in {patience} s: {wrong}")
            time.sleep(0.5)


class Cluster:
    def __init__(self, documents, folder, program, images):
        self.documents, self.images = documents, images
        self.nodes = NODES
        self.network = f"fabricast-pods-{os.getpid()}"
        self.label = f"fabricast-pods={self.network}"
        self.files = Files(folder, documents, program)
        self.plain = not any("secret" in volume for one in self.of(*WORKLOADS)
                             for volume in one["spec"]["template"]["spec"].get("volumes", []))
        self.tics, self.routers, self.started = [], [], []
        self.hardware = None

    def of(self, *kinds):
        return [one for one in self.documents if one["kind"] in kinds]

    def image(self, container):
        """The image of this machine that stands for one in a registry."""
        return self.images[container["image"].split("/")[-1].split(":")[0]]

    def of_node(self, node, path):
        """A folder that the administrator makes on each node (docs/kubernetes.md)."""
        if path == "/etc/fabricast/certificates":
            secret = f"node-{node}"
            if ("secret", secret) not in self.files.data:
                self.files.issue(secret, "ca", [f"operating-agent/{node}"], [node])
            return self.files.mounted("secret", secret, 0o440)
        if path == "/run/fabricast":
            return self.files.writable(f"run-{node}")
        return None

    def secrets(self):
        """What docs/kubernetes.md has the administrator make, by the commands of the page."""
        self.files.data.setdefault(("secret", "fabricast-management-key"), {"key": b"a key for this test"})
        if self.plain:
            return
        self.files.make(page.block("create namespace fabricast"))
        self.files.issue("admin-tls", "ca", ["admin/admin"], ["admin"])

    def pods(self):
        for one in self.of(*WORKLOADS):
            name = one["metadata"]["name"]
            if one["kind"] == "DaemonSet":
                yield from (Pod(self, one, f"{name}-{node}", node) for node in NODES)
            else:
                count = one["spec"].get("replicas", 1)
                yield from (Pod(self, one, f"{name}-{at}", "control-plane") for at in range(count))

    def pod(self, name):
        return next(pod for pod in self.started if pod.name == name)

    def fabric(self):
        """The topology in the ConfigMap of the overlay, as `ibnetdiscover` prints it."""
        held = self.files.data.items()
        name = next(name for (kind, name), keys in held if kind == "configMap" and "topology.toml" in keys)
        spec = os.path.join(self.files.mounted("configMap", name, 0o644), "topology.toml")
        return done(self.files.program, "topology", "export", spec)

    def ask(self, *arguments):
        """Has an administrator's pod run a command; gives its output, or nothing if it failed."""
        words = ["--env=FABRICAST_PLAINTEXT=true"]
        if not self.plain:
            folder = self.files.mounted("secret", "admin-tls", 0o440)
            words = [f"--volume={folder}:/certificates:ro", "--env=FABRICAST_CERTIFICATES=/certificates"]
        server = f"--env=FABRICAST_SERVER={','.join(self.tics)}"
        image = self.images["fabricast"]
        network = f"--network={self.network}"
        return run("docker", "run", "--rm", "--pull=never", network, server, *words, image, *arguments)

    def until(self, *arguments):
        ends = time.monotonic() + 60
        while (done := self.ask(*arguments)).returncode:
            if time.monotonic() > ends:
                raise Failure(f"fabricast {' '.join(arguments)}: {done.stdout}{done.stderr}")
            time.sleep(0.5)

    def attach(self):
        """Runs a process in another container of each node, which becomes a member through the socket of its agent."""
        folder = "/run/fabricast"
        for pod in self.started:
            sockets = pod.mounted_at(folder) if pod.workload["kind"] == "DaemonSet" else None
            if sockets:
                words = ["--rm", "--pull=never", f"--network={self.network}", f"--user={OURS}:{OURS}"]
                words += [f"--volume={sockets}:{folder}", self.images["fabricast"]]
                words += ["run", "--socket", f"{folder}/agent.sock", "--processes", "1", "--"]
                docker("run", *words, "/fabricast", "--version")

    def copied(self, job):
        """Checks the copy of the records that a job has made."""
        copies = glob.glob(os.path.join(job.mounted_at("/copies"), "records-*.jsonl"))
        if len(copies) != 1:
            job.fail(f"{len(copies)} copies after one run")
        done(self.files.program, "store", "check", copies[0])

    def check(self):
        self.secrets()
        self.hardware = hardware(self)
        docker("network", "create", self.network)
        pods = list(self.pods())
        self.tics = [f"{pod.name}.tic:7401" for pod in pods if pod.workload["metadata"]["name"] == "tic"]
        self.routers = [f"{pod.name}.router:7402" for pod in pods if pod.workload["metadata"]["name"] == "router"]
        for pod in pods:
            pod.start()
            self.started.append(pod)
        for kind in PROBES:
            for pod in pods:
                pod.wait(kind)
        for pod in pods:
            pod.metrics()
        self.hardware.connect()
        for node in self.nodes:
            self.until("group", "join", "rows/0", "--node", node)
        self.hardware.check()
        self.attach()
        jobs = self.of("CronJob")
        for one in jobs:
            job = Pod(self, one, one["metadata"]["name"], "control-plane")
            job.start()
            code = docker("wait", job.id)
            if code != "0":
                job.fail(f"has ended with {code}")
            self.copied(job)
        if not self.plain and driver(self.documents) == "emulated":
            restore(self)
        restarts = [f"{pod.name} {count}" for pod in pods if (count := pod.state()["RestartCount"])]
        print(f"{len(pods)} pods, {len(jobs)} jobs, {len(pods) * len(PROBES)} probes pass, {self.hardware.arrival}; "
              f"started again: {', '.join(restarts) or 'none'}")

    def end(self):
        if self.hardware:
            self.hardware.end()
        for name in run("docker", "ps", "--all", "--quiet", "--filter", f"label={self.label}").stdout.split():
            run("docker", "rm", "--force", "--volumes", name)
        run("docker", "network", "rm", self.network)


def container_of(documents, name):
    named = [one for one in documents if one["kind"] in WORKLOADS and one["metadata"]["name"] == name]
    return named[0]["spec"]["template"]["spec"]["containers"][0]


def wrong_flag(documents):
    container_of(documents, "tic")["args"][-2] = "--metrix"


def missing_mount(documents):
    container_of(documents, "switch-agent")["volumeMounts"] = []


def missing_key(documents):
    variables = container_of(documents, "fabric")["env"]
    next(one for one in variables if "valueFrom" in one)["valueFrom"]["secretKeyRef"]["key"] = "kee"


def failing_probe(documents):
    probe = container_of(documents, "router")["startupProbe"]
    probe |= {"periodSeconds": 1, "failureThreshold": 1}
    probe["exec"]["command"][-1] = "fabricast.v1.FabricService"


def wrong_adapter(documents):
    variable = {"name": "FABRICAST_SWITCH_AGENT__INFINIBAND__ADAPTER", "value": "mlx5_9"}
    container_of(documents, "switch-agent")["env"].append(variable)


def late_variable(documents):
    """The order in which kustomize leaves a variable that only a patch names: before those that it refers to."""
    variables = container_of(documents, "operating-agent")["env"]
    variables.append(variables.pop(0))


# Mistakes by the driver of the switch agent, each with the beginning of the failure that has to be
# told.
MISTAKES = {
    "emulated": (
        (wrong_flag, "pod tic-0, container tic (StatefulSet): has ended with"),
        (missing_mount, "pod switch-agent-0, container switch-agent (StatefulSet): has ended with"),
        (missing_key, "pod fabric-0, container fabric (Deployment): FABRICAST_FABRIC__MANAGEMENT_KEY"),
        (failing_probe, "pod router-0, container router (StatefulSet): startupProbe has not passed"),
    ),
    "infiniband": ((wrong_adapter, "pod switch-agent-0, container switch-agent (StatefulSet): has ended with"),),
    "openflow": (
        (
            late_variable,
            "pod operating-agent-h0, container operating-agent (DaemonSet): FABRICAST_OPERATING_AGENT__NODES: no ",
        ),
    ),
}


def checked(documents, program, images):
    """What does not work, or nothing."""
    folder = tempfile.mkdtemp()
    os.chmod(folder, 0o755)
    cluster = Cluster(documents, folder, program, images)
    try:
        cluster.check()
    except Failure as failure:
        return str(failure)
    finally:
        cluster.end()
        shutil.rmtree(folder, ignore_errors=True)
    return None


def main(program, image, infiniband_image, etcd_image, *options):
    documents = [one for one in yaml.safe_load_all(sys.stdin) if one]
    images = {"fabricast": image, "fabricast-infiniband": infiniband_image, "fabricast-etcd": etcd_image}
    # A check may change the pods.
    if failure := checked(copy.deepcopy(documents), program, images):
        sys.exit(f"pods: {failure}")
    for mistake, wanted in MISTAKES[driver(documents)] if options else ():
        wrong = copy.deepcopy(documents)
        mistake(wrong)
        failure = checked(wrong, program, images)
        if not failure or not failure.startswith(wanted):
            sys.exit(f"pods: {mistake.__name__} is not found: {failure}")
        print(f"{mistake.__name__}: found")


if __name__ == "__main__":
    if len(sys.argv) not in (5, 6) or sys.argv[5:] not in ([], ["--mistakes"]):
        sys.exit("usage: pods.py FABRICAST IMAGE INFINIBAND_IMAGE ETCD_IMAGE [--mistakes]")
    main(*sys.argv[1:])
