"""Jobs with real processes and a fake trainer that does not import torch."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from echelon.jobs.kinds import JobKind
from echelon.jobs.launch import launch
from echelon.jobs.process import ProcessIdentity, identity_from, is_alive, send_signal
from echelon.jobs.spec import JobSpec
from echelon.jobs.status import JobStatus, job_status
from echelon.runs import RunPaths, create_run, list_runs, read_json

FAKE = JobKind(module="tests.jobs.fake_trainer", summary="a trainer without torch")
LIMIT_S = 20.0


@pytest.fixture(autouse=True)
def _child_processes_import_tests(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(repository))


@pytest.fixture
def start() -> Iterator[Callable[..., RunPaths]]:
    """Start fake jobs; their remaining processes are killed afterwards."""

    def start_job(part: str = "steady", paths: RunPaths | None = None, *arguments: str) -> RunPaths:
        paths = paths or create_run("fake")
        launch(paths, JobSpec(kind="train", config={"part": part, "preset": "fake"}), FAKE, arguments)
        return paths

    yield start_job
    for paths in list_runs():
        for name in ("supervisor", "trainer"):
            send_signal(process_identity(paths, name), signal.SIGKILL, paths)


def process_identity(paths: RunPaths, name: str) -> ProcessIdentity | None:
    """Return the identity of the supervisor or the trainer of a run."""
    return identity_from((read_json(paths.processes) or {}).get(name))


def until(paths: RunPaths, *states: str, limit_s: float = LIMIT_S) -> JobStatus:
    """Wait until a job is in one of the states; on timeout fail with its status."""
    deadline = time.monotonic() + limit_s
    while True:
        status = job_status(paths)
        if status.state in states:
            return status
        assert time.monotonic() < deadline, f"{status} is not in {states}"
        time.sleep(0.02)


def wait_for_exit(identity: ProcessIdentity | None, limit_s: float = LIMIT_S) -> None:
    deadline = time.monotonic() + limit_s
    while is_alive(identity):
        assert time.monotonic() < deadline, f"{identity} still runs"
        time.sleep(0.02)


def kill(identity: ProcessIdentity | None, number: int = signal.SIGKILL) -> None:
    assert identity is not None
    os.kill(identity.pid, number)
