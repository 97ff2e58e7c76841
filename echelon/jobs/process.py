"""Identity of processes, so that a signal never reaches an unrelated process with a reused pid.

An identity is pid, start time, boot id and host. The start time is counted from boot where the system reports it so,
which makes it independent of changes of the wall clock.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psutil

ENDED = ("zombie", "dead", "")
"""States of a process that has ended."""

STOPPED = ("stopped", "tracing-stop")

PYTHON_MODULE = (sys.executable, "-P", "-m")
"""Command prefix that runs a module without importing from the current folder."""


MAX_PID = 2**31 - 1
"""Largest number of a process."""

MAX_HOST_CHARS = 253
"""Longest name of a host."""

MAX_START_TIME = 1e15
"""Larger start times of a process count as damaged."""


@dataclass(frozen=True, kw_only=True)
class ProcessIdentity:
    """One process on one boot of one host."""

    pid: int
    create_time: float
    """Start of the process: clock ticks since boot on Linux, else seconds since the epoch."""
    boot_id: str
    host: str

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def identify(pid: int) -> ProcessIdentity | None:
    """Return the identity of a running process, None where there is none."""
    started = _start_time(pid)
    if started is None:
        return None
    return ProcessIdentity(pid=pid, create_time=started, boot_id=boot_id(), host=socket.gethostname())


def identity_from(row: object) -> ProcessIdentity | None:
    """Return the identity of a JSON object, None where it is damaged."""
    if not isinstance(row, dict):
        return None
    pid, started, boot, host = (row.get(name) for name in ("pid", "create_time", "boot_id", "host"))
    if not (isinstance(boot, str) and isinstance(host, str) and len(host) <= MAX_HOST_CHARS):
        return None
    if not (
        isinstance(pid, int)
        and isinstance(started, (int, float))
        and 0 < pid <= MAX_PID
        and abs(started) < MAX_START_TIME
    ):
        return None
    return ProcessIdentity(pid=pid, create_time=float(started), boot_id=boot, host=host)


def process_state(identity: ProcessIdentity | None) -> str:
    """Return the state of this process, such as ``running`` or ``stopped``; empty where it has ended."""
    if identity is None or identity.pid <= 1 or identify(identity.pid) != identity:
        return ""
    try:
        return str(psutil.Process(identity.pid).status())
    except psutil.Error:
        return ""


def is_alive(identity: ProcessIdentity | None) -> bool:
    """Whether this process is running; a zombie is not."""
    return process_state(identity) not in ENDED


def send_signal(identity: ProcessIdentity | None, number: int, *, group: bool = False) -> bool:
    """Signal this process, or the group it leads; return False where it has ended or its pid was reused."""
    if identity is None or not is_alive(identity):
        return False
    try:
        if group:
            if os.getpgid(identity.pid) != identity.pid:
                return False
            os.killpg(identity.pid, number)
        elif hasattr(os, "pidfd_open"):
            handle = os.pidfd_open(identity.pid)
            try:
                if not is_alive(identity):
                    return False
                signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)
        else:
            os.kill(identity.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


@cache
def boot_id() -> str:
    """Return an id of the current boot of this machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return f"{psutil.boot_time():.0f}"


def _start_time(pid: int) -> float | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        return float(stat.rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        pass
    if Path("/proc/self/stat").exists():
        return None
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return None
