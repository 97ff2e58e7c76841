"""Alerts of a run: rules over its records and over the machine it runs on.

A rule raises an alert once and is armed again when its cause is gone. The worker applies ``TrainingAlertRules`` to its
records, the supervisor ``MachineAlertRules`` to the machine and the job's state.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field

from echelon import machine
from echelon.jobs.usage import MIB, disk_free_mb
from echelon.telemetry.events import Event, EventAlert, EventCurriculum, EventEval, EventStart, EventUpdate

WIN_RATE_FALL = 0.25
"""Drop of the averaged win rate below its best that counts as a collapse, 0 to 1."""
WIN_RATE_UPDATES = 20.0
"""Time constant of the averaged win rate [updates]."""
MIN_UPDATES = 40
"""Updates of a session before its win rate can raise an alert."""
DISK_FREE_MB = 1024.0
"""Free disk space below which writing checkpoints may fail [MiB]."""
MEMORY_FREE_SHARE = 0.03
"""Fraction of free memory below which the kernel may kill processes."""
REARM = 1.5
"""Multiple of the limit above which a resource alert is armed again."""
DISCRETE_PARAMETERS = ("skill", "map_size_range", "packs_per_team_range")
"""Curriculum parameters that change in steps, after which win rates are not comparable."""


@dataclass
class TrainingAlertRules:
    """Alert rules over the records of a worker."""

    _nonfinite: int | None = 0
    """Non-finite minibatches so far; None after a resume, until the next update reports them."""
    _updates: int = 0
    _average: float = math.nan
    _best: float = math.nan
    _collapsed: bool = False
    _difficulty: tuple[str, ...] = ()
    _best_eval: dict[str, EventEval] = field(default_factory=dict)
    _degraded: set[str] = field(default_factory=set)

    def check(self, event: Event) -> list[EventAlert]:
        if isinstance(event, EventStart) and event.start_update > 0:
            self._nonfinite = None
        if isinstance(event, EventCurriculum):
            self._reset_on_new_difficulty(event)
        if isinstance(event, EventUpdate):
            return [*self._check_nonfinite(event), *self._check_win_rate(event)]
        return list(self._check_evaluation(event)) if isinstance(event, EventEval) else []

    def _reset_on_new_difficulty(self, event: EventCurriculum) -> None:
        difficulty = tuple(str(event.parameters.get(name)) for name in DISCRETE_PARAMETERS)
        if self._difficulty not in ((), difficulty):
            self._forget_win_rate()
        self._difficulty = difficulty

    def _forget_win_rate(self) -> None:
        self._updates, self._average, self._best, self._collapsed = 0, math.nan, math.nan, False

    def _check_nonfinite(self, event: EventUpdate) -> Iterator[EventAlert]:
        before = event.nonfinite if self._nonfinite is None else self._nonfinite
        new, self._nonfinite = event.nonfinite - before, event.nonfinite
        if new > 0:
            minibatches = f"{new} minibatch{'es' * (new > 1)} of update {event.update}"
            message = f"{minibatches} had a loss or gradient that is not finite ({event.nonfinite} so far)"
            yield alert(message, event, level="error")

    def _check_win_rate(self, event: EventUpdate) -> Iterator[EventAlert]:
        if event.learner_share < 1.0:  # a teacher plays the other environments
            self._forget_win_rate()
            return
        if not math.isfinite(event.win_rate):
            return
        self._updates += 1
        before = self._average if math.isfinite(self._average) else event.win_rate
        self._average = before + (event.win_rate - before) / WIN_RATE_UPDATES
        if self._updates < MIN_UPDATES:
            return
        self._best = self._average if math.isnan(self._best) else max(self._best, self._average)
        if not self._collapsed and self._average < self._best - WIN_RATE_FALL:
            self._collapsed = True
            yield alert(f"win rate collapsed from {self._best:.0%} to {self._average:.0%} in training", event)
        elif self._collapsed and self._average > self._best - WIN_RATE_FALL / 2:
            self._collapsed = False

    def _check_evaluation(self, event: EventEval) -> Iterator[EventAlert]:
        """Raise an alert where the interval of an evaluation lies below that of the best one."""
        best = self._best_eval.get(event.opponent)
        if best is None or event.win_rate >= best.win_rate:
            self._best_eval[event.opponent] = event
            self._degraded.discard(event.opponent)
        elif event.win_high < best.win_low and event.opponent not in self._degraded:
            self._degraded.add(event.opponent)
            drop = f"from {best.win_rate:.0%} at update {best.update} to {event.win_rate:.0%}"
            yield alert(f"win rate against {event.opponent} fell {drop} in evaluation", event)


def alert(message: str, event: EventUpdate | EventEval, level: str = "warning") -> EventAlert:
    return EventAlert(message=message, level=level, update=event.update, global_step=event.global_step)


def resources(folder: os.PathLike[str]) -> dict[str, tuple[float, str]]:
    """Return the free amount of disk and memory as a multiple of its limit, NaN where unknown, and the alert."""
    disk_mb, memory = disk_free_mb(folder), machine.memory()
    free_mb = memory.available / MIB
    return {
        "disk": (
            disk_mb / DISK_FREE_MB,
            f"disk low: {disk_mb:.0f} MiB free for checkpoints and replays; try: echelon runs tidy",
        ),
        "memory": (
            memory.available / memory.total / MEMORY_FREE_SHARE,
            f"memory low: {free_mb:.0f} MiB free; the kernel may kill the worker",
        ),
    }


@dataclass
class MachineAlertRules:
    """Alert rules over machine resources and stalled workers."""

    folder: os.PathLike[str]
    _low: set[str] = field(default_factory=set)
    _stalled: bool = False

    def check(self, state: str, reason: str) -> list[EventAlert]:
        alerts = []
        for name, (free, message) in resources(self.folder).items():
            if free < 1.0 and name not in self._low:
                self._low.add(name)
                alerts.append(EventAlert(message=message))
            elif free > REARM:
                self._low.discard(name)
        if state == "stalled" and not self._stalled:
            self._stalled = True
            alerts.append(EventAlert(message=f"stalled: {reason}", level="error"))
        elif state in ("running", "stopping") and self._stalled:
            self._stalled = False
            alerts.append(EventAlert(message="running again after a stall", level="info"))
        return alerts
