"""Checks what `kubectl kustomize` has made of an overlay: against the schemas of Kubernetes, against what we want of
every workload, and the settings of every part by the part itself.

    kubectl kustomize deploy/kubernetes/overlays/dev | python check.py FABRICAST

FABRICAST is the program. Needs the package kubernetes-validate, which brings the schemas. Ends with 0 if nothing is
wrong, otherwise with all that is, on standard error. The job that copies the records is run, beside a control plane
on this machine, and its copy restored.
"""

import contextlib
import os
import re
import subprocess
import sys
import tempfile
import threading

import kubernetes_validate
import yaml

import page

SCHEMAS = "1.32"
WORKLOADS = {"StatefulSet", "Deployment", "DaemonSet"}
# Kinds that come with operators are no part of Kubernetes, and have no schema here.
FOREIGN = {"PodMonitor", "Certificate", "Issuer"}
METRICS = 9464
ROLES = {"tic", "router", "fabric", "operating-agent", "switch-agent"}
# Settings that [tic] and [router] must have alike.
ALIKE = ("COLORS", "FAULT_TOLERANT", "TABLES")


def is_part(wanted, labels):
    return bool(wanted) and wanted.items() <= labels.items()


def template(one):
    """The pods of a workload or of a job that comes back."""
    spec = one["spec"]
    return spec["jobTemplate"]["spec"]["template"] if one["kind"] == "CronJob" else spec["template"]


