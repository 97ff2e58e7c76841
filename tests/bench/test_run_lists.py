"""Speed of lists of runs; needs an idle machine."""

import json
import os
import subprocess
import sys
import time
from dataclasses import asdict

import pytest

from echelon.jobs.config_layers import resolve
from echelon.jobs.spec import JobSpec
from echelon.runs import RunPaths
from echelon.telemetry.events import EventEnd, EventEpisodes, EventEval, EventStart, EventUpdate
from echelon.telemetry.lines import to_json
from echelon_cli.tui.feed.runs import RunsFollower

RUNS, UPDATES, LIMIT_S = 10_000, 40, 2.0
FIRST_POLL_S = 4.0
"""One thread of the dashboard reads every run once, while its screen is in use."""


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """10,000 ended runs of 40 updates."""
    home, resolved = tmp_path_factory.mktemp("runs"), resolve("quickstart")
    config = resolved.nested()
    spec = json.dumps(asdict(JobSpec(kind="train", config=config, provenance=resolved.provenance)), indent=2)
    numbers = {f"measure_{n}": 0.5 for n in range(20)}
    events = [EventStart(device="cpu", total_steps=1000, config=config)]
    for update in range(1, UPDATES):
        events.append(EventUpdate(update=update, global_step=update, phases_s=numbers, reward_terms=numbers))
        events.append(EventEpisodes(update=update, global_step=update, count=5))
    events.append(EventEval(update=UPDATES, global_step=UPDATES, opponent="baseline", episodes=80, win_rate=0.5))
    events.append(EventEnd(reason="completed", update=UPDATES))
    lines = "\n".join([*map(to_json, events), ""])
    for number in range(RUNS):
        paths = RunPaths(home / f"20260101-{number:06d}-quickstart-calm-fox")
        paths.root.mkdir()
        paths.spec.write_text(spec)
        paths.metrics.write_text(lines)
        paths.exit.write_text(json.dumps({"code": 0, "signal": None, "message": "", "update": UPDATES}))
        paths.processes.write_text("{}")
    return home


@pytest.mark.bench
def test_command_lists_ten_thousand_runs(home):
    command = [sys.executable, "-m", "echelon_cli.main", "runs", "list"]
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        done = subprocess.run(command, env={**os.environ, "ECHELON_HOME": str(home)}, capture_output=True, text=True)
        seconds.append(time.perf_counter() - started)
        assert done.stdout.count("calm-fox") == RUNS
    print(f"runs list: {min(seconds):.2f} s")
    assert min(seconds) <= LIMIT_S


@pytest.mark.bench
def test_dashboard_polls_ten_thousand_runs(home):
    catalogue, seconds = RunsFollower(home), []
    for _ in range(2):
        started = time.perf_counter()
        assert len(catalogue.read()) == RUNS
        seconds.append(time.perf_counter() - started)
    print(f"first poll {seconds[0]:.2f} s, next {seconds[1]:.2f} s")
    assert seconds[0] <= FIRST_POLL_S and seconds[1] <= LIMIT_S
