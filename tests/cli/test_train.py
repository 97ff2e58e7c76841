"""``echelon train`` from the key to the files: the real worker on a tiny task, in real processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from echelon.jobs import launch
from echelon.jobs.status import job_status
from echelon.runs import RunPaths, find_run, list_runs
from echelon.telemetry.events import EventCheckpoint, EventResume, EventUpdate
from echelon.telemetry.lines import from_json
from echelon.telemetry.log import read_events
from tests.cli.conftest import parsed

TINY = {
    "num_envs": 2,
    "bank_maps": 1,
    "total_steps": 400,
    "save_every": 2,
    "threads": 1,
    "env.world.size_x": 40,
    "env.world.size_y": 40,
    "env.max_episode_seconds": 8.0,
    "ppo.rollout_steps": 8,
    "ppo.num_minibatches": 1,
    "ppo.tbptt_chunk_length": 8,
    "eval.seeds": 1,
    "eval.every_updates": 0,
    "eval.at_start": False,
}
"""Seconds of training: five updates of at most eighty agent-steps each."""

LIMIT_S = 150.0
"""Kernels may have to be compiled first."""

CRASH_SHOWS_WITHIN_S = 3.0


class Shell:
    """A terminal in the repository with runs of its own."""

    def __init__(self, repository: Path) -> None:
        self.repository = repository

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "echelon_cli.main", *words],
            cwd=self.repository,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *words: str, **environment: str) -> tuple[int, str, str]:
        process = self.start(*words, **environment)
        out, err = process.communicate(timeout=LIMIT_S)
        return process.returncode, out, err


@pytest.fixture
def shell(repository: Path) -> Iterator[Shell]:
    yield Shell(repository)
    for paths in list_runs():
        if job_status(paths).is_alive:
            launch.stop(paths, now=True)
            launch.wait_until(paths, lambda status: not status.is_alive, timeout_s=10)


def tiny(**changes: object) -> list[str]:
    options = {**TINY, **{key.replace("__", "."): value for key, value in changes.items()}}
    return ["train", "--preset", "quickstart", *(f"--set={key}={str(value).lower()}" for key, value in options.items())]


def updates(paths: RunPaths) -> list[int]:
    return [event.update for event in read_events(paths.metrics)[0] if isinstance(event, EventUpdate)]


def test_train_saves_and_can_be_evaluated(shell, echelon, jobs_in_process):
    code, out, err = shell.run(*tiny())
    assert (code, err) == (0, "")
    assert "steps/s" in out and "training" in out and "completed" in out and "echelon eval" in out
    paths = find_run("latest")
    assert updates(paths) == list(range(1, len(updates(paths)) + 1))
    code, out, err = echelon("eval", paths.id, "--seeds", "1", "--json")
    assert code == 0, err
    result = parsed(out)
    assert result["episodes"] == 2 and result["map"] == [40, 40, 20]


@pytest.mark.long
def test_kills_before_and_during_a_save_and_a_stop_resume_from_what_is_whole(shell):
    code, out, err = shell.run(*tiny(), ECHELON_FAULT="save.begin")
    assert code == 5 and "SIGKILL" in err, out
    paths = find_run("latest")
    ended, lines = json.loads(paths.exit.read_text()), paths.metrics.read_bytes().splitlines()
    assert ended["time"] - from_json(lines[-1]).time < CRASH_SHOWS_WITHIN_S
    code, _, _ = shell.run("train", "--resume", "latest", ECHELON_FAULT="save.before_rename:2")
    assert code == 5
    events = [from_json(line) for line in paths.metrics.read_bytes().splitlines()]
    assert any(isinstance(e, EventResume) and e.update == 0 for e in events[len(lines) :]), "without a checkpoint"
    (saved,) = [path.name.removeprefix(".tmp-") for path in paths.checkpoints.glob(".tmp-step-*")]
    words = ("train", "--resume", paths.id, "--set")
    code, out, err = shell.run(*words, "total_steps=100000", ECHELON_FAULT="save.weights:1:TERM")
    assert code == 4 and "stopped" in out and f"from {saved}" in out, err
    stopped_and_resumed(shell, paths)
    seen = updates(paths)
    assert seen == list(range(1, len(seen) + 1)), "no update is missing and none is there twice"


def stopped_and_resumed(shell: Shell, paths: RunPaths) -> None:
    """A run that was stopped has saved what was learned last, and trains on from there."""
    before = updates(paths)
    saved = [event for event in read_events(paths.metrics)[0] if isinstance(event, EventCheckpoint)]
    assert saved[-1].update == before[-1], "what was learned last is saved"
    code, _, err = shell.run("train", "--resume", paths.id, "--set", f"total_steps={saved[-1].global_step + 40}")
    assert code == 0, err
    assert updates(paths)[: len(before) + 1] == [*before, before[-1] + 1]


@pytest.mark.slow
@pytest.mark.parametrize("fault", ["train.rollout:3:TERM", "train.update:3:TERM"])
def test_stop_at_any_fault_point_saves_and_resumes(shell, fault):
    code, out, err = shell.run(*tiny(total_steps=100_000), ECHELON_FAULT=fault)
    assert code == 4 and "stopped" in out, err
    before = updates(find_run("latest"))
    assert before == list(range(1, len(before) + 1)) and before[-1] < 6
    stopped_and_resumed(shell, find_run("latest"))


@pytest.mark.long
def test_interrupt_detaches_and_death_of_one_process_ends_the_run(shell, echelon):
    process = shell.start(*tiny(total_steps=10_000_000), "--nproc", "2")
    deadline = time.monotonic() + LIMIT_S
    while not (list_runs() and updates(list_runs()[0])):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
    assert "continues in the background" in out and "echelon runs logs -f" in out
    paths = find_run("latest")
    (row,) = parsed(echelon("runs", "list", "--json")[1])
    assert row["state"] == "running"
    workers = psutil.Process(json.loads(paths.processes.read_text())["worker"]["pid"]).children()
    assert len(workers) == 2
    workers[1].kill()
    assert echelon("runs", "wait", paths.id)[0] == 5
    assert job_status(paths).state == "crashed" and "SIGKILL" in job_status(paths).reason
    assert not any(worker.is_running() for worker in workers)


@pytest.mark.slow
def test_two_processes_train_one_policy_that_resumes_and_exports(shell, tmp_path):
    code, out, err = shell.run(*tiny(total_steps=800), "--nproc", "2", "--set", "profile_updates=3")
    assert (code, err) == (0, ""), err
    paths = find_run("latest")
    start = next(event for event in read_events(paths.metrics)[0] if event.kind == "start")
    assert (start.num_envs, start.rows) == (4, 20), "both processes count"
    first = updates(paths)
    assert first == [*range(1, len(first) + 1)] and len(first) < 8, (
        "both processes count in each update, which is recorded once"
    )
    trace = json.loads(paths.trace.read_text())
    assert any(event["name"] == "update" for event in trace["traceEvents"])
    code, out, err = shell.run("train", "--resume", paths.id, "--set", "total_steps=1200")
    assert (code, err) == (0, ""), err
    assert updates(paths)[-1] > first[-1]
    target = tmp_path / "policy.pt"
    code, out, err = shell.run("policy", "export", paths.id, "--torchscript", str(target), "--json")
    assert code == 0, err
    written = json.loads(out)["torchscript"]
    assert written["difference"] < 1e-4 and target.stat().st_size == written["bytes"]
