"""The queue: order, slots, repair, and every run started once whatever is killed when."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import signal
import socket
import sqlite3
import time
from collections import Counter

import pytest

from echelon.jobs import queue, queue_store, queue_worker, slots
from echelon.jobs.launch import LaunchError, StartError
from echelon.jobs.process import identity_from, send_signal
from echelon.jobs.queue_marker import is_waiting, read_marker
from echelon.jobs.queue_store import OPEN, WAITING, StoreError, open_queue, queue_path
from echelon.jobs.queue_worker import MAX_CRASHES, Dispatcher
from echelon.jobs.slots import Demand, demand_of, devices_of, free_slots
from echelon.jobs.spec import JobSpec
from echelon.jobs.status import job_status
from echelon.runs import RunNotFoundError, RunPaths, create_run, list_runs, read_json, runs_home
from tests.jobs.queue_standin import QUEUE


def put(number: int = 0, **config) -> RunPaths:
    paths = create_run(f"run{number:03}")
    queue.enqueue(paths, JobSpec(kind="train", config={"device": "cpu", "preset": "fake", **config}))
    return paths


def entries(states=OPEN):
    with open_queue()[0] as store:
        return store.entries(states)


def order() -> list[str]:
    return [entry.run for entry in entries((WAITING,))]


def test_queued_run_is_listed_as_queued_until_it_starts():
    paths = put()
    status = job_status(paths)
    assert (status.state, status.reason) == ("queued", "waits in the queue")
    assert not status.is_alive and not status.has_ended
    assert [run.id for run in list_runs()] == [paths.id], "the queue's own folder is no run"


def test_copy_of_a_queued_run_does_not_wait(tmp_path):
    paths = put()
    copied = RunPaths(tmp_path / "elsewhere" / paths.id)
    shutil.copytree(paths.root, copied.root)
    assert is_waiting(paths) and not is_waiting(copied)


@pytest.mark.parametrize(("index", "expected"), [(0, [2, 0, 1, 3]), (1, [0, 2, 1, 3]), (3, [0, 1, 3, 2])])
def test_move_changes_the_order_of_waiting_runs(index, expected):
    runs = [put(number) for number in range(4)]
    with open_queue()[0] as store:
        store.move(queue.find_entry(store, runs[2].id, (WAITING,)), index)
    assert order() == [runs[number].id for number in expected]


def test_run_cannot_be_queued_twice():
    paths = put()
    with pytest.raises(ValueError, match="is in the queue already"):
        queue.enqueue(paths, JobSpec(kind="train", config={}))
    assert len(order()) == 1


def test_removed_entry_leaves_a_run_that_does_not_wait():
    first, second = put(0), put(1)
    with open_queue()[0] as store:
        assert queue.remove_entry(store, queue.find_entry(store, first.id, (WAITING,)))
    assert order() == [second.id] and not is_waiting(first)
    with open_queue()[0] as store, pytest.raises(RunNotFoundError, match="does not wait in the queue"):
        queue.find_entry(store, first.id, (WAITING,))


DAMAGES = {
    "deleted": lambda path: path.unlink(),
    "emptied": lambda path: path.write_bytes(b""),
    "overwritten": lambda path: path.write_bytes(b"no database" * 500),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "zeroed page": lambda path: path.write_bytes(path.read_bytes()[:4096] + bytes(path.stat().st_size - 4096)),
    "unknown state": lambda path: path.write_bytes(path.read_bytes().replace(b"waiting", b"wai\0ing")),
}


@pytest.mark.parametrize(("failures", "repairs"), [(1, 0), (3, 0), (6, 1)])
def test_file_that_sqlite_cannot_read_is_opened_again_and_then_built_again(monkeypatch, failures, repairs):
    paths, left = put(), [failures]
    prepare = queue_store.QueueStore._prepare

    def fail(store, busy_s):
        if left[0]:
            left[0] -= 1
            raise sqlite3.OperationalError("disk I/O error")
        prepare(store, busy_s)

    monkeypatch.setattr(queue_store.QueueStore, "_prepare", fail)
    monkeypatch.setattr(queue_store, "SHORT_READ_PAUSES_S", (0.0, 0.0))
    store, notices = open_queue()
    with store:
        assert [entry.run for entry in store.entries()] == [paths.id]
    assert len(list(runs_home().glob("queue.db.damaged-*"))) == repairs == bool(notices)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_queue_is_built_again_from_the_runs_that_wait(damage):
    runs = [put(number) for number in range(3)]
    damage(queue_path())
    with open_queue()[0] as store:
        assert [entry.run for entry in store.entries()] == [run.id for run in runs]
    with open_queue()[0] as store:
        assert len(store.entries()) == 3, "built again once"


def test_database_of_another_program_is_refused():
    queue_path().parent.mkdir(parents=True)
    with contextlib.closing(sqlite3.connect(queue_path())) as db:
        db.execute("CREATE TABLE mail (text TEXT)")
    with pytest.raises(StoreError, match="database of another program, expected a queue"):
        open_queue()


DEMANDS = {
    "a CPU": (Demand(device="cpu"), {"cpu": 1}, ("cpu",)),
    "a CPU in use": (Demand(device="cpu"), {"cpu": 0}, None),
    "any GPU": (Demand(device="cuda"), {"cpu": 1, "cuda:0": 0, "cuda:1": 1}, ("cuda:1",)),
    "the emptier GPU": (Demand(device="cuda"), {"cpu": 1, "cuda:0": 1, "cuda:1": 2}, ("cuda:1",)),
    "two GPUs": (Demand(device="cuda", processes=2), {"cuda:0": 1, "cuda:1": 1}, ("cuda:0", "cuda:1")),
    "two GPUs, one free": (Demand(device="cuda", processes=2), {"cuda:0": 1, "cuda:1": 0}, None),
    "more GPUs than there are": (Demand(device="cuda", processes=8), {"cuda:0": 1, "cuda:1": 1}, ("cuda:0", "cuda:1")),
    "one GPU": (Demand(device="cuda:1"), {"cuda:0": 1, "cuda:1": 0}, None),
    "a GPU that does not exist": (Demand(device="cuda:7"), {"cpu": 1}, ("cuda:7",)),
    "automatic without GPU": (Demand(device="auto"), {"cpu": 1}, ("cpu",)),
}


@pytest.mark.parametrize(("demand", "free", "expected"), DEMANDS.values(), ids=DEMANDS)
def test_devices_of_demand(demand, free, expected, monkeypatch):
    monkeypatch.setattr(slots, "has_gpu", lambda: False)
    assert devices_of(demand, free) == expected


def test_gpu_that_another_program_uses_is_not_free(monkeypatch):
    monkeypatch.setattr(slots, "gpu_processes", lambda device: int(device == "cuda:1"))
    have = {"cpu": 2, "cuda:0": 1, "cuda:1": 1, "cuda:2": 2}
    assert free_slots(have, ["cpu", "cuda:2"]) == {"cpu": 1, "cuda:0": 1, "cuda:1": 0, "cuda:2": 1}


@pytest.mark.parametrize(
    ("kind", "config", "expected"),
    [
        ("train", {"device": "cuda", "nproc": 2}, Demand(device="cuda", processes=2)),
        ("eval", {"eval": {"device": "cuda:1"}}, Demand(device="cuda:1")),
        ("arena", {"arena": {"device": "cpu"}, "nproc": 4}, Demand(device="cpu", processes=4)),
        ("train", {"device": "rm -rf", "nproc": -1}, Demand(device="cpu")),
        ("eval", {"eval": None}, Demand(device="cpu")),
    ],
)
def test_demand_of_spec(kind, config, expected):
    assert demand_of(kind, config) == expected


def begin_session(paths: RunPaths, number: int) -> None:
    """Write the identities of a session whose processes have ended."""
    gone = {"pid": 2**22 + 1, "create_time": number, "boot_id": "earlier", "host": socket.gethostname()}
    paths.exit.unlink(missing_ok=True)
    paths.processes.write_text(json.dumps({"supervisor": gone, "trainer": gone}))


class Killed(BaseException):
    """The queue's process was killed."""


