"""Follower of the league beside the runs: its database is read, without changing it, when its files have changed."""

import time
from pathlib import Path

from echelon.arena import standings
from echelon.arena.behaviour import style_means
from echelon.arena.store import Store, StoreError, league_path
from echelon_cli.listing import file_state
from echelon_cli.tui.feed.messages import FileFollower, LeagueView

MAX_MATCHES = 500
MAX_ROUNDS = 200
REREAD_FACTOR = 4.0
MAX_REREAD_DELAY_S = 2.0
"""After a read the next one waits for ``REREAD_FACTOR`` times its duration, at most ``MAX_REREAD_DELAY_S``."""

WAL_SUFFIX = "-wal"
"""Suffix of SQLite's write-ahead log, which holds changes that are not yet in the main file."""

LOCK_TIMEOUT_S = 1.0
"""How long a read waits for a lock before it is retried at a later poll."""


class LeagueFollower(FileFollower):
    """The league of a folder of runs; ``view`` is its state as of the last poll."""

    def __init__(self, home: Path | None) -> None:
        self.path = league_path(home)
        self.view = LeagueView()
        self._file_states: tuple[tuple[int, int] | None, ...] | None = None
        self._next_read = 0.0

    def poll(self) -> bool:
        now = time.monotonic()
        states = tuple(file_state(Path(f"{self.path}{suffix}")) for suffix in ("", WAL_SUFFIX))
        if states == self._file_states or now < self._next_read:
            return False
        before, self._file_states = self.view, states
        if not states[0] or not states[0][1]:
            self.view = LeagueView(loaded=True)
            return not before.loaded or bool(before.entries)
        try:
            self.view = read_league(self.path)
        except StoreError as error:
            self._file_states = None
            if not before.entries:
                self.view = LeagueView(problem=str(error), loaded=True)
            return self.view.problem != before.problem
        done = time.monotonic()
        self._next_read = done + min(MAX_REREAD_DELAY_S, REREAD_FACTOR * (done - now))
        return True


def read_league(path: Path) -> LeagueView:
    with Store(path, read_only=True, busy_s=LOCK_TIMEOUT_S) as store:
        ratings, sums = standings.rating_histories(store, MAX_ROUNDS), standings.all_style_sums(store)
        results = standings.head_to_head(store)
        return LeagueView(
            entries=tuple(
                {**row, "style": style_means(sums.get(row["id"], {})), "history": ratings.get(row["id"], [])}
                for row in standings.standings(store)
            ),
            pairs={(pair["id"], pair["against"]): pair for pair in results["pairs"]},
            cycles=tuple(tuple(cycle) for cycle in results["cycles"]),
            matches=tuple(standings.matches(store, limit=MAX_MATCHES)),
            unfinished=tuple(standings.unfinished_rounds(store)),
            loaded=True,
        )
