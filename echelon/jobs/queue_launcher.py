"""Launcher of a queue, ``launcher.json`` in the folder of its job: its runs start on hosts of a cluster.

It is no row of ``queue.db``, so that a queue built again from the runs that wait does not start them here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from echelon.files import atomic_write, make_folder
from echelon.jobs.launchers import parse_launcher
from echelon.runs import read_json

FILE = Path(".queue") / "launcher.json"
MAX_AT_ONCE = 10_000


@dataclass(frozen=True, kw_only=True)
class QueueLauncher:
    """Where the runs of a queue start."""

    text: str
    """Launcher with its options."""
    at_once: int
    """Most runs that wait for a host or run."""

    @property
    def name(self) -> str:
        return parse_launcher(self.text).name

    def devices(self, free: Mapping[str, int]) -> tuple[str, ...] | None:
        """Return the name under which a run takes a slot; None where it has to wait."""
        return (self.name,) if free[self.name] > 0 else None


def read_launcher(home: Path) -> QueueLauncher | None:
    """Return the launcher of the queue of a runs folder; None where its runs start on this machine.

    ``ValueError`` where the file is damaged: its runs are not meant for this machine.
    """
    row = read_json(home / FILE)
    if row is None and not (home / FILE).exists():
        return None
    text, at_once = (row or {}).get("text"), (row or {}).get("at_once")
    if not isinstance(text, str) or type(at_once) is not int or not 1 <= at_once <= MAX_AT_ONCE:
        raise ValueError(f"{str(home / FILE)!r} is damaged; try: echelon queue launcher local")
    parse_launcher(text)
    return QueueLauncher(text=text, at_once=at_once)


def write_launcher(home: Path, launcher: QueueLauncher | None) -> None:
    """Set the launcher of a queue; None starts its runs on this machine."""
    path = home / FILE
    if launcher is None:
        return path.unlink(missing_ok=True)
    make_folder(path.parent)
    atomic_write(path, json.dumps(asdict(launcher)) + "\n")
