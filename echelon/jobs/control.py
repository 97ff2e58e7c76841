"""Requests to a running job: files in the run's ``control/`` folder, read by worker and supervisor.

Each stop request appends a line to ``control/stop``; ``control/checkpoint`` exists while a checkpoint is requested.
"""

import contextlib
import os
import time

from echelon.files import LOG_FLAGS, open_own
from echelon.runs import RunPaths, require_plain_files
from echelon.state_files import read_bounded

STOP = "stop"
NOW = "now"


def request_stop(paths: RunPaths, *, now: bool = False, origin: str = "command") -> None:
    """Request a stop: the first completes the update, a second abandons it, ``now`` kills without saving."""
    paths.control.mkdir(exist_ok=True)
    require_plain_files(paths)
    line = f"{NOW if now else STOP} {time.time():.3f} {origin}\n".encode()
    handle = open_own(paths.stop, LOG_FLAGS)
    try:
        os.write(handle, line)
    finally:
        os.close(handle)


def stop_requests(paths: RunPaths) -> list[str]:
    """Return the stop requests so far, each ``stop`` or ``now``."""
    return [NOW if line.startswith(NOW) else STOP for line in _stop_lines(paths)]


def stop_origins(paths: RunPaths) -> list[str]:
    """Return the origin of each stop request so far: ``command``, or the name of a signal."""
    return [line.rpartition(" ")[2] for line in _stop_lines(paths)]


def _stop_lines(paths: RunPaths) -> list[str]:
    try:
        lines = read_bounded(paths.stop).decode(errors="replace").splitlines()
    except (OSError, ValueError):
        return []
    return [line for line in lines if line.strip()]


def request_checkpoint(paths: RunPaths) -> None:
    paths.control.mkdir(exist_ok=True)
    require_plain_files(paths)
    paths.checkpoint_now.touch()


def clear(paths: RunPaths) -> None:
    for path in (paths.stop, paths.checkpoint_now):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
