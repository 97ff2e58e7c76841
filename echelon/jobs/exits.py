"""Content of ``exit.json``: how a session of a job ended."""

import contextlib
import errno
import os
import signal
import time
from pathlib import Path
from typing import Any

from echelon.jobs import control
from echelon.jobs.usage import disk_free_mb
from echelon.runs import RunPaths
from echelon.state_files import open_regular
from echelon.telemetry.events import EventCheckpoint, EventEnd, EventUpdate
from echelon.telemetry.latest import read_latest
from echelon.telemetry.log import EventFollower

LOG_TAIL_BYTES = 8192
END_BYTES = 1 << 20
"""Bytes at the end of the metrics that are searched for the end record."""
FAILED, LOST_RANK = 1, 5
"""Codes of a rank that failed, and of one that lost another; where one has recorded why it failed, the run did."""
FULL_MB = 1.0
"""Free space below which a disk counts as full [MiB]."""
OOM_HINT = "the kernel's out-of-memory killer was active; try a lower num_envs or bank_maps, or free memory"
KILL_HINT = "killed by a user or for lack of memory"


def oom_kills() -> int:
    """Return the number of out-of-memory kills on this machine since boot; 0 where unknown."""
    try:
        rows = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
        return int(rows.get("oom_kill", 0))
    except (OSError, ValueError):
        return 0


def exit_record(paths: RunPaths, returncode: int, *, earlier_bytes: int, oom: bool) -> dict[str, Any]:
    """Return exit code or signal, reason, last step and last checkpoint of a session that ended.

    ``returncode`` is the worker's, negative for a signal; the first ``earlier_bytes`` of the metrics belong to earlier
    sessions; ``oom`` tells whether the kernel killed a process for lack of memory during the session.
    """
    latest = read_latest(paths.metrics, until=(EventUpdate, EventCheckpoint))
    end = session_end(paths.metrics, earlier_bytes)
    if returncode == LOST_RANK and end is not None:
        returncode = FAILED
    number = -returncode if returncode < 0 else 0
    killed = number > 0 and control.NOW in control.stop_requests(paths)
    out_of_memory = oom and number == signal.SIGKILL and not killed
    message = _message(paths, end, number, killed, out_of_memory)
    return {
        "time": time.time(),
        "code": returncode if returncode >= 0 else None,
        "signal": signal_name(number) if number else None,
        "out_of_memory": out_of_memory,
        "killed_on_request": killed,
        "disk_full": returncode > 0 and is_disk_full(paths, message),
        "message": message,
        "update": latest.update.update if latest.update else latest.start.start_update if latest.start else 0,
        "global_step": latest.global_step,
        "episodes": latest.update.episodes if latest.update else 0,
        "checkpoint": latest.checkpoints[-1].path if latest.checkpoints else "",
    }


def session_end(metrics: Path, earlier_bytes: int) -> EventEnd | None:
    """Return the end record of the session that started at a byte of the metrics; None where there is none."""
    try:
        offset = max(earlier_bytes, metrics.stat().st_size - END_BYTES)
    except OSError:
        return None
    events = EventFollower(metrics, offset=offset).poll()
    return next((event for event in reversed(events) if isinstance(event, EventEnd)), None)


def signal_name(number: int) -> str:
    """Return the name of a signal; real-time signals between the first and the last have none in Python."""
    with contextlib.suppress(ValueError):
        return signal.Signals(number).name
    first, last = (int(getattr(signal, name, 0)) for name in ("SIGRTMIN", "SIGRTMAX"))
    return f"SIGRTMIN+{number - first}" if first < number < last else f"signal {number}"


def _message(paths: RunPaths, end: EventEnd | None, number: int, killed: bool, out_of_memory: bool) -> str:
    if killed:
        return "killed on request, without saving"
    if number:
        hint = OOM_HINT if out_of_memory else KILL_HINT if number == signal.SIGKILL else "see its log"
        return f"worker terminated by {signal_name(number)}: {hint}"
    if end is not None:
        return end.message
    if disk_free_mb(paths.root) < FULL_MB:
        saved = any(paths.checkpoints.glob("step-*"))
        advice = "the last checkpoint is intact" if saved else "free disk space and try again"
        return f"disk of {str(paths.root.parent)!r} is full; {advice}"
    return last_line(paths.log_worker)


def is_disk_full(paths: RunPaths, message: str) -> bool:
    return disk_free_mb(paths.root) < FULL_MB or os.strerror(errno.ENOSPC).lower() in message.lower()


def last_line(path: Path) -> str:
    try:
        with open_regular(path) as file:
            file.seek(max(0, file.seek(0, 2) - LOG_TAIL_BYTES))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
