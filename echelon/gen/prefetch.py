"""Makes maps ahead of their use, in processes of low priority, and counts how often somebody had to wait.

What is taken does not depend on timing: it is always what was ordered, made by whoever comes first. The processes end
with their parent, however that ends.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context, parent_process
from multiprocessing.connection import wait

from echelon.gen.generate import GeneratedMap
from echelon.gen.map_sampling import MapSpec

NICENESS = 10
"""Of a process that makes maps: it yields to training, yet gets a tenth of a core that training would fill."""


class MapPrefetcher:
    """Maps by order, made ahead by ``workers`` processes; without any they are made when they are taken."""

    def __init__(self, workers: int = 0) -> None:
        self.workers = workers
        self.stalls = 0
        """How often a map was not ready when it was taken."""
        self.waited_s = 0.0
        """Time spent waiting for maps [s]."""
        self._pool: ProcessPoolExecutor | None = None
        self._ahead: dict[MapSpec, Future[GeneratedMap]] = {}

    def prefetch(self, orders: Sequence[MapSpec]) -> None:
        """Begin to make these maps, if they are not being made, beside those expected before."""
        if not self.workers or not orders:
            return
        if self._pool is None:
            # Spawned, not forked: the parent may hold threads of torch and Warp.
            self._pool = ProcessPoolExecutor(self.workers, mp_context=get_context("spawn"), initializer=_serve)
        for order in orders:
            if order not in self._ahead:
                self._ahead[order] = self._pool.submit(order.make)

    def take(self, orders: Sequence[MapSpec]) -> list[GeneratedMap]:
        """Return these maps in their order, waiting for those that are not ready."""
        began, waited = time.perf_counter(), False
        maps = []
        for order in orders:
            coming = self._ahead.pop(order, None)
            found = order.load() if coming is None else None
            waited |= found is None and (coming is None or not coming.done())
            maps.append(found or self._receive(order, coming))
        if waited:
            self.stalls += 1
            self.waited_s += time.perf_counter() - began
        return maps

    def _receive(self, order: MapSpec, coming: Future[GeneratedMap] | None) -> GeneratedMap:
        if coming is None:
            return order.make()
        try:
            return coming.result()
        except BrokenProcessPool:
            # Somebody ended a worker; what it was to make is made here, and the next order starts another.
            self._drop()
            return order.make()

    def cancel(self) -> None:
        """Give up what is expected and was not taken."""
        for coming in self._ahead.values():
            coming.cancel()
        self._ahead.clear()

    def close(self) -> None:
        """End the processes."""
        self.cancel()
        self._drop()

    def _drop(self) -> None:
        self._ahead.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def _serve() -> None:
    """Settle into a process that makes maps: low priority, deaf to the terminal, gone when the parent is."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()


def _leave_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
