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

    Sending, receiving and collective operations take part implicitly; others do not wait for members that do
    not take part. A message is bytes, of at most 1 MiB.

    All participants call the same operations in the same order, and each call waits for all others. A member
    that fails before it has contributed makes an operation fail everywhere, with MembersFailed, or is left out
    if all have passed survivors=True.

    numbers: a list, all int or all float. dtype: i32, i64 (default for int), u32, u64, f32, f64 (default for
    float). reduction: sum, min, max, and for integers also and, or.
    """

    def __init__(self, client, membership):
        self._client = client
        self._part = None
        self.name = membership.group
        self.rank = membership.pn

    def members(self) -> List[Member]:
        """Lists the present members by rank."""
        answer = self._call("ListMembers")
        return _members(answer)

    def size(self) -> int:
        """Counts the present members."""
        return len(self.members())

    def watch_members(self) -> Iterator[List[Member]]:
        """Yields all members by rank: the present ones at once, then all again after every change.

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
        """Takes part from now on, until the process leaves or detaches; call it early to miss no message."""
        self._taken().wait_for(1, None)

    def wait_for(self, count: int, timeout: Optional[float] = None) -> Optional[List[int]]:
        """Waits until `count` members take part; returns their ranks, or None after `timeout` seconds."""
        return self._taken().wait_for(count, timeout)

    def multicast(self, payload: bytes) -> List[int]:
        """Sends a message to all other participants and waits until all have it.

        Returns the ranks that stopped taking part meanwhile; they may have it or not.
        """
        return list(self._send(payload).unknown_pns)

    def multicast_best_effort(self, payload: bytes):
        """Sends a message once, without acknowledgement or retry."""
        self._send(payload, best_effort=True)

    def receive(self, timeout: Optional[float] = None) -> Optional[Message]:
        """Returns the next message of another member, or None after `timeout` seconds."""
        return self._taken().receive(timeout)

    def barrier(self, survivors=False) -> List[int]:
        """Waits until all participants have called it; returns their ranks."""
        return list(self._run("BARRIER", survivors).participants)

    def broadcast(self, source: int, payload: bytes = b"", survivors=False) -> bytes:
        """Returns the payload of the member `source`; that of the others is ignored."""
        mine = payload if self.rank == source else b""
        return self._run("BROADCAST", survivors, peer=source, payload=mine).payload

    def reduce(self, root: int, numbers, reduction="sum", dtype=None, survivors=False):
        """Combines the numbers of all members at the member `root`; returns None at the others."""
        fields = _combining(numbers, reduction, dtype)
        result = self._run("REDUCE", survivors, peer=root, **fields)
        return _numbers(result) if self.rank == root else None

    def all_reduce(self, numbers, reduction="sum", dtype=None, survivors=False) -> list:
        """Combines the numbers of all members; all get the result."""
        return _numbers(self._run("ALL_REDUCE", survivors, **_combining(numbers, reduction, dtype)))

    def gather(self, root: int, payload: bytes, survivors=False) -> Optional[Dict[int, bytes]]:
        """Collects the payloads of all members by rank at the member `root`; None at the others."""
        result = self._run("GATHER", survivors, peer=root, payload=payload)
        return _parts(result) if self.rank == root else None

    def scatter(self, source: int, parts: Optional[Dict[int, bytes]] = None, survivors=False):
        """Returns the part that the member `source` has for this member, or None."""
        mine = parts if parts and self.rank == source else {}
        own = [{"pn": rank, "payload": payload} for rank, payload in mine.items()]
        result = self._run("SCATTER", survivors, peer=source, parts=own)
        return result.payload if result.HasField("payload") else None

    def all_gather(self, payload: bytes, survivors=False) -> Dict[int, bytes]:
        """Collects the payloads of all members by rank, at every member."""
        return _parts(self._run("ALL_GATHER", survivors, payload=payload))

    def scan(self, numbers, reduction="sum", dtype=None, survivors=False) -> list:
        """Combines the numbers of the members up to this one, by rank."""
        return _numbers(self._run("SCAN", survivors, **_combining(numbers, reduction, dtype)))

    def _taken(self):
        if self._part is None:
            self._client._check()
            memory = self._client._shared()
            self._part = Part(self._client._calls, self._client._session, self.name, memory)
            self._client._parts.append(self._part)
        # The agent has registered this member once it names the first participants.
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
