"""The same for asyncio: `fabricast.aio.Client` and its groups.

    async with await fabricast.aio.Client.from_environment() as client:
        group = await client.join("rows/3")
        await group.wait_for(4)
        print(await group.all_reduce([group.rank]))

Operations run in the order in which their coroutines began to run. An operation whose task is cancelled goes
on, because the other members count on it; its result is dropped. A cancelled `receive` loses no message.
"""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, AsyncIterator, Callable, Dict, List, Mapping, Optional, TypeVar, Union

from . import client as blocking
from .group import Group as BlockingGroup
from .group import Member, Message
from .bindings import Request
from .numbers import Numbers, Payload, Reduction

# Calls that may wait at once; each has a thread while it waits.
WAITING = 1024

T = TypeVar("T")


class Client:
    """A process attached to the operating agent of its node; see `fabricast.Client`."""

    def __init__(self, client: blocking.Client, threads: ThreadPoolExecutor) -> None:
        self._client, self._threads = client, threads
        self.process, self.node, self.socket = client.process, client.node, client.socket

    def __repr__(self) -> str:
        return f"<fabricast.aio.Client {self.process!r} on {self.node!r} at {self.socket!r}>"

    @classmethod
    async def attach(
        cls, socket: str, process: Optional[str] = None, node: Optional[str] = None
    ) -> "Client":
        """Attaches to the agent at a socket."""
        return await cls._of(lambda: blocking.Client(socket, process, node))

    @classmethod
    async def from_environment(cls) -> "Client":
        """Attaches with the settings FABRICAST_SOCKET, FABRICAST_PROCESS and FABRICAST_NODE."""
        return await cls._of(blocking.Client.from_environment)

    async def join(self, group: str) -> "Group":
        """Joins a group, which is created if it does not exist; a member gets its existing membership."""
        return Group(await _run(self._threads, lambda: self._client.join(group)), self._threads)

    async def close(self) -> None:
        """Detaches: the process is taken out of every group it is in."""
        await _run(self._threads, self._client.close)
        self._threads.shutdown(wait=False)

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @classmethod
    async def _of(cls, attach: Callable[[], blocking.Client]) -> "Client":
        threads = ThreadPoolExecutor(WAITING, thread_name_prefix="fabricast")
        return cls(await _run(threads, attach), threads)


