"""Marker of a queued run, ``queue.json`` in its folder, and the id of its newest session.

The marker lies in the folder until the run's entry of ``queue.db`` has ended. From it and the processes that the folder
names follows whether the run still waits, so that no crash between two files can lose a run or start it twice; a
damaged ``queue.db`` is built again from the markers.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import time
from dataclasses import asdict, dataclass, field

from echelon.files import atomic_write
from echelon.jobs import lock
from echelon.runs import RunPaths, read_json
from echelon.state_files import read_bounded

SESSION_CHARS = 16
MAX_ARGUMENTS = 8
MAX_NUMBER = 1e15


@dataclass(frozen=True, kw_only=True)
class QueueMarker:
    """A run's request to be started by the queue."""

    session: str = ""
    """Id of the newest session when the run was queued."""
    arguments: tuple[str, ...] = ()
    """Arguments of its worker."""
    metrics_bytes: int = 0
    """Size of its metrics when it was queued."""
    queued_at: float = field(default_factory=time.time)
    """Time of the request [s since the epoch]."""
    inode: int = 0
    """Number of the run's folder, which a copy does not have."""


def session_id(paths: RunPaths) -> str:
    """Return an id of the newest session of a run, which every supervisor changes; empty before the first."""
    try:
        return hashlib.sha256(read_bounded(paths.processes)).hexdigest()[:SESSION_CHARS]
    except (OSError, ValueError):
        return ""


def new_marker(paths: RunPaths, arguments: tuple[str, ...]) -> QueueMarker:
    """Return a marker for the present state of a run."""
    size = 0
    with contextlib.suppress(OSError):
        size = paths.metrics.stat().st_size
    return QueueMarker(
        session=session_id(paths), arguments=arguments, metrics_bytes=size, inode=os.stat(paths.root).st_ino
    )


def write_marker(paths: RunPaths, marker: QueueMarker) -> None:
    """Write the marker of a run durably."""
    atomic_write(paths.queued, json.dumps(asdict(marker)) + "\n")


def remove_marker(paths: RunPaths) -> None:
    """Remove the marker of a run whose entry has ended."""
    with contextlib.suppress(OSError):
        paths.queued.unlink()


def read_marker(paths: RunPaths, *, is_mirror: bool = False) -> QueueMarker | None:
    """Return the marker of a run; None without one, where it is damaged, and of another folder than a mirror's."""
    row = read_json(paths.queued)
    if row is None:
        return None
    session, arguments = row.get("session"), row.get("arguments")
    size, queued_at, inode = (_number(row.get(name)) for name in ("metrics_bytes", "queued_at", "inode"))
    if not isinstance(session, str) or not isinstance(arguments, list) or len(arguments) > MAX_ARGUMENTS:
        return None
    with contextlib.suppress(OSError):
        if (is_mirror or os.stat(paths.root).st_ino == inode) and all(isinstance(word, str) for word in arguments):
            return QueueMarker(
                session=session,
                arguments=tuple(arguments),
                metrics_bytes=int(min(size, MAX_NUMBER)),
                queued_at=min(queued_at, MAX_NUMBER),
                inode=int(inode),
            )
    return None


def _number(value: object) -> float:
    """Return a number of a file that is not negative; 0 for anything else. Inodes have up to 64 bits."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return 0
    return value if 0 <= value < 2**64 else 0


def is_waiting(paths: RunPaths, *, is_mirror: bool = False) -> bool:
    """Whether a run waits in the queue: it has a marker and no session has begun since."""
    if not os.path.lexists(paths.queued):
        return False
    marker = read_marker(paths, is_mirror=is_mirror)
    return marker is not None and session_id(paths) == marker.session and not lock.is_held(paths.lock)
