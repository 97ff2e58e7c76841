"""Start, stop, remove and wait for background jobs.

A job is a run folder with a detached supervisor; there is no daemon. Import-light: only the worker process imports
the training packages.
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path

from echelon.config.opponents import CLUSTER
from echelon.files import LOG_FLAGS, fsync, make_folder, open_own, reason_of
from echelon.jobs import control, launchers, lock
from echelon.jobs.exits import last_line
from echelon.jobs.kinds import JobKind
from echelon.jobs.launchers import LaunchError, StartError
from echelon.jobs.observers import remove_observers
from echelon.jobs.process import identity_from, send_signal, works_on
from echelon.jobs.spec import JobSpec, write_spec
from echelon.jobs.status import JobStatus, is_waiting, job_status
from echelon.jobs.supervisor import FAILED, READY
from echelon.jobs.tickets import PYTHON_MODULE, Queue
from echelon.jobs.usage import cuda_fault, machine_memory
from echelon.runs import RunPaths, command, read_json, require_plain_files

READY_LIMIT_S = 30.0
"""Longest wait for a supervisor's report [s]; longer than a supervisor waits for an orphaned worker."""
LEAGUE_KEY = "opponents.league.path"
PROCESS_BYTES = 256 << 20
"""Less than a process of a job takes before it has read its configuration."""
POLL_S = 0.2


def launch(
    paths: RunPaths,
    spec: JobSpec,
    kind: JobKind,
    arguments: Sequence[str] = (),
    named: Collection[str] = (),
    *,
    launcher: str = "",
) -> None:
    """Write the spec, start a detached supervisor and wait until it reports READY.

    ``LaunchError`` contains the reported error. An existing run is resumed and keeps its first spec; ``named`` are the
    dotted keys that the user gives now, where other values of its spec may be of someone else.

    With ``launcher`` an engine starts the supervisor on some host, later.
    """
    try:
        require_plain_files(paths)
        if not launcher and (fault := cuda_fault(str(spec.config.get("device", "")))):
            expected = f"expected cpu or auto: {fault}; for details: {command('doctor')}"
            raise ValueError(f"device is {spec.config['device']!r}, {expected}")
        processes = processes_of(spec, kind)
        if not launcher:
            require_process_memory(processes)
        if paths.spec.exists() and LEAGUE_KEY not in named:
            require_own_league(paths, spec)
        advice = command("runs", "stop", paths.id)
        with lock.locked(paths.launch_lock, StartError(f"run {paths.id!r} is already being started; try: {advice}")):
            if paths.spec.exists() and job_status(paths).is_alive:
                raise StartError(f"run {paths.id!r} is already running; try: {advice}")
            if is_waiting(paths):
                first = command("runs", "queue", paths.id, "--move", "first")
                raise StartError(f"run {paths.id!r} waits in the queue; try: {first}")
            for folder in (paths.log, paths.control, paths.checkpoints):
                make_folder(folder)
            write_spec(paths, spec)
            if launcher:
                return launchers.submit_run(paths, launcher, kind, arguments, spec)
            answer = _spawn(paths, kind.command(paths.root, arguments, processes))
    except OSError as error:
        raise StartError(f"run folder {str(paths.root)!r} cannot be written: {reason_of(error)}") from error
    except StartError:
        raise
    except ValueError as error:
        raise LaunchError(str(error)) from None
    if answer != READY:
        raise StartError(answer.removeprefix(FAILED).strip() or _no_answer(paths))
    with contextlib.suppress(OSError):
        Queue(paths.root.parent).revive()


def processes_of(spec: JobSpec, kind: JobKind) -> int:
    count = spec.config.get("nproc", 1)
    if type(count) is not int or not 1 <= count <= kind.max_processes:
        expected = f"1 to {kind.max_processes}" if kind.max_processes > 1 else "1"
        raise ValueError(f"nproc is {str(count)[:20]!r}, expected {expected} for a job that will {kind.summary}")
    return count


def require_process_memory(processes: int) -> None:
    available = machine_memory()
    if processes > 1 and processes * PROCESS_BYTES > available:
        raise ValueError(f"nproc is {processes}, expected at most {available // PROCESS_BYTES} on this machine")


