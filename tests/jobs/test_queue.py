"""The queue: order, slots, and every run started once whatever is killed when."""

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import psutil
import pytest

from echelon.jobs import queue, tickets
from echelon.jobs.kinds import KINDS
from echelon.jobs.launch import StartError, launch
from echelon.jobs.process import send_signal
from echelon.jobs.queue import MAX_CRASHES, Interrupted, enqueue, find_queued, open_queue
from echelon.jobs.spec import JobSpec
from echelon.jobs.status import is_waiting, job_status
from echelon.jobs.tickets import MAX_WAITERS, Ticket, demand_of, devices_of, free_slots
from echelon.runs import RunNotFoundError, RunPaths, list_runs, runs_home
from tests.jobs.conftest import FILES, begin_session, change_boot_id, process_identity, wait_for
from tests.jobs.queued import Machine, change, count, order, processes, put
from tests.jobs.stand_ins import WAITER

BUDGET_KB = 2 << 20
"""Memory of as many waiting supervisors as there may be [KiB]."""


def test_queued_run_is_listed_as_queued_until_it_starts():
    paths = put()
    status = job_status(paths)
    assert (status.state, status.reason) == ("queued", "waits in the queue")
    assert not status.is_alive and not status.has_ended
    assert [run.id for run in list_runs()] == [paths.id], "the queue's own folder is no run"


def test_copy_of_a_queued_run_does_not_wait(tmp_path):
    paths = put()
    for copied in (RunPaths(tmp_path / "elsewhere" / paths.id), RunPaths(runs_home() / "copy")):
        shutil.copytree(paths.root, copied.root)
        assert is_waiting(paths) and not is_waiting(copied)


def test_queued_run_is_neither_started_by_hand_nor_queued_twice():
    paths, spec = put(), JobSpec(kind="train", config={"device": "cpu"})
    with pytest.raises(StartError, match="waits in the queue; try: echelon runs queue .* --move first"):
        launch(paths, spec, KINDS["train"])
    with pytest.raises(ValueError, match="is in the queue already"):
        enqueue(paths, spec)
    assert len(order()) == 1


@pytest.mark.parametrize(("index", "expected"), [(0, [2, 0, 1, 3]), (1, [0, 2, 1, 3]), (3, [0, 1, 3, 2])])
def test_move_changes_the_order_of_waiting_runs(index, expected):
    runs, found = [put(number) for number in range(4)], open_queue()
    with found.editing():
        found.move(find_queued(found, runs[2].id), index)
    assert order() == [runs[number].id for number in expected]
    assert put(4).id == order()[-1]


def test_run_is_removed_unless_it_is_being_started():
    found, first, second = open_queue(), put(0), put(1)
    devices, handles = found.try_start(found.ticket(first.id))
    assert devices == ("cpu",)
    with pytest.raises(ValueError, match="is being started"):
        queue.remove_waiting(found, first.id)
    for handle in handles:
        os.close(handle)
    assert queue.remove_waiting(found, first.id)
    assert order() == [second.id] and not is_waiting(first)
    with pytest.raises(RunNotFoundError, match="is not in the queue"):
        find_queued(found, first.id)


