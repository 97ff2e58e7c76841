"""A few threads that work on independent items and return the results in order.

Torch releases the interpreter lock inside its operations, so two threads that run serial kernels nearly double the
speed of an update and synchronize only once per minibatch. How work is divided never depends on the number of threads,
so neither do results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class ThreadPool:
    """Run a function over items on ``threads`` threads; a context manager."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="micro-batch") if threads > 1 else None

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
        """Return ``work(item)`` for each item, in order; an exception of an item is raised here."""
        if self._pool is None or len(items) == 1:
            return [work(item) for item in items]
        return list(self._pool.map(work, items))

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def __enter__(self) -> ThreadPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
