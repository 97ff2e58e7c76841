"""State of a job from its files and its lock: every state with its reason, limits, and damaged values."""

import json
import os
import signal
import socket
import subprocess
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from echelon.jobs import control, launch, lock, status
from echelon.jobs.process import boot_id, identify
from echelon.jobs.spec import new_spec, read_spec, write_spec
from echelon.jobs.status import JobStatus, foreign_process, idle_time_s, job_status
from echelon.jobs.tickets import Queue, Ticket
from echelon.runs import RunPaths

NOW_S = 50_000.0
"""Time on both clocks of these tests [s]."""
SPEC = {"kind": "train", "created": NOW_S - 100.0, "config": {"preset": "quickstart"}}
HERE = socket.gethostname()
PROGRESS = {"phase": "training, 40 %", "update": 7, "global_step": 700, "boot_id": boot_id(), "monotonic": NOW_S - 1.0}


def myself() -> dict[str, Any]:
    identity = identify(os.getpid())
    assert identity is not None
    return asdict(identity)


def ended_process() -> dict[str, Any]:
    """Return an identity whose pid has another process."""
    row = myself()
    return {**row, "create_time": row["create_time"] + 1}


@pytest.fixture
def paths(tmp_path, monkeypatch) -> RunPaths:
    monkeypatch.setattr(time, "time", lambda: NOW_S)
    monkeypatch.setattr(time, "monotonic", lambda: NOW_S)
    (tmp_path / "run").mkdir()
    return RunPaths(tmp_path / "run")


@pytest.fixture
def held(paths):
    """Hold the lock of the run, as its supervisor does."""
    handle = lock.acquire(paths.lock)
    assert handle is not None
    yield
    os.close(handle)


def write(path: Path, row: Any) -> None:
    path.write_text(json.dumps(row))


def state_of(paths: RunPaths) -> tuple[str, str]:
    found = job_status(paths)
    return found.state, found.reason


@pytest.mark.parametrize("spec", ["{", "[1]", '{"kind": "\\ud8'])
def test_damaged_spec_costs_names_only(paths, spec):
    paths.spec.write_text(spec)
    write(paths.exit, {"code": 4, "message": "requested"})
    found = job_status(paths)
    assert (found.state, found.reason, found.kind) == ("stopped", "requested; it has no readable spec.json", "")
    launch.stop(paths)
    launch.remove(paths)
    assert not paths.root.exists()


def test_job_status_without_spec_raises_one_line_error(paths):
    with pytest.raises(ValueError) as caught:
        job_status(paths)
    assert str(caught.value) == f"run 'run' has no readable spec.json in {str(paths.root)!r}"


@pytest.mark.parametrize(
    ("record", "state", "code"),
    [
        ({"code": 0}, "completed", 0),
        ({"code": 4}, "stopped", 4),
        ({"code": 1}, "failed", 1),
        ({"code": 5}, "crashed", 5),
        ({"code": 7}, "failed", 1),
        ({}, "failed", 1),
        ({"code": None, "signal": "SIGKILL"}, "crashed", 5),
        ({"code": 0, "signal": "SIGKILL"}, "crashed", 5),
        ({"code": None, "signal": "SIGKILL", "killed_on_request": True}, "stopped", 4),
        ({"code": 0, "killed_on_request": True}, "completed", 0),
    ],
)
def test_ended_job_has_the_state_of_its_exit_record(paths, held, record, state, code):
    write(paths.spec, SPEC)
    write(paths.processes, {"supervisor": myself(), "worker": myself()})
    write(paths.progress, PROGRESS)
    write(paths.exit, {"message": "why", "update": 9, "global_step": 900, "checkpoint": "checkpoints/step-9", **record})
    found = job_status(paths)
    assert found == JobStatus(
        id="run", kind="train", state=state, reason="why", preset="quickstart", update=9, global_step=900,
        created=NOW_S - 100.0, host=HERE, checkpoint="checkpoints/step-9",
    )  # fmt: skip
    assert found.exit_code == code and not found.is_alive


def test_running_job_has_the_progress_of_its_trainer(paths, held):
    write(paths.spec, SPEC)
    write(paths.processes, {"supervisor": myself(), "worker": myself()})
    write(paths.progress, PROGRESS)
    found = job_status(paths)
    assert found == JobStatus(
        id="run", kind="train", state="running", preset="quickstart", phase="training, 40 %", update=7,
        global_step=700, created=NOW_S - 100.0, pid=os.getpid(), host=HERE,
    )  # fmt: skip
    assert found.is_alive and found.exit_code == 0
    assert asdict(found)["pid"] == os.getpid() and asdict(found)["state"] == "running"


