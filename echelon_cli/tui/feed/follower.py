"""Followers of one run: its records read as they grow, its newest heat maps, the tail of its log.

A long history is shown first from samples of its records, then exactly, when all have been read.
"""

import time
from dataclasses import replace
from itertools import islice
from pathlib import Path

from echelon.files import error_text, reason_of
from echelon.jobs.status import JobStatus, job_status
from echelon.runs import RunPaths
from echelon.telemetry.evaluations import read_evaluations
from echelon.telemetry.events import EventEval, EventResume, EventUpdate
from echelon.telemetry.heat_maps import heat_files, read_heat
from echelon.telemetry.latest import UNTIL_WITH_START, read_latest, sample_updates
from echelon.telemetry.snapshot import RunSnapshot, SnapshotFeed
from echelon_cli.listing import file_state
from echelon_cli.tui.charts.curves import Curves, History
from echelon_cli.tui.feed.logs import LogFollower
from echelon_cli.tui.feed.messages import FileFollower, HeatMaps, RunView

READ_BYTES = 2 << 20

PREVIEW_FROM = 8 << 20
"""Size of ``metrics.jsonl`` [bytes] from which a run is first shown from samples."""

PREVIEW_S = 2.0

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
        self._previewed_at = 0.0
        self._preview: tuple[RunSnapshot, Curves] | None = None

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
        changed = self._update_preview()
        events, snapshot = self._feed.poll(READ_BYTES)
        if self._feed.generation != self._generation:
            self._generation, self._history, changed = self._feed.generation, History(), True
        for event in events:
            if isinstance(event, EventUpdate):
                self._history.add(event)
            elif isinstance(event, EventResume):
                self._history.rewind(event.update)
        if not self._feed.behind and self._preview is not None:
            self._preview, changed = None, True
        if self._preview is None and (events or changed or snapshot.skipped != self._snapshot.skipped):
            self._snapshot, self._curves, changed = snapshot, self._history.curves(), True
        return changed

    def _update_preview(self) -> bool:
        """Sample a long history that is still being read; return whether there are new samples."""
        now = time.monotonic()
        if self._previewed_at and (self._preview is None or now - self._previewed_at < PREVIEW_S):
            return False
        if not self._previewed_at and not is_long(self.paths.metrics):
            self._previewed_at = now
            return False
        self._preview = preview(self.paths.metrics)
        self._previewed_at = now
        self._snapshot, self._curves = self._preview
        return True

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


def is_long(metrics: Path) -> bool:
    state = file_state(metrics)
    return state is not None and state[1] >= PREVIEW_FROM


def preview(metrics: Path) -> tuple[RunSnapshot, Curves]:
    """Return a snapshot of the newest records and curves from samples of all, in time independent of the length."""
    latest, history = read_latest(metrics, until=UNTIL_WITH_START), History()
    for event in sample_updates(metrics):
        history.add(event)
    if latest.update is not None:
        history.add(latest.update)
    return latest, history.curves()
