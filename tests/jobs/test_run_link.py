"""Progress file of a trainer during preparation, and requests for checkpoints."""

from __future__ import annotations

from echelon.jobs.control import request_checkpoint
from echelon.jobs.worker import RunLink
from echelon.runs import RunPaths, read_json
from echelon.telemetry.events import EventStart
from echelon.telemetry.log import EventLog


def test_progress_file_reports_preparation_phase(tmp_path, monkeypatch):
    monkeypatch.setattr("echelon.jobs.worker.PROGRESS_S", 0.0)
    paths = RunPaths(tmp_path)
    paths.metrics.touch()
    with EventLog(paths.metrics) as log:
        link = RunLink(paths, log)

        def phase() -> str:
            link.write_progress()
            return (read_json(paths.progress) or {})["phase"]

        assert phase() == "starting"
        link.progress("maps", 3, 64)
        assert phase() == "starting, preparing maps 3/64"
        link.progress("observe_kernels", 12, 40)
        assert phase() == "starting, compiling kernels 12/40"
        link.emit(EventStart(device="cpu"))
        assert phase() == "training"


def test_checkpoint_is_wanted_once_and_only_by_a_file(tmp_path):
    paths = RunPaths(tmp_path)
    paths.metrics.touch()
    with EventLog(paths.metrics) as log:
        link = RunLink(paths, log)
        request_checkpoint(paths)
        assert [link.want_checkpoint(), link.want_checkpoint()] == [True, False]
        paths.checkpoint_now.mkdir()
        assert not link.want_checkpoint()
