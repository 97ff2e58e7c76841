"""What a job folder of someone else may not choose at a resume: databases, numbers of processes, specs of others."""

import json
import os
from typing import cast
from unittest.mock import MagicMock

import pytest

from echelon.jobs import launch as launching
from echelon.jobs import lock, worker
from echelon.jobs.config_layers import resolve
from echelon.jobs.kinds import KINDS
from echelon.jobs.launch import LEAGUE_KEY, PROCESS_BYTES, LaunchError, launch, remove, require_process_memory
from echelon.jobs.spec import JobSpec, read_spec, write_spec
from echelon.runs import RunPaths, create_run
from echelon.telemetry.events import EventStart
from echelon.telemetry.log import EventLog
from echelon.training import loop


@pytest.fixture
def run(tmp_path, monkeypatch) -> RunPaths:
    """A run that was started before, whose supervisor is not started again."""
    paths = create_run("quickstart", tmp_path / "runs")
    write_spec(paths, JobSpec(kind="train", config={}, created=0.0))
    monkeypatch.setattr(launching, "_spawn", lambda *_: launching.READY)
    return paths


def league(path) -> JobSpec:
    return JobSpec(kind="train", config={"opponents": {"league": {"path": str(path)}}})


@pytest.mark.parametrize("key", ["opponents.league.path", "opponents"])
def test_resumed_run_writes_into_no_league_that_the_user_does_not_name(run, tmp_path, key):
    other = str(tmp_path / "other.db")
    value = other if key == LEAGUE_KEY else {"league.path": other}
    with pytest.raises(LaunchError, match=r"expected '.*league\.db' unless you name it: echelon train --resume"):
        launch(run, JobSpec(kind="train", config={key: value}), KINDS["train"])
    assert not run.extension.exists()
    launch(run, league(other), KINDS["train"], named=[LEAGUE_KEY])
    assert run.extension.exists()


def test_league_of_the_runs_folder_or_of_a_new_run_needs_no_naming(run, tmp_path):
    for path in ("", run.root.parent / "league.db"):
        launch(run, league(path), KINDS["train"])
    with pytest.raises(LaunchError, match="unless you name it"):
        launch(run, league(run.root.parent / "x" / ".." / "league.db"), KINDS["train"])
    run.spec.unlink()  # a new run
    launch(run, league(tmp_path / "other.db"), KINDS["train"])


@pytest.mark.parametrize(
    ("kind", "count"),
    [("eval", 2), ("train", 257), ("arena", 1025), ("train", 0), ("train", "2"), ("train", True), ("eval", 10**9)],
)
def test_number_of_processes_is_bounded(run, kind, count):
    with pytest.raises(LaunchError, match=r"nproc is .*, expected 1"):
        launch(run, JobSpec(kind=kind, config={"nproc": count}), KINDS[kind])


def test_more_processes_than_memory_holds_are_refused_before_they_start(monkeypatch):
    memory = type("Memory", (), {"total": 3 * PROCESS_BYTES, "available": 0})
    monkeypatch.setattr("psutil.virtual_memory", lambda: memory)
    monkeypatch.setattr("psutil.swap_memory", lambda: type("Swap", (), {"total": 0}))
    require_process_memory(3)
    with pytest.raises(ValueError, match="nproc is 4, expected at most 3 on this machine"):
        require_process_memory(4)


@pytest.mark.parametrize(("began", "kept"), [(10.0, 64), (30.0, 32)])
def test_settings_of_a_resume_that_is_refused_are_withdrawn(run, monkeypatch, began, kept):
    def refuse(*_, **__):
        raise ValueError("checkpoint does not fit: rows 320, expected 160")

    before, now = (resolve("quickstart", None, {"num_envs": n}).nested() for n in (64, 32))
    with EventLog(run.metrics) as log:
        log.append(EventStart(time=began, device="cpu", config=before))
    write_spec(run, JobSpec(kind="train", config=now, created=20.0))
    monkeypatch.setattr(loop, "run", refuse)
    with pytest.raises(ValueError, match="rows 320") as refusal:
        worker.train(run, cast("worker.RunLink", MagicMock()), "latest")
    assert ("keeps the settings" in str(refusal.value)) == (kept == 64)
    assert read_spec(run).config["num_envs"] == kept


def test_spec_of_a_resume_is_written_by_one_process_at_a_time(run, monkeypatch):
    monkeypatch.setattr(lock, "ACQUIRE_LIMIT_S", 0.0)
    handle = lock.acquire(run.launch_lock)
    with pytest.raises(LaunchError, match="is already being started"):
        launch(run, JobSpec(kind="train", config={"seed": 1}), KINDS["train"])
    assert not run.extension.exists()
    os.close(handle)
    launch(run, JobSpec(kind="train", config={"seed": 2}), KINDS["train"])
    assert json.loads(run.extension.read_text())["config"] == {"seed": 2}


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_what_an_earlier_removal_left_is_not_in_the_way(run, tmp_path, kind):
    left, mine = run.root.with_name(f".{run.id}.removed"), tmp_path / "mine"
    mine.mkdir()
    (mine / "file").touch()
    match kind:
        case "folder":
            (left / "log").mkdir(parents=True)
        case "file":
            left.touch()
        case "link":
            left.symlink_to(mine)
    remove(run)
    assert not run.root.exists() and (mine / "file").exists()
    assert [name for name in os.listdir(run.root.parent) if kind == "folder"] == []
