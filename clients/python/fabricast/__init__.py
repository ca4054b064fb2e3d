"""Take part in groups of Fabricast from Python.

A process attaches to the operating agent of its node, over a Unix domain socket, and joins groups by name::

    import fabricast

    with fabricast.Client.from_environment() as client:
        group = client.join("rows/3")
        ranks = group.wait_for(4)
        group.multicast(b"here I am")
        print(group.rank, "of", ranks, "has", group.all_reduce([group.rank], fabricast.MAX))

`fabricast run -n 4 -- python program.py` starts programs with the socket in their environment. Memberships
of a process end with it, however it ends. `fabricast.aio` has the same for asyncio.

Over libfabricast.so, which the wheel contains; otherwise FABRICAST_LIBRARY names it, or the system finds it.
numpy is not needed, and used for its arrays only.
"""

from .client import Client
from .errors import Detached, Error, InvalidArgument, MembersFailed, NotAMember, Refused, Unreachable
from .group import Group, Member, Message
from .numbers import Reduction

SUM = Reduction.SUM
PROD = Reduction.PROD
MIN = Reduction.MIN
MAX = Reduction.MAX
LAND = Reduction.LAND
BAND = Reduction.BAND
LOR = Reduction.LOR
BOR = Reduction.BOR
LXOR = Reduction.LXOR
BXOR = Reduction.BXOR
MINLOC = Reduction.MINLOC
MAXLOC = Reduction.MAXLOC

__all__ = [
    "BAND",
    "BOR",
    "BXOR",
    "Client",
    "Detached",
    "Error",
    "Group",
    "InvalidArgument",
    "LAND",
    "LOR",
    "LXOR",
    "MAX",
    "MAXLOC",
    "MIN",
    "MINLOC",
    "Member",
    "MembersFailed",
    "Message",
    "NotAMember",
    "PROD",
    "Reduction",
    "Refused",
    "SUM",
    "Unreachable",
]
