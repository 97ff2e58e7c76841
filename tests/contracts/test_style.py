"""The whole project passes its linter, its formatter and its type checker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True)


@pytest.mark.parametrize("command", [["check"], ["format", "--check"]], ids=["rules", "format"])
def test_ruff_has_nothing_to_say(command):  # RL-92
    done = run("ruff", *command, "echelon", "echelon_cli", "tests", "hatch_build.py")
    assert done.returncode == 0, done.stdout


def test_types_are_right():  # RL-92
    if run("pyright", "--version").returncode:
        pytest.skip("pyright could not be fetched from npm")
    done = run("pyright", "--pythonpath", sys.executable)
    assert done.returncode == 0, done.stdout
