"""Checks what `kubectl kustomize` has made of an overlay: against the schemas of Kubernetes, against what we want of
every workload, and the settings of every part by the part itself.

    kubectl kustomize deploy/kubernetes/overlays/dev | python check.py FABRICAST

FABRICAST is the program. Needs the package kubernetes-validate, which brings the schemas. Ends with 0 if nothing is
wrong, otherwise with all that is, on standard error.
"""

import os
import re
import subprocess
import sys
import tempfile

import kubernetes_validate
import yaml

SCHEMAS = "1.32"
WORKLOADS = {"StatefulSet", "Deployment", "DaemonSet"}
METRICS = 9464
ROLES = {"tic", "router", "fabric", "operating-agent", "switch-agent"}


def is_part(wanted, labels):
    return bool(wanted) and wanted.items() <= labels.items()


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
        # What comes with the Prometheus operator is no part of Kubernetes, and checked below.
        for one in self.documents:
            if one["kind"] == "PodMonitor":
                continue
            try:
                kubernetes_validate.validate(one, SCHEMAS, strict=True)
            except kubernetes_validate.ValidationError as error:
                where = ".".join(str(step) for step in error.path)
                self.problems.append(f"{one['kind']} {one['metadata']['name']}: {where}: {error.message}")

    def workload(self, one):
        name = f"{one['kind']} {one['metadata']['name']}"
        pod = one["spec"]["template"]["spec"]
        labels = one["spec"]["template"]["metadata"]["labels"]
        self.check(is_part(one["spec"]["selector"]["matchLabels"], labels), f"{name}: selects others")
        account = self.named("ServiceAccount", pod.get("serviceAccountName"))
        self.check(account, f"{name}: no service account")
        self.check(pod.get("automountServiceAccountToken") is False, f"{name}: gets a token")
        context = pod.get("securityContext", {})
        self.check(context.get("runAsNonRoot") is True, f"{name}: may run as root")
        self.check(context.get("runAsUser", 0) > 0, f"{name}: which user?")
        for container in pod["containers"]:
            inner = container.get("securityContext", {})
            self.check(inner.get("readOnlyRootFilesystem") is True, f"{name}: writable root")
            self.check(inner.get("allowPrivilegeEscalation") is False, f"{name}: may gain rights")
            self.check(inner.get("capabilities", {}).get("drop") == ["ALL"], f"{name}: capabilities")
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                self.check(probe in container, f"{name}: no {probe}")
            requests = container.get("resources", {}).get("requests", {})
            self.check({"cpu", "memory"} <= requests.keys(), f"{name}: no requests of resources")
            mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
            volumes = {volume["name"] for volume in pod.get("volumes", [])}
            claims = one["spec"].get("volumeClaimTemplates", [])
            volumes |= {claim["metadata"]["name"] for claim in claims}
            self.check(mounted == volumes, f"{name}: mounts {mounted} of {volumes}")
        self.metrics(name, pod["containers"][0], labels)
        admitted = self.admitted(labels)
        self.check(admitted - {METRICS}, f"{name}: nobody may call it")
        if one["kind"] == "StatefulSet":
            service = self.named("Service", one["spec"]["serviceName"])
            self.check(service, f"{name}: no service gives its pods names")
            budgets = self.of("PodDisruptionBudget")
            guarded = [is_part(other["spec"]["selector"]["matchLabels"], labels) for other in budgets]
            self.check(any(guarded), f"{name}: no disruption budget")

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
        pods = [one["spec"]["template"]["metadata"]["labels"] for one in self.of(*WORKLOADS)]
        for one in self.of("Service", "PodDisruptionBudget", "NetworkPolicy"):
            spec = one["spec"]
            wanted = spec.get("podSelector", spec.get("selector", {}))
            wanted = wanted.get("matchLabels", wanted)
            found = any(is_part(wanted, labels) for labels in pods)
            self.check(found, f"{one['kind']} {one['metadata']['name']}: selects no pod")

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
            text = re.sub(r"\$\((\w+)\)", lambda match: known[match.group(1)], text)
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


def main(program):
    overlay = Overlay([one for one in yaml.safe_load_all(sys.stdin) if one])
    overlay.schemas()
    overlay.selectors()
    for one in overlay.of(*WORKLOADS):
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
