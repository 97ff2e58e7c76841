"""Map prefetch: generates maps in background processes of low priority before they are needed.

Results do not depend on timing: a map that is not ready is waited for or generated in place. The processes exit with
their parent, also when it is killed.
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
"""Nice value of the worker processes; they still get about a tenth of a core that training fills."""


class MapPrefetcher:
    """Generates maps ahead in ``workers`` processes; without workers, maps are generated when taken."""

    def __init__(self, workers: int = 0) -> None:
        self.workers = workers
        self.stalls = 0
        """Calls of ``take`` that had to wait for a map."""
        self.waited_s = 0.0
        """Total waiting time [s]."""
        self._pool: ProcessPoolExecutor | None = None
        self._pending: dict[MapSpec, Future[GeneratedMap]] = {}

    def prefetch(self, specs: Sequence[MapSpec]) -> None:
        """Start generating these maps, unless already started."""
        if not self.workers or not specs:
            return
        if self._pool is None:
            # spawn, because the parent may have threads of torch and Warp
            self._pool = ProcessPoolExecutor(self.workers, mp_context=get_context("spawn"), initializer=_init_worker)
        for spec in specs:
            if spec not in self._pending:
                self._pending[spec] = self._pool.submit(spec.generate)

    def take(self, specs: Sequence[MapSpec]) -> list[GeneratedMap]:
        """Return these maps in their order, waiting for those that are not ready."""
        began, waited = time.perf_counter(), False
        maps = []
        for spec in specs:
            future = self._pending.pop(spec, None)
            cached = spec.load_cached() if future is None else None
            waited |= cached is None and (future is None or not future.done())
            maps.append(cached or self._result(spec, future))
        if waited:
            self.stalls += 1
            self.waited_s += time.perf_counter() - began
        return maps

    def _result(self, spec: MapSpec, future: Future[GeneratedMap] | None) -> GeneratedMap:
        """Return the map of a pending future, or generate it in this process."""
        if future is None:
            return spec.generate()
        try:
            return future.result()
        except BrokenProcessPool:
            # a worker was killed: generate here; the next ``prefetch`` starts new workers
            self._shut_down()
            return spec.generate()

    def cancel(self) -> None:
        for future in self._pending.values():
            future.cancel()
        self._pending.clear()

    def close(self) -> None:
        self.cancel()
        self._shut_down()

    def _shut_down(self) -> None:
        self._pending.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = None


def _init_worker() -> None:
    """Set up a worker process: low priority, interrupts ignored, exit with the parent."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)
