"""Threads of a training process: a budget shared by the simulator and torch, and a pool that returns results in order.

Simulator and torch divide their work over a few threads that run serial kernels: torch's own pool synchronizes after
every operation, and one busy core would stall all threads. Torch releases the interpreter lock inside its operations,
so two threads nearly double the speed of an update. How work is divided never depends on the number of threads, so
neither do results. This module does not import torch, so that a launcher can set the environment before.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from echelon import machine
from echelon.closing import Closing


def thread_environment() -> dict[str, str]:
    """Return the environment variables to set before torch is loaded: serial kernels and passive waiting."""
    return {
        "OMP_NUM_THREADS": "1",
        "MKL_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "OMP_WAIT_POLICY": "PASSIVE",
        "KMP_BLOCKTIME": "0",
    }


CORES_PER_MAP_WORKER = 8
"""Cores per process that prefetches maps; with fewer cores there is one, of low priority."""


def map_worker_count(threads: int) -> int:
    """Return the number of processes that prefetch maps beside ``threads`` training threads."""
    return max(1, threads // CORES_PER_MAP_WORKER)


def resolve_threads(threads: int, processes: int = 1) -> int:
    """Return ``threads``, or if it is 0 the number of cores divided by ``processes``."""
    return threads if threads > 0 else max(1, machine.cores() // processes)


Item = TypeVar("Item")
Result = TypeVar("Result")


def _nothing() -> None:
    pass


class ThreadPool(Closing):
    """Run a function over items on ``threads`` threads; a context manager."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="micro-batch") if threads > 1 else None
        self._start_next: Callable[[], None] = _nothing

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return ``work(item)`` for each item, in order; an exception of an item is raised here."""
        if self._pool is None or len(items) == 1:
            return [work(item) for item in items]
        results = [self._pool.submit(work, item) for item in items]
        self._start_next()
        return [result.result() for result in results]

    def ahead(self, items: Iterable[Item]) -> Generator[Item, None, None]:
        """Yield ``items``; a thread makes the next one while the last of a ``map`` run and what comes after it does.

        What it has begun, it has ended when this is closed.
        """
        if self._pool is None:
            yield from items
            return
        pool, iterator, end = self._pool, iter(items), object()
        following = pool.submit(next, iterator, end)

        def start() -> None:
            nonlocal following
            following, self._start_next = pool.submit(next, iterator, end), _nothing

        try:
            while (item := following.result()) is not end:
                self._start_next = start
                yield item  # pyright: ignore[reportReturnType]
                self._start_next()
        finally:
            self._start_next = _nothing
            wait([following])

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
