"""Everything the feed says to the screens: frozen pictures, and one message for each that replaces an older one.

A burst of pictures coalesces to the newest. Nothing here reads a file or knows a widget.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from textual.message import Message

from echelon.jobs.status import ALIVE
from echelon.telemetry.snapshot import RunSnapshot
from echelon_cli.listing import RunRow, opponent_of
from echelon_cli.tui.charts.curves import Curves


@dataclass(frozen=True, eq=False)
class RunsView:
    """Every run, newest first."""

    rows: tuple[RunRow, ...] = ()
    home: str = ""
    loaded: bool = False
    """Whether the folder has been looked at."""
    now: float = 0.0
    """When it was [s since the epoch]."""


@dataclass(frozen=True, eq=False)
class HeatMaps:
    """Where pilots of a run moved, did damage and died in one evaluation."""

    update: int
    maps: dict[str, tuple[tuple[float, ...], ...]]
    """Each kind's counts ``[y][x]``, y upwards."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RunView:
    """One run, followed."""

    id: str = ""
    root: Path | None = None
    state: str = ""
    reason: str = ""
    phase: str = ""
    preset: str = ""
    snapshot: RunSnapshot = RunSnapshot()
    curves: Curves = field(default_factory=Curves)
    heat: HeatMaps | None = None
    """The newest heat maps."""
    tail: tuple[str, ...] = ()
    """The newest lines of the trainer's log."""
    problem: str = ""
    """Why it cannot be shown, if it cannot."""
    behind: bool = False
    """Whether older records are still being read."""

    @property
    def is_alive(self) -> bool:
        return self.state in ALIVE

    @property
    def opponent(self) -> str:
        """Who the learner plays against, empty while unknown."""
        if self.snapshot.evals:
            return self.snapshot.evals[-1].opponent
        return opponent_of(self.snapshot.start.config) if self.snapshot.start else ""


@dataclass(frozen=True, eq=False)
class LogView:
    """The newest lines of one log."""

    run: str = ""
    name: str = ""
    first: int = 0
    """Number of the first line that is kept."""
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class MatchesView:
    """Every recorded match, those still played first, then the newest first."""

    rows: tuple[dict[str, Any], ...] = ()
    loaded: bool = False
    now: float = 0.0
    """When they were looked for [s since the epoch]."""


@dataclass(frozen=True, eq=False, kw_only=True)
class LeagueView:
    """The league as it was at one moment; rows are those of ``arena.standings``."""

    entries: tuple[dict[str, Any], ...] = ()
    """The strongest first, each with ``style`` (figures) and ``history`` (ratings)."""
    pairs: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    """By entry and opponent."""
    cycles: tuple[tuple[str, ...], ...] = ()
    matches: tuple[dict[str, Any], ...] = ()
    """The newest first."""
    unfinished: tuple[dict[str, Any], ...] = ()
    """Rounds that are not rated yet."""
    problem: str = ""
    loaded: bool = False

    def entry(self, wanted: str) -> dict[str, Any] | None:
        return next((row for row in self.entries if row["id"] == wanted), None)


class RunsChanged(Message):
    """The list of runs has changed."""

    def __init__(self, view: RunsView) -> None:
        super().__init__()
        self.view = view

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, RunsChanged)


class RunChanged(Message):
    """A run that is followed has changed."""

    def __init__(self, view: RunView) -> None:
        super().__init__()
        self.view = view

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, RunChanged) and message.view.root == self.view.root


class LogChanged(Message):
    """The log that is read has changed."""

    def __init__(self, view: LogView) -> None:
        super().__init__()
        self.view = view

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, LogChanged)


class MatchesChanged(Message):
    """The list of matches has changed."""

    def __init__(self, view: MatchesView) -> None:
        super().__init__()
        self.view = view

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, MatchesChanged)


class LeagueChanged(Message):
    """The league has changed."""

    def __init__(self, view: LeagueView) -> None:
        super().__init__()
        self.view = view

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, LeagueChanged)


class FeedFailed(Message):
    """Something could not be read, and the feed goes on."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, FeedFailed)
