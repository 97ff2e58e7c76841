"""Runs and shards of arena jobs that a launcher starts: exactly once whatever its engine does, and without a loss."""

import contextlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest

from echelon.arena.batches import MatchBatch
from echelon.arena.config import ArenaConfig
from echelon.arena.contest import Pilot
from echelon.arena.matchmaking import Fixture
from echelon.arena.store import MatchRecord
from echelon.config import EnvConfig
from echelon.jobs import control, launch, launchers, lock, queue, shards, status
from echelon.jobs.kinds import KINDS
from echelon.jobs.launchers import StartError, open_engine, parse_launcher
from echelon.jobs.process import session_id
from echelon.jobs.queue import open_queue
from echelon.jobs.shards import Hosts
from echelon.jobs.spec import JobSpec, read_spec
from echelon.jobs.status import job_status
from echelon.jobs.sweeps.trials import TrialRuns
from echelon.runs import RunPaths, create_run, runs_home
from echelon.telemetry.events import EventShardMatch, EventTrial
from echelon.telemetry.log import EventLog
from echelon.validation import validated
from tests.jobs.conftest import begin_session
from tests.jobs.queued import Killed, Machine, change, order, put
from tests.jobs.test_sweep_worker import make_plan

TEXT = "ray:cpus=2"


class Cluster:
    """An engine in memory. A host that gets a command does what a supervisor does, unless the host goes down."""

    def __init__(self) -> None:
        self.jobs: dict[str, list[str]] = {}
        self.sessions: Counter[str] = Counter()
        self.refused = 0
        self.running: set[str] = set()
        self.requests: list[launchers.LaunchRequest] = []
        self.killed_submissions = 0

    def submit(self, request: launchers.LaunchRequest) -> str:
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
        paths = RunPaths(Path(command[at + 2]))
        if session_id(paths) != command[at + 1]:
            self.refused += 1
            return False
        self.sessions[paths.id] += 1
        begin_session(paths, self.sessions[paths.id])
        if end is not None:
            paths.exit.write_text(json.dumps(end))
        return True


@pytest.fixture
def cluster(monkeypatch) -> Cluster:
    found = Cluster()
    monkeypatch.setattr(launchers, "open_engine", lambda text: found)
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
    with pytest.raises(StartError, match=r"launcher slurm is not installed .*pip install 'echelon\[slurm\]'"):
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
    assert (job_status(paths).state, launchers.launch_state(paths)) == ("starting", launchers.PENDING)
    cluster.running.add("job-0")
    cluster.start("job-0")
    assert launchers.launch_state(paths) == launchers.ACTIVE, "its lock is not seen here, but its engine has it"
    cluster.running.clear()
    assert (job_status(paths).state, launchers.launch_state(paths)) == ("crashed", launchers.OVER)
    paths.exit.write_text(json.dumps({"code": 0}))
    assert (job_status(paths).state, launchers.launch_state(paths)) == ("completed", "")


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
        raise StartError("ray cannot be reached")

    monkeypatch.setattr(launchers, "open_engine", unreachable)
    assert launchers.launch_state(paths) == launchers.PENDING


def test_stop_withdraws_a_run_that_waits_for_a_host_even_from_a_late_one(cluster, monkeypatch):
    paths, late = submitted(), submitted()
    assert launch.stop(paths).state == "stopped" and list(cluster.jobs) == ["job-1"]
    assert job_status(paths).reason == launchers.WITHDRAWN
    monkeypatch.setattr(cluster, "cancel", lambda handle: None)
    launch.stop(late)
    assert not cluster.start("job-1") and job_status(late).state == "stopped"


def test_copy_of_a_submitted_run_asks_no_engine(cluster, tmp_path):
    paths = submitted()
    copied = RunPaths(tmp_path / paths.id)
    shutil.copytree(paths.root, copied.root)
    assert launchers.launch_state(copied) == "" and not launchers.is_pending(copied)


class Followers:
    """Supervisors of a queue whose runs start on a cluster, at most two at a time."""

    def __init__(self, cluster: Cluster, monkeypatch) -> None:
        self.cluster, self.machine = cluster, Machine(monkeypatch)
        self.monkeypatch = monkeypatch
        change(launcher=TEXT, at_once=2)

    def look(self, on_wait: Callable[[], object]) -> None:
        """Let each supervisor look at the queue once; while one follows its run, ``on_wait`` is called."""
        self.monkeypatch.setattr(queue.time, "sleep", lambda seconds: on_wait())
        for run in order():
            with contextlib.suppress(Killed):
                self.machine.supervise(run)

    def drain(self) -> None:
        """Follow all runs to their ends; hosts take the newest command first."""
        for _ in range(20):
            self.look(
                lambda: [self.cluster.start(handle, {"code": 0}) for handle in [*reversed(self.cluster.jobs)][:1]]
            )
        assert order() == [], "the queue does not end"


