"""A group that the process is a member of."""

from contextlib import nullcontext
from typing import Dict, Iterator, List, NamedTuple, Optional

import grpc

from .errors import Detached, of_call
from .part import Message, Part


class Member(NamedTuple):
    """One process of a group. Ranks have holes where members have left."""

    rank: int
    node: str
    process: str


class Group:
    """A membership of this process. It ends with `leave` or with the process.

    Sending, receiving and collective operations make the process take part by themselves; nobody waits for
    members that do not. A message is bytes, of at most 1 MiB.

    All members who take part call the same operations in the same order, each of which waits for all others. A
    member that dies before it has contributed makes an operation fail everywhere, with MembersFailed, or is left
    out, if all have said survivors=True.

    numbers: a list, all int or all float; dtype says how wide: i32, i64 (int, unless said), u32, u64, f32, f64
    (float, unless said). reduction: sum, min, max, and for integers and, or.
    """

    def __init__(self, client, membership):
        self._client = client
        self._part = None
        self.name = membership.group
        self.rank = membership.pn

    def members(self) -> List[Member]:
        """The members now, by rank."""
        answer = self._call("ListMembers")
        return _members(answer)

    def size(self) -> int:
        """The number of members now."""
        return len(self.members())

    def watch_members(self) -> Iterator[List[Member]]:
        """All members, by rank: those of now at once, then again after every change.

        Ends with NotAMember when the membership of this process has ended.
        """
        self._client._check()
        calls, session = self._client._calls, self._client._session
        news = calls.stream("WatchMembers", session=session, group=self.name)
        try:
            for answer in news:
                yield _members(answer)
        except grpc.RpcError as error:
            raise of_call(error, self.name) from None
        finally:
            news.cancel()
        raise Detached("the agent has ended the watch")

    def leave(self):
        """Leaves the group; the process stays attached."""
        self._call("LeaveGroup")

    def take_part(self):
        """Takes part from now on, until the process leaves or detaches. Whoever wants to miss nothing does it early."""
        self._taken().wait_for(1, None)

    def wait_for(self, count: int, timeout: Optional[float] = None) -> Optional[List[int]]:
        """Waits until so many take part, this process with them: their ranks, or None if they are not in time."""
        return self._taken().wait_for(count, timeout)

    def multicast(self, payload: bytes) -> List[int]:
        """Sends a message to all others who take part, and waits until all have it.

        Answers the ranks of those who ceased to take part meanwhile: they may have it or not.
        """
        return list(self._send(payload).unknown_pns)

    def multicast_best_effort(self, payload: bytes):
        """Sends a message once, over whatever is there; nobody asks who got it."""
        self._send(payload, best_effort=True)

    def receive(self, timeout: Optional[float] = None) -> Optional[Message]:
        """The next message of another member, or None if there is none in time (in seconds)."""
        return self._taken().receive(timeout)

    def barrier(self, survivors=False) -> List[int]:
        """Waits until all have come; answers who."""
        return list(self._run("BARRIER", survivors).participants)

    def broadcast(self, source: int, payload: bytes = b"", survivors=False) -> bytes:
        """The payload of the member `source`; that of the others is not looked at."""
        mine = payload if self.rank == source else b""
        return self._run("BROADCAST", survivors, peer=source, payload=mine).payload

    def reduce(self, root: int, numbers, reduction="sum", dtype=None, survivors=False):
        """All members' numbers, combined, at the member `root`; None at all others."""
        wish = _combining(numbers, reduction, dtype)
        result = self._run("REDUCE", survivors, peer=root, **wish)
        return _numbers(result) if self.rank == root else None

    def all_reduce(self, numbers, reduction="sum", dtype=None, survivors=False) -> list:
        """All members' numbers, combined."""
        return _numbers(self._run("ALL_REDUCE", survivors, **_combining(numbers, reduction, dtype)))

    def gather(self, root: int, payload: bytes, survivors=False) -> Optional[Dict[int, bytes]]:
        """All members' payloads, by rank, at the member `root`; None at all others."""
        result = self._run("GATHER", survivors, peer=root, payload=payload)
        return _parts(result) if self.rank == root else None

    def scatter(self, source: int, parts: Optional[Dict[int, bytes]] = None, survivors=False):
        """This member's part of what the member `source` has by rank; None if there is none."""
        mine = parts if parts and self.rank == source else {}
        wish = [{"pn": rank, "payload": payload} for rank, payload in mine.items()]
        result = self._run("SCATTER", survivors, peer=source, parts=wish)
        return result.payload if result.HasField("payload") else None

    def all_gather(self, payload: bytes, survivors=False) -> Dict[int, bytes]:
        """All members' payloads, by rank."""
        return _parts(self._run("ALL_GATHER", survivors, payload=payload))

    def scan(self, numbers, reduction="sum", dtype=None, survivors=False) -> list:
        """The numbers of the members up to this one, combined."""
        return _numbers(self._run("SCAN", survivors, **_combining(numbers, reduction, dtype)))

    def _taken(self):
        if self._part is None:
            self._client._check()
            memory = self._client._shared()
            self._part = Part(self._client._calls, self._client._session, self.name, memory)
            self._client._parts.append(self._part)
        # The agent knows of it once it has named the first participants.
        self._part.wait_for(1, None)
        return self._part

    def _run(self, kind, survivors, **fields):
        self._taken()
        policy = "SURVIVORS" if survivors else "FAIL"
        operation = dict(
            fields, kind=f"OPERATION_KIND_{kind}", on_failure=f"FAILURE_POLICY_{policy}"
        )
        return self._through_memory(operation)

    def _send(self, payload, **fields):
        self._taken()
        memory = self._client._shared()
        with memory.lent(payload) if memory else nullcontext() as range:
            where = {"shared_payload": range} if range else {"payload": payload}
            return self._call("SendMessage", None, **where, **fields)

    def _through_memory(self, operation):
        memory, calls = self._client._shared(), self._client._calls
        if not memory:
            return self._call("RunOperation", None, operation=operation).result
        encoded = calls.request("RunOperation", operation=operation).operation.SerializeToString()
        with memory.lent(encoded) as range:
            where = {"shared_operation": range} if range else {"operation": operation}
            answer = self._call("RunOperation", None, **where)
        if answer.HasField("shared_result"):
            encoded = memory.take(answer.shared_result)
            return calls.read_answer("RunOperation", "result", encoded)
        return answer.result

    def _call(self, method, *timeout, **fields):
        return self._client._call(method, self.name, *timeout, group=self.name, **fields)


def _members(answer):
    return [Member(member.pn, member.node, member.process) for member in answer.members]


def _combining(numbers, reduction, dtype):
    numbers = list(numbers)
    if dtype is None:
        dtype = "f64" if any(isinstance(number, float) for number in numbers) else "i64"
    return {
        "reduction": f"REDUCTION_{reduction.upper()}",
        "numbers": {dtype: {"numbers": numbers}},
    }


def _numbers(result):
    return list(getattr(result.numbers, result.numbers.WhichOneof("kind")).numbers)


def _parts(result):
    return {part.pn: part.payload for part in result.parts}