@pytest.mark.parametrize(
    ("phase", "idle_s", "state"),
    [
        (None, 0.0, "starting"),
        ("starting", 600.0, "starting"),
        ("starting, compiling kernels 12/40", 600.0, "starting"),
        ("starting, compiling kernels 12/40", 601.0, "stalled"),
        ("training", 300.0, "running"),
        ("training, 40 %", 301.0, "stalled"),
        ("saving", 300.0, "running"),
        ("saving", 301.0, "stalled"),
    ],
)
def test_silent_trainer_stalls_after_the_limit_of_its_phase(paths, held, phase, idle_s, state):
    write(paths.spec, SPEC)
    written = {"monotonic": NOW_S - idle_s, "boot_id": boot_id()}
    write(paths.progress, written if phase is None else {**written, "phase": phase})
    expected = f"no progress for {idle_s:.0f} s in phase {phase!r}" if state == "stalled" else ""
    assert state_of(paths) == (state, expected)


def test_change_of_the_wall_clock_does_not_stall_a_job(paths, held, monkeypatch):
    write(paths.spec, SPEC)
    write(paths.progress, PROGRESS)
    for years in (-10, 10):
        monkeypatch.setattr(time, "time", lambda years=years: NOW_S + years * 365 * 86400)
        assert state_of(paths) == ("running", "")


def test_stop_request_is_reported_until_the_job_stalls(paths, held):
    write(paths.spec, SPEC)
    write(paths.progress, PROGRESS)
    control.request_stop(paths)
    assert state_of(paths) == ("stopping", "worker completes its update and saves")
    write(paths.progress, {**PROGRESS, "monotonic": NOW_S - 1000.0})
    assert state_of(paths)[0] == "stalled"


def test_suspended_trainer_is_stalled(paths, held):
    write(paths.spec, SPEC)
    write(paths.progress, PROGRESS)
    process = subprocess.Popen(["sleep", "60"])
    try:
        identity = identify(process.pid)
        assert identity is not None
        write(paths.processes, {"supervisor": myself(), "worker": asdict(identity)})
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        expected = "worker is suspended (SIGSTOP); try sending SIGCONT to its process group"
        assert state_of(paths) == ("stalled", expected)
    finally:
        process.kill()
        process.wait()


ORPHANED = ("crashed", "supervisor was killed; its orphaned worker is ending")
COPY = ("lost", "unknown: this folder is a copy of a running run")
GONE = ("crashed", "terminated without an exit record: supervisor was killed or the machine went down")
NEVER_STARTED = ("crashed", "terminated without an exit record, before its supervisor wrote its identity")
ELSEWHERE = ("lost", "unknown: started on another host, 'elsewhere'")


@pytest.mark.parametrize(
    ("supervisor", "worker", "expected"),
    [
        (myself(), None, COPY),
        (ended_process(), myself(), GONE),
        (ended_process(), ended_process(), GONE),
        (ended_process(), None, GONE),
        ({**ended_process(), "host": "elsewhere"}, myself(), ELSEWHERE),
    ],
)
def test_job_without_lock_and_exit_record_has_ended_unrecorded(paths, supervisor, worker, expected):
    write(paths.spec, {**SPEC, "host": "another, unless the supervisor says so"})
    write(paths.processes, {"supervisor": supervisor, "worker": worker})
    write(paths.progress, PROGRESS)
    found = job_status(paths)
    assert (found.state, found.reason) == expected
    assert (found.pid, found.phase, found.update, found.host) == (0, "", 7, supervisor["host"])


def test_orphaned_trainer_is_one_that_writes_the_log_of_the_run(paths):
    write(paths.spec, SPEC)
    write(paths.processes, {"supervisor": ended_process(), "worker": myself()})
    paths.log.mkdir()
    output = os.dup(2)
    try:
        for target, expected in ((paths.log / "other.log", GONE), (paths.log_worker, ORPHANED)):
            with open(target, "ab") as log:
                os.dup2(log.fileno(), 2)
            assert state_of(paths) == expected
        os.link(paths.log_worker, paths.log / "second name")
        assert state_of(paths) == GONE
    finally:
        os.dup2(output, 2)
        os.close(output)


@pytest.mark.parametrize("name", ["supervisor", "worker"])
def test_running_process_that_is_none_of_the_run_is_named(paths, name):
    write(paths.processes, {"supervisor": ended_process(), "worker": ended_process(), name: myself()})
    assert foreign_process(paths) == (
        f"proc.json of run 'run' names process {os.getpid()} as its {name}, expected a process of yours that works on "
        "this run; it is not signalled"
    )


