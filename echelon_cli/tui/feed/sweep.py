"""Follower of a sweep: its results are computed again when its journal or its state has changed."""

from __future__ import annotations

import os
from pathlib import Path

from echelon.files import error_text
from echelon.jobs.status import job_status
from echelon.runs import RunPaths
from echelon_cli.tui.feed.messages import SweepView


class SweepFollower:
    """The sweep in a run folder; ``view`` is its state as of the last poll."""

    def __init__(self, root: Path) -> None:
        self.paths = RunPaths(root)
        self.view = SweepView(id=root.name, root=root)
        self._journal: tuple[int, int] | None = None

    def poll(self) -> bool:
        """Read what has changed; return whether the view has changed."""
        from echelon.jobs.sweeps.results import read_results

        try:
            found = os.stat(self.paths.trials)
            journal = (found.st_mtime_ns, found.st_size)
        except OSError:
            journal = (0, 0)
        before = self.view
        try:
            state = job_status(self.paths).state
            results = before.results if journal == self._journal else read_results(self.paths)
        except (ValueError, OSError) as error:
            self.view = SweepView(id=before.id, root=before.root, problem=error_text(error), loaded=True)
            return self.view.problem != before.problem
        if journal == self._journal and state == before.state:
            return False
        self._journal = journal
        self.view = SweepView(id=before.id, root=before.root, state=state, results=results, loaded=True)
        return True
