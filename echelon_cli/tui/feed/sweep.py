"""Follower of a sweep: its results are computed again when its journal or its state has changed."""

from dataclasses import replace
from pathlib import Path

from echelon.files import error_text
from echelon.jobs.status import job_status
from echelon.runs import RunPaths
from echelon_cli.listing import file_state
from echelon_cli.tui.feed.messages import FileFollower, SweepView


class SweepFollower(FileFollower):
    """The sweep in a run folder; ``view`` is its state as of the last poll."""

    def __init__(self, root: Path) -> None:
        self.paths = RunPaths(root)
        self.view = SweepView(id=root.name, root=root)
        self._journal: tuple[int, int] | None = None

    def poll(self) -> bool:
        from echelon.jobs.sweeps.results import read_results

        before = self.view
        try:
            journal = file_state(self.paths.trials) or (0, 0)
            state = job_status(self.paths).state
            if journal == self._journal and state == before.state:
                return False
            results = read_results(self.paths)
        except (ValueError, OSError) as error:
            self.view = replace(before, results=None, problem=error_text(error), loaded=True)
            return self.view.problem != before.problem
        self._journal = journal
        self.view = replace(before, state=state, results=results, problem="", loaded=True)
        return True
