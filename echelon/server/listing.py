"""Work beside the event loop: the list of matches, scanned by one thread at a time, and pools of threads.

Lists and lookups run on the default pool of the event loop, what may wait for the lock of a replay on ``READS``, and
what may take seconds on ``SLOW``.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import ParamSpec, TypeAlias, TypeVar

from aiohttp import web

from echelon.server.catalogue import Match, ReplayCatalogue

P = ParamSpec("P")
T = TypeVar("T")
Pool: TypeAlias = web.AppKey[ThreadPoolExecutor]
READS: Pool = web.AppKey("reads", ThreadPoolExecutor)
"""Reads of replays: headers, chunks, files."""
SLOW: Pool = web.AppKey("slow", ThreadPoolExecutor)
"""Steps of timelines, worlds, files with their world, head-to-head results."""
THREADS = {READS: 4, SLOW: 2}
MAX_STEPS = THREADS[SLOW] - 1
"""Most steps of timelines at a time; whatever else is slow finds a thread."""
TURNS: web.AppKey[asyncio.Semaphore] = web.AppKey("turns", asyncio.Semaphore)
"""Held for one step of a timeline; those that wait are served in order."""
PLAYED_AGAIN: web.AppKey[asyncio.Semaphore] = web.AppKey("played_again", asyncio.Semaphore)
"""Held while a match is played again."""


def add_pools(app: web.Application) -> None:
    """Give an application its pools; their threads start with the first call."""
    for key, threads in THREADS.items():
        app[key] = ThreadPoolExecutor(threads, thread_name_prefix=f"server-{threads}")
    app[TURNS] = asyncio.Semaphore(MAX_STEPS)
    app[PLAYED_AGAIN] = asyncio.Semaphore(1)
    app.on_cleanup.append(_close_pools)


async def _close_pools(app: web.Application) -> None:
    for key in THREADS:
        app[key].shutdown(wait=False, cancel_futures=True)


async def run_on(app: web.Application, pool: Pool, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Return the result of ``function``, called on a thread of a pool."""
    return await asyncio.get_running_loop().run_in_executor(app[pool], partial(function, *args, **options))


async def run_through(
    app: web.Application, pool: Pool, function: Callable[P, T], *args: P.args, **options: P.kwargs
) -> T:
    """As ``run_on``; if cancelled, end after ``function`` has, so that nothing is released that it still uses."""
    call = app[pool].submit(partial(function, *args, **options))
    try:
        return await asyncio.wrap_future(call)
    except asyncio.CancelledError:
        if not call.cancel():
            await asyncio.gather(asyncio.wrap_future(call), return_exceptions=True)
        raise


LIST_WAIT_S = 1.0
"""Most time that a list waits for a scan [s]."""


class Listing:
    """Matches of a catalogue; belongs to one event loop."""

    def __init__(self, catalogue: ReplayCatalogue) -> None:
        self.catalogue = catalogue
        self._scan: asyncio.Task[list[Match]] | None = None

    async def get(self) -> tuple[list[Match], bool]:
        """Return the matches, and whether they are all; those found so far if the first scan takes long.

        A scan goes on when the request that began it was answered.
        """
        if self._scan is None or self._scan.done():
            self._scan = asyncio.create_task(asyncio.to_thread(self.catalogue.matches))
        elif self.catalogue.listed:
            return self.catalogue.listed_matches(), True
        scan = self._scan
        done, _ = await asyncio.wait({scan}, timeout=LIST_WAIT_S)
        return (scan.result(), True) if done else (self.catalogue.listed_matches(), self.catalogue.listed)


LISTING: web.AppKey[Listing] = web.AppKey("listing", Listing)
