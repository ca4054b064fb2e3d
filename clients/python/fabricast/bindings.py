"""The functions of libfabricast.so, as clients/c/include/fabricast.h declares them."""

import ctypes
import ctypes.util
import os
import threading
from ctypes import POINTER, Structure, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any, Callable, Generic, List, Optional, TypeVar

from .errors import Detached, Error, InvalidArgument, MembersFailed, NotAMember, Refused, Unreachable

# Variable with the path of the library.
VARIABLE = "FABRICAST_LIBRARY"
# Name of the library with the number of its interface.
NAME = "libfabricast.so.0"
# Time after which a call that waits lets Python handle signals.
SLICE_MS = 100

T = TypeVar("T")


class Code:
    """Results of functions that are handled here."""

    OK = 0
    INVALID_ARGUMENT = 1
    NO_SOCKET = 2
    UNREACHABLE = 3
    DETACHED = 4
    NOT_A_MEMBER = 5
    MEMBERS_FAILED = 6
    REFUSED = 7
    TIMEOUT = 8


class MessageStruct(Structure):
    _fields_ = [("sender", c_uint32), ("length", c_size_t), ("payload", c_void_p)]


class MemberStruct(Structure):
    _fields_ = [("rank", c_uint32), ("node", c_char_p), ("process", c_char_p)]


class MemberList(Structure):
    _fields_ = [("count", c_size_t), ("members", POINTER(MemberStruct))]


class PayloadStruct(Structure):
    _fields_ = [("rank", c_uint32), ("length", c_size_t), ("payload", c_void_p)]


class PayloadList(Structure):
    _fields_ = [("count", c_size_t), ("payloads", POINTER(PayloadStruct))]


_HANDLE, _PLACE = c_void_p, POINTER(c_void_p)
_NUMBERS = [c_int, c_int, c_void_p, c_void_p, c_size_t]
_BYTES = [c_void_p, c_size_t]
_SIGNATURES = {
    "fabricast_attach": [c_char_p, c_char_p, c_char_p, _PLACE],
    "fabricast_join": [_HANDLE, c_char_p, _PLACE],
    "fabricast_leave": [_HANDLE],
    "fabricast_take_part": [_HANDLE],
    "fabricast_wait_for": [_HANDLE, c_size_t, c_int],
    "fabricast_participants": [_HANDLE, POINTER(c_uint32), c_size_t, POINTER(c_size_t)],
    "fabricast_members": [_HANDLE, POINTER(POINTER(MemberList))],
    "fabricast_watch_members": [_HANDLE, _PLACE],
    "fabricast_watch_next": [_HANDLE, c_int, POINTER(POINTER(MemberList))],
    "fabricast_start_multicast_list": [_HANDLE, *_BYTES, POINTER(POINTER(PayloadList)), _PLACE],
    "fabricast_multicast_best_effort": [_HANDLE, *_BYTES],
    "fabricast_receive": [_HANDLE, c_int, POINTER(POINTER(MessageStruct))],
    "fabricast_set_failure_policy": [_HANDLE, c_int],
    "fabricast_ask_for_switch_tree": [_HANDLE, POINTER(c_uint32)],
    "fabricast_start_barrier_list": [_HANDLE, POINTER(POINTER(PayloadList)), _PLACE],
    "fabricast_start_broadcast_list": [
        _HANDLE, c_uint32, *_BYTES, POINTER(POINTER(PayloadList)), _PLACE,
    ],
    "fabricast_start_gather": [_HANDLE, c_uint32, *_BYTES, POINTER(POINTER(PayloadList)), _PLACE],
    "fabricast_start_all_gather_list": [_HANDLE, *_BYTES, POINTER(POINTER(PayloadList)), _PLACE],
    "fabricast_start_scatter": [
        _HANDLE, c_uint32, POINTER(PayloadStruct), c_size_t, POINTER(POINTER(PayloadList)), _PLACE,
    ],
    "fabricast_start_reduce": [_HANDLE, c_uint32, *_NUMBERS, _PLACE],
    "fabricast_start_all_reduce": [_HANDLE, *_NUMBERS, _PLACE],
    "fabricast_start_scan": [_HANDLE, *_NUMBERS, _PLACE],
    "fabricast_request_wait": [_HANDLE, c_int],
    "fabricast_error_failed_ranks": [POINTER(c_uint32), c_size_t, POINTER(c_size_t)],
}
_FREES = ["client", "group", "watch", "request", "message", "member_list", "payload_list"]
_lock = threading.Lock()
_loaded: Optional[ctypes.CDLL] = None


