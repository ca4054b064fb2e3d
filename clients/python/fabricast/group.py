"""A group that the process is a member of."""

import ctypes
import threading
import time
from collections import deque
from ctypes import POINTER, c_size_t, c_void_p
from typing import (
    TYPE_CHECKING, Any, Callable, Deque, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple, Union,
)

from .bindings import (
    SLICE_MS, Code, Handle, MemberList, MessageStruct, PayloadList, PayloadStruct, Request, check, load,
)
from .numbers import Contribution, Numbers, Payload, Reduction, payload_of, reduction_number

if TYPE_CHECKING:
    from .client import Client

# Starts an operation, with the library, the group and a place for the request.
Start = Callable[[ctypes.CDLL, c_void_p, Any], int]

_SURVIVORS = 1
_NO_TIME = 0


class Member(NamedTuple):
    """One process of a group. Ranks have holes where members have left."""

    rank: int
    node: str
    process: str


class Message(NamedTuple):
    """A message of another member; sender is its rank."""

    sender: int
    payload: bytes


class Group:
    """A membership of this process. It ends with `leave` or with the process.

    Sending, receiving and collective operations take part implicitly; others do not wait for members that do
    not take part. A message has at most 1 MiB; contributions to operations may have any length.

    All participants call the same operations in the same order, and each call waits for all others. A member
    that fails before it has contributed makes an operation fail everywhere, with MembersFailed, or is left out
    if all have passed survivors=True.

    payload: bytes, or an object with the buffer protocol. numbers: a list or tuple of int or float, or an
    array.array, memoryview or array of numpy, whose type the result has. dtype: i32, i64 (default for int),
    u32, u64, f32, f64 (default for float), or the name or type of numpy. reduction: fabricast.SUM or another,
    or its name.
    """

    def __init__(self, client: "Client", handle: Handle) -> None:
        self._client, self._handle = client, handle
        self._policy = threading.Lock()
        self._fetched: Deque[Message] = deque()
        self._fetching = threading.Lock()
        with handle as group:
            library = load()
            self.name: str = library.fabricast_group_name(group).decode()
            self.rank: int = library.fabricast_group_rank(group)

    def __repr__(self) -> str:
        return f"<fabricast.Group {self.name!r} rank={self.rank} process={self._client.process!r}>"

    @property
    def path(self) -> str:
        """Path of messages and operations now: agent, direct, or direct with multicast."""
        with self._handle as group:
            path: bytes = load().fabricast_path(group)
            return path.decode()

    @property
    def combined_by_switches(self) -> int:
        """Number of operations that switches have combined since this process takes part."""
        with self._handle as group:
            return int(load().fabricast_combined_by_switches(group))

    def members(self) -> List[Member]:
        """Lists the present members by rank."""
        found = POINTER(MemberList)()
        with self._handle as group:
            check(load().fabricast_members(group, ctypes.byref(found)))
        return _members(found)

    def size(self) -> int:
        """Counts the present members."""
        return len(self.members())

    def watch_members(self, timeout: Optional[float] = None) -> Iterator[List[Member]]:
        """Yields all members by rank: the present ones at once, then all again after every change.

        Ends with NotAMember when the membership of this process has ended, and without an error if nothing
        has changed for `timeout` seconds.
        """
        pointer = c_void_p()
        with self._handle as group:
            check(load().fabricast_watch_members(group, ctypes.byref(pointer)))
        handle = Handle("watch", pointer)
        self._client._add(handle)
        try:
            while True:
                found = POINTER(MemberList)()
                wait = lambda watch, ms: load().fabricast_watch_next(watch, ms, ctypes.byref(found))
                if not _within(handle, timeout, wait):
                    return
                yield _members(found)
        finally:
            self._client._close(handle)

    def leave(self) -> None:
        """Leaves the group; the process stays attached."""
        with self._handle as group:
            check(load().fabricast_leave(group))

    def take_part(self) -> None:
        """Takes part from now on, until the process leaves or detaches; call it early to miss no message."""
        with self._handle as group:
            check(load().fabricast_take_part(group))

    def participants(self) -> List[int]:
        """Lists the ranks that take part, as far as this process knows: every operation includes them."""
        count, capacity = c_size_t(), 64
        with self._handle as group:
            while True:
                ranks = (ctypes.c_uint32 * capacity)()
                code = load().fabricast_participants(group, ranks, capacity, ctypes.byref(count))
                if count.value <= capacity:
                    check(code)
                    return list(ranks[: count.value])
                capacity = count.value

    def wait_for(self, count: int, timeout: Optional[float] = None) -> Optional[List[int]]:
        """Waits until `count` members take part; returns their ranks, or None after `timeout` seconds."""
        wait = lambda group, ms: load().fabricast_wait_for(group, count, ms)
        return self.participants() if _within(self._handle, timeout, wait) else None

    def request_switch_tree(self) -> int:
        """Asks that switches combine the barriers, broadcasts and all-reduces of integers of the members.

        Ask once all have joined; any of them may, and all that ask get the same tree of switches. Operations
        use it some seconds later, and `combined_by_switches` counts them. It ends when a member joins or
        leaves: ask again then. Raises Refused, with reason NO_SWITCH_TREE, if no switch has an entry left.

        Returns the bytes of the longest contribution that switches combine, at eight for each number.
        """
        most = ctypes.c_uint32()
        with self._handle as group:
            check(load().fabricast_ask_for_switch_tree(group, ctypes.byref(most)))
        return most.value

    def multicast(self, payload: Payload) -> List[int]:
        """Sends a message to all other participants and waits until all have it.

        Returns the ranks that stopped taking part meanwhile; they may have it or not.
        """
        return self._start_multicast(payload).wait()

    def multicast_best_effort(self, payload: Payload) -> None:
        """Sends a message once, without acknowledgement or retry."""
        sent, length = payload_of(payload)
        with self._handle as group:
            check(load().fabricast_multicast_best_effort(group, sent, length))

    def receive(self, timeout: Optional[float] = None) -> Optional[Message]:
        """Returns the next message of another member, or None after `timeout` seconds."""
        while self._fetch(timeout, lambda: False):
            try:
                return self._fetched.popleft()
            except IndexError:
                pass  # another thread took it
        return None

    def barrier(self, survivors: bool = False) -> List[int]:
        """Waits until all participants have called it; returns their ranks."""
        return self._start_barrier(survivors).wait()

    def broadcast(self, source: int, payload: Payload = b"", survivors: bool = False) -> bytes:
        """Returns the payload of the member `source`; that of the others is ignored."""
        return self._start_broadcast(source, payload, survivors).wait()

    def reduce(
        self,
        root: int,
        numbers: Numbers,
        reduction: Union[Reduction, str] = Reduction.SUM,
        dtype: Optional[Any] = None,
        survivors: bool = False,
    ) -> Optional[Numbers]:
        """Combines the numbers of all members at the member `root`; returns None at the others."""
        return self._start_reduce(root, numbers, reduction, dtype, survivors).wait()

    def all_reduce(
        self,
        numbers: Numbers,
        reduction: Union[Reduction, str] = Reduction.SUM,
        dtype: Optional[Any] = None,
        survivors: bool = False,
    ) -> Numbers:
        """Combines the numbers of all members; all get the result."""
        return self._start_all_reduce(numbers, reduction, dtype, survivors).wait()

    def gather(
        self, root: int, payload: Payload, survivors: bool = False
    ) -> Optional[Dict[int, bytes]]:
        """Collects the payloads of all members by rank at the member `root`; None at the others."""
        return self._start_gather(root, payload, survivors).wait()

    def scatter(
        self, source: int, parts: Optional[Mapping[int, Payload]] = None, survivors: bool = False
    ) -> Optional[bytes]:
        """Returns the part that the member `source` has for this member, or None."""
        return self._start_scatter(source, parts, survivors).wait()

    def all_gather(self, payload: Payload, survivors: bool = False) -> Dict[int, bytes]:
        """Collects the payloads of all members by rank, at every member."""
        return self._start_all_gather(payload, survivors).wait()

    def scan(
        self,
        numbers: Numbers,
        reduction: Union[Reduction, str] = Reduction.SUM,
        dtype: Optional[Any] = None,
        survivors: bool = False,
    ) -> Numbers:
        """Combines the numbers of the members up to this one, by rank."""
        return self._start_scan(numbers, reduction, dtype, survivors).wait()

    def _fetch(self, timeout: Optional[float], is_cancelled: Callable[[], bool]) -> bool:
        """Waits until a message is in the queue of this object; returns False if none came.

        One thread at a time waits in the library: a message that comes to a thread whose call was cancelled
        is seen by the next one.
        """
        wait = lambda group, ms: self._fetch_once(group, ms)
        return _within(self._handle, timeout, wait, is_cancelled)

    def _fetch_once(self, group: c_void_p, wait_ms: int) -> int:
        with self._fetching:
            if self._fetched:
                return Code.OK
            found = POINTER(MessageStruct)()
            code: int = load().fabricast_receive(group, wait_ms, ctypes.byref(found))
            if code == Code.OK:
                message = found.contents
                payload = ctypes.string_at(message.payload, message.length)
                self._fetched.append(Message(message.sender, payload))
                load().fabricast_message_free(found)
            return code

    def _start_multicast(self, payload: Payload) -> "Request[List[int]]":
        start, found = _listing("fabricast_start_multicast_list", payload_of(payload))
        return Request(self._handle, start, lambda: list(found()))

    def _start_barrier(self, survivors: bool) -> "Request[List[int]]":
        start, found = _listing("fabricast_start_barrier_list", ())
        return self._start(survivors, start, lambda: list(found()))

    def _start_broadcast(
        self, source: int, payload: Payload, survivors: bool
    ) -> "Request[bytes]":
        sent = payload_of(payload if self.rank == source else b"")
        start, found = _listing("fabricast_start_broadcast_list", (source, *sent))
        return self._start(survivors, start, lambda: found()[source])

    def _start_gather(
        self, root: int, payload: Payload, survivors: bool
    ) -> "Request[Optional[Dict[int, bytes]]]":
        start, found = _listing("fabricast_start_gather", (root, *payload_of(payload)))
        return self._start(survivors, start, lambda: found() if self.rank == root else None)

    def _start_all_gather(
        self, payload: Payload, survivors: bool
    ) -> "Request[Dict[int, bytes]]":
        start, found = _listing("fabricast_start_all_gather_list", payload_of(payload))
        return self._start(survivors, start, found)

    def _start_scatter(
        self, source: int, parts: Optional[Mapping[int, Payload]], survivors: bool
    ) -> "Request[Optional[bytes]]":
        mine = dict(parts) if parts and self.rank == source else {}
        kept = [payload_of(payload) for payload in mine.values()]
        wire = (PayloadStruct * len(mine))(
            *(
                PayloadStruct(rank, length, ctypes.cast(sent, c_void_p))
                for rank, (sent, length) in zip(mine, kept)
            )
        )
        start, found = _listing("fabricast_start_scatter", (source, wire, len(mine)))
        return self._start(survivors, start, lambda: found().get(self.rank))

    def _start_reduce(
        self,
        root: int,
        numbers: Numbers,
        reduction: Union[Reduction, str],
        dtype: Optional[Any],
        survivors: bool,
    ) -> "Request[Optional[Numbers]]":
        start, it = _combining("fabricast_start_reduce", (root,), numbers, reduction, dtype)
        return self._start(survivors, start, lambda: it.result() if self.rank == root else None)

    def _start_all_reduce(
        self,
        numbers: Numbers,
        reduction: Union[Reduction, str],
        dtype: Optional[Any],
        survivors: bool,
    ) -> "Request[Numbers]":
        start, it = _combining("fabricast_start_all_reduce", (), numbers, reduction, dtype)
        return self._start(survivors, start, it.result)

    def _start_scan(
        self,
        numbers: Numbers,
        reduction: Union[Reduction, str],
        dtype: Optional[Any],
        survivors: bool,
    ) -> "Request[Numbers]":
        start, it = _combining("fabricast_start_scan", (), numbers, reduction, dtype)
        return self._start(survivors, start, it.result)

    def _start(self, survivors: bool, start: Start, result: Any) -> "Request[Any]":
        def with_policy(library: ctypes.CDLL, group: c_void_p, place: Any) -> int:
            check(library.fabricast_set_failure_policy(group, _SURVIVORS if survivors else 0))
            return start(library, group, place)

        with self._policy:
            return Request(self._handle, with_policy, result)


