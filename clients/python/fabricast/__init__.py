"""Take part in groups of Fabricast from Python.

A process attaches to the operating agent of its node, over a Unix domain socket, and joins groups by name::

    import fabricast

    with fabricast.Client.from_environment() as client:
        group = client.join("rows/3")
        ranks = group.wait_for(4)
        group.multicast(b"here I am")
        print(group.rank, "of", ranks, "has", group.all_reduce([group.rank]))

`fabricast run -n 4 -- python program.py` starts programs with the socket in their environment. Memberships
of a process end with it, however it ends.

Needs the packages grpcio, grpcio-reflection and protobuf. There is no generated code: the agent serves the
descriptors of its messages.
"""

from .client import Client
from .errors import Detached, Error, MembersFailed, NotAMember, Refused, Unreachable
from .group import Group, Member
from .part import Message

__all__ = [
    "Client",
    "Detached",
    "Error",
    "Group",
    "Member",
    "MembersFailed",
    "Message",
    "NotAMember",
    "Refused",
    "Unreachable",
]
