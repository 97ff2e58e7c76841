"""The job script of SLURM, run with stand-ins for its commands: two tasks train one run, stop and resume."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from echelon.jobs import spec, worker
from echelon.jobs.launch import remove
from echelon.jobs.retention import require_ended
from echelon.jobs.status import job_status
from echelon.runs import RunPaths

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "examples" / "train.sbatch"
SMALL = {
    "env.world.size_x": 40, "env.world.size_y": 40, "num_envs": 2, "bank_maps": 2, "device": '"cpu"', "threads": 1,
    "eval.every_updates": 0, "eval.at_start": "false", "eval.report": "false", "eval.seeds": 1,
    "env.max_episode_seconds": 5.0, "ppo.rollout_steps": 16, "total_steps": 100_000,
}  # fmt: skip
SRUN = """#!/bin/bash
[[ $1 == --* ]] && shift
for rank in $(seq 0 $((SLURM_NTASKS - 1))); do
    SLURM_PROCID=$rank SLURM_LOCALID=0 "$@" & tasks+=($!)
done
trap 'kill -TERM "${tasks[@]}"' TERM
if [ -n "${TERM_AFTER:-}" ]; then
    until grep -q '"update"' "$TERM_AFTER" 2>/dev/null || ! kill -0 "${tasks[0]}"; do sleep 0.2; done
    kill -TERM "${tasks[0]}"
fi
worst=0
for task in "${tasks[@]}"; do wait -n || { worst=$?; kill -KILL "${tasks[@]}" 2>/dev/null; }; done
exit $worst
"""
SCONTROL = """#!/bin/bash
if [ "$1" = show ]; then echo 127.0.0.1; else echo "$@" >> "$REQUEUED"; fi
"""


def test_spec_is_written_once_and_refuses_an_unknown_option_in_one_line(tmp_path):
    run = RunPaths(tmp_path / "a" / "run")
    with pytest.raises(SystemExit, match=r"^error: config key 'nosuch' \(from --set\) does not exist$"):
        spec.main([str(run.root), "--set", "nosuch=1"])
    assert not run.root.exists()
    for seed in (3, 4):
        spec.main([str(run.root), "--preset", "quickstart", "--set", f"seed={seed}"])
    assert spec.read_spec(run).config["seed"] == 3 and spec.read_spec(run).kind == "train"


def sbatch(run: Path, bin_folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start the job script as SLURM would, with two tasks on two nodes."""
    step = {"SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "1", "SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[1-2]"}
    paths = {"PATH": f"{bin_folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "PYTHON": sys.executable}
    return subprocess.Popen(
        ["bash", str(SCRIPT), str(run), *arguments],
        env={**os.environ, **step, **paths, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.mark.long
def test_job_script_trains_on_two_nodes_and_is_queued_again_after_a_stop(tmp_path):
    for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    run, requeued = RunPaths(tmp_path / "run"), tmp_path / "requeued"
    options = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    environment = {"REQUEUED": str(requeued)}
    go = tmp_path / "go"
    job = sbatch(run.root, tmp_path, "--preset", "quickstart", *options, **environment, TERM_AFTER=str(go))
    while not (run.metrics.exists() and '"update"' in run.metrics.read_text() and job_status(run).state == "running"):
        assert job.poll() is None, job.communicate()[0]
        time.sleep(0.2)
    for refused in (require_ended, remove):
        with pytest.raises(ValueError, match="run 'run' is running"):
            refused(run)
    second = sbatch(run.root, tmp_path, **environment, SLURM_JOB_ID="8")
    assert second.wait() and "run 'run' is already running; try: echelon runs stop run" in second.communicate()[0]
    go.write_text('"update"')
    assert job.wait() == 0, job.communicate()[0]
    assert job_status(run).state == "stopped"
    first = [json.loads(line) for line in run.metrics.read_text().splitlines()]
    assert first[-1]["kind"] == "end" and first[-1]["reason"].startswith("stopped")
    assert requeued.read_text() == "requeue 7\n"
    last = [row["update"] for row in first if row["kind"] == "update"][-1]
    stored = json.loads(run.spec.read_text())
    stored["config"]["max_updates"] = last + 1
    run.spec.write_text(json.dumps(stored))
    job = sbatch(run.root, tmp_path, **environment)
    assert job.wait() == 0, job.communicate()[0]
    second = [json.loads(line) for line in run.metrics.read_text().splitlines()[len(first) :]]
    assert [row["update"] for row in second if row["kind"] == "update"] == [last + 1]
    assert second[-1]["reason"] == "completed" and requeued.read_text() == "requeue 7\n"


@pytest.mark.parametrize(
    ("rank", "supervised", "code"), [("0", False, 0), ("1", False, 0), ("0", True, 4), ("1", True, 4)]
)
def test_stopped_rank_is_no_failure_to_its_launcher(tmp_path, monkeypatch, rank, supervised, code):
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setattr(worker, "_is_supervised", lambda paths: supervised)
    for name in ("main", "_supervise"):
        monkeypatch.setattr(worker, name, lambda *arguments: worker.STOPPED)
    assert worker.start([str(tmp_path)]) == code
