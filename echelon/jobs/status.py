"""State of a job, derived from its files and its lock, never stored.

The lock shows whether the supervisor runs, ``exit.json`` how a session ended, and ``progress.json`` the last activity
of the worker. Read-only; ``launch`` sends signals.
"""

import os
import socket
import time
from dataclasses import dataclass
from typing import Any, Literal

from echelon.jobs import control, lock
from echelon.jobs.launchers import is_pending, read_placement
from echelon.jobs.process import STOPPED, boot_id, identity_from, is_alive, process_state, session_id, works_on
from echelon.jobs.tickets import Queue
from echelon.runs import RunPaths, read_json

State = Literal[
    "queued", "starting", "running", "stalled", "stopping", "completed", "stopped", "failed", "crashed", "lost"
]
QUEUED: State = "queued"
ALIVE: tuple[State, ...] = ("starting", "running", "stalled", "stopping")
"""States with a running supervisor."""
EXIT_CODES: dict[State, int] = {"completed": 0, "stopped": 4, "failed": 1, "crashed": 5, "lost": 5}
"""Exit code of a command that waited for a job, by its final state."""
STALL_LIMITS_S: dict[str, float] = {"starting": 600.0, "training": 300.0}
"""Time without progress after which a worker counts as stalled, by phase [s].

The phase ``starting`` contains kernel compilation and map generation. In ``training`` progress is written at every
decision, evaluation included, but not during optimisation and saving.
"""
MAX_NUMBER = 1e15
"""Larger numbers in a file count as damaged; steps, updates and clocks stay below."""
DAMAGED = "it has no readable spec.json"
MAX_TEXT_CHARS = 2000
LAUNCH_LIMIT_S = 15.0
"""Time after the request during which a run without lock and identity counts as starting [s]."""


@dataclass(frozen=True, kw_only=True)
class JobStatus:
    """State of a job at one time."""

    id: str
    kind: str = ""
    """Row of ``kinds.KINDS``, or ``sim`` for recorded matches without a job."""
    state: State
    reason: str = ""
    preset: str = ""
    phase: str = ""
    """Phase that the worker last reported; after a comma its progress."""
    update: int = 0
    global_step: int = 0
    created: float = 0.0
    pid: int = 0
    """Pid of the supervisor while it runs, else 0."""
    host: str = ""
    checkpoint: str = ""
    """The newest checkpoint once the session has ended."""

    @property
    def is_alive(self) -> bool:
        return self.state in ALIVE

    @property
    def has_ended(self) -> bool:
        return not self.is_alive and self.state != QUEUED

    @property
    def exit_code(self) -> int:
        return EXIT_CODES.get(self.state, 0)


def job_status(paths: RunPaths) -> JobStatus:
    """Return the state of a run; ``ValueError`` where it has no spec.json.

    A damaged spec.json costs kind, preset and time of the request.
    """
    spec = read_json(paths.spec)
    is_damaged = spec is None
    if is_damaged and not os.path.lexists(paths.spec):
        raise ValueError(f"run {paths.id!r} has no readable spec.json in {str(paths.root)!r}")
    spec = spec or {}
    processes, ended = read_json(paths.processes) or {}, read_json(paths.exit)
    progress = {} if ended is not None else read_json(paths.progress) or {}
    if is_pending(paths):
        state, reason = "starting", "waits for a host of its launcher"
    elif is_waiting(paths):
        state, reason = QUEUED, "waits in the queue"
    elif ended is not None:
        state, reason = _ended_state(ended)
    elif lock.is_held(paths.lock):
        state, reason = _running_state(paths, processes, progress)
    else:
        state, reason = _unrecorded_end(paths, spec, processes)
    if is_damaged:
        reason = f"{reason}; {DAMAGED}" if reason else DAMAGED
    supervisor = identity_from(processes.get("supervisor"))
    source = ended if ended is not None else progress
    config = spec.get("config")
    return JobStatus(
        id=paths.id,
        kind=_text(spec, "kind"),
        state=state,
        reason=reason,
        preset=_text(config, "preset") if isinstance(config, dict) else "",
        phase=_text(progress, "phase") if state in ALIVE else "",
        update=int(_number(source, "update")),
        global_step=int(_number(source, "global_step")),
        created=_number(spec, "created"),
        pid=supervisor.pid if supervisor and state in ALIVE else 0,
        host=supervisor.host if supervisor else "",
        checkpoint=_text(ended or {}, "checkpoint"),
    )


