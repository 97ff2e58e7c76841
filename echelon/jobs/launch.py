"""Start, stop and wait for background jobs; what a command calls is true when it returns.

A job is a run folder with a detached supervisor; there is no daemon. Imports nothing heavy, so that a terminal
reacts at once: the trainer's process loads what training needs.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from echelon.jobs import control
from echelon.jobs.exits import last_line
from echelon.jobs.kinds import JobKind
from echelon.jobs.process import PYTHON_MODULE, identity_from, is_alive, send_signal
from echelon.jobs.spec import JobSpec, write_spec
from echelon.jobs.status import JobStatus, job_status
from echelon.jobs.supervisor import FAILED, READY
from echelon.runs import RunPaths, read_json

READY_LIMIT_S = 30.0
"""How long a supervisor may take until it reports; longer than a new one waits for an orphan to end."""

POLL_S = 0.2
"""Time between looks at a job that is waited for."""


class LaunchError(ValueError):
    """A job could not be started."""


def launch(paths: RunPaths, spec: JobSpec, kind: JobKind, arguments: Sequence[str] = ()) -> None:
    """Write the spec, start a detached supervisor and wait until it reports READY.

    ``LaunchError`` is what it reported instead. A run that exists already goes on: its first spec stays.
    """
    if paths.spec.exists() and job_status(paths).is_alive:
        raise LaunchError(f"run {paths.id!r} is already running; stop it first")
    try:
        for folder in (paths.log, paths.control, paths.checkpoints):
            folder.mkdir(exist_ok=True)
        write_spec(paths, spec)
        answer = _spawn(paths, kind.command(paths.root, arguments, int(spec.config.get("nproc", 1))))
    except OSError as error:
        raise LaunchError(f"run folder {str(paths.root)!r} cannot be written: {error.strerror}") from error
    if answer != READY:
        raise LaunchError(answer.removeprefix(FAILED).strip() or _silent(paths))


def _silent(paths: RunPaths) -> str:
    said = last_line(paths.log_supervisor)
    return f"the supervisor of {paths.id!r} did not start" + (f": {said}" if said else "")


def _spawn(paths: RunPaths, command: Sequence[str]) -> str:
    """Start the supervisor in a session of its own and return the line it reports; empty if it dies silently."""
    reader, writer = os.pipe()
    with open(reader, "rb", buffering=0) as answers:
        try:
            with open(paths.log_supervisor, "ab", buffering=0) as log:
                argv = [*PYTHON_MODULE, "echelon.jobs.supervisor", "--ready-fd", str(writer), str(paths.root)]
                child = subprocess.Popen(
                    [*argv, *command],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=(writer,),
                )
        finally:
            os.close(writer)
        child.returncode = 0  # it outlives us by design; without this Popen warns when it is collected
        ready, _, _ = select.select([answers], [], [], READY_LIMIT_S)
        line = answers.read(4096) if ready else b""
    return (line or b"").decode(errors="replace").strip()


def wait_until(
    paths: RunPaths, done: Callable[[JobStatus], bool], *, timeout_s: float | None = None
) -> JobStatus | None:
    """Return the status once ``done`` holds for it, None if that took longer than ``timeout_s``."""
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        status = job_status(paths)
        if done(status):
            return status
        if deadline is not None and time.monotonic() > deadline:
            return None
        time.sleep(POLL_S)


def stop(paths: RunPaths, *, now: bool = False) -> JobStatus:
    """Ask a job to stop and return its status; one that is not running is left as it is.

    A trainer whose supervisor was killed is ended too. Processes are signalled only after their identity matched.
    """
    status = job_status(paths)
    processes = read_json(paths.processes) or {}
    if status.is_alive:
        control.request_stop(paths, now=now)
        send_signal(identity_from(processes.get("supervisor")), signal.SIGUSR1)
        return job_status(paths)
    if has_orphan(paths):
        orphan = identity_from(processes.get("trainer"))
        send_signal(orphan, signal.SIGKILL if now else signal.SIGTERM, group=True)
    return status


def has_orphan(paths: RunPaths) -> bool:
    """Whether a trainer still runs whose supervisor was killed."""
    trainer = identity_from((read_json(paths.processes) or {}).get("trainer"))
    return not job_status(paths).is_alive and is_alive(trainer)


def remove(paths: RunPaths) -> None:
    """Delete a run that is not running, of a linked one the link; ``ValueError`` where it is."""
    status = job_status(paths)
    if status.is_alive:
        raise ValueError(f"run {paths.id!r} is {status.state}; stop it first")
    if has_orphan(paths):
        raise ValueError(f"run {paths.id!r} is {status.state}, its trainer is still ending; echelon stop waits for it")
    if paths.root.is_symlink():
        paths.root.unlink()
        return
    doomed = paths.root.with_name(f".{paths.id}.removed")
    paths.root.rename(doomed)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(doomed)


def log_files(paths: RunPaths) -> list[Path]:
    """Return the logs of a run that exist, the trainer's first."""
    return [path for path in (paths.log_trainer, paths.log_supervisor) if path.exists()]
