"""Memory of response bodies: all that are cached, or wait for clients that read slowly, share one budget.

A body counts from its computation until nothing refers to it, however many responses send it.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Protocol

from aiohttp import web

MAX_BYTES = 192 * 2**20
"""Most bytes of bodies; a computation that has begun may exceed it by its own body."""
LARGE_BYTES = 2**16
"""Size from which a body counts; smaller ones go to the buffer of their connection."""
ROOM_WAIT_S = 8.0
"""Most time that a request waits for room [s]."""
SLOW_S = 5.0
"""Time without progress after which a response is ended if there is no room [s]."""
POLL_S = 0.05
"""Time between looks for room [s]."""
RETRY_AFTER_S = 5
"""Advice to clients that found no room [s]."""
TAG_DIGITS = 32


class NoRoomError(Exception):
    """No more bodies fit into memory at present."""


def entity_tag(body: bytes) -> str:
    """Return the ETag of a body, without its quotes."""
    return body.tag if isinstance(body, TaggedBody) else hashlib.sha256(body).hexdigest()[:TAG_DIGITS]


class TaggedBody(bytes):
    """A body with its ETag: hashing sixty megabytes in every request would hold up all others."""

    tag: str
    _bodies: Bodies | None

    def __new__(cls, body: bytes, bodies: Bodies | None = None) -> TaggedBody:
        tagged = super().__new__(cls, body)
        tagged.tag, tagged._bodies = entity_tag(body), bodies
        if bodies is not None:
            bodies.changes.put(len(body))
        return tagged

    def __del__(self) -> None:
        if self._bodies is not None:
            self._bodies.changes.put(-len(self))


class Slow(Protocol):
    """A response that is being sent."""

    progressed: float
    """Time of the loop at which the client took its last slice [s]."""

    def cut(self) -> None:
        """Drop the connection."""
        ...


class Bodies:
    """The budget of one server."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self.changes: SimpleQueue[int] = SimpleQueue()
        """Bytes that came and went; a queue, since bodies may end at any time and on any thread."""
        self.sending: set[Slow] = set()
        self._size, self._lock = 0, threading.Lock()

    @property
    def size(self) -> int:
        """Bytes of all bodies."""
        with self._lock:
            try:
                while True:
                    self._size += self.changes.get_nowait()
            except Empty:
                return self._size

    def make(self, compute: Callable[[], bytes]) -> TaggedBody:
        """Return the result of ``compute``, counted; ``NoRoomError`` without calling it if there is no room."""
        if self.size >= self.max_bytes:
            raise NoRoomError
        body = compute()
        return TaggedBody(body, self if len(body) >= LARGE_BYTES else None)

    async def room(self) -> None:
        """Wait for room, ending the responses that wait for their clients longest; ``NoRoomError`` if there is none."""
        clock = asyncio.get_running_loop().time
        until = clock() + ROOM_WAIT_S
        while self.size >= self.max_bytes:
            if clock() > until:
                raise NoRoomError
            slowest = min(self.sending, key=lambda response: response.progressed, default=None)
            if slowest is not None and clock() - slowest.progressed > SLOW_S:
                slowest.cut()
                self.sending.discard(slowest)
            await asyncio.sleep(POLL_S)


BODIES: web.AppKey[Bodies] = web.AppKey("bodies", Bodies)