def test_no_foreign_process_where_none_runs_or_it_works_on_the_run(paths):
    assert foreign_process(paths) == ""
    write(paths.processes, {"supervisor": ended_process(), "worker": {"pid": 1}})
    assert foreign_process(paths) == ""
    handle = lock.acquire(paths.lock)
    assert handle is not None
    write(paths.processes, {"supervisor": myself()})
    assert foreign_process(paths) == ""
    os.close(handle)


def test_job_with_a_ticket_waits_in_the_queue_until_its_session_has_a_slot(paths):
    write(paths.spec, SPEC)
    queue = Queue(paths.root.parent)
    with queue.editing():
        queue.add(Ticket(run=paths.id, kind="train", inode=os.stat(paths.root).st_ino))
    assert state_of(paths) == ("queued", "waits in the queue")
    assert not job_status(paths).has_ended
    write(paths.processes, {"supervisor": ended_process()})
    assert state_of(paths) == ("queued", "waits in the queue"), "an interrupted run waits again"
    with queue.editing():
        (handle,) = queue.take_slots(paths.id, ["cpu"])
    assert state_of(paths) == GONE
    os.close(handle)


def test_damaged_spec_of_a_running_job_is_its_reason(paths, held):
    paths.spec.write_text("{")
    assert state_of(paths) == ("starting", "it has no readable spec.json")


@pytest.mark.parametrize(
    ("age_s", "expected"),
    [(0.0, ("starting", "")), (14.9, ("starting", "")), (15.0, NEVER_STARTED), (-1.0, NEVER_STARTED)],
)
def test_requested_job_starts_or_has_crashed_by_its_age(paths, age_s, expected):
    write(paths.spec, {**SPEC, "created": NOW_S - age_s})
    assert state_of(paths) == expected
    write(paths.spec, {**SPEC, "created": NOW_S - age_s, "host": HERE})
    assert state_of(paths) == expected
    write(paths.spec, {**SPEC, "created": NOW_S - age_s, "host": "elsewhere"})
    assert state_of(paths) == ELSEWHERE


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"boot_id": boot_id(), "monotonic": NOW_S - 3.5}, 3.5),
        ({"boot_id": boot_id(), "monotonic": NOW_S + 3.5}, 0.0),
        ({"boot_id": boot_id(), "monotonic": -5.0}, NOW_S + 5.0),
        ({"boot_id": "of an earlier boot", "monotonic": NOW_S - 3.5}, None),
        ({"boot_id": boot_id()}, None),
        ({"boot_id": boot_id(), "monotonic": "3"}, None),
        ({"boot_id": boot_id(), "monotonic": status.MAX_NUMBER}, None),
        ({"monotonic": NOW_S - 3.5}, None),
        ({}, None),
    ],
)
def test_idle_time_is_known_only_on_the_same_boot(paths, row, expected):
    assert idle_time_s(row) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(True, 0), ("7", 0), (None, 0), ([7], 0), (-7, -7), (7.9, 7), (1e15, 0), (-1e15, 0), (10**15 - 1, 10**15 - 1)],
)
def test_damaged_number_counts_as_zero(paths, held, value, expected):
    write(paths.spec, SPEC)
    write(paths.progress, {**PROGRESS, "update": value})
    assert job_status(paths).update == expected


@pytest.mark.parametrize(("value", "expected"), [(5, ""), (None, ""), ("x" * 2001, "x" * 2000)])
def test_damaged_text_is_empty_and_a_long_one_is_cut(paths, held, value, expected):
    write(paths.spec, {"kind": value, "config": {"preset": value}})
    write(paths.progress, {**PROGRESS, "phase": value})
    found = job_status(paths)
    assert (found.kind, found.preset, found.phase) == (expected, expected, expected)


@pytest.mark.parametrize("damaged", [5, [], "text", {"supervisor": 5, "worker": []}, {"supervisor": {"pid": 1}}])
def test_damaged_files_cost_only_what_they_hold(paths, held, damaged):
    write(paths.spec, {"config": damaged, "created": NOW_S})
    write(paths.processes, damaged)
    write(paths.progress, damaged)
    assert job_status(paths) == JobStatus(id="run", state="starting", created=NOW_S)


def test_spec_with_names_that_are_no_utf8_reads_back(paths):
    spec = new_spec("eval", {"eval": {"target": "/data/caf\udce9"}}, {}, argv=["echelon", "\udcff"])
    write_spec(paths, spec)
    assert read_spec(paths) == spec and job_status(paths).kind == "eval"
