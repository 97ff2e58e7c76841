"""Runs that a launcher starts: exactly once whatever its engine does, followed, withdrawn and resumed."""

from __future__ import annotations

import json
import shutil
import socket
from collections import Counter

import pytest

from echelon.jobs import control, launch, launchers, placement, queue, queue_worker, status
from echelon.jobs.devices_in_use import outside_devices
from echelon.jobs.kinds import KINDS
from echelon.jobs.launchers import LauncherError, open_engine, parse_launcher
from echelon.jobs.queue_launcher import QueueLauncher, read_launcher, write_launcher
from echelon.jobs.queue_marker import session_id
from echelon.jobs.queue_store import open_queue
from echelon.jobs.queue_worker import Dispatcher
from echelon.jobs.spec import JobSpec
from echelon.jobs.status import job_status
from echelon.jobs.sweeps.trials import TrialRuns
from echelon.runs import RunPaths, create_run, runs_home
from echelon.telemetry.events import EventTrial
from tests.jobs.test_queue import Killed, begin_session, entries, put
from tests.jobs.test_sweep_worker import make_plan

TEXT = "ray:cpus=2"


class Cluster:
    """An engine in memory. A host that gets a command does what a supervisor does, unless the host goes down."""

    def __init__(self) -> None:
        self.jobs: dict[str, list[str]] = {}
        """Commands that wait, by handle."""
        self.sessions: Counter[str] = Counter()
        self.refused = 0
        self.running: set[str] = set()
        self.requests: list[launchers.Request] = []
        self.killed_submissions = 0

    def submit(self, request: launchers.Request) -> str:
        handle = f"job-{len(self.requests)}"
        self.requests.append(request)
        self.jobs[handle] = list(request.command)
        if self.killed_submissions > 0:
            self.killed_submissions -= 1
            raise Killed
        return handle

    def is_active(self, handle: str) -> bool:
        return handle in self.jobs or handle in self.running

    def cancel(self, handle: str) -> None:
        self.jobs.pop(handle, None)

    def start(self, handle: str, end: dict | None = None) -> bool:
        """Give a command a host; it refuses any other session than its own, and ends with this record."""
        command = self.jobs.pop(handle)
        at = command.index("--session")
        paths = RunPaths(type(runs_home())(command[at + 3]))
        if session_id(paths) != command[at + 1]:
            self.refused += 1
            return False
        self.sessions[paths.id] += 1
        begin_session(paths, self.sessions[paths.id])
        if end is not None:
            paths.exit.write_text(json.dumps(end))
        return True

    def drop(self, handle: str) -> None:
        """Lose a command that waits."""
        del self.jobs[handle]


@pytest.fixture
def cluster(monkeypatch) -> Cluster:
    found = Cluster()
    monkeypatch.setattr(launchers, "open_engine", lambda text: found)
    monkeypatch.setattr(queue_worker, "RETRY_S", 0.0)
    monkeypatch.setattr(queue_worker, "disk_free_mb", lambda home: 1e6)
    return found


def submitted(**config) -> RunPaths:
    paths = create_run("placed")
    launch.launch(paths, JobSpec(kind="train", config={"device": "cpu", **config}), KINDS["train"], launcher=TEXT)
    return paths


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("k8s", "launcher 'k8s' does not exist, expected one of: ray, slurm"),
        ("ray:partition=a", "launcher ray has no option 'partition', expected one of: address, cpus, gpus"),
        ("slurm:time=1h", "option time of launcher slurm is '1h', expected a number"),
        ("slurm:partition=a\n#SBATCH", "option partition of launcher slurm is 'a\\n#SBATCH', expected letters"),
        ("slurm:partition=", "option partition of launcher slurm is '', expected letters"),
    ],
)
def test_parse_launcher_refuses_other_text_in_one_line(text, message):
    with pytest.raises(ValueError) as caught:
        parse_launcher(text)
    assert str(caught.value).startswith(message)


def test_launcher_without_its_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "submitit", None)
    monkeypatch.delitem(__import__("sys").modules, "echelon.jobs.launchers.slurm", raising=False)
    with pytest.raises(LauncherError, match=r"launcher slurm is not installed .*pip install 'echelon\[slurm\]'"):
        open_engine("slurm:qos=none-such")


