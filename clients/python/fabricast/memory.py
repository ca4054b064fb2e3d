"""Memory shared with the agent, for long payloads, which are slow through the socket.

Without shared memory, or without room in it, payloads go through the socket.
"""

import os
import queue
import stat
import threading
from contextlib import contextmanager
from typing import Optional

import grpc

from .errors import Error

# Default of share_from, in bytes.
SHARE_FROM = 64 << 10
# Timeout for the offer of the agent, which comes at once if there is any.
OFFER_TIMEOUT_S = 5


class Memory:
    """A file in memory: this process writes the first half of it, the agent the second."""

    @classmethod
    def share(cls, calls, session, share_from) -> Optional["Memory"]:
        """Shares memory with the agent; None if it has none, or this process cannot open it."""
        if share_from is None:
            return None
        asks = queue.SimpleQueue()
        ask = lambda **fields: asks.put(calls.request("ShareMemory", **fields))
        try:
            ask(session=session, least_bytes=share_from)
            answers = calls.stream_of("ShareMemory", iter(asks.get, None))
            late = threading.Timer(OFFER_TIMEOUT_S, answers.cancel)
            late.daemon = True
            late.start()
            try:
                offered = next(answers).memory
                try:
                    file = _open(offered)
                except OSError as error:
                    ask(failure=str(error))
                    next(answers, None)
                    return None
                ask(opened=True)
                next(answers)
            finally:
                late.cancel()
        except (grpc.RpcError, StopIteration, KeyError, ValueError):
            asks.put(None)
            return None
        return cls(file, offered.half_bytes, share_from, (asks, ask, answers))

    def __init__(self, file, half, share_from, call):
        self._file, self._half, self._share_from = file, half, share_from
        self._asks, self._ask, self._answers = call
        self._lock = threading.Lock()
        self._taken = {}  # length by offset
        self._parts = 0
        self._ended = False
        threading.Thread(target=self._read, name="fabricast-memory", daemon=True).start()

    def close(self):
        """Ends the sharing; the file is closed after the last call that uses it."""
        self._ended = True
        self._answers.cancel()
        self._asks.put(None)

    def begin_part(self) -> int:
        """Allots a number for a call of TakePart."""
        with self._lock:
            self._parts += 1
            return self._parts

    @contextmanager
    def lent(self, payload: bytes):
        """Yields a range that holds the payload, or None if it is too short or there is no room."""
        offset = self._take(len(payload))
        if offset is None:
            yield None
            return
        try:
            written = os.pwrite(self._file, payload, offset)
        except OSError:
            written = -1
        if written != len(payload):
            self._give_back(offset)
            yield None
            return
        try:
            yield {"offset_bytes": offset, "length_bytes": len(payload)}
        except Error:
            self._give_back(offset)
            raise
        # After any other exception the agent might still read, so the range is not reused.
        self._give_back(offset)

    def take(self, range) -> bytes:
        """Copies a range lent by the agent and returns the range to it."""
        payload = os.pread(self._file, range.length_bytes, range.offset_bytes)
        self._ask(read=[range.offset_bytes])
        if len(payload) != range.length_bytes:
            raise ValueError("the agent's memory ends early")
        return payload

    def _take(self, length):
        if length < self._share_from or not length or self._ended:
            return None
        with self._lock:
            offset = 0
            for start in sorted(self._taken):
                if start - offset >= length:
                    break
                offset = start + self._taken[start]
            if offset + length > self._half:
                return None
            self._taken[offset] = length
            return offset

    def _give_back(self, offset):
        with self._lock:
            del self._taken[offset]

    def _read(self):
        try:
            for _ in self._answers:
                pass
        except (grpc.RpcError, ValueError):
            pass
        self._ended = True

    def __del__(self):
        os.close(self._file)


def _open(offered):
    """Opens the file that the agent has created, and no other."""
    file = os.open(offered.path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    found = os.fstat(file)
    same = (found.st_dev, found.st_ino) == (offered.device, offered.inode)
    if not same or not stat.S_ISREG(found.st_mode):
        os.close(file)
        raise OSError(f"{offered.path} is not the file that the agent created")
    return file
