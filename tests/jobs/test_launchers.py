"""Queue, sweeps and arena rounds on a cluster, one of whose nodes is killed in the middle: everything runs once."""

import contextlib
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from echelon.jobs import launchers, tickets
from echelon.jobs.kinds import KINDS
from echelon.jobs.launchers import read_placement
from echelon.jobs.queue import open_queue
from echelon.jobs.ranks import free_port
from echelon.jobs.shards import FOLDER
from echelon.jobs.status import job_status
from echelon.rl.checkpoint import latest_valid
from echelon.runs import RunPaths, list_runs
from echelon.telemetry.events import EventStart, EventUpdate
from echelon.telemetry.log import read_events
from echelon_cli import sweep_job
from tests.jobs import fake_slurm
from tests.jobs.conftest import kill_all_jobs, kill_job, process_identity
from tests.jobs.conftest import wait_for as wait_until
from tests.jobs.queued import change, count, order, processes, put
from tests.jobs.stand_ins import ASK_S, REAL_VARIABLE, SWEEP, UPDATE_S_VARIABLE, WAITER
from tests.jobs.test_arena_job import league_store, play_undisturbed, played_matches, start_job  # noqa: F401
from tests.jobs.test_sweep_worker import table, trained_once, undisturbed_sweep  # noqa: F401

VICTIM = "node2"


