"""Runs the commands of docs/kubernetes.md by which an administrator copies records out of the etcds and restores them,
over the pods that pods.py has started."""

import re
import shlex

import page
from engine import Failure, done

COUNTS = re.compile(r"\d+ groups, \d+ members, \d+ nodes")
CERTIFICATES = "/etc/fabricast-store-certificates"
USER = "65532:65532"
# The group that is deleted by mistake.
GROUP = "rows/0"


def restore(cluster):
    """Copies the records, deletes a group, empties the store, restores, and looks for the group with its members."""
    tics = [pod for pod in cluster.started if pod.workload["metadata"]["name"] == "tic"]
    fabricast = program(cluster)
    functions = commands(fabricast, [pod.id for pod in tics], cluster.pod("etcd-0").id)
    walk(functions, page.block("store export"))
    deleted = cluster.ask("group", "delete", GROUP)
    if deleted.returncode or cluster.ask("group", "show", GROUP).returncode == 0:
        raise Failure(f"{GROUP} is still there: {deleted.stdout}{deleted.stderr}")
    walk(functions, page.block("store import"))
    copied, restored = (count(fabricast, name) for name in ("records.jsonl", "again.jsonl"))
    if copied != restored:
        raise Failure(f"copied {copied}, restored {restored}")
    for pod in tics:
        pod.wait("readinessProbe")
    cluster.until("group", "show", GROUP)
    cluster.hardware.check()
    print(f"{copied} copied out of the etcds and restored, as docs/kubernetes.md says")


def walk(functions, block):
    """Runs the commands of a block, in a shell of its own."""
    done("bash", "-c", "\n".join(["set -eu", functions, block]))


def count(fabricast, copy):
    """The numbers of groups, members and nodes in a copy."""
    said = done(*fabricast, "store", "check", copy)
    found = COUNTS.search(said)
    if not found:
        raise Failure(f"store check {copy}: {said}")
    return found[0]


def program(cluster):
    """Words that run `fabricast` as in a pod with the secret of the TICs' store."""
    secret = cluster.files.mounted("secret", "tic-store-tls", 0o440)
    words = ["docker", "run", "--rm", "--pull=never", f"--network={cluster.network}", f"--user={USER}"]
    words += [f"--volume={secret}:{CERTIFICATES}:ro", f"--volume={cluster.files.writable('copies-by-hand')}:/copies"]
    return [*words, "--workdir=/copies", cluster.images["fabricast"]]


def commands(fabricast, tics, etcd):
    """Functions of bash with the names of the programs that the page calls. Before TICs write again, what the store has
    is copied once more."""
    names = shlex.join(tics)
    store = f"etcd://etcd-0.etcd:2379/fabricast?certificates={CERTIFICATES}"
    pods = " ".join(f"pod/tic-{number}" for number in range(len(tics)))
    return f"""fabricast() {{ {shlex.join(fabricast)} "$@"; }}
kubectl() {{
    case $* in
    '--namespace fabricast scale statefulset tic --replicas 0') docker stop {names} ;;
    '--namespace fabricast wait --for delete {pods} --timeout 2m') docker wait {names} ;;
    '--namespace fabricast exec etcd-0 -- etcdctl del --prefix /fabricast/')
        docker exec {etcd} etcdctl del --prefix /fabricast/ ;;
    '--namespace fabricast scale statefulset tic --replicas {len(tics)}')
        fabricast store export --out again.jsonl --store '{store}' && docker start {names} ;;
    *) echo "no pods for: kubectl $*" >&2 && return 2 ;;
    esac
}}"""
