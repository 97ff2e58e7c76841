"""Identity of processes, so that a signal never reaches a process of another run or none.

An identity is pid, start time, boot id and host. The start time is counted from boot where the system reports it so,
which makes it independent of changes of the wall clock. A file may name any process by its true identity, so a process
is signalled only while it works on the run: it holds the run's lock or writes its records or logs.
"""

import hashlib
import os
import signal
import socket
import stat
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from echelon.runs import RunPaths
from echelon.state_files import read_bounded

ENDED = ("zombie", "dead", "")
STOPPED = ("stopped", "tracing-stop")
STREAMS = (1, 2)
SESSION_CHARS = 16
SUPERVISED = "_ECHELON_RUN"
"""Variable of a worker: the folder of the run whose supervisor has started it, maybe from another node."""
MAX_PID = 2**31 - 1
MAX_HOST_CHARS = 253
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


def identify(pid: int) -> ProcessIdentity | None:
    started = _start_time(pid)
    if started is None:
        return None
    return ProcessIdentity(pid=pid, create_time=started, boot_id=boot_id(), host=socket.gethostname())


def identity_from(row: object) -> ProcessIdentity | None:
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
    return process_state(identity) not in ENDED


def works_on(identity: ProcessIdentity | None, paths: RunPaths) -> bool:
    """Whether this process runs, is the user's, and holds the run's lock or writes its records or one of its logs.

    The files are compared by inode, so neither a copy of a run's folder nor another process can be taken for it.
    """
    if identity is None or not is_alive(identity):
        return False
    try:
        process = psutil.Process(identity.pid)
        if process.uids().real != os.getuid():
            return False
        written = [Path(file.path) for file in process.open_files() if _writes(file, paths)]
        owned = any(_is_own(path, process, paths) for path in written)
    except (psutil.Error, OSError):
        return False
    return owned and is_alive(identity)


def _writes(file: Any, paths: RunPaths) -> bool:
    """Whether a process writes an open file, and not reads it as ``tail`` or a probe of the lock do.

    Where the system does not report the mode, the lock counts, and what is open as standard output or error.
    """
    mode = getattr(file, "mode", None)
    return mode != "r" if mode is not None else file.fd in STREAMS or Path(file.path).name == paths.lock.name


def _is_own(path: Path, process: psutil.Process, paths: RunPaths) -> bool:
    """Whether an open file is one that only the run's processes write.

    A file with several names may belong to another folder too; then the command line must name the run's folder.
    """
    found = _regular(path)
    owned = map(_regular, (paths.lock, paths.metrics, paths.log_supervisor, paths.log_worker))
    if found is None or not any(own is not None and os.path.samestat(own, found) for own in owned):
        return False
    return found.st_nlink == 1 or any(_is_folder(word, paths.root) for word in process.cmdline())


def _regular(path: Path) -> os.stat_result | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found if stat.S_ISREG(found.st_mode) else None


def _is_folder(word: str, folder: Path) -> bool:
    try:
        return os.path.isabs(word) and os.path.samefile(word, folder)
    except (OSError, ValueError):
        return False


def send_signal(identity: ProcessIdentity | None, number: int, paths: RunPaths, *, group: bool = False) -> bool:
    """Signal this process of a run, or the group it leads; return False where it has ended or is none of the run."""
    if identity is None or not works_on(identity, paths):
        return False
    try:
        if group:
            if os.getpgid(identity.pid) != identity.pid:
                return False
            os.killpg(identity.pid, number)
        elif hasattr(os, "pidfd_open"):
            handle = os.pidfd_open(identity.pid)
            try:
                if not works_on(identity, paths):
                    return False
                signal.pidfd_send_signal(handle, number)
            finally:
                os.close(handle)
        else:
            os.kill(identity.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def session_id(paths: RunPaths) -> str:
    """Return an id of the newest session of a run, which every supervisor changes; empty before the first."""
    try:
        return hashlib.sha256(read_bounded(paths.processes)).hexdigest()[:SESSION_CHARS]
    except (OSError, ValueError):
        return ""


@cache
def boot_id() -> str:
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