class Machine:
    """Stand-in of ``launch``: a session ends at once, interrupted where ``interrupted`` names the run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sessions: Counter[str] = Counter()
        self.completed: Counter[str] = Counter()
        self.interrupted: Counter[str] = Counter()
        self.operations, self.kill_at = 0, -1
        monkeypatch.setattr(queue_worker, "launch", self.launch)
        monkeypatch.setattr(queue_worker, "disk_free_mb", lambda home: 1e6)
        for name in ("claim", "set_running", "set_waiting", "end", "close_if_idle", "reopen", "adopt"):
            monkeypatch.setattr(queue_store.QueueStore, name, self.point(getattr(queue_store.QueueStore, name)))
        monkeypatch.setattr(queue_worker, "remove_marker", self.point(queue_worker.remove_marker))

    def point(self, call):
        """Return ``call`` with a fault point before and after it."""

        def wrapped(*arguments, **named):
            self.pass_point()
            result = call(*arguments, **named)
            self.pass_point()
            return result

        return wrapped

    def pass_point(self) -> None:
        self.operations += 1
        if self.operations == self.kill_at:
            raise Killed

    def launch(self, paths, spec, kind, arguments=(), named=(), *, session, environment, launcher):
        from echelon.jobs.queue_marker import session_id

        self.pass_point()
        if session_id(paths) != session:
            raise StartError("was started meanwhile")
        self.sessions[paths.id] += 1
        begin_session(paths, self.sessions[paths.id])
        if self.interrupted[paths.id] > 0:
            self.interrupted[paths.id] -= 1
        else:
            self.completed[paths.id] += 1
            paths.exit.write_text(json.dumps({"code": 0}))
        self.pass_point()


def drain(home) -> None:
    """Run processes of the queue until it is empty, a new one after every kill."""
    for _ in range(4):
        dispatcher = Dispatcher(home)
        with contextlib.suppress(Killed):
            for _ in range(50):
                if not dispatcher.step():
                    return
    raise AssertionError("the queue does not end")


@pytest.mark.parametrize("first", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)])
def test_kill_at_every_third_point_starts_every_run_once(monkeypatch, first):
    """Kill the queue before and after each of its operations; the three cases cover all of them."""
    machine, at = Machine(monkeypatch), first - 3
    while True:
        at += 3
        machine.sessions.clear()
        machine.completed.clear()
        runs = [put(number) for number in range(2)]
        machine.interrupted[runs[1].id] = 1
        machine.operations, machine.kill_at = 0, at
        drain(runs_home())
        for run in runs:
            assert machine.completed[run.id] == 1, f"killed at point {at}"
            assert machine.sessions[run.id] == 1 + (run is runs[1]), f"killed at point {at}"
            assert job_status(run).state == "completed" and read_marker(run) is None
        assert entries() == []
        for run in runs:
            shutil.rmtree(run.root)
        if machine.operations < at:
            break
    assert at > 20, "every store operation is a point"


def test_run_that_crashes_without_progress_is_resumed_a_few_times(monkeypatch):
    machine, paths = Machine(monkeypatch), put()

    def crash(paths, spec, kind, arguments=(), named=(), *, session, **_):
        machine.sessions[paths.id] += 1
        begin_session(paths, machine.sessions[paths.id])
        paths.exit.write_text(json.dumps({"signal": "SIGSEGV", "message": "segmentation fault"}))

    monkeypatch.setattr(queue_worker, "launch", crash)
    drain(runs_home())
    assert machine.sessions[paths.id] == 1 + MAX_CRASHES
    (ended,) = entries(())
    assert (ended.state, ended.reason) == ("crashed", "segmentation fault")


@pytest.mark.parametrize(("record", "sessions"), [({"code": 1, "disk_full": True}, 2), ({"code": 1}, 1)])
def test_run_that_failed_on_a_full_disk_is_resumed(monkeypatch, record, sessions):
    machine, paths = Machine(monkeypatch), put()

    def fail_first(paths, *rest, **_):
        machine.sessions[paths.id] += 1
        begin_session(paths, machine.sessions[paths.id])
        paths.exit.write_text(json.dumps(record if machine.sessions[paths.id] == 1 else {"code": 0}))

    monkeypatch.setattr(queue_worker, "launch", fail_first)
    drain(runs_home())
    assert machine.sessions[paths.id] == sessions


def test_nothing_starts_on_a_full_disk(monkeypatch):
    machine, paths = Machine(monkeypatch), put()
    monkeypatch.setattr(queue_worker, "disk_free_mb", lambda home: 1.0)
    assert Dispatcher(runs_home()).step() and not machine.sessions
    assert "is nearly full" in entries()[0].reason
    monkeypatch.setattr(queue_worker, "disk_free_mb", lambda home: 1e6)
    drain(runs_home())
    assert machine.completed[paths.id] == 1


def test_run_that_cannot_start_fails_and_the_next_one_starts(monkeypatch):
    machine = Machine(monkeypatch)
    broken, whole = put(0), put(1)

    def refuse(paths, *rest, **named):
        if paths.id == broken.id:
            raise LaunchError("device is 'cuda', expected cpu")
        return machine.launch(paths, *rest, **named)

    monkeypatch.setattr(queue_worker, "launch", refuse)
    drain(runs_home())
    assert machine.completed[whole.id] == 1
    assert {entry.run: (entry.state, entry.reason) for entry in entries(())}[broken.id] == (
        "failed",
        "device is 'cuda', expected cpu",
    )


def test_pause_starts_nothing_and_ends_the_queue(monkeypatch):
    machine, paths = Machine(monkeypatch), put()
    with open_queue()[0] as store:
        store.set_paused(True)
    assert not Dispatcher(runs_home()).step() and not machine.sessions
    with open_queue()[0] as store:
        store.set_paused(False)
    drain(runs_home())
    assert machine.completed[paths.id] == 1


def test_deleted_run_is_dropped(monkeypatch):
    machine, paths = Machine(monkeypatch), put()
    shutil.rmtree(paths.root)
    drain(runs_home())
    assert not machine.sessions and [entry.state for entry in entries(())] == ["removed"]


def test_runs_outside_of_the_queue_take_slots(monkeypatch):
    machine = Machine(monkeypatch)
    paths, outside = put(0), create_run("outside")
    outside.spec.write_text(json.dumps({"kind": "train", "config": {"device": "cpu"}}))
    is_held = queue_worker.lock.is_held
    monkeypatch.setattr(queue_worker.lock, "is_held", lambda path: path == outside.lock or is_held(path))
    dispatcher = Dispatcher(runs_home())
    assert dispatcher.step() and not machine.sessions
    assert entries()[0].reason == "cpu is in use by runs outside of the queue"
    monkeypatch.undo()
    assert is_waiting(paths)


def test_resumed_run_waits_until_its_next_session(monkeypatch):
    machine, paths = Machine(monkeypatch), put()
    drain(runs_home())
    queue.enqueue(paths, JobSpec(kind="train", config={"device": "cpu"}), ["--resume", "latest"], resumed=True)
    assert job_status(paths).state == "queued"
    drain(runs_home())
    assert machine.sessions[paths.id] == 2 and job_status(paths).state == "completed"


# real processes


def count(paths: RunPaths, name: str) -> list[str]:
    file = paths.root / name
    return file.read_text().split() if file.exists() else []


def finish(limit_s: float = 30.0) -> None:
    """Wait until the queue has ended."""
    deadline = time.monotonic() + limit_s
    while queue.is_started() or entries():
        assert time.monotonic() < deadline, f"{entries()}\n{queue.queue_job().log_trainer.read_text()[-2000:]}"
        time.sleep(0.05)


@pytest.fixture(autouse=True)
def _end_processes():
    yield
    for paths in (queue.queue_job(), *list_runs()):
        processes = read_json(paths.processes) or {}
        for name in ("supervisor", "trainer"):
            send_signal(identity_from(processes.get(name)), signal.SIGKILL, paths)


def test_queue_starts_with_an_entry_and_ends_when_it_is_empty():
    first = put(0)
    queue.ensure_started(kind=QUEUE)
    second = put(1)
    queue.ensure_started(kind=QUEUE)
    finish()
    for paths in (first, second):
        assert count(paths, "sessions") == ["first"] and len(count(paths, "results")) == 1
    assert job_status(queue.queue_job()).state == "completed"


class Storm:
    """Disturbances of a queue and its runs, chosen at random."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.hit: set[str] = set()
        """Runs whose processes were killed."""
        self.done: Counter[str] = Counter()

    def kill(self, paths: RunPaths, name: str) -> None:
        found = identity_from((read_json(paths.processes) or {}).get(name))
        if send_signal(found, signal.SIGKILL, paths) and paths.id != queue.FOLDER:
            self.hit.add(paths.id)

    def running(self) -> list[RunPaths]:
        return [paths for paths in list_runs() if job_status(paths).is_alive]

    def kill_queue(self) -> None:
        self.kill(queue.queue_job(), self.rng.choice(["supervisor", "trainer"]))

    def kill_run(self) -> None:
        for paths in self.rng.sample(running, 1) if (running := self.running()) else ():
            self.kill(paths, self.rng.choice(["supervisor", "trainer"]))

    def end_machine(self) -> None:
        """Kill everything at once and let the machine boot again: files name processes of another boot."""
        running = self.running()
        for paths in (queue.queue_job(), *running):
            self.kill(paths, "supervisor")
            self.kill(paths, "trainer")
        for paths in running:
            self.hit.add(paths.id)
            row = read_json(paths.processes) or {}
            for identity in filter(None, row.values()):
                identity["boot_id"] = "another boot"
            if row and not paths.exit.exists():
                paths.processes.write_text(json.dumps(row))

    def damage(self) -> None:
        damage = self.rng.choice([DAMAGES["deleted"], DAMAGES["emptied"], DAMAGES["overwritten"]])
        with contextlib.suppress(FileNotFoundError):
            damage(queue_path())

    def disturb(self) -> None:
        name = self.rng.choice(["kill_queue", "kill_run", "kill_run", "end_machine", "damage"])
        getattr(self, name)()
        self.done[name] += 1


