"""Full, limited and read-only disks with real processes."""

import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from echelon.jobs import lock
from echelon.telemetry.events import EventUpdate
from echelon.telemetry.log import read_events
from tests.jobs.conftest import fill_disk, process_identity, small_disk, until, wait_for_exit

DISK_BYTES, LIMIT_BYTES = 1 << 20, 30_000
"""Size of the disk, and limit of the worker's files of about thirty updates [bytes]."""


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A small file system, or one mounted with other options, whose folder ``runs`` is the runs folder."""
    folder = tmp_path / "disk"
    folder.mkdir()
    with small_disk(folder, getattr(request, "param", f"size={DISK_BYTES}")) as mounted:
        if not mounted:
            pytest.skip("making a file system is not allowed here")
        monkeypatch.setenv("ECHELON_HOME", str(folder / "runs"))
        yield folder


@pytest.mark.long
def test_full_disk_fails_run_and_resume_continues(disk, start):
    paths = start()
    until(paths, "running")
    time.sleep(0.3)
    filler = fill_disk(disk)
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


@pytest.mark.parametrize(
    ("disk", "message"),
    [(f"size={DISK_BYTES}", "cannot be written"), ("ro", "read-only file system")],
    indirect=["disk"],
    ids=["full", "read-only"],
)
def test_launch_on_full_or_read_only_disk_raises_one_line_error(disk, start, message):
    fill_disk(disk)
    with pytest.raises(ValueError, match=message) as caught:
        start()
    assert "\n" not in str(caught.value)


@pytest.mark.long
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