def _listing(
    name: str, arguments: Tuple[Any, ...]
) -> Tuple[Start, Callable[[], Dict[int, bytes]]]:
    """A function of the library that gives payloads, and the payloads once it has ended."""
    found = POINTER(PayloadList)()

    def start(library: ctypes.CDLL, group: c_void_p, place: Any) -> int:
        code: int = getattr(library, name)(group, *arguments, ctypes.byref(found), place)
        return code

    return start, lambda: _payloads(found)


def _combining(
    name: str,
    arguments: Tuple[Any, ...],
    numbers: Numbers,
    reduction: Union[Reduction, str],
    dtype: Optional[Any],
) -> Tuple[Start, Contribution]:
    """A function of the library that combines numbers, and the place of its result."""
    how, it = reduction_number(reduction), Contribution(numbers, dtype)

    def start(library: ctypes.CDLL, group: c_void_p, place: Any) -> int:
        call = getattr(library, name)
        code: int = call(group, *arguments, how, it.kind, it.sent, it.place, it.count, place)
        return code

    return start, it


def _within(
    handle: Handle,
    timeout: Optional[float],
    wait: Callable[[c_void_p, int], int],
    is_cancelled: Callable[[], bool] = lambda: False,
) -> bool:
    """Calls a function that waits until it succeeds; returns False after `timeout` seconds.

    wait: waits for so many milliseconds.
    """
    end = None if timeout is None else time.monotonic() + timeout
    with handle as pointer:
        while True:
            left = SLICE_MS if end is None else int((end - time.monotonic()) * 1000)
            code = wait(pointer, max(_NO_TIME, min(left, SLICE_MS)))
            if code != Code.TIMEOUT:
                check(code)
                return True
            handle.check_open()
            if left <= 0 or is_cancelled():
                return False


def _members(found: Any) -> List[Member]:
    try:
        every = (found.contents.members[at] for at in range(found.contents.count))
        return [Member(one.rank, one.node.decode(), one.process.decode()) for one in every]
    finally:
        load().fabricast_member_list_free(found)


def _payloads(found: Any) -> Dict[int, bytes]:
    if not found:
        return {}
    try:
        every = (found.contents.payloads[at] for at in range(found.contents.count))
        return {one.rank: ctypes.string_at(one.payload, one.length) for one in every}
    finally:
        load().fabricast_payload_list_free(found)