LONGEST_S = 3600.0
"""Longest time of a storm on a busy machine [s]."""


def weather(runs: list[RunPaths], slot_count: int, disturbances: int, pause_s: float, seed: int) -> Storm:
    """Drain the queue under a storm and return it; a user resumes the queue after every disturbance."""
    storm = Storm(seed)
    with open_queue()[0] as store:
        store.set_slots("cpu", slot_count)
    while True:
        with contextlib.suppress(LaunchError, StoreError):
            queue.ensure_started(kind=QUEUE)
        if sum(storm.done.values()) >= disturbances or not entries():
            break
        time.sleep(storm.rng.uniform(0.0, pause_s))
        storm.disturb()
        with contextlib.suppress(StoreError), open_queue()[0] as store:
            store.set_slots("cpu", slot_count)
            store.adopt()
    deadline = time.monotonic() + LONGEST_S
    while entries() and time.monotonic() < deadline:
        with contextlib.suppress(LaunchError, StoreError):
            queue.ensure_started(kind=QUEUE)
        time.sleep(0.2)
    finish(LONGEST_S)
    for paths in runs:
        sessions = count(paths, "sessions")
        log = paths.log_supervisor.read_text()
        assert "overlap" not in sessions, f"{paths.id}: {sessions}\n{log}"
        assert len(count(paths, "results")) == 1, f"{paths.id}: {sessions}, {job_status(paths)}\n{log}"
        assert job_status(paths).state in ("completed", "crashed"), job_status(paths)
        if paths.id not in storm.hit:
            assert sessions == ["first"], f"{paths.id} was not disturbed: {sessions}"
    return storm


@pytest.mark.long
def test_queue_under_kills_runs_every_entry_once():
    runs = [put(number) for number in range(8)]
    weather(runs, 2, 5, 0.8, seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_two_hundred_runs_over_two_slots_killed_at_random_run_once(seed):
    runs = [put(number) for number in range(200)]
    storm = weather(runs, 2, 60, 2.0, seed)
    print(f"{dict(storm.done)}, {len(storm.hit)} runs hit")
    assert sum(storm.done.values()) >= 40
