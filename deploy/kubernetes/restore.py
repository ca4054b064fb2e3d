"""Runs the commands of docs/kubernetes.md by which an administrator copies records out of the etcds and restores them,
over the pods that pods.py has started."""

import os
import re
import shlex

from engine import Failure, done

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/kubernetes.md")
# The blocks that a comment gives to this file.
BLOCK = re.compile(
    r"^<!-- elsewhere: deploy/kubernetes/restore\.py .*?-->\n```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
COUNTS = re.compile(r"\d+ groups, \d+ members, \d+ nodes")
CERTIFICATES = "/etc/fabricast-store-certificates"
USER = "65532:65532"


def restore(cluster):
    """Copies the records, stops the TICs, restores into another prefix, starts them, and compares."""
    with open(PAGE, encoding="utf-8") as page:
        blocks = BLOCK.findall(page.read())
    if len(blocks) != 2:
        raise Failure(f"{PAGE} has {len(blocks)} blocks for this script, not 2")
    tics = [pod for pod in cluster.started if pod.workload["metadata"]["name"] == "tic"]
    fabricast = program(cluster)
    done("bash", "-c", "\n".join(["set -eu", commands(fabricast, [pod.id for pod in tics]), *blocks]))
    done(*fabricast, "store", "export", "--out", "again.jsonl", "--store",
         f"etcd://etcd-0.etcd:2379/restored?certificates={CERTIFICATES}")
    copied, restored = (count(fabricast, name) for name in ("records.jsonl", "again.jsonl"))
    if copied != restored:
        raise Failure(f"copied {copied}, restored {restored}")
    for pod in tics:
        pod.wait("readinessProbe")
    cluster.until("group", "show", "rows/0")
    print(f"{copied} copied out of the etcds and restored, as docs/kubernetes.md says")


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


def commands(fabricast, tics):
    """Functions of bash with the names of the programs that the page calls."""
    names = shlex.join(tics)
    return f"""fabricast() {{ {shlex.join(fabricast)} "$@"; }}
kubectl() {{
    case $* in
    '--namespace fabricast scale statefulset tic --replicas 0') docker stop {names} ;;
    '--namespace fabricast scale statefulset tic --replicas {len(tics)}') docker start {names} ;;
    *) echo "no pods for: kubectl $*" >&2 && return 2 ;;
    esac
}}"""
