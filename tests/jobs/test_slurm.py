"""The job script of SLURM, run with stand-ins for its commands: two nodes train one run, stop and resume."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from echelon.jobs import spec, worker
from echelon.jobs.exits import exit_record
from echelon.jobs.launch import remove
from echelon.jobs.process import SUPERVISED
from echelon.jobs.retention import require_ended
from echelon.jobs.status import job_status
from echelon.runs import RunPaths
from echelon.telemetry.events import EventEnd
from echelon.telemetry.log import EventLog
from tests.jobs import fake_slurm
from tests.jobs.conftest import wait_for

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "examples" / "train.sbatch"
LIMIT_S = 240.0
SMALL = {
    "env.world.size_x": 40, "env.world.size_y": 40, "num_envs": 2, "bank_maps": 2, "device": '"cpu"', "threads": 1,
    "eval.every_updates": 0, "eval.at_start": "false", "eval.report": "false", "eval.seeds": 1,
    "env.max_episode_seconds": 5.0, "ppo.rollout_steps": 16, "total_steps": 100_000,
}  # fmt: skip


def test_spec_is_written_once_and_refuses_an_unknown_option_in_one_line(tmp_path):
    run = RunPaths(tmp_path / "a" / "run")
    with pytest.raises(SystemExit, match=r"^error: config key 'nosuch' \(from --set\) does not exist$"):
        spec.main([str(run.root), "--set", "nosuch=1"])
    assert not run.root.exists()
    for seed in (3, 4):
        spec.main([str(run.root), "--preset", "quickstart", "--set", f"seed={seed}"])
    assert spec.read_spec(run).config["seed"] == 3 and spec.read_spec(run).kind == "train"


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    found = fake_slurm.Cluster(tmp_path / "slurm", monkeypatch)
    monkeypatch.setenv("PYTHON", sys.executable)
    yield found
    found.end()


def sbatch(cluster: fake_slurm.Cluster, run: RunPaths, *arguments: str) -> str:
    """Submit the job script and return the number of the job."""
    done = subprocess.run(["sbatch", str(SCRIPT), str(run.root), *arguments], stdout=subprocess.PIPE, text=True)
    return done.stdout.split()[-1]


def state(number: str) -> str:
    return fake_slurm.read(number)["state"]


def records(run: RunPaths) -> list[dict]:
    return [json.loads(line) for line in run.metrics.read_text().splitlines()] if run.metrics.exists() else []


def updates(run: RunPaths, after: int = 0) -> list[int]:
    return [row["update"] for row in records(run)[after:] if row["kind"] == "update"]


@pytest.mark.long
def test_job_script_trains_on_two_nodes_stops_before_its_end_and_outlives_a_lost_node(tmp_path, cluster):
    run = RunPaths(tmp_path / "run")
    options = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    first = sbatch(cluster, run, "--preset", "quickstart", *options)
    wait_for(lambda: updates(run) and job_status(run).state == "running", LIMIT_S, lambda: state(first))
    assert records(run)[0]["num_envs"] == 2 * SMALL["num_envs"], "two ranks"
    for refused in (require_ended, remove):
        with pytest.raises(ValueError, match="run 'run' is running"):
            refused(run)
    second = sbatch(cluster, run)
    wait_for(lambda: state(second) == "FAILED", LIMIT_S)
    cluster.signal(signal.SIGTERM)
    wait_for(lambda: state(first) == "COMPLETED", LIMIT_S, lambda: state(first))
    found = records(run)
    assert job_status(run).state == "stopped" and found[-1]["reason"] == "stopped" and found[-1]["checkpoint"]
    assert found[-1]["update"] == updates(run)[-1], "the signal came by two ways, and nothing was abandoned"
    assert (cluster.root / "requeued").read_text() == f"requeue {first}\n"
    third = sbatch(cluster, run)
    wait_for(lambda: updates(run, len(found)), LIMIT_S, lambda: state(third))
    assert updates(run, len(found))[0] == found[-1]["update"] + 1
    cluster.kill_node("node2")
    wait_for(lambda: state(third) == "NODE_FAIL", LIMIT_S, lambda: state(third))
    assert job_status(run).state == "crashed" and records(run)[-1]["kind"] != "end"


@pytest.mark.long
def test_killed_rank_on_another_node_ends_in_a_record_that_says_so(tmp_path, cluster):
    run = RunPaths(tmp_path / "run")
    options = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    job = sbatch(cluster, run, "--preset", "quickstart", *options)
    wait_for(lambda: updates(run), LIMIT_S, lambda: state(job))
    fake_slurm.kill(lambda env: env.get("RANK") == "1" and env.get(fake_slurm.FOLDER_VARIABLE) == str(cluster.root))
    wait_for(lambda: state(job) == "FAILED", LIMIT_S, lambda: state(job))
    found = job_status(run)
    assert found.state == "crashed" and found.reason.startswith("worker terminated by SIGKILL")


@pytest.mark.parametrize(("failed", "state"), [(True, "failed"), (False, "crashed")])
def test_run_whose_rank_lost_another_crashed_unless_one_says_why_it_failed(tmp_path, monkeypatch, failed, state):
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    run = RunPaths(tmp_path)
    text = "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error [10.0.0.2]:33954: reset by peer. GLHF"
    run.spec.write_text(json.dumps({"kind": "train", "config": {}}))

    def lose(paths, link, resume):
        if failed:
            with EventLog(paths.metrics) as log:
                log.append(EventEnd(reason="failed", message="process 1: out of memory"))
        raise RuntimeError(text)

    code = worker.main([str(tmp_path)], work=lose)
    run.log.mkdir()
    run.log_worker.write_text(worker.explain(RuntimeError(text)))
    run.exit.write_text(json.dumps(exit_record(run, code, earlier_bytes=0, oom=False)))
    status = job_status(run)
    why = (
        "process 1: out of memory"
        if failed
        else "lost another process of the run: Read error [10.0.0.2]:33954: reset by peer"
    )
    assert (status.state, status.reason) == (state, why)


@pytest.mark.parametrize(
    ("rank", "supervised", "code"), [("0", False, 0), ("1", False, 0), ("0", True, 4), ("1", True, 4)]
)
def test_stopped_rank_is_no_failure_to_its_launcher(tmp_path, monkeypatch, rank, supervised, code):
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv(SUPERVISED, str(tmp_path) if supervised else "/another/run")
    for name in ("main", "_supervise"):
        monkeypatch.setattr(worker, name, lambda *arguments: worker.STOPPED)
    assert worker.start([str(tmp_path)]) == code
