"""Full, limited and read-only disks with real processes."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from echelon.jobs import lock
from echelon.runs import create_run
from echelon.telemetry.events import EventUpdate
from echelon.telemetry.log import read_events
from tests.jobs import conftest
from tests.jobs.conftest import process_identity, until, wait_for_exit

DISK_BYTES = 1 << 20
LIMIT_BYTES = 30_000
"""File size limit of the trainer [bytes]: about thirty updates."""


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system of 1 MiB as runs folder."""
    disk = tmp_path / "disk"
    disk.mkdir()
    with conftest.small_disk(disk, DISK_BYTES) as mounted:
        if not mounted:
            pytest.skip("making a file system is not allowed here")
        monkeypatch.setenv("ECHELON_HOME", str(disk))
        yield disk


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    handle = os.open(filler, os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while os.write(handle, bytes(4096)):
            pass
    os.close(handle)
    return filler


def test_full_disk_fails_run_and_resume_continues(small_disk, start):
    paths = start()
    until(paths, "running")
    time.sleep(0.3)
    filler = fill(small_disk)
    status = until(paths, "failed")
    assert "No space left" in status.reason or "is full" in status.reason
    assert "\n" not in status.reason and status.update > 0
    wait_for_exit(process_identity(paths, "supervisor"))
    assert not lock.is_held(paths.lock)
    events, _ = read_events(paths.metrics)
    before = [event.update for event in events if isinstance(event, EventUpdate)]
    assert before == list(range(1, len(before) + 1)), "all written records are readable"
    filler.unlink()
    start("short", paths, "--resume", "latest")
    assert until(paths, "completed").update == 5


def test_launch_on_full_disk_raises_one_line_error(small_disk, start):
    fill(small_disk)
    with pytest.raises(ValueError, match="cannot be written") as caught:
        start()
    assert "\n" not in str(caught.value)


def test_file_size_limit_fails_run_with_one_line_error(start):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, hard))
    try:
        paths = start()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    status = until(paths, "failed")
    assert "File too large" in status.reason or "bytes of a record fit" in status.reason
    events, skipped = read_events(paths.metrics)
    assert len(events) > 5 and skipped <= 1
    assert paths.metrics.stat().st_size <= LIMIT_BYTES


def test_create_run_on_read_only_disk_raises_one_line_error(small_disk, monkeypatch):
    disk = small_disk / "sealed"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("making a read-only file system is not allowed here")
    try:
        monkeypatch.setenv("ECHELON_HOME", str(disk / "runs"))
        with pytest.raises(ValueError, match="read-only file system") as caught:
            create_run("fake")
        assert "\n" not in str(caught.value)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
