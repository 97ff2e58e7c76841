"""Queued runs: put one into the queue, supervise its sessions, and tell how it ended.

A run that its machine or a signal interrupted keeps its ticket and resumes from its newest checkpoint; one that has
completed, failed or been stopped has ended. Whether a session has begun is read from the run's folder, under whose lock
a supervisor refuses a second start, so a kill at any time starts no run twice.
"""

import contextlib
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from echelon import runs
from echelon.files import LOG_FLAGS, atomic_write, error_text, make_folder, open_own
from echelon.jobs import control, launch, launchers, lock
from echelon.jobs.exits import session_end
from echelon.jobs.kinds import KINDS
from echelon.jobs.launchers import StartError
from echelon.jobs.process import session_id
from echelon.jobs.spec import JobSpec, read_spec, write_spec
from echelon.jobs.status import JobStatus, job_status
from echelon.jobs.supervisor import begin, start_observer
from echelon.jobs.tickets import Queue, Ticket, demand_of, resolved_device, share_device, visible_gpus
from echelon.jobs.usage import cuda_fault

FOLLOW_S = 1.0
RETRY_S = 10.0
"""Time until a run that could not start is tried again [s]."""
MAX_CRASHES = 3
"""Crashes in a row without progress after which a run is not resumed again."""
RESUME = ("--resume", "latest")
DEFINITE = ("completed", "stopped", "failed", "lost")
"""States of sessions that are not resumed."""
COORDINATORS = ("sweep",)
"""Kinds of jobs that compute nothing themselves: the runs that they start do."""


def open_queue(home: str | Path | None = None) -> Queue:
    return Queue(runs.runs_home(home))


def enqueue(paths: runs.RunPaths, spec: JobSpec, arguments: Sequence[str] = (), *, resumed: bool = False) -> int:
    """Write the spec of a run and its ticket, and return the number of runs that start before it.

    The caller starts its supervisor (``Queue.revive``). ``resumed`` tells that the run has earlier sessions. A run that
    is queued already, runs, or whose device does not exist is a ``ValueError``.
    """
    runs.require_plain_files(paths)
    queue, (device, processes) = Queue(paths.root.parent), demand_of(spec.kind, spec.config)
    if (fault := cuda_fault(device)) and not queue.settings().launcher:
        raise ValueError(f"device is {device!r}, expected cpu or auto: {fault}")
    if queue.settings().launcher:
        launchers.require_one_writer(paths, spec)
    if resumed and not job_status(paths).has_ended:
        raise ValueError(f"run {paths.id!r} is {job_status(paths).state}, expected one that has ended")
    if resumed:
        launch.require_own_league(paths, spec)
    size = 0
    with contextlib.suppress(OSError):
        size = paths.metrics.stat().st_size
    with queue.editing():
        for folder in (paths.log, paths.control, paths.checkpoints):
            make_folder(folder)
        ticket = Ticket(
            run=paths.id, kind=spec.kind, device=resolved_device(device), processes=processes,
            arguments=list(arguments), session=session_id(paths), metrics_bytes=size,
            inode=os.stat(paths.root).st_ino, queued_at=time.time(),
        )  # fmt: skip
        write_spec(paths, spec)
        return queue.add(ticket)


def find_queued(queue: Queue, name: str) -> str:
    """Return the id of the queued run with a name, as ``find_run``; else ``RunNotFoundError``."""
    names = queue.runs()
    run = name if name in names else runs.find_run(name, queue.home).id
    if run not in names:
        raise runs.RunNotFoundError(f"run {run!r} is not in the queue; see: echelon runs queue")
    return run


def remove_waiting(queue: Queue, run: str) -> bool:
    """Remove a waiting run and return whether it never had a session; ``ValueError`` where it starts or runs."""
    with queue.editing():
        if run in queue.taken():
            raise ValueError(f"run {run!r} is being started; try: {runs.command('runs', 'stop', run)}")
        queue.remove(run)
    paths = runs.RunPaths(queue.home / run)
    return not os.path.lexists(paths.processes)


def contention(kind: str, config: dict[str, object], home: str | Path | None = None) -> str:
    """Return one line about the running jobs that share a device with one that starts now; empty without any."""
    queue = open_queue(home)
    mine = resolved_device(demand_of(kind, config)[0])
    busy = [
        run
        for run, devices in queue.taken().items()
        if any(share_device(mine, device) for device in devices)
        and (runs.read_json(runs.RunPaths(queue.home / run).spec) or {}).get("kind") not in COORDINATORS
    ]
    return f"shares {mine} with {', '.join(busy)}" if busy else ""


