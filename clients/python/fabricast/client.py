"""A process attached to the operating agent of its node."""

import ctypes
import os
import threading
from ctypes import c_void_p
from typing import List, Optional

from .errors import Unreachable
from .group import Group
from .bindings import Handle, check, load


class Client:
    """A process attached to the operating agent of its node, until `close` or its death."""

    def __init__(
        self, socket: str, process: Optional[str] = None, node: Optional[str] = None
    ) -> None:
        """Attaches to the agent at a socket.

        process: name of the process, unique on its node; default: FABRICAST_PROCESS, or else pid-NUMBER.
        node: node of the process; default: FABRICAST_NODE, or else the only node of the agent.
        """
        library = load()
        pointer = c_void_p()
        texts = [text.encode() if text else None for text in (os.fspath(socket), process, node)]
        check(library.fabricast_attach(*texts, ctypes.byref(pointer)))
        self._handle = Handle("client", pointer)
        self._lock = threading.Lock()
        self._handles: List[Handle] = []
        self.socket = os.fspath(socket)
        with self._handle as client:
            self.process: str = library.fabricast_client_process(client).decode()
            self.node: str = library.fabricast_client_node(client).decode()

    def __repr__(self) -> str:
        return f"<fabricast.Client {self.process!r} on {self.node!r} at {self.socket!r}>"

    @classmethod
    def from_environment(cls) -> "Client":
        """Attaches with the settings FABRICAST_SOCKET, FABRICAST_PROCESS and FABRICAST_NODE."""
        socket = os.environ.get("FABRICAST_SOCKET")
        if not socket:
            raise Unreachable("FABRICAST_SOCKET is not set: it names the agent's socket")
        return cls(socket)

    def join(self, group: str) -> Group:
        """Joins a group, which is created if it does not exist; a member gets its existing membership."""
        pointer = c_void_p()
        with self._handle as client:
            check(load().fabricast_join(client, group.encode(), ctypes.byref(pointer)))
        handle = Handle("group", pointer)
        self._add(handle)
        return Group(self, handle)

    def close(self) -> None:
        """Detaches: the process is taken out of every group it is in."""
        with self._lock:
            handles, self._handles = self._handles, []
        for handle in handles:
            handle.close()
        self._handle.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _add(self, handle: Handle) -> None:
        """Notes a handle that holds the session."""
        with self._lock:
            self._handles.append(handle)

    def _close(self, handle: Handle) -> None:
        with self._lock:
            if handle in self._handles:
                self._handles.remove(handle)
        handle.close()
