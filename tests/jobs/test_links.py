"""Links in run folders are refused, and plans of evaluations that name other folders: runs are copied around."""

from __future__ import annotations

import pytest

from echelon.jobs import control
from echelon.jobs.eval_worker import require_own_folders
from echelon.jobs.evaluations import append_evaluation
from echelon.jobs.kinds import KINDS
from echelon.jobs.launch import LaunchError, launch
from echelon.jobs.spec import JobSpec
from echelon.runs import RunPaths, create_run
from echelon.telemetry.events import EventEval


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "file").write_text("mine\n")
    return folder


@pytest.fixture
def run(tmp_path) -> RunPaths:
    return create_run("quickstart", tmp_path / "runs")


@pytest.mark.parametrize("name", ["metrics.jsonl", "log/trainer.log", "log/supervisor.log", "evals.jsonl", "exit.json"])
def test_job_with_a_linked_file_is_not_started(run, outside, name):
    (run.root / name).symlink_to(outside / "file")
    with pytest.raises(LaunchError, match=f"contains the link '{name}', expected files of its own"):
        launch(run, JobSpec(kind="train", config={}), KINDS["train"])
    assert (outside / "file").read_text() == "mine\n" and not run.spec.exists()


@pytest.mark.parametrize("name", ["checkpoints", "replays", "log", "control"])
def test_job_with_a_linked_folder_is_not_started(run, outside, name):
    path = run.root / name
    if path.exists():
        path.rmdir()
    path.symlink_to(outside)
    with pytest.raises(LaunchError, match=f"contains the link '{name}'"):
        launch(run, JobSpec(kind="train", config={}), KINDS["train"])
    assert [p.name for p in outside.iterdir()] == ["file"]


def test_requests_do_not_follow_links(run, outside):
    run.stop.symlink_to(outside / "file")
    for request in (control.request_stop, control.request_checkpoint):
        with pytest.raises(ValueError, match="contains the link 'control/stop'"):
            request(run)
    assert (outside / "file").read_text() == "mine\n"


def test_results_of_an_evaluation_do_not_follow_links(run, outside):
    result = EventEval(update=1, global_step=1, opponent="heuristic:easy", job="j", episodes=2, win_rate=0.5)
    run.evals.symlink_to(outside / "file")
    with pytest.raises(ValueError, match=r"contains the link 'evals\.jsonl'"):
        append_evaluation(run.evals, result)
    assert (outside / "file").read_text() == "mine\n"


def test_plan_of_an_evaluation_writes_into_its_run_or_job_only(run, tmp_path, outside):
    job = RunPaths(tmp_path / "runs" / "job")
    run.spec.write_text('{"kind": "train"}')
    require_own_folders(str(run.root), str(run.replays), "eval-20260101-u000002", job)
    require_own_folders("", str(job.replays), "", job)
    for plan in (
        (str(outside), "", ""),
        ("outside", "", ""),
        (str(run.root), str(outside), ""),
        ("", str(outside), ""),
        (str(run.root), str(run.replays), "../escape"),
    ):
        with pytest.raises(ValueError, match="evaluation plan"):
            require_own_folders(*plan, job)