class Overlay:
    def __init__(self, documents):
        self.documents = documents
        self.problems = []

    def of(self, *kinds):
        return [one for one in self.documents if one["kind"] in kinds]

    def named(self, kind, name):
        return next((one for one in self.of(kind) if one["metadata"]["name"] == name), None)

    def check(self, condition, text):
        if not condition:
            self.problems.append(text)

    def schemas(self):
        for one in self.documents:
            if one["kind"] in FOREIGN:
                continue
            try:
                kubernetes_validate.validate(one, SCHEMAS, strict=True)
            except kubernetes_validate.ValidationError as error:
                where = ".".join(str(step) for step in error.path)
                self.problems.append(f"{one['kind']} {one['metadata']['name']}: {where}: {error.message}")

    def pods(self, one):
        """What all pods have to be, also those of jobs."""
        name = f"{one['kind']} {one['metadata']['name']}"
        pod = template(one)["spec"]
        account = self.named("ServiceAccount", pod.get("serviceAccountName"))
        self.check(account, f"{name}: no service account")
        self.check(pod.get("automountServiceAccountToken") is False, f"{name}: gets a token")
        priority = self.named("PriorityClass", pod.get("priorityClassName"))
        self.check(priority, f"{name}: no priority class")
        context = pod.get("securityContext", {})
        self.check(context.get("runAsNonRoot") is True, f"{name}: may run as root")
        self.check(context.get("runAsUser", 0) > 0, f"{name}: which user?")
        for container in pod["containers"]:
            inner = container.get("securityContext", {})
            self.check(inner.get("readOnlyRootFilesystem") is True, f"{name}: writable root")
            self.check(inner.get("allowPrivilegeEscalation") is False, f"{name}: may gain rights")
            self.check(inner.get("capabilities", {}).get("drop") == ["ALL"], f"{name}: capabilities")
            requests = container.get("resources", {}).get("requests", {})
            self.check({"cpu", "memory"} <= requests.keys(), f"{name}: no requests of resources")
            mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
            volumes = {volume["name"] for volume in pod.get("volumes", [])}
            claims = one["spec"].get("volumeClaimTemplates", [])
            volumes |= {claim["metadata"]["name"] for claim in claims}
            self.check(mounted == volumes, f"{name}: mounts {mounted} of {volumes}")
        for volume in pod.get("volumes", []):
            claim = volume.get("persistentVolumeClaim")
            found = not claim or self.named("PersistentVolumeClaim", claim["claimName"])
            self.check(found, f"{name}: no claim for {volume['name']}")

    def workload(self, one):
        name = f"{one['kind']} {one['metadata']['name']}"
        pod = one["spec"]["template"]["spec"]
        labels = one["spec"]["template"]["metadata"]["labels"]
        self.check(is_part(one["spec"]["selector"]["matchLabels"], labels), f"{name}: selects others")
        for container in pod["containers"]:
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                self.check(probe in container, f"{name}: no {probe}")
        self.metrics(name, pod["containers"][0], labels)
        admitted = self.admitted(labels)
        self.check(admitted - {METRICS}, f"{name}: nobody may call it")
        if one["kind"] == "StatefulSet":
            service = self.named("Service", one["spec"]["serviceName"])
            self.check(service, f"{name}: no service gives its pods names")
            budgets = self.of("PodDisruptionBudget")
            guarded = [is_part(other["spec"]["selector"]["matchLabels"], labels) for other in budgets]
            self.check(any(guarded), f"{name}: no disruption budget")

    def connections(self):
        """Each connection between our pods is allowed where it begins and where it ends."""
        ends = {}
        for one in self.of(*WORKLOADS, "CronJob"):
            ends[one["metadata"]["name"]] = template(one)["metadata"]["labels"]
        ways = {"ingress": set(), "egress": set()}
        for policy in self.of("NetworkPolicy"):
            spec = policy["spec"]
            ours = [name for name, labels in ends.items() if is_part(spec["podSelector"]["matchLabels"], labels)]
            for way, other in (("ingress", "from"), ("egress", "to")):
                for rule in spec.get(way, []):
                    wanted = [peer["podSelector"]["matchLabels"] for peer in rule.get(other, [])
                              if "podSelector" in peer]
                    peers = [name for name, labels in ends.items() if any(is_part(one, labels) for one in wanted)]
                    for port in rule["ports"]:
                        pairs = [(peer, our) if way == "ingress" else (our, peer) for our in ours for peer in peers]
                        ways[way] |= {(*pair, port["port"]) for pair in pairs}
        # An administrator's pod may call all, and ours calls the TICs only.
        ended = {one for one in ways["ingress"] if one[0] != "backup"}
        begun = {one for one in ways["egress"] if one[0] != "backup"}
        for caller, called, port in ended ^ begun:
            side = "out of" if (caller, called, port) in ended else "into"
            self.problems.append(f"{caller} to {called}:{port}: not allowed {side} the pod")
        for one in ways["egress"] - ways["ingress"]:
            self.check(one[0] != "backup", f"{one[0]} to {one[1]}:{one[2]}: not allowed into the pod")
        closed = [one["spec"] for one in self.of("NetworkPolicy") if one["metadata"]["name"] == "nobody-by-default"]
        both = closed and set(closed[0]["policyTypes"]) == {"Ingress", "Egress"}
        self.check(both, "pods without a policy may call and be called")

    def certificates(self):
        """With cert-manager each secret of ours has a certificate with the names by which its pods are called."""
        made = {one["spec"]["secretName"]: one["spec"] for one in self.of("Certificate")}
        if not made:
            return
        issuers = {one["metadata"]["name"]: one["spec"] for one in self.of("Issuer")}
        for name, spec in made.items():
            issuer = issuers.get(spec["issuerRef"]["name"])
            self.check(issuer, f"Certificate {name}: no such issuer")
            authority = (issuer or {}).get("ca", {}).get("secretName")
            self.check(not authority or made.get(authority, {}).get("isCA"), f"Certificate {name}: no authority")
        for one in self.of(*WORKLOADS, "CronJob"):
            name, spec = one["metadata"]["name"], one["spec"]
            volumes = template(one)["spec"].get("volumes", [])
            for secret in [volume["secret"]["secretName"] for volume in volumes if "secret" in volume]:
                self.check(secret in made, f"{name}: nobody makes {secret}")
            certificate = made.get(f"{name}-tls")
            if not certificate or one["kind"] == "CronJob":
                continue
            names = [name]
            if "serviceName" in spec:
                names = [f"{name}-{at}.{spec['serviceName']}" for at in range(spec.get("replicas", 1))]
            missing = set(names) - set(certificate["dnsNames"])
            self.check(not missing, f"Certificate {name}: lacks {missing}")
            self.check("127.0.0.1" in certificate["ipAddresses"], f"Certificate {name}: no probe can call it")
            identities = certificate.get("uris", [])
            right = all(uri.startswith(f"spiffe://fabricast/{name}/") for uri in identities)
            self.check(right and (identities or name == "etcd"), f"Certificate {name}: which role?")

    def secrets(self):
        """Each secret that pods use is made by an object of the overlay or by a command of docs/kubernetes.md."""
        made = {one["spec"]["secretName"] for one in self.of("Certificate")}
        made |= {one["metadata"]["name"] for one in self.of("Secret")}
        made |= set(re.findall(r"create secret generic (\S+)", page.text()))
        for one in self.of(*WORKLOADS, "CronJob"):
            spec = template(one)["spec"]
            used = {volume["secret"]["secretName"] for volume in spec.get("volumes", []) if "secret" in volume}
            sources = [variable.get("valueFrom", {}) for variable in spec["containers"][0].get("env", [])]
            used |= {source["secretKeyRef"]["name"] for source in sources if "secretKeyRef" in source}
            self.check(used <= made, f"{one['metadata']['name']}: docs/kubernetes.md does not make {used - made}")

    def admitted(self, labels):
        """The ports at which some policy lets callers in."""
        policies = [one["spec"] for one in self.of("NetworkPolicy")]
        policies = [one for one in policies if is_part(one["podSelector"]["matchLabels"], labels)]
        rules = [rule for one in policies for rule in one.get("ingress", [])]
        return {port["port"] for rule in rules for port in rule["ports"]}

    def metrics(self, name, container, labels):
        """A part tells its metrics, at a port that a Prometheus reaches and finds by its name."""
        if container.get("args", [""])[0] not in ROLES:
            return
        told = f"0.0.0.0:{METRICS}" in container["args"] and "--metrics" in container["args"]
        self.check(told, f"{name}: no metrics")
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        self.check(ports.get("metrics") == METRICS, f"{name}: no port for metrics")
        self.check(METRICS in self.admitted(labels), f"{name}: nobody may read its metrics")
        for monitor in self.of("PodMonitor"):
            spec = monitor["spec"]
            self.check(is_part(spec["selector"]["matchLabels"], labels), f"{name}: not monitored")
            self.check(labels.get(spec["jobLabel"]) == "fabricast", f"{name}: which job?")
            for endpoint in spec["podMetricsEndpoints"]:
                self.check(endpoint["port"] in ports, f"{name}: no port {endpoint['port']}")
                made = {relabeling["targetLabel"] for relabeling in endpoint["relabelings"]}
                self.check({"cluster", "instance"} <= made, f"{name}: metrics of no cluster")

    def selectors(self):
        pods = [template(one)["metadata"]["labels"] for one in self.of(*WORKLOADS, "CronJob")]
        for one in self.of("Service", "PodDisruptionBudget", "NetworkPolicy"):
            spec = one["spec"]
            wanted = spec.get("podSelector", spec.get("selector", {}))
            wanted = wanted.get("matchLabels", wanted)
            found = any(is_part(wanted, labels) for labels in pods)
            self.check(found, f"{one['kind']} {one['metadata']['name']}: selects no pod")

    def alike(self):
        """TICs and route services are told the same of the switches."""
        for one in self.of("ConfigMap"):
            for name in ALIKE:
                told = [one["data"].get(f"FABRICAST_{part}__{name}") for part in ("TIC", "ROUTER")]
                self.check(told[0] == told[1], f"{one['metadata']['name']}: {name} of TIC and router: {told}")

    def settings(self, one, program):
        """Has the part check the settings that its pod would have."""
        pod = one["spec"]["template"]["spec"]
        container = pod["containers"][0]
        role = container.get("args", [""])[0]
        if role not in ROLES:
            return
        known = {"POD_NAME": f"{one['metadata']['name']}-0", "NODE_NAME": "n1", "HOST_IP": "10.0.0.1"}
        variables = {}
        for source in container.get("envFrom", []):
            variables |= self.named("ConfigMap", source["configMapRef"]["name"])["data"]
        for variable in container.get("env", []):
            text = variable.get("value", known.get(variable["name"], "secret"))
            text = re.sub(r"\$\((\w+)\)", lambda match: variables.get(match.group(1), match.group(0)), text)
            early = "$(" not in text
            self.check(early, f"{one['metadata']['name']}: {variable['name']}: no variable before it has what it names")
            variables[variable["name"]] = text
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        files = self.named("ConfigMap", volumes["settings"]["configMap"]["name"])["data"]
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text.replace("/etc/fabricast/", f"{folder}/"))
            checked = subprocess.run(
                [program, role, "--config", f"{folder}/fabricast.toml", "--check-config"],
                env=variables, capture_output=True, text=True, check=False,
            )
        self.check(checked.returncode == 0, f"{one['metadata']['name']}: {checked.stderr}")


    def copies(self, one, program):
        """Runs the job that copies the records, and restores its copy into an empty store."""
        container = template(one)["spec"]["containers"][0]
        with tempfile.TemporaryDirectory() as folder:
            store, restored = f"{folder}/records.redb", f"{folder}/restored.redb"
            with served(program, store) as server:
                ask(program, server, "group", "create", "kept/0", "--node", "node001", "--persistent")
                arguments = [folder if word == "/copies" else word for word in container["args"]]
                done = ask(program, server, *arguments)
                self.check(done.returncode == 0, f"{one['metadata']['name']}: {done.stderr}")
            copies = [name for name in os.listdir(folder) if name.endswith(".jsonl")]
            self.check(len(copies) == 1, f"{one['metadata']['name']}: {copies} after one run")
            if len(copies) != 1:
                return
            done = ask(program, None, "store", "import", "--store", restored, f"{folder}/{copies[0]}")
            self.check(done.returncode == 0, f"import of {copies[0]}: {done.stderr}")
            with served(program, restored) as server:
                done = ask(program, server, "group", "show", "kept/0")
                self.check(done.returncode == 0, f"group of the copy: {done.stderr}")