def killed() -> None:
    raise Killed


def test_queue_of_a_launcher_starts_every_run_once_though_submissions_are_lost_and_doubled(cluster, monkeypatch):
    runs = [put(number) for number in range(5)]
    followers = Followers(cluster, monkeypatch)
    cluster.killed_submissions = 2
    for _ in range(4):
        followers.look(killed)
    assert len(cluster.jobs) == 3, "two that nothing has recorded, and one that is followed and not repeated"
    del cluster.jobs[max(cluster.jobs)]
    followers.drain()
    for handle in list(cluster.jobs):
        assert not cluster.start(handle), "a submission that was doubled starts nothing"
    assert cluster.sessions == Counter({run.id: 1 for run in runs}) and cluster.refused >= 2
    assert {job_status(run).state for run in runs} == {"completed"}


def test_run_whose_lock_the_queue_sees_on_its_host_is_running_and_not_submitted_again(cluster, monkeypatch):
    run = put()
    followers = Followers(cluster, monkeypatch)

    def work() -> None:
        cluster.start("job-0")
        held = lock.acquire(run.lock)
        assert queue.outcome(run, open_queue().ticket(run.id)) == "running"
        os.close(held)
        run.exit.write_text(json.dumps({"code": 0}))

    followers.look(work)
    assert len(cluster.requests) == 1 and order() == []


def test_training_on_several_nodes_is_one_job_whose_ranks_span_them_and_other_kinds_have_one(cluster):
    for kind in ("train", "eval"):
        spec = JobSpec(kind=kind, config={"device": "cuda", "nproc": 4, "preset": "fake"})
        launchers.submit_run(create_run(kind), "slurm:nodes=2", KINDS[kind], (), spec)
    training, evaluation = cluster.requests
    assert (training.nodes, training.gpus, evaluation.nodes) == (2, 4, 1)
    words = list(training.command)
    assert words[words.index("echelon.jobs.ranks") + 1] == "2x4" and "2x4" not in evaluation.command


def test_run_that_would_write_the_league_from_another_host_is_refused_in_one_line(cluster, monkeypatch):
    def config(**league):
        return {"device": "cpu", "preset": "fake", "opponents": {"mix": {"league": 0.5}, "league": league}}

    text = r"^run '.*run000.*' would write league.db from another host, expected one host that does; try: opponents"
    queued = put(**config())
    change(launcher=TEXT)
    with pytest.raises(ValueError, match=text):
        put(**config())
    followers = Followers(cluster, monkeypatch)
    followers.look(killed)
    assert job_status(queued).state == "failed" and cluster.requests == [] and order() == []
    assert job_status(queued).reason.startswith(f"run {queued.id!r} would write")
    put(**config(path="ray"))
    assert len(order()) == 1, "the head of the cluster writes"


def test_launcher_gets_some_runs_at_a_time(cluster, monkeypatch):
    runs = [put(number) for number in range(3)]
    change(launcher=TEXT, at_once=2)
    found = open_queue()
    started = [found.try_start(found.ticket(run.id)) for run in runs]
    assert [devices for devices, _ in filter(None, started)] == [("ray",), ("ray",)] and started[2] is None
    for handle in started[0][1] + started[1][1]:
        os.close(handle)


def test_queue_resumes_a_run_that_its_engine_has_preempted_and_not_one_that_a_user_has_stopped(cluster, monkeypatch):
    preempted, stopped = put(0), put(1)
    followers = Followers(cluster, monkeypatch)
    origins = {preempted.id: ["SIGTERM"], stopped.id: ["command"]}

    def end() -> None:
        (handle,) = cluster.jobs
        run = RunPaths(runs_home() / cluster.requests[-1].name)
        cluster.start(handle)
        if origins[run.id]:
            control.request_stop(run, origin=origins[run.id].pop())
            run.exit.write_text(json.dumps({"code": 4}))
        else:
            run.exit.write_text(json.dumps({"code": 0}))

    for _ in range(3):
        followers.look(end)
    assert order() == []
    assert cluster.sessions == Counter({preempted.id: 2, stopped.id: 1})
    resumed = [request.name for request in cluster.requests if request.command[-2:] == ["--resume", "latest"]]
    assert resumed == [preempted.id]
    assert (job_status(preempted).state, job_status(stopped).state) == ("completed", "stopped")


def test_placed_session_takes_no_slot_here(cluster):
    submitted()
    assert "--session" in cluster.requests[0].command and open_queue().taken() == {}


