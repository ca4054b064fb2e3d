"""Uses the package `fabricast` at an agent that serves several nodes, as tests start it.

    python members.py SOCKET NODE OTHER_NODE

Ends with 0 if everything was as it must be, otherwise with the reason on standard error.
"""

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import fabricast


def check(condition, text):
    if not condition:
        sys.exit(f"members.py: {text}")


def refusal(kind, call):
    """The error that a call must end with."""
    try:
        answer = call()
    except kind as error:
        return error
    sys.exit(f"members.py: not refused: {answer}")


def talk(ours, theirs):
    """Messages, and every operation, between two members."""
    ours.take_part()
    check(theirs.wait_for(2) == [0, 1], "participants")
    check(ours.wait_for(2, timeout=30) == [0, 1], "participants")
    check(ours.wait_for(3, timeout=0.01) is None, "there is no third")
    for number in range(100):
        check(ours.multicast(b"%d" % number) == [], "somebody may lack it")
        check(theirs.receive() == (0, b"%d" % number), "order")
    for length in (1, (64 << 10) - 1, 64 << 10, 1 << 20):
        payload = bytes(range(251)) * (length // 251 + 1)
        check(ours.multicast(payload[:length]) == [], "somebody may lack it")
        check(theirs.receive() == (0, payload[:length]), f"{length} bytes")
        check(theirs.multicast(payload[-length:]) == [], "somebody may lack it")
        check(ours.receive() == (1, payload[-length:]), f"{length} bytes back")
    error = refusal(fabricast.Refused, lambda: ours.multicast(b"x" * ((1 << 20) + 1)))
    check(error.reason == "PAYLOAD_TOO_LONG", f"too long: {error}")
    theirs.multicast_best_effort(b"perhaps")
    check(theirs.receive(timeout=0.01) is None, "nobody has sent anything")

    def both(call):
        with ThreadPoolExecutor(2) as pool:
            return [end.result() for end in [pool.submit(call, one) for one in (ours, theirs)]]

    check(both(lambda one: one.barrier()) == [[0, 1]] * 2, "barrier")
    check(both(lambda one: one.broadcast(1, b"of %d" % one.rank)) == [b"of 1"] * 2, "broadcast")
    check(both(lambda one: one.reduce(1, [one.rank, 5], "max")) == [None, [1, 5]], "reduce")
    check(both(lambda one: one.all_reduce([0.5, one.rank])) == [[1.0, 1.0]] * 2, "all-reduce")
    check(both(lambda one: one.all_reduce([1 << one.rank], "or", "u32")) == [[3]] * 2, "or")
    everybody = {0: b"of 0", 1: b"of 1"}
    many = [float(number) for number in range(20000)]
    check(both(lambda one: one.all_reduce(many, "max")) == [many] * 2, "all-reduce of many")
    check(both(lambda one: one.gather(0, b"of %d" % one.rank)) == [everybody, None], "gather")
    check(both(lambda one: one.all_gather(b"of %d" % one.rank)) == [everybody] * 2, "all-gather")
    check(both(lambda one: one.scatter(0, {1: b"x"})) == [None, b"x"], "scatter")
    check(both(lambda one: one.scan([one.rank + 1])) == [[1], [3]], "scan")
    error = refusal(fabricast.Refused, lambda: ours.all_reduce([0.5], "and"))
    check(error.reason == "CONTRIBUTION_INVALID", f"bits of floats: {error}")


def switches(ours, theirs):
    """A tree of switches that one member asks for, until it combines for both."""
    most = ours.request_switch_tree()
    check(most >= 8 and theirs.request_switch_tree() == most, f"most bytes: {most}")
    end = time.monotonic() + 60
    with ThreadPoolExecutor(2) as pool:
        while not (ours.combined_by_switches and theirs.combined_by_switches):
            check(time.monotonic() < end, "no switch combines")
            sums = list(pool.map(lambda one: one.all_reduce([one.rank + 1]), (ours, theirs)))
            check(sums == [[3]] * 2, f"sums: {sums}")


def main(socket, node, other):
    error = refusal(fabricast.Unreachable, lambda: fabricast.Client(socket + ".not"))
    check(socket in str(error), f"the path is not named: {error}")
    error = refusal(fabricast.Refused, lambda: fabricast.Client(socket))
    check(error.reason == "FIELD_MISSING", f"several nodes, none named: {error}")

    a = fabricast.Client(socket, "a", node)
    error = refusal(fabricast.Refused, lambda: fabricast.Client(socket, "a", node))
    check(error.reason == "PROCESS_ATTACHED", f"the name is taken: {error}")
    error = refusal(fabricast.Refused, lambda: a.join(""))
    check(error.reason == "NAME_INVALID", f"an empty name: {error}")

    ours = a.join("snakes")
    check(ours.rank == 0, f"rank {ours.rank}")
    watch = ours.watch_members()
    check([member.process for member in next(watch)] == ["a"], "not alone at first")
    error = refusal(fabricast.Refused, ours.request_switch_tree)
    check(error.reason == "NO_SWITCH_TREE", f"a tree for one: {error}")
    b = fabricast.Client(socket, "b", other)
    theirs = b.join("snakes")
    members = next(watch)
    check(members == [(0, node, "a"), (1, other, "b")], f"members: {members}")
    check(theirs.size() == 2, "size")
    talk(ours, theirs)
    switches(ours, theirs)
    b.close()
    check([member.rank for member in next(watch)] == [0], "b has not left")
    refusal(fabricast.Detached, theirs.members)
    ours.leave()
    refusal(fabricast.NotAMember, lambda: next(watch))
    refusal(fabricast.NotAMember, ours.members)
    a.close()
    print("ok")


if __name__ == "__main__":
    check(len(sys.argv) == 4, "usage: members.py SOCKET NODE OTHER_NODE")
    main(*sys.argv[1:])
