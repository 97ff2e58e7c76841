"""The programs of ``examples/`` run, each for a few seconds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = {
    "play.py": ("--size", "40"),
    "custom_reward.py": ("--steps", "5"),
    "own_loop.py": ("--seconds", "0", "--battles", "2", "--rollout", "8"),
    "custom_policy.py": ("--steps", "300", "--num-envs", "2"),
}
EXPECTED = {
    "play.py": "winner: ",
    "custom_reward.py": "staying cool",
    "own_loop.py": "agent-steps",
    "custom_policy.py": "updates",
    "train.py": "against medium:",
    "league.sh": "medium",
}
LIMIT_S = 300


def run(name: str, *arguments: str, folder: Path, **environment: str) -> str:
    """Run an example in ``folder`` and return what it printed."""
    program = ["bash"] if name.endswith(".sh") else [sys.executable]
    done = subprocess.run(
        [*program, str(ROOT / "examples" / name), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHON": sys.executable, **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


SHORTEST = "custom_reward.py"


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (n != SHORTEST)) for n in PROGRAMS])
def test_example_runs(name, tmp_path):
    assert EXPECTED[name] in run(name, *PROGRAMS[name], folder=tmp_path)


@pytest.mark.long
def test_example_train_runs(tmp_path):
    arguments = ("--minutes", "0.05", "--num-envs", "4", "--seeds", "1", "--run-dir", "example")
    assert EXPECTED["train.py"] in run("train.py", *arguments, folder=tmp_path)
    assert "hit points left" in run("play.py", "--policy", "example", folder=tmp_path)


@pytest.mark.long
def test_example_league_runs(tmp_path):
    small = ("--num-envs", "4", "--set", "eval.at_start=false", "--set", "eval.seeds=1", "--set", "bank_maps=4")
    league = ("--set", "opponents.league.match_seeds=1", "--set", "opponents.league.match_opponents=1")
    printed = run(
        "league.sh", "0.02", "0.02", "0.02", *small, *league, folder=tmp_path, ECHELON_HOME=str(tmp_path), SEEDS="1"
    )
    assert EXPECTED["league.sh"] in printed


def test_every_example_is_tested():
    programs = {path.name for path in (ROOT / "examples").iterdir() if path.suffix in {".py", ".sh"}}
    assert programs == EXPECTED.keys()