def test_sweep_waits_for_hosts_and_submits_a_dropped_trial_again(cluster, monkeypatch):
    monkeypatch.setattr(status, "LAUNCH_LIMIT_S", 0.0)
    sweep = create_run("sweep")
    trials = TrialRuns(make_plan(launcher=TEXT), sweep)
    trial = EventTrial(number=0, run=create_run("trial").id, params={"ppo.lr": 1e-3}, seed=1)
    trials.start(trial, 0)
    assert trials.outcome(trial, 0) is None and len(cluster.requests) == 1
    del cluster.jobs["job-0"]
    assert trials.outcome(trial, 0) is None and len(cluster.requests) == 2
    cluster.start("job-1")
    assert trials.outcome(trial, 0) is None and len(cluster.requests) == 3, "its host went down"
    cluster.start("job-2", {"code": 1, "message": "the loss is not finite"})
    assert trials.outcome(trial, 0) == "the loss is not finite"


PILOTS = {name: Pilot(id=name, label=name, level=name) for name in ("easy", "medium")}


class PlayingCluster(Cluster):
    """Hosts that play ``each`` matches of a shard and go down, until all are played."""

    def __init__(self, each: int) -> None:
        super().__init__()
        self._each = each

    def advance(self, text: str = "") -> None:
        for handle in list(self.jobs):
            paths = RunPaths(Path(self.jobs[handle][-1]))
            fixtures = validated(MatchBatch, read_spec(paths).config["shard"]).fixtures
            at = self.sessions[paths.id] * self._each
            with EventLog(paths.matches) as log:
                for fixture in fixtures[at : at + self._each]:
                    result = MatchRecord(winner="blue", reason="zone_control", hp=(float(fixture.number), 0.0))
                    log.append(EventShardMatch(number=fixture.number, result=asdict(result)))
            self.start(handle, {"code": 0} if at + self._each >= len(fixtures) else None)


def batch(numbers=range(10)) -> MatchBatch:
    fixtures = [Fixture(number, "easy", "medium", 7 + number) for number in numbers]
    config = ArenaConfig(launcher="ray:cpus=2", hosts=3)
    return MatchBatch(
        env=EnvConfig(), signature=None, config=config, pilots=PILOTS, fixtures=fixtures, job="arena", round=1
    )


@pytest.fixture
def playing(monkeypatch) -> PlayingCluster:
    found = PlayingCluster(2)
    monkeypatch.setattr(launchers, "open_engine", lambda text: found)
    return found


def test_batch_is_the_same_after_it_was_written():
    written = validated(MatchBatch, json.loads(json.dumps(batch().as_dict())))
    assert written.as_dict() == batch().as_dict() and written.fixtures[3] == batch().fixtures[3]


def test_hosts_that_go_down_cost_no_match(playing):
    taken: dict[int, MatchRecord] = {}
    played = Hosts(create_run("arena"), poll_s=0.0)(batch(), taken.__setitem__, playing.advance, lambda: False)
    assert not played.stopped and sorted(taken) == list(range(10))
    assert {number: record.hp[0] for number, record in taken.items()} == {n: float(n) for n in range(10)}
    assert dict(playing.sessions) == {"r001-0": 2, "r001-1": 2, "r001-2": 2}, "4, 3 and 3 matches, two a session"
    assert {request.cpus for request in playing.requests} == {2}


def test_arena_job_that_starts_again_follows_its_shards(playing):
    arena = create_run("arena")

    def kill(text: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Hosts(arena, poll_s=0.0)(batch(), lambda *_: None, kill, lambda: False)
    playing.advance()
    taken: list[int] = []
    Hosts(arena, poll_s=0.0)(batch(range(5, 10)), lambda n, _: taken.append(n), playing.advance, lambda: False)
    assert sorted(taken) == [5, 6, 7, 8, 9], "those that the league has are not stored again"
    assert sorted(playing.sessions) == ["r001-0", "r001-1", "r001-2"], "no match is in a second shard"


@pytest.mark.parametrize(
    ("end", "message", "sessions"),
    [
        ({"code": 1, "message": "no GPU"}, "shard 'r001-0' failed: no GPU", 1),
        (None, "shard 'r001-0' crashed", 1 + shards.MAX_CRASHES),
    ],
    ids=["fails", "plays nothing"],
)
def test_shard_that_fails_or_plays_nothing_ends_the_job_with_its_reason(playing, end, message, sessions):
    def advance(text: str) -> None:
        for handle in list(playing.jobs):
            playing.start(handle, end)

    with pytest.raises(ValueError, match=message):
        Hosts(create_run("arena"), poll_s=0.0)(batch(), lambda *_: None, advance, lambda: False)
    assert playing.sessions["r001-0"] == sessions
