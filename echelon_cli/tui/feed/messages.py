"""What the feed passes to screens: frozen views, each posted in a message when it has changed.

Textual drops an older queued message for which ``can_replace`` of a newer one is true, so a burst arrives as its last.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.message import Message

from echelon.jobs.status import ALIVE, QUEUED
from echelon.telemetry.snapshot import RunSnapshot
from echelon_cli.listing import RunRow
from echelon_cli.tui.charts.curves import Curves

if TYPE_CHECKING:
    from echelon.jobs.sweeps.results import SweepResults


@dataclass(frozen=True, eq=False)
class RunsView:
    """All runs of a folder, newest first."""

    topic: ClassVar[str] = "runs"
    rows: tuple[RunRow, ...] = ()
    home: str = ""
    loaded: bool = False
    now: float = 0.0


@dataclass(frozen=True, eq=False)
class HeatMaps:
    """Positions at which mechs moved, dealt damage and died in one evaluation."""

    update: int
    maps: dict[str, tuple[tuple[float, ...], ...]]
    """Counts ``[y][x]`` by kind, y upwards."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RunView:
    """One run that is followed."""

    topic: ClassVar[str] = "run"
    id: str = ""
    root: Path | None = None
    state: str = ""
    reason: str = ""
    phase: str = ""
    preset: str = ""
    kind: str = "train"
    snapshot: RunSnapshot = RunSnapshot()
    curves: Curves = field(default_factory=Curves)
    heat_maps: HeatMaps | None = None
    log_tail: tuple[str, ...] = ()
    problem: str = ""
    """Why the run cannot be read; empty where it can."""
    behind: bool = False
    """Whether older records are still being read."""

    @property
    def is_alive(self) -> bool:
        return self.state in ALIVE

    @property
    def is_loading(self) -> bool:
        return self.behind or not self.state

    @property
    def empty_text(self) -> str:
        """Why there is no curve."""
        if self.is_loading:
            return "loading records"
        return "no update yet" if self.is_alive or self.state == QUEUED else "no update"


@dataclass(frozen=True, eq=False)
class LogView:
    """The newest lines of one log."""

    topic: ClassVar[str] = "log"
    path: str = ""
    name: str = ""
    first: int = 0
    """Number of the first line in ``lines``."""
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class MatchesView:
    """All recorded matches: live ones first, then newest first."""

    topic: ClassVar[str] = "matches"
    rows: tuple[dict[str, Any], ...] = ()
    loaded: bool = False
    now: float = 0.0


@dataclass(frozen=True, eq=False, kw_only=True)
class LeagueView:
    """The league at one moment; rows are those of ``echelon.arena.standings``."""

    topic: ClassVar[str] = "league"
    entries: tuple[dict[str, Any], ...] = ()
    """Highest rating first, each with ``style`` (behaviour statistics) and ``history`` (ratings)."""
    pairs: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    cycles: tuple[tuple[str, ...], ...] = ()
    """Entries of which each beats the next and the last beats the first."""
    matches: tuple[dict[str, Any], ...] = ()
    unfinished: tuple[dict[str, Any], ...] = ()
    """Rounds that are not rated yet."""
    problem: str = ""
    """Why the league cannot be read; empty where it can."""
    loaded: bool = False

    def entry(self, entry_id: str) -> dict[str, Any] | None:
        return next((row for row in self.entries if row["id"] == entry_id), None)


@dataclass(frozen=True, eq=False, kw_only=True)
class SweepView:
    """One sweep that is followed."""

    topic: ClassVar[str] = "sweep"
    id: str = ""
    root: Path | None = None
    state: str = ""
    results: "SweepResults | None" = None
    """None until the journal has been read."""
    problem: str = ""
    """Why the sweep cannot be read; empty where it can."""
    loaded: bool = False


View = RunsView | RunView | LogView | MatchesView | LeagueView | SweepView


class FileFollower(ABC):
    """Reads files as they change; ``view`` is their state as of the last ``poll``."""

    view: Any
    behind = False
    """Whether unread records remain, to be read without a pause."""

    @abstractmethod
    def poll(self) -> bool:
        """Read what has changed; return whether the view has changed."""


class ViewChanged(Message):
    """What a follower reads has changed."""

    def __init__(self, view: View) -> None:
        super().__init__()
        self.view = view

    def can_replace(self, message: Message) -> bool:
        if not isinstance(message, ViewChanged):
            return False
        old, new = message.view, self.view
        return type(old) is type(new) and getattr(old, "root", None) == getattr(new, "root", None)


class FeedFailed(Message):
    """A poll raised an exception; the feed continues."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, FeedFailed)
