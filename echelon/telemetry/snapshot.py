"""Fold a run's records into one frozen picture that screens, tables and the server show.

``SnapshotBuilder`` takes records one by one and hands out a ``RunSnapshot``; a resume takes back what it supersedes. It
knows nothing of files, processes or screens.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from echelon.telemetry.events import (
    Event,
    EventAlert,
    EventCheckpoint,
    EventCurriculum,
    EventEnd,
    EventEpisodes,
    EventEval,
    EventLeague,
    EventMatch,
    EventRating,
    EventResume,
    EventStart,
    EventUpdate,
)
from echelon.telemetry.log import EventFollower, is_superseded_by

MAX_ALERTS = 100
"""Newest alerts a snapshot carries."""

MAX_MARKS = 512
"""Newest updates, and newest checkpoints, to which a resume can step back exactly."""

CHUNK_BYTES_PER_POLL = 4 << 20
"""Read at once of a file that is read whole."""

MAX_LISTED = 2048
"""Evaluations, ratings, checkpoints and matches kept; of more, every second of the older half is left out."""

MAX_CURRICULUM_EVENTS = 256
"""Newest moves of the curriculum's levers."""

MAX_OPPONENTS = 64
"""Opponents whose battles are counted by name; of more, those met longest ago are forgotten."""

Tally = tuple[int, int, int]
"""Wins, draws and losses."""


@dataclass(frozen=True, kw_only=True)
class EpisodeTotals:
    """Episodes of the whole run, superseded ones left out."""

    count: int = 0
    wins: int = 0
    losses: int = 0
    draws: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    against: dict[str, Tally] = field(default_factory=dict)
    """By opponent, the one met last at the end."""


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
    ratings: tuple[EventRating, ...] = ()
    """Snapshots of the policy rated against older ones."""
    leagues: tuple[EventLeague, ...] = ()
    """Snapshots of the policy that joined the league."""
    checkpoints: tuple[EventCheckpoint, ...] = ()
    matches: tuple[EventMatch, ...] = ()
    moves: tuple[EventCurriculum, ...] = ()
    """Where the levers of the curriculum stood at the start and after each move, the newest ones at the end."""
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


@dataclass(frozen=True)
class _Mark:
    """How things stood after an update."""

    number: int = 0
    update: EventUpdate | None = None
    totals: EpisodeTotals = EpisodeTotals()


