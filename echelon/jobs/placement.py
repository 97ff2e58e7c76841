"""Runs that a launcher starts on another host: what was submitted, and whether it still waits.

``placement.json`` of a run folder has the launcher, its handle, and the id of the run's newest session at that time.
The supervisor that the launcher starts refuses any other session, so a run that was submitted twice, or again after the
engine had lost it, starts once.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from echelon.files import atomic_write
from echelon.jobs import control, launchers, lock
from echelon.jobs.process import session_id
from echelon.jobs.tickets import PYTHON_MODULE
from echelon.runs import RunPaths, read_json

APPEND_LOG = ("/bin/sh", "-c", 'exec "$@" >>"$0" 2>&1')
"""Command that appends the output of another one to the file named next."""
PENDING, DROPPED, ACTIVE, OVER = "pending", "dropped", "active", "over"
"""A submission that waits for a host, that will not start, whose session runs or may run, whose session has ended."""
WITHDRAWN = "withdrawn before it started"
PREEMPTIONS = ("SIGTERM", "SIGINT")
"""Origins of stop requests that come from the engine: out of time, preempted, or a host that shuts down."""


TEXTS, NUMBERS = ("launcher", "handle", "session"), ("submitted_at", "inode")
"""Fields of ``Placement`` by type."""


@dataclass(frozen=True, kw_only=True)
class Placement:
    """A submitted start of a run."""

    launcher: str
    """Text of the launcher with its options."""
    handle: str
    session: str
    """Id of the newest session when it was submitted."""
    submitted_at: float
    """Time of the submission [s since the epoch]."""
    inode: int
    """Number of the run's folder, which a copy does not have."""

    @property
    def name(self) -> str:
        """Name of the launcher."""
        return self.launcher.partition(":")[0]


def read_placement(paths: RunPaths) -> Placement | None:
    """Return the newest submission of a run; None without one, where it is damaged, and of another folder."""
    row = read_json(paths.placement)
    if row is None:
        return None
    values: dict[str, Any] = {name: row.get(name) for name in (*TEXTS, *NUMBERS)}
    if not all(isinstance(values[name], str) and len(str(values[name])) <= launchers.MAX_CHARS for name in TEXTS):
        return None
    if not all(isinstance(values[name], (int, float)) for name in NUMBERS):
        return None
    with contextlib.suppress(OSError):
        if os.stat(paths.root).st_ino == values["inode"]:
            return Placement(**values)
    return None


def place(paths: RunPaths, text: str, command: Sequence[str], *, device: str, processes: int) -> None:
    """Submit the start of a run's next session; ``LauncherError`` where the engine refuses it."""
    launcher, session = launchers.parse_launcher(text), session_id(paths)
    engine = launchers.open_engine(text)
    control.clear(paths)
    supervisor = [*PYTHON_MODULE, "echelon.jobs.supervisor", "--session", session, str(paths.root)]
    gpus = launcher.gpus(device, processes)
    handle = engine.submit(
        launchers.Request(
            name=paths.id,
            command=[*APPEND_LOG, str(paths.log_supervisor), *supervisor, *command],
            home=paths.root.parent,
            cpus=max(launcher.cpus, processes),
            gpus=gpus,
            environment=launchers.passed_environment(),
        )
    )
    placement = Placement(
        launcher=text, handle=handle, session=session, submitted_at=time.time(), inode=os.stat(paths.root).st_ino
    )
    atomic_write(paths.placement, json.dumps(asdict(placement)) + "\n")


def is_pending(paths: RunPaths) -> bool:
    """Whether a submitted session has not begun, as the files have it."""
    if not os.path.lexists(paths.placement):
        return False
    placement = read_placement(paths)
    return placement is not None and session_id(paths) == placement.session and not lock.is_held(paths.lock)


def fate(paths: RunPaths) -> str:
    """Return what has become of the newest submission of a run; empty without one and where its folder tells.

    The engine is asked where the folder has neither a session that runs nor a record of its end, so that a host whose
    lock is not seen here is not taken for one that went down. A dropped submission is forgotten.
    """
    if lock.is_held(paths.lock) or (paths.exit.exists() and not is_pending(paths)):
        return ""
    placement = read_placement(paths)
    if placement is None:
        return ""
    try:
        is_active = launchers.open_engine(placement.launcher).is_active(placement.handle)
    except ValueError:
        # an engine that does not answer may have the job: starting it again would wait for its lock in vain
        is_active = True
    # after the answer: a session may have begun and ended while the engine was asked
    if session_id(paths) == placement.session and not lock.is_held(paths.lock):
        if not is_active:
            paths.placement.unlink(missing_ok=True)
        return PENDING if is_active else DROPPED
    return ACTIVE if is_active else OVER


def is_preempted(paths: RunPaths) -> bool:
    """Whether a placed run was stopped by its engine and not by a user."""
    origins = control.stop_origins(paths)
    return read_placement(paths) is not None and bool(origins) and set(origins) <= set(PREEMPTIONS)


def withdraw(paths: RunPaths) -> bool:
    """End a submission that has not started; return False where its session has begun.

    A supervisor that starts later finds another session than it was submitted for.
    """
    held = lock.acquire(paths.lock)
    if held is None:
        return False
    try:
        placement = read_placement(paths)
        if placement is None or session_id(paths) != placement.session:
            return False
        atomic_write(paths.processes, json.dumps({"withdrawn": time.time()}) + "\n")
        record = {"time": time.time(), "code": None, "signal": "SIGTERM", "killed_on_request": True}
        atomic_write(paths.exit, json.dumps({**record, "message": WITHDRAWN}) + "\n")
    finally:
        os.close(held)
    with contextlib.suppress(ValueError):
        launchers.open_engine(placement.launcher).cancel(placement.handle)
    return True
