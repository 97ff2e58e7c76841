"""Followers of one run: its records read as they grow, its newest heat maps, the tail of its log.

While a long history is read, its newest records are shown with the curves so far.
"""

from dataclasses import replace
from itertools import islice
from pathlib import Path

from echelon.files import error_text, reason_of
from echelon.jobs.status import JobStatus, job_status
from echelon.runs import RunPaths
from echelon.telemetry.evaluations import read_evaluations
from echelon.telemetry.events import EventEval, EventResume, EventUpdate
from echelon.telemetry.heat_maps import heat_files, read_heat
from echelon.telemetry.latest import read_latest
from echelon.telemetry.snapshot import RunSnapshot, SnapshotFeed
from echelon_cli.listing import file_state
from echelon_cli.tui.charts.curves import Curves, History
from echelon_cli.tui.feed.logs import LogFollower
from echelon_cli.tui.feed.messages import FileFollower, HeatMaps, RunView

READ_BYTES = 2 << 20

HEAT_MAP_ATTEMPTS = 4
"""Newest heat maps that are tried, in case some are damaged."""

TAIL_LINES = 100


class RunFollower(FileFollower):
    """Follows one run folder; ``view`` returns its state as of the last ``poll``."""

    def __init__(self, root: Path) -> None:
        self.paths = RunPaths(root)
        self._log = LogFollower(self.paths.log_worker, max_lines=TAIL_LINES)
        self._heat_maps = HeatMapFollower(self.paths.heat)
        self._evaluations = EvaluationsFollower(self.paths.evals)
        self._status: JobStatus | None = None
        self._problem = ""
        self._feed = SnapshotFeed(self.paths.metrics)
        self._history = History()
        self._generation = 0
        self._snapshot, self._curves = RunSnapshot(), Curves()

    @property
    def behind(self) -> bool:
        return self._feed.behind

    def poll(self) -> bool:
        before = (self._status, self._problem, self._feed.behind)
        changed = False
        try:
            self._status, self._problem = job_status(self.paths), ""
        except (ValueError, OSError) as error:
            self._problem = error_text(error)
        try:
            changed = self._poll_records()
            changed = self._log.poll() or changed
            changed = self._heat_maps.poll() or changed
            changed = self._evaluations.poll() or changed
        except OSError as error:
            self._problem = f"run {self.paths.id!r} cannot be read: {reason_of(error)}"
        return changed or before != (self._status, self._problem, self._feed.behind)

    def _poll_records(self) -> bool:
        was_behind = self._feed.behind
        events, snapshot = self._feed.poll(READ_BYTES)
        if changed := self._feed.generation != self._generation:
            self._generation, self._history = self._feed.generation, History()
        for event in events:
            if isinstance(event, EventUpdate):
                self._history.add(event)
            elif isinstance(event, EventResume):
                self._history.rewind(event.update)
        if self._feed.behind:
            snapshot = read_latest(self.paths.metrics)
        if events or changed or was_behind or snapshot.skipped != self._snapshot.skipped:
            self._snapshot, self._curves, changed = snapshot, self._history.curves(), True
        return changed

    @property
    def view(self) -> RunView:
        status = self._status
        return RunView(
            id=self.paths.id,
            root=self.paths.root,
            state=status.state if status else "",
            reason=status.reason if status else "",
            phase=status.phase if status else "",
            preset=status.preset if status else "",
            kind=(status.kind if status else "") or "train",
            snapshot=replace(self._snapshot, reports=self._evaluations.results),
            curves=self._curves,
            heat_maps=self._heat_maps.heat_maps,
            log_tail=tuple(self._log.lines),
            problem=self._problem,
            behind=self._feed.behind,
        )


class EvaluationsFollower:
    """Results of evaluation jobs of a run."""

    def __init__(self, path: Path) -> None:
        self.results: tuple[EventEval, ...] = ()
        self._path = path
        self._state: tuple[int, int] | None = None

    def poll(self) -> bool:
        if (state := file_state(self._path)) in (None, self._state):
            return False
        before, self._state = self.results, state
        self.results = read_evaluations(self._path)
        return self.results != before


class HeatMapFollower:
    """The newest readable heat maps of a run."""

    def __init__(self, folder: Path) -> None:
        self.heat_maps: HeatMaps | None = None
        self._folder = folder
        self._state: tuple[int, int] | None = None

    def poll(self) -> bool:
        if (state := file_state(self._folder)) in (None, self._state):
            return False
        self._state = state
        for update, path in islice(reversed(heat_files(self._folder).items()), HEAT_MAP_ATTEMPTS):
            try:
                maps = read_heat(path)
            except ValueError:
                continue  # damaged: an older file is shown
            cells = {kind: tuple(map(tuple, grid.tolist())) for kind, grid in maps.items()}
            self.heat_maps = HeatMaps(update, cells)
            return True
        return False
