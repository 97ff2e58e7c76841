"""Links, pipes and devices in run folders are refused, and plans of evaluations that name other folders."""

import os
from pathlib import Path

import pytest

import echelon.jobs.launch
from echelon.files import atomic_write
from echelon.jobs import control, lock
from echelon.jobs.evaluations import ADMITTED, admit, append_evaluation, is_admitted, require_own_folders
from echelon.jobs.kinds import KINDS
from echelon.jobs.launch import LaunchError, launch
from echelon.jobs.spec import JobSpec
from echelon.jobs.supervisor import Supervisor
from echelon.runs import RunPaths, create_run
from echelon.telemetry.events import EventEval
from echelon.telemetry.log import EventLog
from echelon.training.eval_plan import EvalPlan
from tests.jobs.conftest import FILES


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "file").write_text("mine\n")
    return folder


@pytest.fixture
def run(tmp_path) -> RunPaths:
    return create_run("quickstart", tmp_path / "runs")


LINKED = (
    "metrics.jsonl", "log/worker.log", "log/supervisor.log", "evals.jsonl", "exit.json", "control/stop",
    "checkpoints", "replays", "log", "control",
)  # fmt: skip
PIPES = (
    "metrics.jsonl", "supervisor.lock", "log/worker.log", "log/supervisor.log", "control/stop", "control/checkpoint",
    "proc.json", "replays/worlds/world", "heat/u000001.safetensors",
)  # fmt: skip


@pytest.mark.parametrize(("name", "kind"), [*((n, "link") for n in LINKED), *((n, "pipe or device") for n in PIPES)])
def test_job_with_a_link_or_a_pipe_is_not_started_and_takes_no_requests(run, outside, name, kind):
    path = run.root / name
    if is_folder := path.is_dir():
        path.rmdir()
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "link":
        path.symlink_to(outside if is_folder else outside / "file")
    else:
        os.mkfifo(path)
    expected = f"contains the {kind} '{name}', expected files of its own"
    with pytest.raises(LaunchError, match=expected):
        launch(run, JobSpec(kind="train", config={}), KINDS["train"])
    for request in (control.request_stop, control.request_checkpoint):
        with pytest.raises(ValueError, match=expected):
            request(run)
    assert [p.name for p in outside.iterdir()] == ["file"]
    assert (outside / "file").read_text() == "mine\n" and not run.spec.exists()


WRITERS = {
    "metrics.jsonl": lambda run: EventLog(run.metrics),
    "supervisor.lock": lambda run: lock.acquire(run.lock),
    "control/stop": control.request_stop,
    "log/worker.log": lambda run: Supervisor(run, ["true"]).start(),
    "log/supervisor.log": lambda run: launch(run, JobSpec(kind="train", config={}), KINDS["train"]),
    ".exit.json.PID.tmp": lambda run: atomic_write(run.exit, "{}"),
}


@pytest.mark.parametrize("make", FILES.values(), ids=FILES)
@pytest.mark.parametrize("name", WRITERS)
def test_writers_open_files_of_a_run_only(run, outside, monkeypatch, make, name):
    for module in (control, echelon.jobs.launch):
        monkeypatch.setattr(module, "require_plain_files", lambda paths: None)
    monkeypatch.setattr(Supervisor, "_catch_signals", lambda self: None)
    make(run.root / name.replace("PID", str(os.getpid())), outside / "file")
    with pytest.raises((OSError, ValueError), match="is no regular file"):
        WRITERS[name](run)
    assert not lock.is_held(run.lock)
    assert [p.name for p in outside.iterdir()] == ["file"] and (outside / "file").read_text() == "mine\n"


def test_link_to_a_held_lock_is_no_held_lock(run, outside):
    handle = lock.acquire(outside / "file")
    assert handle is not None and lock.is_held(outside / "file")
    run.lock.symlink_to(outside / "file")
    assert not lock.is_held(run.lock)
    os.close(handle)