DAMAGES = {
    "emptied": b"",
    "no JSON": b"\x00\xff{",
    "nested": b"[" * 60_000,
    "another object": b"[]",
    "a field of another type": b'{"kind": "train", "device": 3}',
    "too long": b" " * (tickets.MAX_BYTES + 1) + b"{}",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_damaged_ticket_holds_nobody_back_and_damaged_settings_start_nothing(damage):
    broken, whole = put(0), put(1)
    broken.queued.write_bytes(damage)
    found = open_queue()
    assert found.ticket(broken.id) is None and not is_waiting(broken)
    assert found.blocker(found.ticket(whole.id)) == "" and found.revive([broken.id]) == []
    queue.remove_waiting(found, broken.id)
    assert order() == [whole.id]
    change(launcher="slurm")
    (found.folder / "settings.json").write_bytes(damage)
    with pytest.raises(ValueError, match=r"settings.json' is damaged; delete it"):
        open_queue().try_start(found.ticket(whole.id))


@pytest.mark.parametrize("make", FILES.values(), ids=FILES)
def test_ticket_that_is_no_file_is_not_read(make, tmp_path):
    paths, found = put(), open_queue()
    make(paths.queued, paths.queued.rename(tmp_path / "ticket"))
    assert found.ticket(paths.id) is None and not is_waiting(paths) and found.revive() == []


DEMANDS = {
    "a CPU": (("cpu", 1), {"cpu": 1}, ("cpu",)),
    "a CPU in use": (("cpu", 1), {"cpu": 0}, ()),
    "any GPU": (("cuda", 1), {"cpu": 1, "cuda:0": 0, "cuda:1": 1}, ("cuda:1",)),
    "the emptier GPU": (("cuda", 1), {"cpu": 1, "cuda:0": 1, "cuda:1": 2}, ("cuda:1",)),
    "two GPUs": (("cuda", 2), {"cuda:0": 1, "cuda:1": 1}, ("cuda:0", "cuda:1")),
    "two GPUs, one free": (("cuda", 2), {"cuda:0": 1, "cuda:1": 0}, ()),
    "more GPUs than there are": (("cuda", 8), {"cuda:0": 1, "cuda:1": 1}, ("cuda:0", "cuda:1")),
    "one GPU": (("cuda:1", 1), {"cuda:0": 1, "cuda:1": 0}, ()),
    "a GPU that does not exist": (("cuda:7", 1), {"cpu": 1}, ("cuda:7",)),
    "automatic without GPU": (("auto", 1), {"cpu": 1}, ("cpu",)),
}


@pytest.mark.parametrize(("demand", "free", "expected"), DEMANDS.values(), ids=DEMANDS)
def test_devices_of_demand(demand, free, expected, monkeypatch):
    monkeypatch.setattr(tickets, "has_gpu", lambda: False)
    assert devices_of(*demand, free) == expected


def test_gpu_that_another_program_uses_is_not_free(monkeypatch):
    monkeypatch.setattr(tickets, "gpu_processes", lambda device: int(device == "cuda:1"))
    have = {"cpu": 2, "cuda:0": 1, "cuda:1": 1, "cuda:2": 2}
    assert free_slots(have, ["cpu", "cuda:2"]) == {"cpu": 1, "cuda:0": 1, "cuda:1": 0, "cuda:2": 1}


@pytest.mark.parametrize(
    ("kind", "config", "expected"),
    [
        ("train", {"device": "cuda", "nproc": 2}, ("cuda", 2)),
        ("eval", {"eval": {"device": "cuda:1"}}, ("cuda:1", 1)),
        ("arena", {"arena": {"device": "cpu"}, "nproc": 4}, ("cpu", 4)),
        ("train", {"device": "rm -rf", "nproc": -1}, ("cpu", 1)),
        ("eval", {"eval": None}, ("cpu", 1)),
    ],
)
def test_demand_of_spec(kind, config, expected):
    assert demand_of(kind, config) == expected


@pytest.mark.skipif(sys.platform != "linux", reason="descriptors are listed in /proc")
@pytest.mark.parametrize("first", [1, pytest.param(2, marks=pytest.mark.long), pytest.param(3, marks=pytest.mark.long)])
def test_kill_at_every_third_point_completes_every_run_once(monkeypatch, first):
    machine, at = Machine(monkeypatch), first - 3
    while True:
        at += 3
        machine.sessions.clear()
        machine.completed.clear()
        runs = [put(number) for number in range(2)]
        machine.interrupted[runs[1].id] = 1
        machine.operations, machine.kill_at = 0, at
        machine.drain()
        for run in runs:
            assert machine.completed[run.id] == 1, f"killed at point {at}"
            assert machine.sessions[run.id] <= 2 + (run is runs[1]), f"killed at point {at}"
            assert job_status(run).state == "completed" and not run.queued.exists()
            shutil.rmtree(run.root)
        if machine.operations < at:
            break
    assert at > 20, "every operation is a point"


def test_run_that_crashes_without_progress_is_resumed_a_few_times(monkeypatch):
    machine, paths = Machine(monkeypatch), put()
    crashed = json.dumps({"signal": "SIGSEGV", "message": "segmentation fault"})
    monkeypatch.setattr(machine, "end", lambda paths: paths.exit.write_text(crashed))
    machine.drain()
    assert machine.sessions[paths.id] == 1 + MAX_CRASHES
    assert (job_status(paths).state, job_status(paths).reason) == ("crashed", "segmentation fault")


@pytest.mark.parametrize(("record", "sessions"), [({"code": 1, "disk_full": True}, 2), ({"code": 1}, 1)])
def test_run_that_failed_on_a_full_disk_is_resumed(monkeypatch, record, sessions):
    machine, paths = Machine(monkeypatch), put()

    def end(paths):
        paths.exit.write_text(json.dumps(record if machine.sessions[paths.id] == 1 else {"code": 0}))

    monkeypatch.setattr(machine, "end", end)
    machine.drain()
    assert machine.sessions[paths.id] == sessions


def test_run_that_cannot_start_fails_and_the_next_one_starts(monkeypatch):
    machine = Machine(monkeypatch)
    broken, whole = put(0), put(1)
    broken.spec.write_text(json.dumps({"kind": "train", "config": {"nproc": 100_000}}))
    machine.drain()
    assert machine.completed[whole.id] == 1 and not machine.sessions[broken.id]
    status = job_status(broken)
    assert status.state == "failed" and status.reason.startswith("nproc is '100000', expected 1 to 256")


def test_run_whose_lock_another_process_holds_stays_in_the_queue(monkeypatch):
    machine, paths = Machine(monkeypatch), put()

    def refuse(*_, **__):
        raise StartError("run is already running")

    monkeypatch.setattr(queue, "begin", refuse)
    machine.supervise(paths.id)
    assert order() == [paths.id] and not paths.exit.exists()


def other_runs() -> Callable[[], object]:
    """Let runs that do not wait take the slots of the CPU."""
    found = open_queue()
    with found.editing():
        handles = found.take_slots("outside", ["cpu"]) + found.take_slots("another", ["cpu"])
    os.close(handles.pop())
    assert found.taken() == {"outside": ["cpu"]}
    return lambda: os.close(handles.pop())


def pause() -> Callable[[], object]:
    change(paused=True)
    return lambda: change(paused=False)


def full_disk() -> Callable[[], object]:
    patch = pytest.MonkeyPatch()
    patch.setattr(tickets.Queue, "is_disk_full", lambda self: True)
    return patch.undo


@pytest.mark.parametrize(
    ("obstacle", "reason"),
    [(pause, "the queue is paused"), (full_disk, "is nearly full"), (other_runs, "waits for a slot of cpu")],
)
def test_nothing_starts_while_something_is_in_the_way(monkeypatch, obstacle, reason):
    machine, paths = Machine(monkeypatch), put()
    remove = obstacle()
    machine.supervise(paths.id)
    assert not machine.sessions and reason in queue.waiting_reason(open_queue(), open_queue().ticket(paths.id))
    remove()
    machine.drain()
    assert machine.completed[paths.id] == 1


@pytest.mark.parametrize("leave", [shutil.rmtree, lambda root: root.rename(root.with_name("other"))])
def test_deleted_or_renamed_run_leaves_the_queue(monkeypatch, leave):
    machine, paths = Machine(monkeypatch), put()
    leave(paths.root)
    machine.drain()
    assert not machine.sessions and order() == []


def test_run_waits_for_earlier_ones_of_its_device_only():
    found = open_queue()
    names = {}
    for name, device in (("a", "cpu"), ("b", "cuda:1"), ("c", "cuda:0"), ("d", "cuda"), ("e", "cpu")):
        with found.editing():
            found.add(Ticket(run=name, kind="train", device=device, queued_at=0.0))
        names[name] = found.ticket(name)
    blockers = {name: found.blocker(ticket) for name, ticket in names.items()}
    assert blockers == {"a": "", "b": "", "c": "", "d": "b", "e": "a"}


def test_resumed_run_waits_until_its_next_session(monkeypatch):
    machine, paths = Machine(monkeypatch), put()
    machine.drain()
    enqueue(paths, JobSpec(kind="train", config={"device": "cpu"}), ["--resume", "latest"], resumed=True)
    assert job_status(paths).state == "queued"
    machine.drain()
    assert machine.sessions[paths.id] == 2 and job_status(paths).state == "completed"


def test_outcome_of_a_stop_without_an_exit_record_is_an_end():
    paths = put()
    ticket = open_queue().ticket(paths.id)
    assert queue.outcome(paths, ticket) == "waiting"
    begin_session(paths, 1)
    assert isinstance(queue.outcome(paths, ticket), Interrupted)
    paths.stop.write_text("now 1.0 command\n")
    assert queue.outcome(paths, ticket) == "ended"


@pytest.fixture
def stand_ins(monkeypatch):
    """Let supervisors be stand-ins whose jobs are cheap."""
    monkeypatch.setattr(tickets, "WAITER", WAITER)


def supervisors(run: RunPaths) -> set[int]:
    """Return the process ids of a run's supervisors."""
    found = set()
    for process in processes():
        with contextlib.suppress(psutil.Error):
            if process.cmdline()[-1:] == [str(run.root)]:
                found.add(process.pid)
    return found


def kill_all() -> None:
    for process in processes():
        with contextlib.suppress(psutil.Error):
            process.kill()


@pytest.fixture(autouse=True)
def _end_processes():
    yield
    # a killed process may just have started another
    for _ in range(2):
        kill_all()


@pytest.mark.long
@pytest.mark.usefixtures("stand_ins")
def test_queue_goes_on_after_all_its_processes_were_killed_and_leaves_none():
    runs = [put(number, updates=100) for number in range(2)]
    open_queue().revive()
    wait_for(lambda: any(count(run, "sessions") for run in runs))
    kill_all()
    wait_for(lambda: not processes())
    assert len(order()) == 2
    for paths in runs:
        paths.spec.write_text(paths.spec.read_text().replace("100", "2"))
    open_queue().revive()
    wait_for(lambda: not order())
    assert [count(paths, "sessions") for paths in runs] == [["first", "resumed"], ["first"]]
    assert all(len(count(paths, "results")) == 1 and job_status(paths).state == "completed" for paths in runs)
    wait_for(lambda: not processes())


@pytest.mark.usefixtures("stand_ins")
def test_waiting_supervisor_replaces_the_killed_one_before_it():
    first, second = put(0), put(1)
    change(paused=True)
    open_queue().revive()
    wait_for(lambda: all(open_queue().has_supervisor(run.id) for run in (first, second)))
    killed = supervisors(first)
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: supervisors(first) - killed and open_queue().has_supervisor(first.id))


