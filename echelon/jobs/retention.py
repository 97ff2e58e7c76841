"""Disk use of runs, and rules for the checkpoints and replays that stay."""

import contextlib
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from echelon.jobs.launch import has_orphan
from echelon.jobs.status import job_status
from echelon.runs import RunPaths, command, require_plain_files

BLOCK_BYTES = 512
REPLAY_SUFFIX = ".ecr"
UNNUMBERED: dict[str, int | None] = {"best": 1, "latest": 1, "replays": None}
"""Default number by word of a rule; None for all."""


@dataclass(frozen=True, kw_only=True)
class DiskUse:
    """Allocated bytes of a run."""

    checkpoints: int = 0
    replays: int = 0
    log: int = 0
    other: int = 0

    @property
    def total(self) -> int:
        return self.checkpoints + self.replays + self.log + self.other


@dataclass(frozen=True, kw_only=True)
class Keep:
    """What stays of a run; records, logs and settings always do."""

    best: bool = True
    latest: int | None = None
    replays: int | None = None


def parse_keep(rules: Sequence[str]) -> Keep:
    """Return the rule of words such as ``best,latest=2,replays=20``; ``ValueError`` for other words.

    Checkpoints and replays that no word names go; ``latest`` is one checkpoint, ``replays`` are all of them.
    """
    words = [word for rule in rules for word in rule.split(",") if word]
    counts: dict[str, int | None] = {"latest": 0, "replays": 0}
    for word in words:
        name, _, count = word.partition("=")
        if name not in UNNUMBERED or (count and (name == "best" or not count.isdecimal())):
            raise ValueError(f"--keep {word!r} is no rule, expected best, latest=N or replays=N; try best,latest")
        counts[name] = int(count[:9]) if count else UNNUMBERED[name]
    return Keep(best="best" in counts, latest=counts["latest"], replays=counts["replays"])


def disk_use(paths: RunPaths) -> DiskUse:
    """Return the allocated bytes of a run by kind of file; a file with several names counts once."""
    sizes, seen = dict.fromkeys(("checkpoints", "replays", "log", "other"), 0), set()
    for folder, _, names in os.walk(paths.root):
        part = os.path.relpath(folder, paths.root).split(os.sep)[0]
        for name in names:
            with contextlib.suppress(OSError):
                found = os.lstat(os.path.join(folder, name))
                if (found.st_dev, found.st_ino) not in seen:
                    seen.add((found.st_dev, found.st_ino))
                    sizes[part if part in sizes else "other"] += found.st_blocks * BLOCK_BYTES
    return DiskUse(**sizes)


def removable(paths: RunPaths, keep: Keep) -> list[Path]:
    from echelon.rl.checkpoint import read_best, steps_in

    steps = steps_in(paths.checkpoints)
    best = (read_best(paths.checkpoints) or {}).get("checkpoint") if keep.best else None
    gone = [] if keep.latest is None else [path for path in steps[keep.latest :] if path.name != best]
    if keep.replays is not None and paths.replays.is_dir():
        files = [path for path in paths.replays.iterdir() if path.suffix == REPLAY_SUFFIX]
        files.sort(key=lambda path: (path.stat().st_mtime_ns, path.name), reverse=True)
        gone += files[keep.replays :]
    return gone


def require_ended(paths: RunPaths) -> None:
    """Raise ``ValueError`` for a run that runs, waits in the queue, or contains links."""
    status = job_status(paths)
    if not status.has_ended or has_orphan(paths):
        advice = command("runs", "stop", paths.id) if status.is_alive else command("runs", "queue", paths.id, "--rm")
        raise ValueError(f"run {paths.id!r} is {status.state}, expected one that has ended; try: {advice}")
    require_plain_files(paths)


def prune(paths: RunPaths, keep: Keep) -> int:
    """Delete what a rule does not keep, but never the newest checkpoint, and return the freed bytes."""
    require_ended(paths)
    at_least = keep if keep.latest is None else Keep(**{**asdict(keep), "latest": max(1, keep.latest)})
    before = disk_use(paths).total
    for path in removable(paths, at_least):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return before - disk_use(paths).total
