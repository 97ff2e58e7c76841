"""Runs of another host, mirrored into a folder of this one (``echelon dash --host``).

``.remote.json`` in the runs folder that holds the mirrors tells which of them run. They are read like other runs; what
would change one is refused, since it would change the mirror only.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from echelon.runs import RunPaths, command, read_json

FILE = ".remote.json"
SEPARATOR = "@"
"""Stands between the id of a run and its host in the name of a mirror."""


def mirrored(paths: RunPaths) -> dict[str, Any] | None:
    """Return ``running`` and ``problem`` of a mirrored run; None for a run of this machine."""
    path = paths.root.parent / FILE
    try:
        found = os.stat(path)
    except OSError:
        return None
    host = _hosts(path, found.st_mtime_ns, found.st_ino).get(paths.id.rpartition(SEPARATOR)[2])
    if not isinstance(host, dict):
        return None
    running, problem = host.get("running"), host.get("problem")
    return {
        "running": isinstance(running, list) and paths.id.rpartition(SEPARATOR)[0] in running,
        "problem": problem if isinstance(problem, str) else "",
    }


@lru_cache(maxsize=8)
def _hosts(path: Path, changed: int, inode: int) -> dict[str, Any]:
    """Return the hosts of a file, which is read again after a change."""
    return read_json(path) or {}


def require_local(paths: RunPaths) -> None:
    """Raise ``ValueError`` for the mirror of a run of another host."""
    if mirrored(paths) is not None:
        name, _, host = paths.id.rpartition(SEPARATOR)
        raise ValueError(f"run {name!r} is one of host {host!r}; try there: {command('runs', 'stop', name)}")
