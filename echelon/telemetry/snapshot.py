"""Snapshot of a run, built from its records, for dashboard, tables and server.

``SnapshotBuilder`` takes records one by one and returns an immutable ``RunSnapshot``; a resume removes the records it
supersedes.
"""

import math
from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

from echelon.telemetry import events
from echelon.telemetry.log import EventFollower, is_superseded_by

MAX_ALERTS = 100

MAX_MARKS = 512
"""Newest checkpoints, and newest updates after the last of them, to which a resume restores exact totals."""

CHUNK_BYTES_PER_POLL = 4 << 20

MAX_LISTED = 2048
"""Maximum length of the lists of ratings, checkpoints and matches; longer ones are thinned out."""

MAX_EVALUATIONS = 512
"""The same for evaluations, which take 6 KiB each because they name their seeds."""

EVALUATION = "eval"
MAX_CURRICULUM_EVENTS = 256

MAX_OPPONENTS = 64
"""Opponents with results of their own; beyond it, the least recently played are dropped."""

MAX_REASONS = 64
"""Most frequent reasons of ends that are counted; a simulator has three."""

RECENT_BATTLES = 100
"""Battles against an opponent over which its recent win rate is taken."""

EVALUATING = "evaluating"
"""What a run does at the update of an evaluation until its result is there."""

WinDrawLoss = tuple[int, int, int]
"""Wins, draws and losses [episodes]."""


@dataclass(frozen=True, kw_only=True)
class EpisodeTotals:
    """Episode counts of the whole run, without superseded episodes."""

    count: int = 0
    wins: int = 0
    losses: int = 0
    draws: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    recent: dict[str, tuple[WinDrawLoss, ...]] = field(default_factory=dict)
    """Results by opponent, most recently played last: newest records with ``RECENT_BATTLES`` battles in all."""
    whole: dict[str, WinDrawLoss] = field(default_factory=dict)
    """Results of the whole run by opponent, for the opponents of ``recent``."""

    @property
    def against(self) -> dict[str, WinDrawLoss]:
        """The newest results by opponent, most recently played last."""
        return {name: _sum(results) for name, results in self.recent.items()}