class Group:
    """A membership of this process; see `fabricast.Group`."""

    def __init__(self, group: BlockingGroup, threads: ThreadPoolExecutor) -> None:
        self._group, self._threads = group, threads
        self.name, self.rank = group.name, group.rank

    def __repr__(self) -> str:
        return repr(self._group).replace("fabricast.Group", "fabricast.aio.Group", 1)

    @property
    def path(self) -> str:
        """Path of messages and operations now: agent, direct, or direct with multicast."""
        return self._group.path

    @property
    def combined_by_switches(self) -> int:
        """Number of operations that switches have combined since this process takes part."""
        return self._group.combined_by_switches

    async def members(self) -> List[Member]:
        """Lists the present members by rank."""
        return await self._do(self._group.members)

    async def size(self) -> int:
        """Counts the present members."""
        return await self._do(self._group.size)

    async def watch_members(self, timeout: Optional[float] = None) -> AsyncIterator[List[Member]]:
        """Yields all members by rank: the present ones at once, then all again after every change."""
        changes = self._group.watch_members(timeout)
        end: List[Member] = []
        try:
            while True:
                members = await self._do(lambda: next(changes, end))
                if members is end:
                    return
                yield members
        finally:
            close = getattr(changes, "close")
            close()

    async def leave(self) -> None:
        """Leaves the group; the process stays attached."""
        await self._do(self._group.leave)

    async def take_part(self) -> None:
        """Takes part from now on, until the process leaves or detaches."""
        await self._do(self._group.take_part)

    async def participants(self) -> List[int]:
        """Lists the ranks that take part, as far as this process knows."""
        return await self._do(self._group.participants)

    async def wait_for(self, count: int, timeout: Optional[float] = None) -> Optional[List[int]]:
        """Waits until `count` members take part; returns their ranks, or None after `timeout` seconds."""
        return await self._do(lambda: self._group.wait_for(count, timeout))

    async def request_switch_tree(self) -> int:
        """Asks that switches combine operations of the present members; see `fabricast.Group`."""
        return await self._do(self._group.request_switch_tree)

    async def multicast(self, payload: Payload) -> List[int]:
        """Sends a message to all other participants and waits until all have it."""
        return await self._end(self._group._start_multicast(payload))

    async def multicast_best_effort(self, payload: Payload) -> None:
        """Sends a message once, without acknowledgement or retry."""
        await self._do(lambda: self._group.multicast_best_effort(payload))

    async def receive(self, timeout: Optional[float] = None) -> Optional[Message]:
        """Returns the next message of another member, or None after `timeout` seconds."""
        cancelled = threading.Event()

        try:
            # The thread puts a message into the queue of the group, where it stays if this is cancelled.
            while await self._do(lambda: self._group._fetch(timeout, cancelled.is_set)):
                try:
                    return self._group._fetched.popleft()
                except IndexError:
                    pass  # another task took it
            return None
        finally:
            cancelled.set()

    async def barrier(self, survivors: bool = False) -> List[int]:
        """Waits until all participants have called it; returns their ranks."""
        return await self._end(self._group._start_barrier(survivors))

    async def broadcast(
        self, source: int, payload: Payload = b"", survivors: bool = False
    ) -> bytes:
        """Returns the payload of the member `source`; that of the others is ignored."""
        return await self._end(self._group._start_broadcast(source, payload, survivors))

    async def reduce(
        self,
        root: int,
        numbers: Numbers,
        reduction: Union[Reduction, str] = Reduction.SUM,
        dtype: Optional[Any] = None,
        survivors: bool = False,
    ) -> Optional[Numbers]:
        """Combines the numbers of all members at the member `root`; returns None at the others."""
        started = self._group._start_reduce(root, numbers, reduction, dtype, survivors)
        return await self._end(started)

    async def all_reduce(
        self,
        numbers: Numbers,
        reduction: Union[Reduction, str] = Reduction.SUM,
        dtype: Optional[Any] = None,
        survivors: bool = False,
    ) -> Numbers:
        """Combines the numbers of all members; all get the result."""
        started = self._group._start_all_reduce(numbers, reduction, dtype, survivors)
        return await self._end(started)

    async def gather(
        self, root: int, payload: Payload, survivors: bool = False
    ) -> Optional[Dict[int, bytes]]:
        """Collects the payloads of all members by rank at the member `root`; None at the others."""
        return await self._end(self._group._start_gather(root, payload, survivors))

    async def scatter(
        self, source: int, parts: Optional[Mapping[int, Payload]] = None, survivors: bool = False
    ) -> Optional[bytes]:
        """Returns the part that the member `source` has for this member, or None."""
        return await self._end(self._group._start_scatter(source, parts, survivors))

    async def all_gather(self, payload: Payload, survivors: bool = False) -> Dict[int, bytes]:
        """Collects the payloads of all members by rank, at every member."""
        return await self._end(self._group._start_all_gather(payload, survivors))

    async def scan(
        self,
        numbers: Numbers,
        reduction: Union[Reduction, str] = Reduction.SUM,
        dtype: Optional[Any] = None,
        survivors: bool = False,
    ) -> Numbers:
        """Combines the numbers of the members up to this one, by rank."""
        return await self._end(self._group._start_scan(numbers, reduction, dtype, survivors))

    async def _end(self, started: "Request[T]") -> T:
        return await self._do(started.wait)

    async def _do(self, call: Callable[[], T]) -> T:
        return await _run(self._threads, call)


async def _run(threads: ThreadPoolExecutor, call: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(threads, call)