def test_results_of_an_evaluation_do_not_follow_links(run, outside):
    result = EventEval(update=1, global_step=1, opponent="heuristic:easy", job="j", episodes=2, win_rate=0.5)
    run.evals.symlink_to(outside / "file")
    with pytest.raises(ValueError, match=r"contains the link 'evals\.jsonl'"):
        append_evaluation(run.evals, result)
    assert (outside / "file").read_text() == "mine\n"


def plan(run="", replays="", prefix="") -> EvalPlan:
    fields = {"target": "policy.pt", "opponents": ("heuristic:easy",), "seeds": 1, "batch_seeds": 1, "weapon_prob": 1.0}
    return EvalPlan(**fields, run=str(run), replays=str(replays), replay_prefix=prefix)


@pytest.fixture
def job(tmp_path) -> RunPaths:
    (tmp_path / "runs" / "job").mkdir(parents=True)
    return RunPaths(tmp_path / "runs" / "job")


def test_plan_of_an_evaluation_writes_into_its_run_or_job_only(run, job, outside):
    run.spec.write_text('{"kind": "train"}')
    admit(run.root, job)
    require_own_folders(plan(run.root, run.replays, "eval-20260101-u000002"), job)
    require_own_folders(plan(replays=job.replays), job)
    for wrong in (
        plan(outside),
        plan("outside"),
        plan(run.root, outside),
        plan(replays=outside),
        plan(run.root, run.replays, "../escape"),
    ):
        with pytest.raises(ValueError, match="evaluation plan"):
            require_own_folders(wrong, job)


def test_plan_of_an_evaluation_records_only_where_the_user_allowed_it(run, job, tmp_path, outside):
    other = RunPaths(tmp_path / "received" / job.id)
    other.root.mkdir(parents=True)
    run.spec.write_text('{"kind": "train"}')
    for folder, recording in ((run.root, plan(run.root, run.replays)), (outside, plan(replays=outside / "replays"))):
        folder = folder if recording.run else folder / "replays"
        admit(folder, other)
        with pytest.raises(ValueError, match=r"does not know this job; try: echelon eval .* --resume job"):
            require_own_folders(recording, job)
        admit(folder, job)
        require_own_folders(recording, job)


def test_plan_of_an_evaluation_records_into_plain_folders_only(job, outside):
    folder = outside / "replays"
    (folder / "worlds").mkdir(parents=True)
    admit(folder, job)
    recording = plan(replays=folder)
    require_own_folders(recording, job)
    for name, made in (("m.ecr", os.mkfifo), ("worlds/w.zz", lambda path: path.symlink_to(outside / "file"))):
        made(folder / name)
        with pytest.raises(ValueError, match=rf"contains the .* '{Path(name).name}', expected files of its own"):
            require_own_folders(recording, job)
        (folder / name).unlink()


def test_jobs_that_a_folder_lists_are_whole_lines_of_its_own(run, job, outside, tmp_path):
    with open(run.root / ADMITTED, "w") as file:
        file.write("job-2\ntorn")
    assert not is_admitted(run.root, job)
    for _ in range(2):
        admit(run.root, job)
    line = f"{job.id} {job.root.stat().st_ino}"
    assert is_admitted(run.root, job) and (run.root / ADMITTED).read_text() == f"job-2\ntorn\n{line}\n"
    named = [RunPaths(tmp_path / "received" / name) for name in (job.id, line, "job-2")]
    for received in named:
        received.root.mkdir(parents=True)
    assert [is_admitted(run.root, received) for received in named] == [False, False, False]
    (run.root / ADMITTED).unlink()
    (outside / "jobs").write_text("job\n")
    (run.root / ADMITTED).symlink_to(outside / "jobs")
    assert not is_admitted(run.root, job)
    with pytest.raises(OSError, match="is no regular file"):
        admit(run.root, job)