@dataclass(frozen=True, kw_only=True)
class RunSnapshot:
    """State of a run at one time."""

    start: events.EventStart | None = None
    update: events.EventUpdate | None = None
    best: events.EventEval | None = None
    """The evaluation that chose the best checkpoint."""
    evals: tuple[events.EventEval, ...] = ()
    batches: tuple[events.EventEvalBatch, ...] = ()
    reports: tuple[events.EventEval, ...] = ()
    """Results of evaluation jobs, which are in a file of their own (``echelon.telemetry.evaluations``)."""
    ratings: tuple[events.EventRating, ...] = ()
    leagues: tuple[events.EventLeague, ...] = ()
    checkpoints: tuple[events.EventCheckpoint, ...] = ()
    matches: tuple[events.EventMatch, ...] = ()
    moves: tuple[events.EventCurriculum, ...] = ()
    """Values of the curriculum parameters at the start and after each change, newest last."""
    episodes: EpisodeTotals = EpisodeTotals()
    alerts: tuple[events.EventAlert, ...] = ()
    resumes: tuple[events.EventResume, ...] = ()
    end: events.EventEnd | None = None
    """End of the newest session; None while it runs."""
    round: events.EventRound | None = None
    rung: events.EventRung | None = None
    """Newest rung that a trial of a sweep has reached."""
    last_time: float = 0.0
    skipped: int = 0

    @property
    def is_evaluation(self) -> bool:
        return self.start is not None and self.start.preset == EVALUATION

    def is_trained(self, event: events.EventEval) -> bool:
        """Whether an evaluation is of a trained policy: of a job, after an update, or of a run that starts from one."""
        return (
            event.update > 0
            or self.is_evaluation
            or (self.start is not None and bool(self.start.config.get("start_from")))
        )

    @property
    def evaluation(self) -> events.EventEval | None:
        """The newest evaluation of a trained policy."""
        return next((event for event in reversed(self.evals) if self.is_trained(event)), None)

    @property
    def other_best(self) -> events.EventEval | None:
        """The evaluation that chose the best checkpoint, where the newest evaluation is of another checkpoint."""
        best, last = self.best, self.evaluation
        return best if best and last and self.is_trained(best) and best.update != last.update else None

    @property
    def next_evaluation(self) -> tuple[int, float] | None:
        """Update of the next evaluation in training, 0 for the end, and the estimated time to it [s], NaN if unknown.

        None where none is expected.
        """
        if self.start is None or self.end is not None or self.is_evaluation:
            return None
        every, done = int(self._option("eval", "every_updates")), self.update.update if self.update else 0
        at = (done // every + 1) * every if every else 0
        left = (at - done) * self.update.elapsed_s / done if at and self.update and done else math.nan
        end = math.nan if self.eta_s is None else self.eta_s
        return (0, end) if not at or left > end else (at, left)

    @property
    def activity(self) -> str:
        """What a run does that has no records until it is done; empty while it collects and learns."""
        if self.start is None or self.end is not None or self.is_evaluation or self.round or self.rung:
            return ""
        done, every = self.update.update if self.update else 0, int(self._option("eval", "every_updates"))
        is_over = self.progress >= 1.0
        is_due = (done % every == 0 if every else False) if done else self._option("eval", "at_start")
        is_evaluated = any(event.update == done for event in self.evals[-2:])
        if (is_due or is_over) and not is_evaluated:
            return EVALUATING
        return "saving and reporting" if is_over else ""

    @property
    def method(self) -> str:
        """How the policy learns at present: imitation or PPO; empty before the start and for other jobs."""
        if self.start is None or not self.start.config.get("ppo"):
            return ""
        imitates = self._section("teacher").get("policy") and self.progress < self._option("teacher", "imitation")
        return "imitation" if imitates else "PPO"

    def _section(self, name: str) -> dict[str, Any]:
        found = self.start.config.get(name) if self.start else None
        return found if isinstance(found, dict) else {}

    def _option(self, section: str, name: str) -> float:
        value = self._section(section).get(name)
        return value if isinstance(value, int | float) else 0

    @property
    def global_step(self) -> int:
        """Learner agent-steps so far."""
        return self.update.global_step if self.update else self.start.global_step if self.start else 0

    @property
    def progress(self) -> float:
        """Completed fraction, 0 to 1: of training the larger of steps and wall time, of other jobs their matches."""
        if (part := self.round or self.rung) is not None:
            return 1.0 if self.end and self.end.reason == "completed" else part.progress
        if self.is_evaluation:
            return self.batches[-1].progress if self.batches else 0.0
        if self.start is None:
            return 0.0
        by_step = self.global_step / self.start.total_steps if self.start.total_steps > 0 else 0.0
        elapsed_min = self.update.elapsed_s / 60 if self.update else 0.0
        by_time = elapsed_min / self.start.max_minutes if self.start.max_minutes > 0 else 0.0
        return min(1.0, max(by_step, by_time))

    @property
    def eta_s(self) -> float | None:
        """Estimated remaining time at the average speed [s]; None before the first update or batch."""
        if self.is_evaluation:
            played = sum(batch.duration_s for batch in self.batches)
            return played * (1 - self.progress) / self.progress if self.progress > 0 else None
        if self.update is None or self.update.elapsed_s <= 0 or self.progress <= 0:
            return None
        return self.update.elapsed_s * (1 - self.progress) / self.progress


@dataclass(frozen=True)
class _Mark:
    """Newest update and totals after an update, to which a resume can return."""

    number: int = 0
    update: events.EventUpdate | None = None
    totals: EpisodeTotals = EpisodeTotals()


@dataclass(frozen=True, kw_only=True)
class _EventList:
    """A bounded list of records of one kind in a snapshot."""

    kind: type[events.Event]
    limit: int = MAX_LISTED
    thin: bool = True
    """Whether a full list drops every second record of its older half; otherwise it drops its oldest record."""

    def append(self, listed: list[Any], event: events.Event, protected: events.Event | None = None) -> None:
        """Append a record; thinning keeps ``protected``."""
        if len(listed) >= self.limit:
            half = self.limit // 2 if self.thin else 1
            listed[:half] = [e for i, e in enumerate(listed[:half]) if self.thin and (i % 2 == 0 or e is protected)]
        listed.append(event)


NEWEST: dict[type[events.Event], str] = {
    events.EventStart: "start",
    events.EventUpdate: "update",
    events.EventRound: "round",
    events.EventRung: "rung",
    events.EventEnd: "end",
}
"""Kinds of which a snapshot has the newest record, and the field that it is in."""

LISTS: dict[str, _EventList] = {
    "evals": _EventList(kind=events.EventEval, limit=MAX_EVALUATIONS),
    "batches": _EventList(kind=events.EventEvalBatch, thin=False),
    "ratings": _EventList(kind=events.EventRating),
    "leagues": _EventList(kind=events.EventLeague),
    "checkpoints": _EventList(kind=events.EventCheckpoint),
    "matches": _EventList(kind=events.EventMatch),
    "moves": _EventList(kind=events.EventCurriculum, limit=MAX_CURRICULUM_EVENTS, thin=False),
    "alerts": _EventList(kind=events.EventAlert, limit=MAX_ALERTS, thin=False),
    "resumes": _EventList(kind=events.EventResume),
}


class SnapshotBuilder:
    """Accumulator of records with bounded size."""

    def __init__(self, earlier: Iterable[events.Event] = ()) -> None:
        self._newest: dict[str, Any] = dict.fromkeys(NEWEST.values())
        """Newest record by field."""
        self._best: events.EventEval | None = None
        self._lists: dict[str, list[Any]] = {name: [] for name in LISTS}
        self._recent: deque[_Mark] = deque(maxlen=MAX_MARKS)
        """Marks before the updates since the newest checkpoint; older updates are no target of a resume."""
        self._saved: deque[_Mark] = deque(maxlen=MAX_MARKS)
        self._totals = EpisodeTotals()
        self._last_time = 0.0
        for event in earlier:
            self.add(event)

    def add(self, event: events.Event) -> None:
        self._last_time = max(self._last_time, event.time)
        if isinstance(event, events.EventResume):
            self._apply_resume(event)
        for name, row in LISTS.items():
            if isinstance(event, row.kind):
                row.append(self._lists[name], event, self._best)
        match event:
            case events.EventStart():
                self._newest["end"] = None
            case events.EventUpdate():
                self._recent.append(_Mark(event.update - 1, self._newest["update"], self._totals))
            case events.EventEpisodes():
                self._totals = _add_episodes(self._totals, event)
            case events.EventEval():
                self._best = _better(self._best, event)
            case events.EventCheckpoint():
                self._saved.append(_Mark(event.update, self._newest["update"], self._totals))
                self._recent.clear()
        if name := NEWEST.get(type(event)):
            self._newest[name] = event

    def _apply_resume(self, resume: events.EventResume) -> None:
        """Remove the records that ``resume`` supersedes."""
        self._newest["end"], update = None, self._newest["update"]
        if update is not None and is_superseded_by(update, resume):
            marks = [mark for mark in (*self._recent, *self._saved) if mark.number <= resume.update]
            mark = max(marks, key=lambda mark: mark.number, default=_Mark())
            self._newest["update"], self._totals = mark.update, mark.totals
        self._recent = deque((m for m in self._recent if m.number <= resume.update), maxlen=MAX_MARKS)
        self._saved = deque((m for m in self._saved if m.number <= resume.update), maxlen=MAX_MARKS)
        for name, listed in self._lists.items():
            self._lists[name] = [e for e in listed if not is_superseded_by(e, resume)]
        self._best = reduce(_better, self._lists["evals"], None)

    def snapshot(self, skipped: int = 0) -> RunSnapshot:
        lists: dict[str, Any] = {name: tuple(listed) for name, listed in self._lists.items()}
        return RunSnapshot(
            best=self._best, episodes=self._totals, last_time=self._last_time, skipped=skipped, **self._newest, **lists
        )


def _better(best: events.EventEval | None, event: events.EventEval) -> events.EventEval | None:
    """Return the better of two evaluations; a report decides nothing."""
    if event.purpose != "choice":
        return best
    return event if best is None or event.is_best else best


def _add_episodes(totals: EpisodeTotals, event: events.EventEpisodes) -> EpisodeTotals:
    reasons = Counter(totals.reasons) + Counter(event.reasons)
    unchanged = {"recent": totals.recent, "whole": totals.whole}
    return EpisodeTotals(
        count=totals.count + event.count,
        wins=totals.wins + event.wins,
        losses=totals.losses + event.losses,
        draws=totals.draws + event.draws,
        reasons=dict(reasons if len(reasons) <= MAX_REASONS else reasons.most_common(MAX_REASONS)),
        **(_add_results(totals, event.by_opponent) if event.by_opponent else unchanged),
    )


def _add_results(totals: EpisodeTotals, new: dict[str, dict[str, int]]) -> dict[str, Any]:
    """Return ``recent`` and ``whole`` with new episodes added, most recently played opponents last."""
    recent = {name: results for name, results in totals.recent.items() if name not in new}
    whole = dict(totals.whole)
    for name, counts in new.items():
        added = counts.get("win", 0), counts.get("draw", 0), counts.get("loss", 0)
        results = (*totals.recent.get(name, ()), added)
        battles, first = sum(map(sum, results)), 0
        while battles - sum(results[first]) >= RECENT_BATTLES:
            battles, first = battles - sum(results[first]), first + 1
        recent[name] = results[first:]
        whole[name] = _sum((whole.get(name, (0, 0, 0)), added))
    recent = dict(list(recent.items())[-MAX_OPPONENTS:])
    return {"recent": recent, "whole": {name: whole[name] for name in recent}}


def _sum(results: Iterable[WinDrawLoss]) -> WinDrawLoss:
    wins, draws, losses = (sum(counts) for counts in zip((0, 0, 0), *results, strict=True))
    return wins, draws, losses


class SnapshotFeed:
    """Follows a file: ``poll`` returns the new records and the snapshot after them."""

    def __init__(self, path: Path) -> None:
        self._follower = EventFollower(path)
        self._generation = 0
        self._builder = SnapshotBuilder()

    @property
    def behind(self) -> bool:
        """Whether a limited call left unread records."""
        return self._follower.behind

    @property
    def generation(self) -> int:
        """Increases when the snapshot restarts because the file was replaced."""
        return self._generation

    def move(self, path: Path) -> None:
        """Read the file under its new path."""
        self._follower.path = path

    def poll(self, limit_bytes: int | None = None) -> tuple[list[events.Event], RunSnapshot]:
        """Read new records, at most about ``limit_bytes``; a replaced file restarts the snapshot."""
        found = self._follower.poll(limit_bytes)
        if self._follower.generation != self._generation:
            self._generation, self._builder = self._follower.generation, SnapshotBuilder()
        for event in found:
            self._builder.add(event)
        return found, self._builder.snapshot(self._follower.skipped)


def read_snapshot(path: Path) -> RunSnapshot:
    """Return the snapshot of a whole file, read in chunks."""
    feed = SnapshotFeed(path)
    while True:
        _, snapshot = feed.poll(CHUNK_BYTES_PER_POLL)
        if not feed.behind:
            return snapshot