def test_request_has_cores_gpus_and_no_choice_of_gpus(cluster, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    monkeypatch.setenv("ECHELON_TEST", "yes")
    submitted(device="cuda", nproc=4)
    (request,) = cluster.requests
    assert (request.cpus, request.gpus) == (4, 4), "a device of another host is not looked for here"
    assert request.environment["ECHELON_TEST"] == "yes" and "CUDA_VISIBLE_DEVICES" not in request.environment


def test_submitted_run_is_starting_until_its_host_has_ended_it(cluster):
    paths = submitted()
    assert (job_status(paths).state, placement.fate(paths)) == ("starting", placement.PENDING)
    cluster.running.add("job-0")
    cluster.start("job-0")
    assert placement.fate(paths) == placement.ACTIVE, "its lock is not seen here, but its engine has it"
    cluster.running.clear()
    assert (job_status(paths).state, placement.fate(paths)) == ("crashed", placement.OVER)
    paths.exit.write_text(json.dumps({"code": 0}))
    assert (job_status(paths).state, placement.fate(paths)) == ("completed", "")


def test_run_of_a_host_that_went_down_has_crashed_and_is_not_lost(cluster):
    paths = submitted()
    cluster.start("job-0")
    row = json.loads(paths.processes.read_text())
    paths.processes.write_text(json.dumps({name: {**identity, "host": "node7"} for name, identity in row.items()}))
    assert job_status(paths).state == "crashed" and "node7" in job_status(paths).reason
    paths.placement.unlink()
    assert job_status(paths).state == "lost"


def test_engine_that_does_not_answer_is_waited_for(cluster, monkeypatch):
    paths = submitted()

    def unreachable(text):
        raise LauncherError("ray cannot be reached")

    monkeypatch.setattr(launchers, "open_engine", unreachable)
    assert placement.fate(paths) == placement.PENDING


def test_stop_withdraws_a_run_that_waits_for_a_host(cluster):
    paths = submitted()
    assert launch.stop(paths).state == "stopped" and not cluster.jobs
    assert job_status(paths).reason == placement.WITHDRAWN


def test_late_host_does_not_start_a_withdrawn_run(cluster, monkeypatch):
    paths = submitted()
    monkeypatch.setattr(cluster, "cancel", lambda handle: None)
    launch.stop(paths)
    assert not cluster.start("job-0") and job_status(paths).state == "stopped"


def test_copy_of_a_submitted_run_asks_no_engine(cluster, tmp_path):
    paths = submitted()
    copied = RunPaths(tmp_path / paths.id)
    shutil.copytree(paths.root, copied.root)
    assert placement.fate(copied) == "" and not placement.is_pending(copied)


def drain(cluster: Cluster, limit: int = 60) -> None:
    """Drain the queue, a new process after every kill; hosts take the newest command first."""
    dispatcher = Dispatcher(runs_home())
    for _ in range(limit):
        try:
            if not dispatcher.step():
                return
        except Killed:
            dispatcher = Dispatcher(runs_home())
        for handle in [*reversed(cluster.jobs)][:1]:
            cluster.start(handle, {"code": 0})
    raise AssertionError(f"the queue does not end: {entries()}")


def test_queue_of_a_launcher_starts_every_run_once_though_submissions_are_lost_and_doubled(cluster):
    write_launcher(runs_home(), QueueLauncher(text=TEXT, at_once=2))
    runs = [put(number) for number in range(5)]
    cluster.killed_submissions = 2
    dispatcher = Dispatcher(runs_home())
    for _ in range(3):
        try:
            dispatcher.step()
        except Killed:
            dispatcher = Dispatcher(runs_home())
    assert len(cluster.jobs) == 4, "two at once, and two that nothing has recorded"
    cluster.drop(max(cluster.jobs))
    drain(cluster)
    for handle in list(cluster.jobs):
        assert not cluster.start(handle), "a submission that was doubled starts nothing"
    assert cluster.sessions == Counter({run.id: 1 for run in runs}) and cluster.refused >= 2
    assert {entry.state for entry in entries(())} == {"completed"}


def test_queue_resumes_a_run_that_its_engine_has_preempted_and_not_one_that_a_user_has_stopped(cluster):
    write_launcher(runs_home(), QueueLauncher(text=TEXT, at_once=2))
    preempted, stopped = put(0), put(1)
    dispatcher = Dispatcher(runs_home())
    dispatcher.step()
    for paths, handle, origin in ((preempted, "job-0", "SIGTERM"), (stopped, "job-1", "command")):
        cluster.start(handle)
        control.request_stop(paths, origin=origin)
        paths.exit.write_text(json.dumps({"code": 4}))
    drain(cluster)
    assert cluster.sessions == Counter({preempted.id: 2, stopped.id: 1})
    assert cluster.requests[-1].command[-2:] == ["--resume", "latest"]
    assert {entry.run: entry.state for entry in entries(())} == {preempted.id: "completed", stopped.id: "stopped"}


def test_damaged_launcher_of_a_queue_starts_nothing_here(cluster):
    write_launcher(runs_home(), QueueLauncher(text=TEXT, at_once=1))
    put()
    (runs_home() / ".queue" / "launcher.json").write_text("{")
    with pytest.raises(ValueError, match="is damaged; try: echelon queue launcher local"):
        Dispatcher(runs_home()).step()
    write_launcher(runs_home(), None)
    assert read_launcher(runs_home()) is None


def test_rebuilt_queue_keeps_its_launcher(cluster):
    write_launcher(runs_home(), QueueLauncher(text=TEXT, at_once=1))
    put()
    queue.queue_path().unlink()
    Dispatcher(runs_home()).step()
    assert len(cluster.jobs) == 1
    with open_queue()[0] as store:
        assert store.entries()[0].devices == ("ray",)


def test_runs_of_other_hosts_take_no_slots_here(cluster, monkeypatch):
    paths = submitted()
    cluster.start("job-0")
    monkeypatch.setattr(queue_worker.lock, "is_held", lambda path: True)
    assert outside_devices(runs_home(), set()) == ["cpu"]
    monkeypatch.setattr(socket, "gethostname", lambda: "login")
    assert outside_devices(runs_home(), set()) == []
    assert paths.id


def test_sweep_waits_for_hosts_and_submits_a_dropped_trial_again(cluster, monkeypatch):
    monkeypatch.setattr(status, "LAUNCH_LIMIT_S", 0.0)
    sweep = create_run("sweep")
    trials = TrialRuns(make_plan(launcher=TEXT), sweep)
    trial = EventTrial(number=0, run=create_run("trial").id, params={"ppo.lr": 1e-3}, seed=1)
    trials.start(trial, 0)
    assert trials.outcome(trial, 0) is None and len(cluster.requests) == 1
    cluster.drop("job-0")
    assert trials.outcome(trial, 0) is None and len(cluster.requests) == 2
    cluster.start("job-1")
    assert trials.outcome(trial, 0) is None and len(cluster.requests) == 3, "its host went down"
    cluster.start("job-2", {"code": 1, "message": "the loss is not finite"})
    assert trials.outcome(trial, 0) == "the loss is not finite"
