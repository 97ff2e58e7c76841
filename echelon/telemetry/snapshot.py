"""Fold a run's records into one frozen picture that screens, tables and the server show.

``Fold`` takes records one by one and hands out a ``RunSnapshot``; a resume takes back what it supersedes. It
knows nothing of files, processes or screens.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from echelon.telemetry.events import (
    Event,
    EventAlert,
    EventCheckpoint,
    EventCurriculum,
    EventEnd,
    EventEpisodes,
    EventEval,
    EventMatch,
    EventResume,
    EventStart,
    EventUpdate,
)
from echelon.telemetry.log import EventFollower, is_superseded

ALERTS_KEPT = 100
"""Newest alerts a snapshot carries."""

UPDATES_KEPT = 512
"""Newest updates kept, so that a resume can step back to the one before its checkpoint."""


@dataclass(frozen=True, kw_only=True)
class EpisodeTotals:
    """Episodes of the whole run, superseded ones left out."""

    count: int = 0
    wins: int = 0
    losses: int = 0
    draws: int = 0
    reasons: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class RunSnapshot:
    """A run at one moment."""

    start: EventStart | None = None
    """The newest session's start."""
    update: EventUpdate | None = None
    """The newest update."""
    best: EventEval | None = None
    """The evaluation with the highest win rate; the earliest among equals."""
    evals: tuple[EventEval, ...] = ()
    checkpoints: tuple[EventCheckpoint, ...] = ()
    matches: tuple[EventMatch, ...] = ()
    curriculum: EventCurriculum | None = None
    episodes: EpisodeTotals = EpisodeTotals()
    alerts: tuple[EventAlert, ...] = ()
    resumes: tuple[EventResume, ...] = ()
    end: EventEnd | None = None
    """How the newest session ended; none while it runs."""
    last_time: float = 0.0
    """When the newest record was written [s since the epoch]."""
    skipped: int = 0
    """Lines that could not be read."""

    @property
    def global_step(self) -> int:
        """Learner agent-steps so far."""
        return self.update.global_step if self.update else self.start.global_step if self.start else 0

    @property
    def progress(self) -> float:
        """Share of the planned training that is done, 0 to 1: by steps or by wall time, whichever is further."""
        if self.start is None:
            return 0.0
        by_step = self.global_step / self.start.total_steps if self.start.total_steps > 0 else 0.0
        elapsed_min = self.update.elapsed_s / 60 if self.update else 0.0
        by_time = elapsed_min / self.start.max_minutes if self.start.max_minutes > 0 else 0.0
        return min(1.0, max(by_step, by_time))

    @property
    def eta_s(self) -> float | None:
        """Seconds to the end at the average pace so far, None before the first update."""
        if self.update is None or self.update.elapsed_s <= 0 or self.progress <= 0:
            return None
        return self.update.elapsed_s * (1 - self.progress) / self.progress


class Fold:
    """The accumulator behind a snapshot."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._start: EventStart | None = None
        self._end: EventEnd | None = None
        self._updates: deque[EventUpdate] = deque(maxlen=UPDATES_KEPT)
        self._curriculum: EventCurriculum | None = None
        self._evals: list[EventEval] = []
        self._checkpoints: list[EventCheckpoint] = []
        self._matches: list[EventMatch] = []
        self._episodes: list[EventEpisodes] = []
        self._alerts: deque[EventAlert] = deque(maxlen=ALERTS_KEPT)
        self._resumes: list[EventResume] = []
        self._totals = EpisodeTotals()
        self._last_time = 0.0
        for event in events:
            self.add(event)

    def add(self, event: Event) -> None:
        """Take in one record."""
        self._last_time = max(self._last_time, event.time)
        match event:
            case EventStart():
                self._start, self._end = event, None
            case EventUpdate():
                self._updates.append(event)
            case EventEpisodes():
                self._episodes.append(replace(event, samples=[], returns_by_role={}, reward_terms={}))
                self._totals = _with(self._totals, event)
            case EventEval():
                self._evals.append(event)
            case EventCheckpoint():
                self._checkpoints.append(event)
            case EventMatch():
                self._matches.append(event)
            case EventCurriculum():
                self._curriculum = event
            case EventAlert():
                self._alerts.append(event)
            case EventResume():
                self._take_back(event)
            case EventEnd():
                self._end = event

    def _take_back(self, resume: EventResume) -> None:
        self._resumes.append(resume)
        self._end = None
        while self._updates and is_superseded(self._updates[-1], resume):
            self._updates.pop()
        if self._curriculum is not None and is_superseded(self._curriculum, resume):
            self._curriculum = None
        self._evals = [e for e in self._evals if not is_superseded(e, resume)]
        self._checkpoints = [e for e in self._checkpoints if not is_superseded(e, resume)]
        self._matches = [e for e in self._matches if not is_superseded(e, resume)]
        self._episodes = [e for e in self._episodes if not is_superseded(e, resume)]
        self._totals = EpisodeTotals()
        for event in self._episodes:
            self._totals = _with(self._totals, event)

    def snapshot(self, skipped: int = 0) -> RunSnapshot:
        """Return the picture as of the newest record."""
        return RunSnapshot(
            start=self._start,
            update=self._updates[-1] if self._updates else None,
            best=max(self._evals, key=lambda e: e.win_rate, default=None),
            evals=tuple(self._evals),
            checkpoints=tuple(self._checkpoints),
            matches=tuple(self._matches),
            curriculum=self._curriculum,
            episodes=self._totals,
            alerts=tuple(self._alerts),
            resumes=tuple(self._resumes),
            end=self._end,
            last_time=self._last_time,
            skipped=skipped,
        )


def _with(totals: EpisodeTotals, event: EventEpisodes) -> EpisodeTotals:
    return EpisodeTotals(
        count=totals.count + event.count,
        wins=totals.wins + event.wins,
        losses=totals.losses + event.losses,
        draws=totals.draws + event.draws,
        reasons=dict(Counter(totals.reasons) + Counter(event.reasons)),
    )


class SnapshotFeed:
    """A follower and its fold: ``poll`` returns the new records and the picture after them."""

    def __init__(self, path: Path) -> None:
        self._follower = EventFollower(path)
        self._generation = 0
        self._fold = Fold()

    @property
    def behind(self) -> bool:
        """Whether a limited call left records unread."""
        return self._follower.behind

    @property
    def generation(self) -> int:
        """Rises when the picture was started anew."""
        return self._generation

    def poll(self, limit_bytes: int | None = None) -> tuple[list[Event], RunSnapshot]:
        """Read what is new, at most about ``limit_bytes``; a replaced file starts the picture anew."""
        events = self._follower.poll(limit_bytes)
        if self._follower.generation != self._generation:
            self._generation, self._fold = self._follower.generation, Fold()
        for event in events:
            self._fold.add(event)
        return events, self._fold.snapshot(self._follower.skipped)
