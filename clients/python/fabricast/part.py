"""The call through which a member takes part in messages and operations of a group."""

import queue
import threading
from collections import deque
from typing import List, NamedTuple, Optional

import grpc

from .errors import Detached, of_call

# Messages that may be queued in this process; more wait at the agent.
ROOM = 32


class Message(NamedTuple):
    """A message of another member; sender is its rank."""

    sender: int
    payload: bytes


class Part:
    """The call of one member, and the events it has received.

    One thread reads the events of the agent, which sends at most as many messages as were requested; more
    are requested as messages are received.
    """

    def __init__(self, calls, session, group, memory):
        self._group = group
        self._memory = memory
        self._changed = threading.Condition()
        self._participants: List[int] = []
        self._messages = deque()
        self._received = 0
        self._end = None
        self._asks = queue.SimpleQueue()
        self._ask = lambda **fields: self._asks.put(calls.request("TakePart", **fields))
        part = memory.begin_part() if memory else 0
        self._ask(session=session, group=group, more=ROOM, part=part)
        self._news = calls.stream_of("TakePart", iter(self._asks.get, None))
        threading.Thread(target=self._read, name="fabricast-part", daemon=True).start()

    def close(self):
        self._news.cancel()
        self._asks.put(None)

    def ended(self):
        """Returns True if the member no longer takes part."""
        with self._changed:
            return self._end is not None

    def wait_for(self, count, timeout) -> Optional[List[int]]:
        """Waits for `count` participants; returns their ranks, or None after `timeout` seconds."""
        with self._changed:
            known = lambda: self._end or len(self._participants) >= count
            if not self._changed.wait_for(known, timeout):
                return None
            if self._end:
                raise self._end
            return list(self._participants)

    def receive(self, timeout) -> Optional[Message]:
        """Returns the next message, or None after `timeout` seconds."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._messages or self._end, timeout):
                return None
            if not self._messages:
                raise self._end
            message = self._messages.popleft()
            self._received += 1
            if self._received >= ROOM // 2:
                self._ask(more=self._received)
                self._received = 0
            return message

    def _read(self):
        end = Detached("the agent has ended the call")
        try:
            for news in self._news:
                self._take(news)
        except grpc.RpcError as error:
            end = of_call(error, self._group)
        except ValueError:
            end = Detached("the client is closed")
        with self._changed:
            self._end = end
            self._changed.notify_all()
        self._asks.put(None)

    def _take(self, news):
        with self._changed:
            event = news.WhichOneof("event")
            if event == "participants":
                self._participants = list(news.participants.pns)
            elif event == "message":
                message = news.message
                shared = message.HasField("shared_payload")
                payload = self._memory.take(message.shared_payload) if shared else message.payload
                self._messages.append(Message(message.from_pn, payload))
            self._changed.notify_all()
