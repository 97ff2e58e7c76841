"""Following one run: its records folded as they grow, its newest heat maps, its log; a long one first by samples.

Reads files and knows no widget; when to look, and at what, is decided in ``feed``.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from echelon.jobs.status import JobStatus, job_status
from echelon.runs import RunPaths
from echelon.telemetry.events import EventResume, EventUpdate
from echelon.telemetry.heat_maps import heat_files, read_heat
from echelon.telemetry.latest import UNTIL_WITH_START, read_latest
from echelon.telemetry.preview import sample_updates
from echelon.telemetry.snapshot import RunSnapshot, SnapshotFeed
from echelon_cli.tui.charts.curves import Curves, History
from echelon_cli.tui.feed.logs import LogFollower
from echelon_cli.tui.feed.messages import HeatMaps, RunView

READ_BYTES = 2 << 20
"""Records of a run that are read at once; a longer history is shown while it is being read."""

PREVIEW_FROM = 8 << 20
"""Bytes of records from which a run is first shown by samples of them."""

PREVIEW_S = 2.0
"""Time between previews while the exact history is read."""

TAIL_LINES = 100
"""Newest log lines that a run's picture carries."""


class RunFollower:
    """One run, folded as it grows."""

    def __init__(self, root: Path) -> None:
        self.paths = RunPaths(root)
        self._log = LogFollower(self.paths.log_trainer, keep=TAIL_LINES)
        self._heat = HeatMapFollower(self.paths.heat)
        self._status: JobStatus | None = None
        self._problem = ""
        self._begin()

    def _begin(self) -> None:
        self._feed = SnapshotFeed(self.paths.metrics)
        self._history = History()
        self._generation = 0
        self._snapshot, self._curves = RunSnapshot(), Curves()
        self._previewed = 0.0
        self._preview: tuple[RunSnapshot, Curves] | None = None

    @property
    def behind(self) -> bool:
        """Whether more can be read at once."""
        return self._feed.behind

    def poll(self) -> bool:
        """Read what is new and say whether the picture changed."""
        before = (self._status, self._problem, self._feed.behind)
        changed = False
        try:
            self._status, self._problem = job_status(self.paths), ""
        except (ValueError, OSError) as error:
            self._problem = str(error)
        try:
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
            changed = self._log.poll() or changed
            changed = self._heat.poll() or changed
        except OSError as error:
            self._problem = f"run {self.paths.id!r} cannot be read: {error.strerror}"
        return changed or before != (self._status, self._problem, self._feed.behind)

    def _update_preview(self) -> bool:
        """Show a long run by samples of its records until they are all read; say whether there are new ones."""
        now = time.monotonic()
        if self._previewed and (self._preview is None or now - self._previewed < PREVIEW_S):
            return False
        if not self._previewed and not is_long(self.paths.metrics):
            self._previewed = now
            return False
        self._preview = preview(self.paths.metrics)
        self._previewed = now
        self._snapshot, self._curves = self._preview
        return True

    def view(self) -> RunView:
        """Return the picture as of the last poll."""
        status = self._status
        return RunView(
            id=self.paths.id,
            root=self.paths.root,
            state=status.state if status else "",
            reason=status.reason if status else "",
            phase=status.phase if status else "",
            preset=status.preset if status else "",
            snapshot=self._snapshot,
            curves=self._curves,
            heat=self._heat.heat,
            tail=tuple(self._log.lines),
            problem=self._problem,
            behind=self._feed.behind,
        )


class HeatMapFollower:
    """The newest heat maps of a run, read again only when there are others."""

    def __init__(self, folder: Path) -> None:
        self.heat: HeatMaps | None = None
        self._folder, self._seen = folder, -1

    def poll(self) -> bool:
        """Look for newer maps and say whether there are."""
        try:
            seen = os.stat(self._folder).st_mtime_ns
        except OSError:
            return False
        if seen == self._seen:
            return False
        self._seen = seen
        for update, path in reversed(heat_files(self._folder).items()):
            try:
                maps = read_heat(path)
            except ValueError:
                continue  # damaged: an older one says more than none
            cells = {kind: tuple(map(tuple, grid.tolist())) for kind, grid in maps.items()}
            self.heat = HeatMaps(update, cells)
            return True
        return False


def is_long(metrics: Path) -> bool:
    """Whether reading all records of a run would keep somebody waiting."""
    try:
        return metrics.stat().st_size >= PREVIEW_FROM
    except OSError:
        return False


def preview(metrics: Path) -> tuple[RunSnapshot, Curves]:
    """Return newest records and curves over the whole range of a long run, in a time that does not grow with it."""
    seen, history = read_latest(metrics, until=UNTIL_WITH_START), History()
    for event in sample_updates(metrics):
        history.add(event)
    if seen.update is not None:
        history.add(seen.update)
    snapshot = RunSnapshot(
        start=seen.start,
        update=seen.update,
        best=seen.evaluation,
        evals=(seen.evaluation,) if seen.evaluation else (),
        end=seen.end,
    )
    return snapshot, history.curves()
