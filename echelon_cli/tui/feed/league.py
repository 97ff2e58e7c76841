"""Following the league beside the runs: its file is looked at, and read again only when it has changed.

Reads without changing it, so that a copied or foreign league can be watched; knows no widget.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from echelon.arena import standings
from echelon.arena.behaviour import style_means
from echelon.arena.store import Store, StoreError, league_path
from echelon_cli.tui.feed.messages import LeagueView

MAX_MATCHES = 500
"""Newest matches that are listed."""

ROUNDS = 200
"""Newest ratings of each entry that are drawn."""

REREAD_FACTOR = 4.0
MAX_REREAD_DELAY_S = 2.0
"""A league that changes all the time is read again after so many times as long as reading it took, or so late."""

WAL_SUFFIX = "-wal"
"""Ends the name of the file in which SQLite keeps what is not yet in the main one."""

LOCK_TIMEOUT_S = 1.0
"""How long a reader waits for a lock; then it looks again later [s]."""


class LeagueFollower:
    """The league of a folder of runs."""

    def __init__(self, home: Path | None) -> None:
        self.path = league_path(home)
        self.view = LeagueView()
        self._seen: tuple[tuple[int, int] | None, ...] | None = None
        self._next = 0.0

    def poll(self) -> bool:
        """Look for changes and say whether there are any."""
        now = time.monotonic()
        seen = tuple(_state(Path(f"{self.path}{end}")) for end in ("", WAL_SUFFIX))
        if seen == self._seen or now < self._next:
            return False
        before, self._seen = self.view, seen
        if seen[0] is None:
            self.view = LeagueView(loaded=True)
            return not before.loaded or bool(before.entries)
        try:
            self.view = read_league(self.path)
        except StoreError as error:
            self._seen = None
            if not before.entries:
                self.view = LeagueView(problem=str(error), loaded=True)
            return self.view.problem != before.problem
        read = time.monotonic()
        self._next = read + min(MAX_REREAD_DELAY_S, REREAD_FACTOR * (read - now))
        return True


def read_league(path: Path) -> LeagueView:
    """Return the whole league as of one moment."""
    with Store(path, read_only=True, busy_s=LOCK_TIMEOUT_S) as store:
        ratings, sums = standings.rating_histories(store, ROUNDS), standings.all_style_sums(store)
        met = standings.head_to_head(store)
        return LeagueView(
            entries=tuple(
                {**row, "style": style_means(sums.get(row["id"], {})), "history": ratings.get(row["id"], [])}
                for row in standings.standings(store)
            ),
            pairs={(pair["id"], pair["against"]): pair for pair in met["pairs"]},
            cycles=tuple(tuple(ring) for ring in met["cycles"]),
            matches=tuple(standings.matches(store, limit=MAX_MATCHES)),
            unfinished=tuple(standings.unfinished_rounds(store)),
            loaded=True,
        )


def _state(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size) if found.st_size else None
