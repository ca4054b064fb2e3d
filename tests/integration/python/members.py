"""Uses the package `fabricast` at an agent that serves several nodes, as tests start it.

    python members.py SOCKET NODE OTHER_NODE

Ends with 0 if everything was as it must be, otherwise with the reason on standard error.
"""

import sys

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
    b = fabricast.Client(socket, "b", other)
    theirs = b.join("snakes")
    members = next(watch)
    check(members == [(0, node, "a"), (1, other, "b")], f"members: {members}")
    check(theirs.size() == 2, "size")
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