def require_own_league(paths: RunPaths, spec: JobSpec) -> None:
    """Raise ``ValueError`` where the spec of a training run names another league than that of its runs folder.

    A run folder may be a copy from another machine, which must not choose a database of this one to write.
    """
    from echelon.jobs.config_layers import flatten

    path = flatten(spec.config).get(LEAGUE_KEY) if spec.kind == "train" else ""
    if not path or path == CLUSTER:
        return
    from echelon.arena.store import league_path

    own = league_path(paths.root.parent)
    if not isinstance(path, str) or Path(path).absolute() != own.absolute():
        again = command("train", "--resume", paths.id, "--set", f"{LEAGUE_KEY}={path}")
        raise ValueError(
            f"run {paths.id!r} writes into the league {str(path)!r}, expected {str(own)!r} unless you name it: {again}"
        )


def _no_answer(paths: RunPaths) -> str:
    cause = last_line(paths.log_supervisor)
    return f"supervisor of run {paths.id!r} did not start" + (f": {cause}" if cause else "")


def _spawn(paths: RunPaths, command: Sequence[str]) -> str:
    """Start the supervisor in a new session and return its report line."""
    reader, writer = os.pipe()
    with open(reader, "rb", buffering=0) as answers:
        try:
            with os.fdopen(open_own(paths.log_supervisor, LOG_FLAGS), "ab", buffering=0) as log:
                argv = [*PYTHON_MODULE, "echelon.jobs.supervisor", "--ready-fd", str(writer)]
                child = subprocess.Popen(
                    [*argv, str(paths.root), *command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=(writer,),
                )
        finally:
            os.close(writer)
        child.returncode = 0  # the supervisor outlives this process; without this Popen warns on collection
        ready, _, _ = select.select([answers], [], [], READY_LIMIT_S)
        line = answers.read(4096) if ready else b""
    return (line or b"").decode(errors="replace").strip()


def ended_status(paths: RunPaths) -> JobStatus | None:
    """Return the status of a job that has ended here or on a host; None while it waits, runs or may run.

    A submission that its launcher has dropped has ended too, in the state ``crashed``.
    """
    status, state = job_status(paths), launchers.launch_state(paths)
    if state == launchers.DROPPED:
        return replace(status, state="crashed", reason="dropped by its launcher before it started")
    if status.is_alive or state in (launchers.PENDING, launchers.ACTIVE):
        return None
    return status


def wait_until(
    paths: RunPaths, done: Callable[[JobStatus], bool], *, timeout_s: float | None = None
) -> JobStatus | None:
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        status = job_status(paths)
        if done(status):
            return status
        if deadline is not None and time.monotonic() > deadline:
            return None
        time.sleep(POLL_S)


def stop(paths: RunPaths, *, now: bool = False) -> JobStatus:
    """Request a job to stop and return its status; a job that is not running is not changed.

    A worker whose supervisor was killed is signalled as well; a process that is none of the run never is. A run that
    waits for a host is withdrawn.
    """
    if launchers.is_pending(paths) and launchers.withdraw(paths):
        return job_status(paths)
    status = job_status(paths)
    processes = read_json(paths.processes) or {}
    if status.is_alive:
        control.request_stop(paths, now=now)
        send_signal(identity_from(processes.get("supervisor")), signal.SIGUSR1, paths)
        return job_status(paths)
    if has_orphan(paths):
        orphan = identity_from(processes.get("worker"))
        send_signal(orphan, signal.SIGKILL if now else signal.SIGTERM, paths, group=True)
    return status


def has_orphan(paths: RunPaths) -> bool:
    """Whether a worker runs whose supervisor was killed."""
    worker = identity_from((read_json(paths.processes) or {}).get("worker"))
    return not job_status(paths).is_alive and works_on(worker, paths)


def remove(paths: RunPaths) -> None:
    """Delete a run, or the link to a linked run; ``ValueError`` where it is running."""
    status = job_status(paths)
    if status.is_alive:
        raise ValueError(f"run {paths.id!r} is {status.state}; try: {command('runs', 'stop', paths.id)}")
    if has_orphan(paths):
        raise ValueError(
            f"run {paths.id!r} is {status.state}, its worker is still ending; try: {command('runs', 'stop', paths.id)}"
        )
    if paths.root.is_symlink():
        paths.root.unlink()
        return
    remove_observers(paths)
    Queue(paths.root.parent).remove(paths.id)
    removed = paths.root.with_name(f".{paths.id}.removed")
    # what an earlier removal left must not be in the way
    shutil.rmtree(removed, ignore_errors=True)
    if os.path.lexists(removed):
        removed = Path(tempfile.mkdtemp(prefix=f"{removed.name}-", dir=removed.parent))
    paths.root.rename(removed)
    # a crash while files are deleted must not bring back a run that lacks some
    fsync(removed.parent)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(removed)


def log_files(paths: RunPaths) -> list[Path]:
    return [path for path in (paths.log_worker, paths.log_supervisor) if path.exists()]
