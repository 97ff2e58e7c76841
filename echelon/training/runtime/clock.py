"""The clock of a training run, which schedules and the time limit follow."""

from __future__ import annotations

import time
from collections.abc import Callable

from echelon.training.runtime.process_group import ProcessGroup

SECONDS_PER_MINUTE = 60.0

Clock = Callable[[], float]
"""Return the elapsed time of the run, earlier sessions included [s]."""


class RunClock:
    """The elapsed wall time of a run over all of its sessions.

    It is read once per update and each reading is logged, so that a run whose ``clock`` returns the logged times is
    bit-equal.
    """

    def __init__(self, group: ProcessGroup, clock: Clock | None = None) -> None:
        self._group, self._clock = group, clock or self._wall_clock
        self.restart(0.0)

    def restart(self, elapsed_s: float) -> None:
        """Continue from ``elapsed_s`` [s] now."""
        self._before, self._began = elapsed_s, time.monotonic()

    def read(self) -> float:
        """Return the elapsed time [s], rank 0's on every rank."""
        return self._group.broadcast(self._clock())

    def _wall_clock(self) -> float:
        return self._before + time.monotonic() - self._began