class Ray:
    """A head and a second node, with two cores each."""

    variable = "TEST_RAY_NODE"

    def __init__(self, root: Path, monkeypatch) -> None:
        self.root, self.port, self.dashboard = root, free_port(), free_port()
        monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
        try:
            self.begin()
        except BaseException:
            self.end()
            raise
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{self.port}")
        self.text = f"ray:address=http://127.0.0.1:{self.dashboard}"

    def begin(self) -> None:
        options = [f"--port={self.port}", f"--dashboard-port={self.dashboard}", f"--temp-dir={self.root}"]
        self._start("node1", "--head", *options)
        self.join(VICTIM)

    def join(self, node: str) -> None:
        self._start(node, f"--address=127.0.0.1:{self.port}")

    def on_node(self, node: str, command: list[str]) -> tuple[list[str], dict[str, str]]:
        """Return a command, and its environment, as it runs on a node."""
        return command, {**os.environ, self.variable: node}

    def _start(self, node: str, *options: str) -> None:
        """Start a node; on a busy machine the limits of Ray's start may be exceeded, so it is tried again."""
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--num-cpus=2", *options]
        limits = ["--object-store-memory=100000000", "--disable-usage-stats"]
        command, env = self.on_node(node, [*command, *limits])
        env |= {"RAY_health_check_failure_threshold": "2", "RAY_worker_niceness": "0"}
        for _ in range(3):
            if subprocess.run(command, env=env, capture_output=True, timeout=180).returncode == 0:
                return
        raise RuntimeError(f"{node} of Ray does not start")

    def processes(self, node: str) -> list[str]:
        """Return the command lines of the processes of a node; those of tasks name their functions."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error, OSError):
                if process.environ().get(self.variable) == node:
                    found.append(" ".join(process.cmdline()))
        return found

    def kill_node(self, victim: str) -> None:
        for _ in range(2):
            fake_slurm.kill(lambda env: env.get(self.variable) == victim)

    def end(self) -> None:
        for _ in range(2):
            fake_slurm.kill(lambda env: self.variable in env)


CLUSTERS = {"slurm": ("submitit", fake_slurm.Cluster), "ray": ("ray", Ray)}
"""Package and clusters of two nodes on this machine, by launcher."""


def works_on_victim(cluster, run: RunPaths) -> bool:
    """Whether the process of a run works on the node to be killed."""
    worker = process_identity(run, "worker")
    with contextlib.suppress(psutil.Error, OSError):
        return worker is not None and psutil.Process(worker.pid).environ().get(cluster.variable) == VICTIM
    return False


@pytest.fixture(params=CLUSTERS)
def cluster(request, tmp_path_factory, monkeypatch):
    package, kind = CLUSTERS[request.param]
    pytest.importorskip(package, reason=f"{package} is not installed: pip install 'echelon[{request.param}]'")
    monkeypatch.setattr(launchers, "SLURM_ASK_S", ASK_S)
    # sockets of Ray need a short path
    found = kind(tmp_path_factory.mktemp("c", numbered=True) / request.param, monkeypatch)
    yield found
    kill_all_jobs()
    found.end()


def wait_for(condition) -> None:
    wait_until(condition, 240.0)


@pytest.mark.long
def test_queue_with_a_killed_node_runs_every_entry_once(cluster, monkeypatch):
    monkeypatch.setattr(tickets, "WAITER", WAITER)
    runs = [put(number, updates=60) for number in range(5)]
    change(launcher=cluster.text, at_once=4)
    open_queue().revive()
    wait_for(lambda: any(works_on_victim(cluster, run) and count(run, "sessions") for run in runs))
    hit = {run.id for run in runs if works_on_victim(cluster, run)}
    cluster.kill_node(VICTIM)
    for process in processes():
        if "wait" in process.cmdline():
            process.kill()

    def is_empty() -> bool:
        open_queue().revive()
        time.sleep(1.0)  # a waiting supervisor takes its ticket before the next one is started
        return not order()

    wait_for(is_empty)
    for run in runs:
        sessions = count(run, "sessions")
        assert len(count(run, "results")) == 1 and "overlap" not in sessions, f"{run.id}: {sessions}"
        if run.id not in hit:
            assert sessions == ["first"], run.id
    assert any("resumed" in count(run, "sessions") for run in runs if run.id in hit)
    assert {job_status(run).state for run in runs} == {"completed"}


@pytest.mark.long
@pytest.mark.parametrize("cluster", ["slurm"], indirect=True)
def test_queued_training_on_two_nodes_goes_on_from_its_newest_checkpoint_after_one_is_killed(cluster, monkeypatch):
    monkeypatch.setattr(tickets, "WAITER", WAITER)
    monkeypatch.setenv(REAL_VARIABLE, "1")
    run = put(pause_s=0.2, updates=12)
    change(launcher=f"{cluster.text},nodes=2")
    open_queue().revive()
    wait_for(lambda: len(list(run.checkpoints.glob("step-*"))) >= 2)
    cluster.kill_node(VICTIM)
    number = next(cluster.root.glob("job-*.json")).stem.removeprefix("job-")
    wait_for(lambda: fake_slurm.read(number)["state"] == "NODE_FAIL")
    saved = latest_valid(run.checkpoints).checkpoint
    (cluster.root / f"{VICTIM}.down").unlink()
    wait_for(lambda: job_status(run).state == "completed" and not order())
    events = read_events(run.metrics)[0]
    starts = [event for event in events if isinstance(event, EventStart)]
    assert [(event.num_envs, event.resume) for event in starts] == [(4, ""), (4, saved.path.name)]
    assert [event.update for event in events if isinstance(event, EventUpdate)][-1] == 12


@pytest.mark.slow
def test_sweep_with_a_killed_node_has_the_undisturbed_table(cluster, monkeypatch, undisturbed):
    monkeypatch.setitem(KINDS, "sweep", SWEEP)
    monkeypatch.setenv(UPDATE_S_VARIABLE, "0.2")
    plan, expected = undisturbed
    paths = sweep_job.start(replace(plan, at_once=3, launcher=cluster.text)).paths
    wait_for(lambda: any(works_on_victim(cluster, run) for run in list_runs() if run.id != paths.id))
    cluster.kill_node(VICTIM)
    kill_job(paths)

    def is_complete() -> bool:
        if not job_status(paths).is_alive and job_status(paths).state != "completed":
            sweep_job.resume(paths.id)
        return job_status(paths).state == "completed"

    wait_for(is_complete)
    assert table(paths, plan) == expected
    trained_once(paths, plan)
    assert all(read_placement(run) is not None for run in list_runs() if run.id != paths.id)


@pytest.mark.slow
def test_arena_rounds_with_a_killed_node_have_the_undisturbed_results(cluster, store, tmp_path):
    changes = {"rounds": 1, "seeds": 8, "record_share": 0.1, "most_upsets": 1, "upset": 0.5}
    paths = start_job(**changes, launcher=cluster.text, hosts=4)
    shards = paths.root / FOLDER
    if cluster.text.startswith("ray"):
        wait_for(lambda: any("play_part" in name for name in cluster.processes(VICTIM)))
    else:
        wait_for(lambda: any(works_on_victim(cluster, RunPaths(shard)) for shard in shards.glob("r001-[0-9]*")))
    cluster.kill_node(VICTIM)
    wait_for(lambda: played_matches(store))
    kill_job(paths)

    def is_complete() -> bool:
        if job_status(paths).state == "crashed":
            start_job(paths, **changes, launcher=cluster.text, hosts=4)
        return job_status(paths).state == "completed"

    wait_for(is_complete)
    assert len(played_matches(store)) == 48 and store.recompute() == {}
    if shards.exists():
        assert len([path for path in shards.iterdir() if path.name.startswith("r001-")]) == 5, "four and one of replays"
    with play_undisturbed(store, tmp_path, **changes) as other:
        recorded = [{path.name for path in folder.glob("*.ecr")} for folder in (paths.replays, tmp_path / "replays")]
        assert recorded[0] == recorded[1] and len(recorded[0]) >= 4
        assert played_matches(other) == played_matches(store)
        styles = "SELECT * FROM styles ORDER BY entry, name"
        assert list(map(tuple, other.read(styles))) == list(map(tuple, store.read(styles)))
