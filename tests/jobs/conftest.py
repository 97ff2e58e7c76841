"""Jobs with real processes and a fake worker that does not import torch."""

import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from echelon.jobs.launch import launch
from echelon.jobs.process import ProcessIdentity, identity_from, is_alive, send_signal
from echelon.jobs.spec import JobSpec, write_spec
from echelon.jobs.status import JobStatus, job_status
from echelon.runs import RunPaths, create_run, list_runs, read_json
from tests.jobs.stand_ins import FAKE

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
    kill_all_jobs()


@pytest.fixture
def ended() -> RunPaths:
    """A run that has completed."""
    paths = create_run("fake")
    write_spec(paths, JobSpec(kind="train", config={"part": "short", "preset": "fake"}))
    begin_session(paths, 1)
    paths.exit.write_text(json.dumps({"code": 0}))
    return paths


def begin_session(paths: RunPaths, number: int) -> None:
    """Write the files of a session whose processes are gone."""
    gone = {"pid": 2**22 + 1, "create_time": number, "boot_id": "earlier", "host": socket.gethostname()}
    paths.exit.unlink(missing_ok=True)
    paths.processes.write_text(json.dumps({"supervisor": gone, "worker": gone}))


FILES: dict[str, Callable[[Path, Path], object]] = {
    "pipe": lambda path, target: os.mkfifo(path),
    "socket": lambda path, target: os.mknod(path, stat.S_IFSOCK | 0o600),
    "folder": lambda path, target: path.mkdir(),
    "link": lambda path, target: path.symlink_to(target),
    "dangling link": lambda path, target: path.symlink_to(target.with_name("new")),
}
"""Makers of what is no regular file, by kind."""


def process_identity(paths: RunPaths, name: str) -> ProcessIdentity | None:
    """Return the identity of the supervisor or the worker of a run."""
    return identity_from((read_json(paths.processes) or {}).get(name))


def wait_for(condition: Callable[[], Any], limit_s: float = LIMIT_S, describe: Callable[[], object] = str) -> Any:
    """Return the first true result of ``condition``; on timeout fail with what ``describe`` returns."""
    deadline = time.monotonic() + limit_s
    while not (found := condition()):
        assert time.monotonic() < deadline, describe()
        time.sleep(0.02)
    return found


def until(paths: RunPaths, *states: str, limit_s: float = LIMIT_S) -> JobStatus:
    """Wait until a job is in one of the states."""
    return wait_for(
        lambda: status if (status := job_status(paths)).state in states else None,
        limit_s,
        lambda: f"{job_status(paths)} is not in {states}",
    )


def wait_for_exit(identity: ProcessIdentity | None, limit_s: float = LIMIT_S) -> None:
    wait_for(lambda: not is_alive(identity), limit_s, lambda: f"{identity} still runs")


def kill_job(paths: RunPaths) -> None:
    for name in ("supervisor", "worker"):
        send_signal(process_identity(paths, name), signal.SIGKILL, paths)


def change_boot_id(paths: RunPaths) -> None:
    """Make the processes of a run without an exit record those of an earlier boot."""
    row = read_json(paths.processes) or {}
    for identity in filter(None, row.values()):
        identity["boot_id"] = "an earlier boot"
    if row and not paths.exit.exists():
        paths.processes.write_text(json.dumps(row))


def kill_all_jobs() -> None:
    """Kill every process of the runs folder, twice and sweeps first, as they would start others."""
    for _ in range(2):
        for paths in sorted(list_runs(), key=lambda paths: "-sweep-" not in paths.id):
            kill_job(paths)


def kill(identity: ProcessIdentity | None, number: int = signal.SIGKILL) -> None:
    assert identity is not None
    os.kill(identity.pid, number)


@contextlib.contextmanager
def small_disk(folder: Path, options: str) -> Iterator[bool]:
    """Mount a file system in memory on ``folder`` where that is allowed; give whether it is."""
    tool = shutil.which("mount")
    argv = [str(tool), "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    mounted = tool is not None and not subprocess.run(argv, capture_output=True).returncode
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def fill_disk(folder: Path) -> Path:
    """Write a file until the disk is full; return its path."""
    filler = folder / ".filler"
    with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    return filler
