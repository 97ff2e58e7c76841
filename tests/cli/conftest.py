"""Commands run in this process, or as the processes that a terminal would start."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from echelon.files import atomic_write
from echelon.jobs.spec import JobSpec, write_spec
from echelon.runs import RunPaths, runs_home
from echelon.telemetry.events import EventEnd, EventEval, EventStart, EventUpdate
from echelon.telemetry.log import EventLog
from echelon_cli import output
from echelon_cli.main import run


@pytest.fixture
def echelon(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Run a command line; return exit code, standard output and standard error."""

    def call(*words: str) -> tuple[int, str, str]:
        output.console.cache_clear()
        capsys.readouterr()
        code = run(words)
        output.console.cache_clear()
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


@pytest.fixture
def ended_run() -> Callable[..., RunPaths]:
    """A run that has ended, with an evaluation or two."""

    def make(name: str, *, lr: float = 1e-3, wins: float = 0.6) -> RunPaths:
        paths = RunPaths(runs_home() / name)
        for folder in (paths.root, paths.log):
            folder.mkdir(parents=True)
        config = {"preset": "quickstart", "ppo": {"lr": lr}}
        write_spec(paths, JobSpec(kind="train", config=config, provenance={"ppo.lr": "--set"}))
        with EventLog(paths.metrics) as log:
            log.append(EventStart(device="cpu", total_steps=1000))
            log.append(EventEval(update=0, global_step=0, opponent="baseline", episodes=80, win_rate=0.1))
            log.append(EventUpdate(update=4, global_step=400, elapsed_s=8.0, steps_per_s=50.0, avg_return=1.5))
            log.append(EventEval(update=4, global_step=400, opponent="baseline", episodes=80, win_rate=wins))
            log.append(EventEnd(reason="completed", update=4, global_step=400))
        paths.log_worker.write_text("first line\nsecond line\n")
        ended = {"code": 0, "signal": None, "message": "", "update": 4, "global_step": 400}
        atomic_write(paths.exit, json.dumps(ended))
        return paths

    return make


def command(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command line in a process of its own, as a terminal does."""
    argv = [sys.executable, "-m", "echelon_cli.main", *words]
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, env={**os.environ, **environment})


def parsed(text: str) -> Any:
    return json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
