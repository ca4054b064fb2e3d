"""Take part in groups of Fabricast from Python.

A process attaches to the operating agent of its node, over a Unix domain socket, and joins groups by name::

    import fabricast

    with fabricast.Client.from_environment() as client:
        group = client.join("rows/3")
        print(group.rank, "of", group.size())

`fabricast run -n 4 -- python program.py` starts programs that find their agent by themselves. What a
process is a member of ends with the process, however that ends.

Needs the packages grpcio, grpcio-reflection and protobuf; there is no generated code, as the agent describes
its own messages.
"""

from .client import Client, Group, Member
from .errors import Detached, Error, NotAMember, Refused, Unreachable

__all__ = [
    "Client",
    "Detached",
    "Error",
    "Group",
    "Member",
    "NotAMember",
    "Refused",
    "Unreachable",
]
