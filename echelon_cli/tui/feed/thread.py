"""The feed thread: polls what the active screen has subscribed to and posts a view of whatever has changed.

It runs twice a second and never touches a widget; widgets never read files. Nothing is posted while nothing changes, so
an idle screen costs nothing.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.message import Message

from echelon.runs import RunPaths, list_runs
from echelon_cli.listing import RunRow, run_row
from echelon_cli.tui.feed.follower import RunFollower
from echelon_cli.tui.feed.logs import LogFollower
from echelon_cli.tui.feed.messages import (
    FeedFailed,
    LeagueChanged,
    LogChanged,
    LogView,
    MatchesChanged,
    MatchesView,
    RunChanged,
    RunsChanged,
    RunsView,
    SweepChanged,
)

POLL_S = 0.5
"""Time between polls."""

BACKLOG_PAUSE_S = 0.004
"""Pause between two parts of a long history, which yields to the screen's thread."""

MAX_FOLLOWERS = 8
"""Runs whose history stays in memory, so that returning to one is immediate."""

REPOST_S = 60.0
"""The run list is posted at least this often, because it shows ages."""

RECORDS = 2
"""Files with records at the start of a signature."""

Signature = tuple[tuple[int, int] | None, ...]
"""Modification time and size of each file of a run, None where it is missing."""


class RunCatalogue:
    """The run list; an ended run is read again only when one of its files has changed."""

    def __init__(self, home: Path | None) -> None:
        self.home = home
        self._known: dict[Path, tuple[Signature, RunRow]] = {}

    def poll(self) -> tuple[RunRow, ...]:
        """Return a row for every run, newest first."""
        rows, known = [], {}
        for paths in list_runs(self.home):
            signature = _signature(paths)
            before = self._known.get(paths.root)
            if before and before[0] == signature and not before[1].is_alive:
                row = before[1]
            else:
                row = run_row(paths, before[1] if before and before[0][:RECORDS] == signature[:RECORDS] else None)
            known[paths.root] = (signature, row)
            rows.append(row)
        self._known = known
        return tuple(rows)


def _signature(paths: RunPaths) -> Signature:
    """Return the signature of a run, the files of its records first."""
    found: list[tuple[int, int] | None] = []
    for path in (paths.metrics, paths.evals, paths.exit, paths.processes, paths.spec, paths.labels, paths.queued):
        try:
            state = os.stat(path)
            found.append((state.st_mtime_ns, state.st_size))
        except OSError:
            found.append(None)
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class Subscription:
    """What the active screen shows."""

    roots: tuple[Path, ...] = ()
    """Folders of runs to follow."""
    runs: bool = True
    """Whether the run list is shown."""
    log: Path | None = None
    """Log to follow."""
    matches: bool = False
    """Whether the list of matches is shown."""
    league: bool = False
    """Whether the league is shown."""
    sweep: Path | None = None
    """Folder of the sweep to follow."""


class Feed(threading.Thread):
    """Polls the files of the current subscription until it is stopped."""

    def __init__(self, post: Callable[[Message], object], home: Path | None = None, poll_s: float = POLL_S) -> None:
        """Post messages through ``post``, which must be thread-safe."""
        super().__init__(name="echelon-feed", daemon=True)
        self._post = post
        self._poll_s = poll_s
        self._subscription = Subscription()
        self._runs = RunCatalogue(home)
        self._last_rows: tuple[RunRow, ...] | None = None
        self._last_rows_at = 0.0
        self._followers: OrderedDict[Path, RunFollower] = OrderedDict()
        self._posted_runs: set[Path] = set()
        self._log_follower: LogFollower | None = None
        self._matches: Any = None
        self._last_matches: tuple[dict[str, Any], ...] | None = None
        self._league: Any = None
        self._league_posted = False
        self._sweep: Any = None
        self._sweep_posted = False
        self._wake, self._stopping = threading.Event(), threading.Event()

    @property
    def subscription(self) -> Subscription:
        return self._subscription

    def subscribe(self, run: Path | None, *, others: tuple[Path, ...] = (), **topics: Any) -> None:
        """Replace the subscription: the folders of runs to follow, and the other fields of ``Subscription``."""
        roots = (*(() if run is None else (run,)), *others)
        self._subscription = Subscription(roots=roots, **topics)
        self._league_posted, self._last_matches, self._posted_runs = False, None, set()
        self._sweep_posted = False
        self._wake.set()

    def stop(self) -> None:
        """End the thread after the current poll."""
        self._stopping.set()
        self._wake.set()

    def run(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            has_backlog = False
            try:
                has_backlog = self.poll()
            except Exception as error:
                # any file may be damaged: the dashboard reports it and continues
                self._post(FeedFailed(f"{type(error).__name__}: {error}"))
            self._wake.wait(BACKLOG_PAUSE_S if has_backlog else self._poll_s)

    def poll(self) -> bool:
        """Read everything subscribed to once, post what has changed, and return whether a backlog remains."""
        subscription = self._subscription
        has_backlog = any([self._poll_run(root) for root in subscription.roots])
        if subscription.runs:
            self._poll_runs()
        if subscription.log is not None:
            self._poll_log(subscription.log)
        if subscription.matches:
            self._poll_matches()
        if subscription.league:
            self._poll_league()
        if subscription.sweep is not None:
            self._poll_sweep(subscription.sweep)
        return has_backlog

    def _poll_runs(self) -> None:
        rows = self._runs.poll()
        now = time.time()
        if rows != self._last_rows or now - self._last_rows_at >= REPOST_S:
            self._last_rows, self._last_rows_at = rows, now
            home = self._runs.home
            self._post(RunsChanged(RunsView(rows=rows, home=str(home or ""), loaded=True, now=now)))

    def _poll_run(self, root: Path) -> bool:
        follower = self._followers.get(root) or RunFollower(root)
        self._followers[root] = follower
        self._followers.move_to_end(root)
        while len(self._followers) > MAX_FOLLOWERS:
            self._followers.popitem(last=False)
        if follower.poll() or root not in self._posted_runs:
            self._posted_runs.add(root)
            self._post(RunChanged(follower.view()))
        return follower.behind

    def _poll_matches(self) -> None:
        if self._matches is None:
            from echelon.server.catalogue import ReplayCatalogue

            self._matches = ReplayCatalogue(self._runs.home)
        rows = tuple(match.summary for match in self._matches.matches())
        if rows != self._last_matches:
            self._last_matches = rows
            self._post(MatchesChanged(MatchesView(rows, loaded=True, now=time.time())))

    def _poll_league(self) -> None:
        if self._league is None:
            from echelon_cli.tui.feed.league import LeagueFollower

            self._league = LeagueFollower(self._runs.home)
        if self._league.poll() or not self._league_posted:
            self._league_posted = True
            self._post(LeagueChanged(self._league.view))

    def _poll_sweep(self, root: Path) -> None:
        if self._sweep is None or self._sweep.view.root != root:
            from echelon_cli.tui.feed.sweep import SweepFollower

            self._sweep = SweepFollower(root)
        if self._sweep.poll() or not self._sweep_posted:
            self._sweep_posted = True
            self._post(SweepChanged(self._sweep.view))

    def _poll_log(self, path: Path) -> None:
        if self._log_follower is None or self._log_follower.path != path:
            self._log_follower = LogFollower(path)
            self._log_follower.poll()
        elif not self._log_follower.poll():
            return
        follower = self._log_follower
        self._post(LogChanged(LogView(str(path), path.name, follower.first, tuple(follower.lines))))
