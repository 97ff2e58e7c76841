"""Follower of the run list; an ended run is read again only when one of its files has changed."""

import time
from pathlib import Path

from echelon.runs import RunPaths, list_runs
from echelon_cli.listing import RunRow, file_state, run_row
from echelon_cli.tui.feed.messages import FileFollower, RunsView

REPOST_S = 60.0
"""The view changes at least this often, because it has ages."""

RECORDS = 2
"""Files with records at the start of a signature."""

Signature = tuple[tuple[int, int] | None, ...]
"""Modification time and size of each file of a run, None where it is missing."""


class RunsFollower(FileFollower):
    """All runs of a folder."""

    def __init__(self, home: Path | None) -> None:
        self.home = home
        self.view = RunsView()
        self._known: dict[Path, tuple[Signature, RunRow]] = {}

    def poll(self) -> bool:
        rows, now = self.read(), time.time()
        if self.view.loaded and rows == self.view.rows and now - self.view.now < REPOST_S:
            return False
        self.view = RunsView(rows=rows, home=str(self.home or ""), loaded=True, now=now)
        return True

    def read(self) -> tuple[RunRow, ...]:
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
    files = (paths.metrics, paths.evals, paths.exit, paths.processes, paths.spec, paths.labels, paths.queued)
    return tuple(map(file_state, files))
