"""In which state a job is: derived from its files and its lock whenever asked, never stored.

The lock says whether the supervisor lives, ``exit.json`` how a session ended, and ``progress.json`` when the trainer
last did something. Reads only; sending signals is left to ``launch``.
"""

from __future__ import annotations

import socket
import time
from dataclasses import asdict, dataclass
from typing import Any, Literal

from echelon.jobs import control, lock
from echelon.jobs.process import STOPPED, boot_id, identity_from, is_alive, process_state
from echelon.runs import RunPaths, read_json

State = Literal["starting", "running", "stalled", "stopping", "completed", "stopped", "failed", "crashed", "lost"]

ALIVE: tuple[State, ...] = ("starting", "running", "stalled", "stopping")
"""States in which a supervisor lives."""

EXIT_CODES: dict[State, int] = {"completed": 0, "stopped": 4, "failed": 1, "crashed": 5, "lost": 5}
"""What a command that waited for a job returns."""

STALL_LIMITS_S: dict[str, float] = {
    "starting": 600.0,
    "training": 300.0,
}
"""Longest silence of a trainer by phase before it counts as stalled.

Starting holds the compilation of kernels and the making of maps; in training it speaks at every decision, evaluation
included, and is silent only while it learns from a rollout or saves.
"""

LARGEST = 1e15
"""No step, no update and no clock says more; a number beyond it is damage."""

LAUNCH_LIMIT_S = 15.0
"""A run without lock and identity counts as starting for this long after it was asked for."""


@dataclass(frozen=True, kw_only=True)
class JobStatus:
    """A job at one moment."""

    id: str
    kind: str = ""
    """Row of ``kinds.KINDS``, or what else was played into a run folder."""
    state: State
    reason: str = ""
    """Why, in words, where the state alone does not say it."""
    preset: str = ""
    phase: str = ""
    """What the trainer last said it does; after a comma, how far it is with it."""
    update: int = 0
    global_step: int = 0
    created: float = 0.0
    """When the run was asked for [s since the epoch]."""
    pid: int = 0
    """The supervisor's, while it lives."""
    host: str = ""
    checkpoint: str = ""
    """The newest checkpoint, once the session is over."""

    @property
    def is_alive(self) -> bool:
        return self.state in ALIVE

    @property
    def exit_code(self) -> int:
        """What a command that waited for this job returns."""
        return EXIT_CODES.get(self.state, 0)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def job_status(paths: RunPaths) -> JobStatus:
    """Return the state of a run; ``ValueError`` where the folder holds no run."""
    spec = read_json(paths.spec)
    if spec is None:
        raise ValueError(f"run {paths.id!r} has no readable spec.json in {str(paths.root)!r}")
    processes, progress = read_json(paths.processes) or {}, read_json(paths.progress) or {}
    ended = read_json(paths.exit)
    alive = lock.is_held(paths.lock)
    if ended is not None:
        state, reason = _ended(ended)
    elif alive:
        state, reason = _living(paths, processes, progress)
    else:
        state, reason = _vanished(spec, processes)
    supervisor = identity_from(processes.get("supervisor"))
    source = ended or progress
    config = spec.get("config")
    return JobStatus(
        id=paths.id,
        kind=_text(spec, "kind"),
        state=state,
        reason=reason,
        preset=str(config.get("preset", "")) if isinstance(config, dict) else "",
        phase=_text(progress, "phase") if state in ALIVE else "",
        update=int(_number(source, "update")),
        global_step=int(_number(source, "global_step")),
        created=_number(spec, "created"),
        pid=supervisor.pid if supervisor and state in ALIVE else 0,
        host=supervisor.host if supervisor else "",
        checkpoint=_text(ended or {}, "checkpoint"),
    )


def _ended(ended: dict[str, Any]) -> tuple[State, str]:
    """Return state and reason of a session that its supervisor saw ending."""
    message = _text(ended, "message")
    if ended.get("signal"):
        return ("stopped" if ended.get("killed_on_request") else "crashed"), message
    if ended.get("code") == EXIT_CODES["completed"]:
        return "completed", message
    if ended.get("code") == EXIT_CODES["stopped"]:
        return "stopped", message
    return "failed", message


def _living(paths: RunPaths, processes: dict[str, Any], progress: dict[str, Any]) -> tuple[State, str]:
    trainer = identity_from(processes.get("trainer"))
    if process_state(trainer) in STOPPED:
        return "stalled", "the trainer is suspended (SIGSTOP); send SIGCONT to its process group to go on"
    phase = _text(progress, "phase") or "starting"
    silent = silence_s(progress)
    stage = phase.partition(",")[0]
    if silent is not None and silent > STALL_LIMITS_S.get(stage, STALL_LIMITS_S["training"]):
        return "stalled", f"no progress for {silent:.0f} s while {phase}"
    if control.stop_requests(paths):
        return "stopping", "the trainer finishes its update and saves"
    return ("starting", "") if stage == "starting" else ("running", "")


def _vanished(spec: dict[str, Any], processes: dict[str, Any]) -> tuple[State, str]:
    """Return state and reason of a run that nobody holds and whose end nobody wrote down."""
    supervisor = identity_from(processes.get("supervisor"))
    here = socket.gethostname()
    host = supervisor.host if supervisor else _text(spec, "host")
    if host and host != here:
        return "lost", f"it was started on {host!r} and its end is not recorded here"
    if supervisor is None:
        if 0 <= time.time() - _number(spec, "created") < LAUNCH_LIMIT_S:
            return "starting", ""
        return "crashed", "it ended before its supervisor could write anything down"
    if is_alive(supervisor):
        return "lost", "this folder is a copy; the run itself goes on in its own"
    if is_alive(identity_from(processes.get("trainer"))):
        return "crashed", "the supervisor was killed; the trainer it left behind is ending"
    return "crashed", "the supervisor was killed, or the machine went down"


def silence_s(progress: dict[str, Any]) -> float | None:
    """Return the seconds since the trainer's last beat; None where it cannot be told.

    Counted on the clock that starts at boot, so that setting the wall clock stalls nobody.
    """
    beat = _number(progress, "monotonic")
    if progress.get("boot_id") != boot_id() or not beat:
        return None
    return max(0.0, time.monotonic() - beat)


def _text(row: dict[str, Any], key: str) -> str:
    value = row.get(key)
    return value if isinstance(value, str) else ""


def _number(row: dict[str, Any], key: str) -> float:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return 0.0
    return float(value) if abs(value) < LARGEST else 0.0
