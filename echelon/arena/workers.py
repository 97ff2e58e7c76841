"""Several processes that play the rounds of one arena job: what they must agree on, and what they have to say.

Each plays its share of the matches into the same store; whatever is decided once (a round's plan, the upsets, its
rating) is decided by the first. Results do not depend on how many there are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class ProcessGroup(Protocol):
    """The processes, seen from one of them; ``echelon.training.runtime.process_group.World`` is one."""

    @property
    def rank(self) -> int:
        """Number of this process, from 0."""
        ...

    @property
    def size(self) -> int:
        """How many there are."""
        ...

    def any(self, flag: bool) -> bool:
        """Return whether the flag is up in any process, once all have come here."""
        ...

    def broadcast(self, value: T) -> T:
        """Return the first process's value in all of them."""
        ...

    def all_gather(self, value: T) -> list[T]:
        """Return every process's value, in order of rank."""
        ...


@dataclass(frozen=True)
class SingleProcess:
    """One process that plays everything."""

    rank: int = 0
    size: int = 1

    def any(self, flag: bool) -> bool:
        return flag

    def broadcast(self, value: T) -> T:
        return value

    def all_gather(self, value: T) -> list[T]:
        return [value]


SINGLE_PROCESS = SingleProcess()


def share(items: Sequence[T], process_group: ProcessGroup) -> list[T]:
    """Return this process's share: every item is somebody's, and sizes differ by one at most."""
    return list(items[process_group.rank :: process_group.size])


class CallbackRelay:
    """Lets the first process say what the others have to say."""

    def __init__(self, process_group: ProcessGroup, listeners: Any) -> None:
        self._together, self._listeners = process_group, listeners
        self._waiting: list[tuple[str, tuple[Any, ...]]] = []

    def say(self, what: str, *words: Any) -> None:
        """Call the listener ``what`` with these words: now, or when all meet next."""
        if self._together.rank == 0:
            getattr(self._listeners, what)(*words)
        else:
            self._waiting.append((what, words))

    def meet(self) -> None:
        """Hand over what waits; every process must come here."""
        said = self._together.all_gather(self._waiting)
        self._waiting = []
        if self._together.rank == 0:
            for what, words in (line for lines in said[1:] for line in lines):
                getattr(self._listeners, what)(*words)