WAITING_MODULES = """
import sys, time
from echelon.jobs import waiter
def report(seconds):
    print(*sorted(sys.modules))
    raise SystemExit
time.sleep = report
waiter.main([sys.argv[1]])
"""


def test_waiting_supervisor_is_light():
    paths = [put(number) for number in range(3)]
    change(paused=True)
    done = subprocess.run(
        [sys.executable, "-P", "-c", WAITING_MODULES, str(paths[0].root)], capture_output=True, text=True, timeout=60
    )
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert "echelon" in loaded, done.stderr
    assert not loaded & {"torch", "warp", "numpy", "pydantic", "pydantic_core", "psutil", "typer", "asyncio"}
    open_queue().revive()
    wait_for(lambda: all(open_queue().has_supervisor(run.id) for run in paths) and len(processes()) == len(paths))
    if sys.platform == "linux":
        sizes = []
        for process in processes():
            with open(f"/proc/{process.pid}/smaps_rollup") as file:
                sizes.append(next(int(line.split()[1]) for line in file if line.startswith("Pss:")))
        assert max(sizes) * MAX_WAITERS <= BUDGET_KB


def disturb(kind: str, rng: random.Random) -> set[str]:
    """Kill waiting supervisors, a process of a run, or all, as the end of a machine does; return the runs hit."""
    running = [paths for paths in list_runs() if job_status(paths).is_alive]
    waiting = set(order()) - open_queue().taken().keys()
    hit: set[str] = set()
    match kind:
        case "waiters":
            for process in processes():
                with contextlib.suppress(psutil.Error):
                    name = os.path.basename(process.cmdline()[-1])
                    if name in waiting and rng.random() < 0.5:
                        hit.add(name)  # it may start just now
                        process.kill()
        case "machine":
            hit |= set(order())
            kill_all()
            for paths in running:
                change_boot_id(paths)
        case _ if running:
            paths = rng.choice(running)
            hit.add(paths.id)
            send_signal(process_identity(paths, kind), signal.SIGKILL, paths)
    return hit


@pytest.mark.long
@pytest.mark.usefixtures("stand_ins")
def test_runs_over_two_slots_that_are_killed_run_once():
    rng, hit = random.Random(3), set[str]()
    runs = [put(number) for number in range(6)]
    change(slots={"cpu": 2})
    for kind in ("waiters", "supervisor", "machine", "worker"):
        open_queue().revive()
        time.sleep(rng.uniform(0.0, 0.8))
        hit |= disturb(kind, rng)

    def is_empty() -> bool:
        open_queue().revive()
        time.sleep(1.0)  # a waiting supervisor takes its ticket before the next one is started
        return not order()

    wait_for(is_empty, 120.0)
    for paths in runs:
        sessions = count(paths, "sessions")
        log = paths.log_supervisor.read_text()
        assert "overlap" not in sessions, f"{paths.id}: {sessions}\n{log}"
        assert len(count(paths, "results")) == 1, f"{paths.id}: {sessions}, {job_status(paths)}\n{log}"
        assert job_status(paths).state in ("completed", "crashed"), job_status(paths)
        assert paths.id in hit or sessions == ["first"], f"{paths.id} was not disturbed: {sessions}"
