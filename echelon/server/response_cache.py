"""LRU cache of response bodies, or of parts of them; concurrent requests for a missing body share one computation.

A computation whose last waiting request has gone is cancelled. Limited by total bytes, least recently used first.
Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sized
from typing import Any, TypeVar, cast

from echelon.server.bodies import Bodies, NoRoomError

Body = TypeVar("Body", bound=Sized)
MAX_BYTES = 64 * 2**20
"""Capacity of a server's cache."""


class ResponseCache:
    """Response bodies by key; a key must change whenever its content does."""

    def __init__(self, max_bytes: int = MAX_BYTES, bodies: Bodies | None = None) -> None:
        self.max_bytes, self.bodies = max_bytes, bodies or Bodies()
        self.size = 0
        self._bodies: OrderedDict[Hashable, Any] = OrderedDict()
        self._pending: dict[Hashable, asyncio.Task[Any]] = {}
        self._waiting: Counter[asyncio.Task[Any]] = Counter()

    async def get(self, key: Hashable, compute: Callable[[], Awaitable[Body]]) -> Body:
        """Return the body of ``key``, computed if missing; exceptions reach every waiting request."""
        if key in self._bodies:
            self._bodies.move_to_end(key)
            return self._bodies[key]
        if key not in self._pending:
            task = self._pending[key] = asyncio.ensure_future(self._compute(key, compute))
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

    def _forget(self, key: Hashable, task: asyncio.Task[Any] | None) -> None:
        """Let the next request of ``key`` begin again, unless one has done so already."""
        if self._pending.get(key) is task:
            del self._pending[key]

    async def _compute(self, key: Hashable, compute: Callable[[], Awaitable[Body]]) -> Body:
        try:
            while True:
                await self.bodies.room()
                with contextlib.suppress(NoRoomError):  # another computation took the room
                    body = await compute()
                    break
        finally:
            self._forget(key, asyncio.current_task())
        if old := self._bodies.pop(key, None):
            self.size -= len(old)
        self._bodies[key] = body
        self.size += len(body)
        while self.size > self.max_bytes:
            _, evicted = self._bodies.popitem(last=False)
            self.size -= len(evicted)
        return cast("Body", body)
