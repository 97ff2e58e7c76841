"""Whichever file operation fails, a protocol continues or ends with one clear line, and loses nothing acknowledged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.reliability.recorder import LIMIT_S, environment
from tests.reliability.test_crash_states import CHECKS

SAMPLE = {"checkpoint": 9, "records": 97, "replay": 5, "league": 9, "job": 3, "policy": 2}
"""Distance of the operations that fail in the default and long tiers."""


def sweep(name: str, stride: int) -> dict[str, object]:
    with TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        root.mkdir()
        done = subprocess.run(
            [sys.executable, "-m", "tests.reliability.sweep", name, str(root), str(stride)],
            env=environment(root), capture_output=True, text=True, timeout=LIMIT_S,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", [pytest.param(n, marks=[] if n == "policy" else [pytest.mark.long]) for n in CHECKS])
def test_failing_operation_is_one_line_or_continued(name):
    result = sweep(name, SAMPLE[name])
    assert result["broken"] == [] and result["cases"] > 6


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_every_failing_operation_is_one_line_or_continued(name):
    result = sweep(name, 1)
    print(f"{name}: {result['cases']} cases")
    assert result["broken"] == []
