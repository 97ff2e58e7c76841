"""Response bodies in memory: cached, shared by the requests that wait for them, and limited in total.

A body counts until no response sends it any more. It is sent no faster than its client reads, and a client that takes
longer than ``SEND_S`` is disconnected, so that slow clients cost bounded memory. Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from weakref import WeakSet

from aiohttp.abc import AbstractStreamWriter
from aiohttp.payload import AsyncIterablePayload, BytesIOPayload

MAX_BYTES = 192 * 2**20
"""Most bytes of all bodies; a computation that has begun may exceed it by its own body."""
CACHE_BYTES = 64 * 2**20
"""Most bytes of the bodies that are kept for further requests."""
SEND_S = 120.0
"""Most time that a client may take for a body [s]."""
SLICE_BYTES = 2**16
"""Bytes that are passed to a connection at a time."""
RETRY_AFTER_S = 5
"""Advice to clients that found no room [s]."""
TAG_DIGITS = 32


class NoRoomError(Exception):
    """No more bodies fit into memory at present."""


class Body:
    """A response body with its ETag, without quotes."""

    def __init__(self, data: bytes) -> None:
        self.data, self.tag = data, hashlib.sha256(data).hexdigest()[:TAG_DIGITS]

    @classmethod
    def of(cls, make: Callable[[], bytes]) -> Body:
        return cls(make())

    def __len__(self) -> int:
        return len(self.data)


async def _within_time(sending: Awaitable[None]) -> None:
    try:
        async with asyncio.timeout(SEND_S):
            await sending
    except TimeoutError:
        raise ConnectionResetError("the client reads too slowly") from None


class BodyPayload(BytesIOPayload):
    """Sends a body in slices."""

    def __init__(self, body: Body, kind: str) -> None:
        super().__init__(io.BytesIO(body.data), content_type=kind)
        self._body = body

    async def write(self, writer: AbstractStreamWriter) -> None:
        await _within_time(super().write(writer))


class SlicesPayload(AsyncIterablePayload):
    """Sends slices as they are produced."""

    def __init__(self, slices: AsyncIterator[bytes | memoryview], kind: str) -> None:
        super().__init__(slices, content_type=kind)

    async def write(self, writer: AbstractStreamWriter) -> None:
        await _within_time(super().write(writer))


class ResponseCache:
    """Response bodies by key; a key must change whenever its content does.

    Concurrent requests for a missing body share one computation, which is cancelled once no request waits for it. The
    least recently used bodies are dropped first.
    """

    def __init__(self, max_bytes: int = CACHE_BYTES, max_total: int = MAX_BYTES) -> None:
        self.max_bytes, self.max_total = max_bytes, max_total
        self.size = 0
        self._alive: WeakSet[Body] = WeakSet()
        self._bodies: OrderedDict[Hashable, Body] = OrderedDict()
        self._pending: dict[Hashable, asyncio.Task[Body]] = {}
        self._waiting: Counter[asyncio.Task[Body]] = Counter()

    @property
    def total(self) -> int:
        return sum(len(body) for body in self._alive)

    async def admit(self, make: Callable[[], Awaitable[Body]]) -> Body:
        """Return the body of ``make``, counted; ``NoRoomError`` without calling it if there is no room."""
        if self.total >= self.max_total:
            raise NoRoomError
        body = await make()
        self._alive.add(body)
        return body

    async def get(self, key: Hashable, make: Callable[[], Awaitable[Body]]) -> Body:
        """Return the body of ``key``, computed if missing; exceptions reach every waiting request."""
        if key in self._bodies:
            self._bodies.move_to_end(key)
            return self._bodies[key]
        if key not in self._pending:
            task = self._pending[key] = asyncio.ensure_future(self._compute(key, make))
            task.add_done_callback(lambda t: t.cancelled() or t.exception())  # no request may be left to await it
        task = self._pending[key]
        self._waiting[task] += 1
        try:
            return await asyncio.shield(task)
        finally:
            self._waiting[task] -= 1
            if not self._waiting[task]:
                del self._waiting[task]
                self._forget(key, task)
                task.cancel()

    def _forget(self, key: Hashable, task: asyncio.Task[Body] | None) -> None:
        """Let the next request of ``key`` begin again, unless one has done so already."""
        if self._pending.get(key) is task:
            del self._pending[key]

    async def _compute(self, key: Hashable, make: Callable[[], Awaitable[Body]]) -> Body:
        try:
            body = await self.admit(make)
        finally:
            self._forget(key, asyncio.current_task())
        if old := self._bodies.pop(key, None):
            self.size -= len(old)
        self._bodies[key] = body
        self.size += len(body)
        while self.size > self.max_bytes:
            _, evicted = self._bodies.popitem(last=False)
            self.size -= len(evicted)
        return body