def waiting_reason(queue: Queue, ticket: Ticket) -> str:
    if queue.settings().paused:
        return "the queue is paused"
    if queue.is_disk_full():
        return f"disk of {str(queue.home)!r} is nearly full"
    if not queue.blocker(ticket) and not queue.free_devices(ticket):
        return f"waits for a slot of {queue.settings().launcher_name or ticket.device}"
    return ""


class Crashes(NamedTuple):
    """Crashes of a run in a row, without progress since ``step``."""

    count: int = 0
    step: int = -1


@dataclass(frozen=True)
class Interrupted:
    """A run that has to be resumed."""

    reason: str
    crashes: Crashes
    dropped: bool = False


NO_CRASHES = Crashes()
Outcome = Literal["waiting", "running", "ended"] | Interrupted


def outcome(paths: runs.RunPaths, ticket: Ticket, crashes: Crashes = NO_CRASHES) -> Outcome:
    """Return whether a run waits for its first session, runs or has ended, or what interrupted a session."""
    try:
        status = job_status(paths)
    except (ValueError, FileNotFoundError):
        return "ended"  # the run was deleted or renamed
    if lock.is_held(paths.lock):
        return "running"
    placed = launchers.launch_state(paths)
    if placed in (launchers.PENDING, launchers.ACTIVE):
        return "running"
    if placed == launchers.DROPPED:
        return Interrupted("dropped by its launcher before it started", crashes, dropped=True)
    if session_id(paths) == ticket.session:
        return "waiting"
    return _session_outcome(paths, ticket, status, crashes)


def _session_outcome(paths: runs.RunPaths, ticket: Ticket, status: JobStatus, crashes: Crashes) -> Outcome:
    if status.state == "failed" and (runs.read_json(paths.exit) or {}).get("disk_full"):
        return Interrupted("the disk was full", crashes)
    if status.state == "stopped" and launchers.is_preempted(paths):
        return Interrupted("preempted", crashes)
    if status.state in DEFINITE:
        return "ended"
    end = session_end(paths.metrics, ticket.metrics_bytes)
    if not paths.exit.exists():
        is_over = control.stop_requests(paths) or (end is not None and end.reason in ("completed", "failed"))
        return "ended" if is_over else Interrupted(status.reason, crashes)
    crashes = Crashes(crashes.count + 1 if status.global_step <= crashes.step else 1, status.global_step)
    return "ended" if crashes.count > MAX_CRASHES else Interrupted(status.reason, crashes)


def supervise_next_session(
    queue: Queue, ticket: Ticket, devices: tuple[str, ...], slots: list[int], crashes: Crashes
) -> Crashes | None:
    """Supervise the next session of a run on these devices; return its crashes where it has to be resumed."""
    paths = runs.follow_folder(runs.RunPaths(queue.home / ticket.run))
    with contextlib.suppress(OSError):
        _log_to(paths.log_supervisor)
    found = outcome(paths, ticket)
    if found not in ("running", "ended"):
        try:
            runs.require_plain_files(paths)
            _run(paths, ticket, devices, slots, is_first=found == "waiting")
        except (StartError, OSError) as error:
            print(error_text(error), file=sys.stderr, flush=True)
            time.sleep(RETRY_S)
            return crashes
        except ValueError as error:
            print(error_text(error), file=sys.stderr, flush=True)
            record = {"time": time.time(), "code": 1, "message": error_text(error)}
            with contextlib.suppress(OSError):
                atomic_write(paths.exit, json.dumps(record) + "\n")
            found = "ended"
    while found != "ended" and (found := outcome(paths, ticket, crashes)) == "running":
        time.sleep(FOLLOW_S)
    if found == "ended":
        queue.remove(ticket.run)
        queue.revive()
        return None
    if isinstance(found, Interrupted):
        print(f"{ticket.run} is queued again: {found.reason}", file=sys.stderr, flush=True)
        if found.dropped:
            time.sleep(RETRY_S)
        return found.crashes
    return crashes


def _run(paths: runs.RunPaths, ticket: Ticket, devices: tuple[str, ...], slots: list[int], *, is_first: bool) -> None:
    if (kind := KINDS.get(ticket.kind)) is None:
        raise ValueError(f"job is of kind {ticket.kind!r}, expected one of: {', '.join(KINDS)}")
    spec = read_spec(paths)
    arguments, processes = ticket.arguments if is_first else RESUME, launch.processes_of(spec, kind)
    if text := Queue(paths.root.parent).settings().launcher:
        return launchers.submit_run(paths, text, kind, arguments, spec)
    words = kind.command(paths.root, arguments, processes)
    with begin(paths, words, slots=slots, environment=visible_gpus(devices)) as supervisor:
        start_observer(paths)
        supervisor.run()


def _log_to(path: Path) -> None:
    handle = open_own(path, LOG_FLAGS)
    os.dup2(handle, 1)
    os.dup2(handle, 2)
    os.close(handle)