class SnapshotBuilder:
    """The accumulator behind a snapshot; its size does not depend on how long the run is."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self._start: EventStart | None = None
        self._end: EventEnd | None = None
        self._update: EventUpdate | None = None
        self._recent: deque[_Mark] = deque(maxlen=MAX_MARKS)
        self._saved: deque[_Mark] = deque(maxlen=MAX_MARKS)
        self._moves: deque[EventCurriculum] = deque(maxlen=MAX_CURRICULUM_EVENTS)
        self._evals: list[EventEval] = []
        self._best: EventEval | None = None
        self._ratings: list[EventRating] = []
        self._leagues: list[EventLeague] = []
        self._checkpoints: list[EventCheckpoint] = []
        self._matches: list[EventMatch] = []
        self._alerts: deque[EventAlert] = deque(maxlen=MAX_ALERTS)
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
                self._mark(event.update)
                self._update = event
            case EventEpisodes():
                self._totals = _with(self._totals, event)
            case EventEval():
                _list(self._evals, event, self._best)
                if self._best is None or event.win_rate > self._best.win_rate:
                    self._best = event
            case EventRating():
                _list(self._ratings, event)
            case EventLeague():
                _list(self._leagues, event)
            case EventCheckpoint():
                _list(self._checkpoints, event)
                self._saved.append(_Mark(event.update, self._update, self._totals))
            case EventMatch():
                _list(self._matches, event)
            case EventCurriculum():
                self._moves.append(event)
            case EventAlert():
                self._alerts.append(event)
            case EventResume():
                self._take_back(event)
            case EventEnd():
                self._end = event

    def _mark(self, next_update: int) -> None:
        """Remember how things stood before the records of ``next_update``."""
        self._recent.append(_Mark(next_update - 1, self._update, self._totals))

    def _take_back(self, resume: EventResume) -> None:
        self._resumes.append(resume)
        self._end = None
        if self._update is not None and is_superseded_by(self._update, resume):
            marks = [mark for mark in (*self._recent, *self._saved) if mark.number <= resume.update]
            mark = max(marks, key=lambda mark: mark.number, default=_Mark())
            self._update, self._totals = mark.update, mark.totals
        self._recent = deque((m for m in self._recent if m.number <= resume.update), maxlen=MAX_MARKS)
        self._saved = deque((m for m in self._saved if m.number <= resume.update), maxlen=MAX_MARKS)
        self._moves = deque((e for e in self._moves if not is_superseded_by(e, resume)), maxlen=MAX_CURRICULUM_EVENTS)
        self._evals = [e for e in self._evals if not is_superseded_by(e, resume)]
        self._best = max(self._evals, key=lambda e: e.win_rate, default=None)
        self._ratings = [e for e in self._ratings if not is_superseded_by(e, resume)]
        self._leagues = [e for e in self._leagues if not is_superseded_by(e, resume)]
        self._checkpoints = [e for e in self._checkpoints if not is_superseded_by(e, resume)]
        self._matches = [e for e in self._matches if not is_superseded_by(e, resume)]

    def snapshot(self, skipped: int = 0) -> RunSnapshot:
        """Return the picture as of the newest record."""
        return RunSnapshot(
            start=self._start,
            update=self._update,
            best=self._best,
            evals=tuple(self._evals),
            ratings=tuple(self._ratings),
            leagues=tuple(self._leagues),
            checkpoints=tuple(self._checkpoints),
            matches=tuple(self._matches),
            moves=tuple(self._moves),
            episodes=self._totals,
            alerts=tuple(self._alerts),
            resumes=tuple(self._resumes),
            end=self._end,
            last_time=self._last_time,
            skipped=skipped,
        )


E = TypeVar("E", bound=Event)


def _list(listed: list[E], event: E, kept: E | None = None) -> None:
    """Append to a list that stays short: when it is full, its older half loses every second, but not ``kept``."""
    if len(listed) >= MAX_LISTED:
        half = MAX_LISTED // 2
        listed[:half] = [e for i, e in enumerate(listed[:half]) if i % 2 == 0 or e is kept]
    listed.append(event)


def _with(totals: EpisodeTotals, event: EventEpisodes) -> EpisodeTotals:
    return EpisodeTotals(
        count=totals.count + event.count,
        wins=totals.wins + event.wins,
        losses=totals.losses + event.losses,
        draws=totals.draws + event.draws,
        reasons=dict(Counter(totals.reasons) + Counter(event.reasons)),
        against=_met(totals.against, event.by_opponent) if event.by_opponent else totals.against,
    )


def _met(before: dict[str, Tally], new: dict[str, dict[str, int]]) -> dict[str, Tally]:
    """Return the battles by opponent after more of them, those met now at the end."""
    after = {name: tally for name, tally in before.items() if name not in new}
    for name, met in new.items():
        wins, draws, losses = before.get(name, (0, 0, 0))
        after[name] = (wins + met.get("win", 0), draws + met.get("draw", 0), losses + met.get("loss", 0))
    return dict(list(after.items())[-MAX_OPPONENTS:])


class SnapshotFeed:
    """A follower and its fold: ``poll`` returns the new records and the picture after them."""

    def __init__(self, path: Path) -> None:
        self._follower = EventFollower(path)
        self._generation = 0
        self._fold = SnapshotBuilder()

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
            self._generation, self._fold = self._follower.generation, SnapshotBuilder()
        for event in events:
            self._fold.add(event)
        return events, self._fold.snapshot(self._follower.skipped)


def read_snapshot(path: Path) -> RunSnapshot:
    """Return the picture of a whole file, read piece by piece."""
    feed = SnapshotFeed(path)
    while True:
        _, picture = feed.poll(CHUNK_BYTES_PER_POLL)
        if not feed.behind:
            return picture
