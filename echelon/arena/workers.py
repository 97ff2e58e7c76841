"""Several processes that play the rounds of one arena job.

Each plays its shard of the matches into the same store; what must be decided once (the plan of a round, the upsets, the
rating) is decided by the first process. Results do not depend on the number of processes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class WorkerGroup(Protocol):
    """The processes as seen from one of them; ``echelon.training.runtime.process_group.ProcessGroup`` is one."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def any(self, flag: bool) -> bool:
        """Return whether the flag is true in any process; waits for all."""
        ...

    def broadcast(self, value: T) -> T:
        """Return the first process's value in every process."""
        ...

    def all_gather(self, value: T) -> list[T]:
        """Return every process's value in order of rank."""
        ...


@dataclass(frozen=True)
class SingleProcess:
    """The process group of a job without further processes."""

    rank: int = 0
    size: int = 1

    def any(self, flag: bool) -> bool:
        return flag

    def broadcast(self, value: T) -> T:
        return value

    def all_gather(self, value: T) -> list[T]:
        return [value]


SINGLE_PROCESS = SingleProcess()


def shard(items: Sequence[T], process_group: WorkerGroup) -> list[T]:
    """Return this process's part of ``items``; the parts are disjoint and their sizes differ by at most 1."""
    return list(items[process_group.rank :: process_group.size])


class CallbackRelay:
    """Calls callbacks in the first process only; other processes queue their calls until ``flush``."""

    def __init__(self, process_group: WorkerGroup, callbacks: Any) -> None:
        self._process_group, self._callbacks = process_group, callbacks
        self._queue: list[tuple[str, tuple[Any, ...]]] = []

    def call(self, name: str, *arguments: Any) -> None:
        """Call the callback ``name``, at once in the first process and at the next ``flush`` in the others."""
        if self._process_group.rank == 0:
            getattr(self._callbacks, name)(*arguments)
        else:
            self._queue.append((name, arguments))

    def flush(self) -> None:
        """Send queued calls to the first process; every process must take part."""
        queues = self._process_group.all_gather(self._queue)
        self._queue = []
        if self._process_group.rank == 0:
            for name, arguments in (call for queue in queues[1:] for call in queue):
                getattr(self._callbacks, name)(*arguments)
