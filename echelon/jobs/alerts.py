"""When a run should call for somebody: rules over its records, and over the machine it runs on.

A rule raises an alert once and is armed again when its cause has gone, so that a bad night is a few lines and not ten
thousand. The trainer applies ``TrainingAlertRules`` to what it says, the supervisor ``MachineAlertRules`` to what is left unsaid.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from echelon.jobs.usage import MIB, disk_free_mb
from echelon.telemetry.events import Event, EventAlert, EventCurriculum, EventEval, EventStart, EventUpdate


@dataclass(frozen=True, kw_only=True)
class AlertThresholds:
    """When alerts are raised."""

    win_rate_fall: float = 0.25
    """Fall of the averaged win rate below its best that counts as a collapse [share]."""
    win_rate_updates: float = 20.0
    """Updates over which the win rate is averaged."""
    armed_from: int = 40
    """Updates of a session before its win rate is judged."""
    disk_free_mb: float = 1024.0
    """Room on the disk below which checkpoints are in danger [MiB]."""
    memory_free_share: float = 0.03
    """Share of the memory below which the kernel may soon kill."""
    rearm: float = 1.5
    """A measured cause has gone once there is so many times more than the limit."""


DIALS = AlertThresholds()
STEPS = ("skill", "map_size_range", "packs_per_team_range")
"""Levers that move by steps: after one, the win rate is that of another game."""


@dataclass
class TrainingAlertRules:
    """Rules over what a trainer reports."""

    dials: AlertThresholds = DIALS
    _nonfinite: int | None = 0
    """Minibatches so far that were not finite; None where a session resumes and only the next update tells."""
    _updates: int = 0
    _average: float = math.nan
    _best: float = math.nan
    _fallen: bool = False
    _game: tuple[str, ...] = ()
    _best_eval: dict[str, EventEval] = field(default_factory=dict)
    _lost: set[str] = field(default_factory=set)

    def look(self, event: Event) -> list[EventAlert]:
        """Take in a record and return the alerts it raises."""
        if isinstance(event, EventStart) and event.start_update > 0:
            self._nonfinite = None
        if isinstance(event, EventCurriculum):
            self._begin_anew_in_another_game(event)
        if isinstance(event, EventUpdate):
            return [*self._look_for_nonfinite(event), *self._look_at_win_rate(event)]
        return list(self._look_at_eval(event)) if isinstance(event, EventEval) else []

    def _begin_anew_in_another_game(self, event: EventCurriculum) -> None:
        game = tuple(str(event.levers.get(name)) for name in STEPS)
        if self._game not in ((), game):
            self._updates, self._average, self._best, self._fallen = 0, math.nan, math.nan, False
        self._game = game

    def _look_for_nonfinite(self, event: EventUpdate) -> Iterator[EventAlert]:
        before = event.nonfinite if self._nonfinite is None else self._nonfinite
        fresh, self._nonfinite = event.nonfinite - before, event.nonfinite
        if fresh > 0:
            words = f"{fresh} minibatch{'es' * (fresh > 1)} of update {event.update} had a loss or gradient that"
            yield alert(f"{words} is not finite ({event.nonfinite} so far)", event, level="error")

    def _look_at_win_rate(self, event: EventUpdate) -> Iterator[EventAlert]:
        if not math.isfinite(event.win_rate):
            return
        self._updates += 1
        before = self._average if math.isfinite(self._average) else event.win_rate
        self._average = before + (event.win_rate - before) / self.dials.win_rate_updates
        if self._updates < self.dials.armed_from:
            return
        self._best = self._average if math.isnan(self._best) else max(self._best, self._average)
        if not self._fallen and self._average < self._best - self.dials.win_rate_fall:
            self._fallen = True
            yield alert(f"win rate collapsed from {self._best:.0%} to {self._average:.0%} in training", event)
        elif self._fallen and self._average > self._best - self.dials.win_rate_fall / 2:
            self._fallen = False

    def _look_at_eval(self, event: EventEval) -> Iterator[EventAlert]:
        """An evaluation is worse than the best one where their intervals do not touch."""
        best = self._best_eval.get(event.opponent)
        if best is None or event.win_rate >= best.win_rate:
            self._best_eval[event.opponent] = event
            self._lost.discard(event.opponent)
        elif event.win_high < best.win_low and event.opponent not in self._lost:
            self._lost.add(event.opponent)
            words = f"wins against {event.opponent} fell from {best.win_rate:.0%} at update {best.update}"
            yield alert(f"{words} to {event.win_rate:.0%} in evaluation", event)


def alert(message: str, event: EventUpdate | EventEval, level: str = "warning") -> EventAlert:
    """Return an alert at the place of a record."""
    return EventAlert(message=message, level=level, update=event.update, global_step=event.global_step)


@dataclass(frozen=True, kw_only=True)
class Resource:
    """Something a machine runs out of."""

    left: Callable[[Path, AlertThresholds], float]
    """What is left, in units of the limit; not a number where it cannot be told."""
    message: Callable[[Path], str]


def _disk_left(folder: Path, dials: AlertThresholds) -> float:
    return disk_free_mb(folder) / dials.disk_free_mb


def _memory_left(folder: Path, dials: AlertThresholds) -> float:
    memory = psutil.virtual_memory()
    return memory.available / memory.total / dials.memory_free_share


RESOURCES: dict[str, Resource] = {
    "disk": Resource(
        left=_disk_left,
        message=lambda folder: (
            f"disk low: {disk_free_mb(folder):.0f} MiB left for checkpoints and replays; echelon rm deletes old runs"
        ),
    ),
    "memory": Resource(
        left=_memory_left,
        message=lambda folder: (
            f"memory low: {psutil.virtual_memory().available / MIB:.0f} MiB left; the kernel may kill the trainer"
        ),
    ),
}
"""What is watched of a machine."""


@dataclass
class MachineAlertRules:
    """Rules over the machine and over a trainer's silence."""

    folder: Path
    dials: AlertThresholds = DIALS
    _low: set[str] = field(default_factory=set)
    _silent: bool = False

    def look(self, state: str, reason: str) -> list[EventAlert]:
        """Return the alerts that the machine, and the job's state with its reason, raise now."""
        found = []
        for name, resource in RESOURCES.items():
            left = resource.left(self.folder, self.dials)
            if left < 1.0 and name not in self._low:
                self._low.add(name)
                found.append(EventAlert(message=resource.message(self.folder)))
            elif left > self.dials.rearm:
                self._low.discard(name)
        if state == "stalled" and not self._silent:
            self._silent = True
            found.append(EventAlert(message=f"stalled: {reason}", level="error"))
        elif state in ("running", "stopping") and self._silent:
            self._silent = False
            found.append(EventAlert(message="goes on after it stalled", level="info"))
        return found
