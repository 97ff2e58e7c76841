"""Answers that many ask for, made once: whoever asks while one is being made waits for that one.

What is kept fits into a budget of bytes; what was not asked for longest goes first. Belongs to one event loop.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable

MOST_BYTES = 64 * 2**20
"""Budget of a server."""


class Kept:
    """Bytes by key; a key must change when what it stands for does."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.most = most
        self.size = 0
        self._kept: OrderedDict[Hashable, bytes] = OrderedDict()
        self._making: dict[Hashable, asyncio.Future[bytes]] = {}

    async def get(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        """Return what ``key`` stands for, made on a thread if need be; what ``make`` raises goes to all who wait."""
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        if key not in self._making:
            task = self._making[key] = asyncio.ensure_future(self._make(key, make))
            task.add_done_callback(lambda t: t.cancelled() or t.exception())  # all who waited may have gone
        return await asyncio.shield(self._making[key])

    async def _make(self, key: Hashable, make: Callable[[], bytes]) -> bytes:
        try:
            body = await asyncio.to_thread(make)
        finally:
            del self._making[key]
        self._kept[key] = body
        self.size += len(body)
        while self.size > self.most:
            _, gone = self._kept.popitem(last=False)
            self.size -= len(gone)
        return body