def ask(program, server, *arguments):
    variables = {"FABRICAST_SERVER": server} if server else {}
    return subprocess.run([program, *arguments], env=variables, capture_output=True, text=True, check=False)


@contextlib.contextmanager
def served(program, store):
    """A control plane with its records in a file, as long as the block runs; gives its address."""
    arguments = [program, "up", "--listen", "127.0.0.1:0", "--store", store]
    with subprocess.Popen(arguments, env={}, stderr=subprocess.PIPE, text=True) as up:
        try:
            said = []
            for line in up.stderr:
                said.append(line)
                address = re.search(r"all services at (\S+)", line)
                if address:
                    break
            else:
                sys.exit("fabricast up: " + "".join(said))
            # Its later output is read, too, or it would wait.
            threading.Thread(target=up.stderr.read, daemon=True).start()
            yield address.group(1)
        finally:
            up.terminate()


def main(program):
    overlay = Overlay([one for one in yaml.safe_load_all(sys.stdin) if one])
    overlay.schemas()
    overlay.selectors()
    overlay.connections()
    overlay.certificates()
    overlay.secrets()
    overlay.alike()
    for one in overlay.of("CronJob"):
        overlay.pods(one)
        overlay.copies(one, program)
    for one in overlay.of(*WORKLOADS):
        overlay.pods(one)
        overlay.workload(one)
        overlay.settings(one, program)
    overlay.check(overlay.of(*WORKLOADS), "there is no workload")
    for problem in overlay.problems:
        print(problem, file=sys.stderr)
    if overlay.problems:
        sys.exit(1)
    print(f"{len(overlay.documents)} documents as they must be")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: check.py FABRICAST")
    main(sys.argv[1])