def load() -> ctypes.CDLL:
    """Loads the library on first use."""
    global _loaded
    with _lock:
        if _loaded is None:
            _loaded = _open()
        return _loaded


def _open() -> ctypes.CDLL:
    beside = Path(__file__).with_name(NAME)
    path = os.environ.get(VARIABLE) or (str(beside) if beside.exists() else NAME)
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        where = f"{VARIABLE} names it, if it is not where the system looks"
        raise Unreachable(f"cannot load {path}: {error}; {where}") from None
    for name, arguments in _SIGNATURES.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, c_int
    for kind in _FREES:
        function = getattr(library, f"fabricast_{kind}_free")
        function.argtypes, function.restype = [c_void_p], None
    texts = {
        "fabricast_error_text": [],
        "fabricast_error_reason": [],
        "fabricast_group_name": [_HANDLE],
        "fabricast_client_process": [_HANDLE],
        "fabricast_client_node": [_HANDLE],
        "fabricast_path": [_HANDLE],
    }
    for name, arguments in texts.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, c_char_p
    library.fabricast_group_rank.argtypes = [_HANDLE]
    library.fabricast_group_rank.restype = c_uint32
    library.fabricast_combined_by_switches.argtypes = [_HANDLE]
    library.fabricast_combined_by_switches.restype = c_uint64
    return library


def check(code: int) -> None:
    """Raises the error of a function that has failed on this thread."""
    if code == Code.OK:
        return
    library = load()
    text = library.fabricast_error_text().decode()
    if code == Code.MEMBERS_FAILED:
        raise MembersFailed(_failed_ranks(library), text)
    if code == Code.REFUSED:
        raise Refused(library.fabricast_error_reason().decode(), text)
    kinds = {
        Code.INVALID_ARGUMENT: InvalidArgument,
        Code.NO_SOCKET: Unreachable,
        Code.UNREACHABLE: Unreachable,
        Code.DETACHED: Detached,
        Code.NOT_A_MEMBER: NotAMember,
    }
    raise kinds.get(code, Error)(text)


def _failed_ranks(library: ctypes.CDLL) -> List[int]:
    count = c_size_t()
    library.fabricast_error_failed_ranks(None, 0, ctypes.byref(count))
    ranks = (c_uint32 * count.value)()
    library.fabricast_error_failed_ranks(ranks, count.value, ctypes.byref(count))
    return list(ranks)


class Handle:
    """A handle of the library. It is freed when it is closed and no thread uses it any more."""

    def __init__(self, kind: str, pointer: c_void_p) -> None:
        self._free: Callable[[c_void_p], None] = getattr(load(), f"fabricast_{kind}_free")
        self._pointer = pointer
        self._lock = threading.Lock()
        self._users = 0
        self._closed = False

    def check_open(self) -> None:
        if self._closed:
            raise Detached("the process is not attached any more: the client is closed")

    def close(self) -> None:
        with self._lock:
            was_closed, self._closed = self._closed, True
            free = not was_closed and self._users == 0
        if free:
            self._free(self._pointer)

    def __enter__(self) -> c_void_p:
        with self._lock:
            self.check_open()
            self._users += 1
            return self._pointer

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            free = self._closed and self._users == 0
        if free:
            self._free(self._pointer)


class Request(Generic[T]):
    """An operation that was started. Freed, it goes on: the other members count on it."""

    def __init__(
        self,
        handle: Handle,
        start: Callable[[ctypes.CDLL, c_void_p, Any], int],
        result: Callable[[], T],
    ) -> None:
        """start: starts it with the group and a place for the request; result: reads its result."""
        self._handle, self._result = handle, result
        self._request = c_void_p()
        with handle as group:
            check(start(load(), group, ctypes.byref(self._request)))

    def wait(self) -> T:
        """Waits for the end, once."""
        library = load()
        try:
            with self._handle:
                while True:
                    code = library.fabricast_request_wait(self._request, SLICE_MS)
                    if code != Code.TIMEOUT:
                        break
                    self._handle.check_open()
                check(code)
                return self._result()
        finally:
            library.fabricast_request_free(self._request)