def is_waiting(paths: RunPaths) -> bool:
    queue = Queue(paths.root.parent)
    ticket = queue.ticket(paths.id)
    if ticket is None or lock.is_held(paths.lock):
        return False
    try:
        is_own = os.stat(paths.root).st_ino == ticket.inode
    except OSError:
        return False
    return is_own and (session_id(paths) == ticket.session or paths.id not in queue.taken())


def _ended_state(ended: dict[str, Any]) -> tuple[State, str]:
    message = _text(ended, "message")
    if ended.get("signal"):
        return ("stopped" if ended.get("killed_on_request") else "crashed"), message
    if ended.get("code") == EXIT_CODES["completed"]:
        return "completed", message
    if ended.get("code") == EXIT_CODES["stopped"]:
        return "stopped", message
    if ended.get("code") == EXIT_CODES["crashed"]:
        return "crashed", message
    return "failed", message


def _running_state(paths: RunPaths, processes: dict[str, Any], progress: dict[str, Any]) -> tuple[State, str]:
    worker = identity_from(processes.get("worker"))
    if process_state(worker) in STOPPED:
        return "stalled", "worker is suspended (SIGSTOP); try sending SIGCONT to its process group"
    phase = _text(progress, "phase") or "starting"
    idle_s = idle_time_s(progress)
    stage = phase.partition(",")[0]
    if idle_s is not None and idle_s > STALL_LIMITS_S.get(stage, STALL_LIMITS_S["training"]):
        return "stalled", f"no progress for {idle_s:.0f} s in phase {phase!r}"
    if control.stop_requests(paths):
        return "stopping", "worker completes its update and saves"
    return ("starting", "") if stage == "starting" else ("running", "")


def _unrecorded_end(paths: RunPaths, spec: dict[str, Any], processes: dict[str, Any]) -> tuple[State, str]:
    supervisor = identity_from(processes.get("supervisor"))
    host = supervisor.host if supervisor else _text(spec, "host")
    if host and host != socket.gethostname():
        if read_placement(paths) is not None:
            return "crashed", f"terminated without an exit record: its supervisor was killed or host {host!r} went down"
        return "lost", f"unknown: started on another host, {host!r}"
    if supervisor is None:
        if 0 <= time.time() - _number(spec, "created") < LAUNCH_LIMIT_S:
            return "starting", ""
        return "crashed", "terminated without an exit record, before its supervisor wrote its identity"
    if is_alive(supervisor):
        return "lost", "unknown: this folder is a copy of a running run"
    if works_on(identity_from(processes.get("worker")), paths):
        return "crashed", "supervisor was killed; its orphaned worker is ending"
    return "crashed", "terminated without an exit record: supervisor was killed or the machine went down"


def foreign_process(paths: RunPaths) -> str:
    """Return one line about a process that proc.json names but that is none of the run; empty without one."""
    processes = read_json(paths.processes) or {}
    for name in ("supervisor", "worker"):
        identity = identity_from(processes.get(name))
        if identity is not None and is_alive(identity) and not works_on(identity, paths):
            return (
                f"proc.json of run {paths.id!r} names process {identity.pid} as its {name}, expected a process of "
                "yours that works on this run; it is not signalled"
            )
    return ""


def idle_time_s(progress: dict[str, Any]) -> float | None:
    """Return the time since the worker wrote progress by the monotonic clock [s]; None where unknown."""
    written = _number(progress, "monotonic")
    if progress.get("boot_id") != boot_id() or not written:
        return None
    return max(0.0, time.monotonic() - written)


def _text(row: dict[str, Any], key: str) -> str:
    value = row.get(key)
    return value[:MAX_TEXT_CHARS] if isinstance(value, str) else ""


def _number(row: dict[str, Any], key: str) -> float:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0.0
    return float(value) if abs(value) < MAX_NUMBER else 0.0
