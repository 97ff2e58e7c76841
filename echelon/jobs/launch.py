"""Start, stop, remove and wait for background jobs.

A job is a run folder with a detached supervisor; there is no daemon. Import-light: only the trainer process imports
the training packages.
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

from echelon.files import LOG_FLAGS, fsync, make_folder, open_own
from echelon.jobs import control
from echelon.jobs.exits import last_line
from echelon.jobs.kinds import JobKind
from echelon.jobs.process import PYTHON_MODULE, identity_from, send_signal, works_on
from echelon.jobs.spec import JobSpec, write_spec
from echelon.jobs.status import JobStatus, job_status
from echelon.jobs.supervisor import FAILED, READY
from echelon.runs import RunPaths, read_json, require_plain_files

READY_LIMIT_S = 30.0
"""Longest wait for a supervisor's report [s]; longer than a supervisor waits for an orphaned trainer."""

POLL_S = 0.2
"""Time between status checks of a job that is waited for [s]."""


class LaunchError(ValueError):
    """A job could not be started."""


def launch(paths: RunPaths, spec: JobSpec, kind: JobKind, arguments: Sequence[str] = ()) -> None:
    """Write the spec, start a detached supervisor and wait until it reports READY.

    ``LaunchError`` contains the reported error. An existing run is resumed and keeps its first spec.
    """
    if paths.spec.exists() and job_status(paths).is_alive:
        raise LaunchError(f"run {paths.id!r} is already running; try: echelon stop {paths.id}")
    try:
        require_plain_files(paths)
        for folder in (paths.log, paths.control, paths.checkpoints):
            make_folder(folder)
        write_spec(paths, spec)
        answer = _spawn(paths, kind.command(paths.root, arguments, int(spec.config.get("nproc", 1))))
    except OSError as error:
        raise LaunchError(f"run folder {str(paths.root)!r} cannot be written: {error.strerror}") from error
    except ValueError as error:
        raise LaunchError(str(error)) from None
    if answer != READY:
        raise LaunchError(answer.removeprefix(FAILED).strip() or _no_answer(paths))


def _no_answer(paths: RunPaths) -> str:
    cause = last_line(paths.log_supervisor)
    return f"supervisor of run {paths.id!r} did not start" + (f": {cause}" if cause else "")


def _spawn(paths: RunPaths, command: Sequence[str]) -> str:
    """Start the supervisor in a new session and return its report line; empty where it ends without one."""
    reader, writer = os.pipe()
    with open(reader, "rb", buffering=0) as answers:
        try:
            with os.fdopen(open_own(paths.log_supervisor, LOG_FLAGS), "ab", buffering=0) as log:
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
        child.returncode = 0  # the supervisor outlives this process; without this Popen warns on collection
        ready, _, _ = select.select([answers], [], [], READY_LIMIT_S)
        line = answers.read(4096) if ready else b""
    return (line or b"").decode(errors="replace").strip()


def wait_until(
    paths: RunPaths, done: Callable[[JobStatus], bool], *, timeout_s: float | None = None
) -> JobStatus | None:
    """Return the status once ``done`` is true for it; None after ``timeout_s``."""
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

    A trainer whose supervisor was killed is signalled as well; a process that is none of the run never is.
    """
    status = job_status(paths)
    processes = read_json(paths.processes) or {}
    if status.is_alive:
        control.request_stop(paths, now=now)
        send_signal(identity_from(processes.get("supervisor")), signal.SIGUSR1, paths)
        return job_status(paths)
    if has_orphan(paths):
        orphan = identity_from(processes.get("trainer"))
        send_signal(orphan, signal.SIGKILL if now else signal.SIGTERM, paths, group=True)
    return status


def has_orphan(paths: RunPaths) -> bool:
    """Whether a trainer runs whose supervisor was killed."""
    trainer = identity_from((read_json(paths.processes) or {}).get("trainer"))
    return not job_status(paths).is_alive and works_on(trainer, paths)


def remove(paths: RunPaths) -> None:
    """Delete a run, or the link to a linked run; ``ValueError`` where it is running."""
    status = job_status(paths)
    if status.is_alive:
        raise ValueError(f"run {paths.id!r} is {status.state}; try: echelon stop {paths.id}")
    if has_orphan(paths):
        raise ValueError(
            f"run {paths.id!r} is {status.state}, its trainer is still ending; try: echelon stop {paths.id}"
        )
    if paths.root.is_symlink():
        paths.root.unlink()
        return
    removed = paths.root.with_name(f".{paths.id}.removed")
    paths.root.rename(removed)
    # a crash while files are deleted must not bring back a run that lacks some
    fsync(removed.parent)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(removed)


def log_files(paths: RunPaths) -> list[Path]:
    """Return the existing logs of a run, the trainer's first."""
    return [path for path in (paths.log_trainer, paths.log_supervisor) if path.exists()]
