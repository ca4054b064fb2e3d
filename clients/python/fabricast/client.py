"""A process attached to the operating agent of its node."""

import os
import threading
from typing import Optional

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

from .errors import Detached, Unreachable, of_call
from .group import Group
from .memory import SHARE_FROM, Memory

SERVICE = "fabricast.v1.ProcessService"
# Timeout for connecting; an agent on the same machine accepts at once.
CONNECT_TIMEOUT_S = 5
# Timeout for calls that wait for the control plane; that of the agent is shorter.
DEADLINE_S = 15
# Largest answer in bytes, enough for all members of the largest group.
MESSAGE_LIMIT = 64 << 20


class Client:
    """A process attached to the operating agent of its node, until `close` or its death."""

    def __init__(
        self,
        socket: str,
        process: Optional[str] = None,
        node: str = "",
        share_from: Optional[int] = SHARE_FROM,
    ):
        """Attaches to the agent at a socket.

        process: name of the process, unique on its node; default: pid-NUMBER.
        node: node of the process; may be omitted if the agent serves one node only.
        share_from: shortest payload, in bytes, that goes through memory shared with the agent; None for none.
        """
        self._calls = _Calls(socket)
        self._lost = None
        self._lease = None
        self._parts = []
        self._share_from, self._sharing = share_from, threading.Lock()
        self._asked, self._memory = False, None
        self.process = process or f"pid-{os.getpid()}"
        try:
            self._lease = self._calls.stream("AttachProcess", process=self.process, node=node)
            answer = next(self._lease)
        except grpc.RpcError as error:
            self._calls.close()
            raise of_call(error) from None
        except StopIteration:
            self._calls.close()
            raise Detached("the agent has ended the session") from None
        self._session, self.node = answer.session, answer.node
        threading.Thread(target=self._hold, name="fabricast-lease", daemon=True).start()

    @classmethod
    def from_environment(cls) -> "Client":
        """Attaches with the settings FABRICAST_SOCKET, FABRICAST_PROCESS and FABRICAST_NODE."""
        socket = os.environ.get("FABRICAST_SOCKET")
        if not socket:
            raise Unreachable("FABRICAST_SOCKET is not set: it names the agent's socket")
        process = os.environ.get("FABRICAST_PROCESS")
        return cls(socket, process, os.environ.get("FABRICAST_NODE", ""))

    def join(self, group: str) -> Group:
        """Joins a group, which is created if it does not exist; a member gets its existing membership."""
        answer = self._call("JoinGroup", None, group=group)
        return Group(self, answer.membership)

    def close(self):
        """Detaches: the process is taken out of every group it is in."""
        self._lost = self._lost or "the client is closed"
        for part in self._parts:
            part.close()
        if self._memory:
            self._memory.close()
        self._lease.cancel()
        self._calls.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _hold(self):
        """Reads the call that keeps the process attached, and records its end."""
        try:
            for _ in self._lease:
                pass
            what = "the agent has ended the session"
        except grpc.RpcError as error:
            what = f"the agent is gone: {error.details()}"
        except ValueError:
            what = "the client is closed"
        self._lost = self._lost or what

    def _shared(self):
        """Returns the memory shared with the agent, requested on first use; None if there is none."""
        with self._sharing:
            if not self._asked:
                self._memory = Memory.share(self._calls, self._session, self._share_from)
                self._asked = True
            return self._memory

    def _check(self):
        if self._lost is not None:
            raise Detached(f"the process is not attached any more: {self._lost}")

    def _call(self, method, in_group, timeout=DEADLINE_S, **fields):
        """in_group: name of the group for calls that only its members may make, or None."""
        self._check()
        try:
            return self._calls.call(method, timeout, session=self._session, **fields)
        except grpc.RpcError as error:
            raise of_call(error, in_group) from None


class _Calls:
    """Calls of ProcessService by name, with the descriptors that the agent serves."""

    def __init__(self, socket):
        options = [
            # The default is derived from the path, in a form that not every server accepts.
            ("grpc.default_authority", "localhost"),
            ("grpc.max_receive_message_length", MESSAGE_LIMIT),
            ("grpc.max_send_message_length", MESSAGE_LIMIT),
        ]
        self._channel = grpc.insecure_channel(f"unix://{os.path.abspath(socket)}", options)
        try:
            grpc.channel_ready_future(self._channel).result(timeout=CONNECT_TIMEOUT_S)
            pool = DescriptorPool(ProtoReflectionDescriptorDatabase(self._channel))
            self._methods = pool.FindServiceByName(SERVICE).methods_by_name
        except (grpc.FutureTimeoutError, grpc.RpcError, KeyError) as error:
            self._channel.close()
            what = f"no operating agent can be reached at {socket}"
            raise Unreachable(what) from error
        self._known = {}

    def call(self, method, timeout, **fields):
        call, request = self._method(method)
        return call(request(**fields), timeout=timeout)

    def stream(self, method, **fields):
        call, request = self._method(method)
        return call(request(**fields))

    def request(self, method, **fields):
        _, request = self._method(method)
        return request(**fields)

    def read_answer(self, method, field, encoded):
        """Decodes a message of the type of a field of the answer."""
        fields = self._methods[method].output_type.fields_by_name
        return GetMessageClass(fields[field].message_type).FromString(encoded)

    def stream_of(self, method, requests):
        call, _ = self._method(method)
        return call(requests)

    def close(self):
        self._channel.close()

    def _method(self, name):
        if name not in self._known:
            method = self._methods[name]
            asks = "stream" if method.client_streaming else "unary"
            answers = "stream" if method.server_streaming else "unary"
            call = getattr(self._channel, f"{asks}_{answers}")(
                f"/{SERVICE}/{name}",
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
            self._known[name] = (call, GetMessageClass(method.input_type))
        return self._known[name]
