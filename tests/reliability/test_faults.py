"""Failing file operations, kills, stops and full disks lose nothing acknowledged and change no result."""

import json
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.reliability.played import ALL_CHECKS
from tests.reliability.recorder import environment
from tests.reliability.storm import DISTURBANCES, storm

SAMPLE = {
    "policy": 3, "checkpoint": 31, "records": 61, "league": 31, "evaluation": 7, "queue": 29, "arena": 61, "server": 9,
}  # fmt: skip
"""Distance of the operations that fail in the default and long tiers; the other protocols write as these do."""
LIMIT_S = 4 * 3600.0
"""Time limit of a sweep [s]; the longest takes ten minutes of a core."""


def sweep(name: str, stride: int) -> dict[str, object]:
    with TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
        root = Path(folder) / "root"
        root.mkdir()
        done = subprocess.run(
            [sys.executable, "-m", "tests.reliability.sweep", name, str(root), str(stride)],
            env=environment(root), capture_output=True, text=True, timeout=LIMIT_S,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.long
@pytest.mark.parametrize("name", SAMPLE)
def test_failing_operation_is_one_line_or_continued(name):
    result = sweep(name, SAMPLE[name])
    assert result["broken"] == [] and result["cases"] > 6


@pytest.mark.slow
@pytest.mark.parametrize("name", ALL_CHECKS)
def test_every_failing_operation_is_one_line_or_continued(name):
    result = sweep(name, 1)
    print(f"{name}: {result['cases']} cases")
    assert result["broken"] == []


@pytest.mark.parametrize(
    "disturbances", [pytest.param(len(DISTURBANCES), marks=pytest.mark.long), pytest.param(300, marks=pytest.mark.soak)]
)
def test_disturbed_jobs_equal_undisturbed_ones(disturbances, repository, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(repository))
    result = storm(disturbances, seed=1)
    assert result["wrong"] == [] and sum(result["disturbances"].values()) >= disturbances, result
