"""The thread that reads run folders for the dashboard and posts frozen pictures of them.

It follows the list of runs, one run and one log, twice a second, and posts only what changed, so that a screen at rest
costs nothing. It never touches a widget; widgets never touch a file.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
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
)

POLL_S = 0.5
"""Time between looks at the files."""

BACKLOG_PAUSE_S = 0.004
"""Pause between two pieces of a long history, which leaves the screen its turn."""

MAX_FOLLOWERS = 8
"""Runs whose pictures are kept, so that going back to one is immediate."""

REPOST_S = 60.0
"""The list is posted at least so often, because ages change."""

Signature = tuple[tuple[int, int] | None, ...]


class RunCatalogue:
    """The list of runs; a run at rest is looked at again only when one of its files changed."""

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
                row = run_row(paths, before[1] if before and before[0][:1] == signature[:1] else None)
            known[paths.root] = (signature, row)
            rows.append(row)
        self._known = known
        return tuple(rows)


def _signature(paths: RunPaths) -> Signature:
    """Return what changes when a run does, its records first."""
    found: list[tuple[int, int] | None] = []
    for path in (paths.metrics, paths.exit, paths.processes, paths.spec):
        try:
            state = os.stat(path)
            found.append((state.st_mtime_ns, state.st_size))
        except OSError:
            found.append(None)
    return tuple(found)


class Feed(threading.Thread):
    """Looks at the files until it is told to end."""

    def __init__(self, post: Callable[[Message], object], home: Path | None = None, poll_s: float = POLL_S) -> None:
        """Post messages through ``post``, which must be safe to call from a thread."""
        super().__init__(name="echelon-feed", daemon=True)
        self._post = post
        self._poll_s = poll_s
        self._runs = RunCatalogue(home)
        self._followers: OrderedDict[Path, RunFollower] = OrderedDict()
        self._run: Path | None = None
        self._log: Path | None = None
        self._log_follower: LogFollower | None = None
        self._list_runs = True
        self._last_rows: tuple[RunRow, ...] | None = None
        self._last_rows_at = 0.0
        self._others: tuple[Path, ...] = ()
        self._list_matches = False
        self._last_matches: tuple[dict[str, Any], ...] | None = None
        self._matches: Any = None
        self._list_league = False
        self._league: Any = None
        self._league_posted = False
        self._posted: set[Path] = set()
        self._wake, self._stopping = threading.Event(), threading.Event()

    def watch(
        self,
        run: Path | None,
        *,
        runs: bool = True,
        log: Path | None = None,
        others: tuple[Path, ...] = (),
        matches: bool = False,
        league: bool = False,
    ) -> None:
        """Say what the screens need from now on: a run's folder, more of them, all runs, a log, matches, the league."""
        self._list_league, self._league_posted = league, False
        self._list_matches, self._last_matches = matches, None
        self._run, self._list_runs, self._log, self._others = run, runs, log, others
        self._posted = set()
        self._wake.set()

    def stop(self) -> None:
        """Stop reading."""
        self._stopping.set()
        self._wake.set()

    def run(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            has_backlog = False
            try:
                has_backlog = self.poll()
            except Exception as error:
                # whatever lies in a folder, the dashboard goes on and says what it could not read
                self._post(FeedFailed(f"{type(error).__name__}: {error}"))
            self._wake.wait(BACKLOG_PAUSE_S if has_backlog else self._poll_s)

    def poll(self) -> bool:
        """Look at everything that is wanted once, post what changed, and say whether there is more to read now."""
        wanted = (*(root for root in (self._run,) if root is not None), *self._others)
        has_backlog = any([self._poll_run(root) for root in wanted])
        if self._list_runs:
            self._poll_runs()
        if self._log is not None:
            self._poll_log(self._log)
        if self._list_matches:
            self._poll_matches()
        if self._list_league:
            self._poll_league()
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
        if follower.poll() or root not in self._posted:
            self._posted.add(root)
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

    def _poll_log(self, path: Path) -> None:
        if self._log_follower is None or self._log_follower.path != path:
            self._log_follower = LogFollower(path)
            self._log_follower.poll()
        elif not self._log_follower.poll():
            return
        follower = self._log_follower
        self._post(LogChanged(LogView(str(path), path.name, follower.first, tuple(follower.lines))))
