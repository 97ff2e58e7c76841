"""Disk use of runs, rules for what stays of them, and archives.

An archive is a compressed tar file in ``archive`` of the runs folder. The run is deleted only after the whole archive
was read back and synced, so a kill at any time leaves the run, the archive, or both.
"""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from echelon.files import fsync, make_folder, reason_of
from echelon.jobs.launch import has_orphan, remove
from echelon.jobs.status import job_status
from echelon.runs import RunPaths, command, require_plain_files, runs_home

FOLDER, SUFFIX = "archive", ".tar.gz"
COMPRESSION = 1
"""Level of gzip: weights hardly become smaller with a higher one."""
READ_BYTES = 1 << 20
DAMAGES = (tarfile.TarError, zlib.error, EOFError, OSError)
"""Errors of reading a damaged archive."""
BLOCK_BYTES = 512
"""Unit of ``st_blocks``."""
REPLAY_SUFFIX = ".ecr"
UNNUMBERED: dict[str, int | None] = {"best": 1, "latest": 1, "replays": None}
"""Numbers of the words of a rule that name none; None for all."""
TRANSIENT = ("supervisor.lock", "launch.lock", "control", "channel")
"""Files of a running job, which no archive contains."""


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
    """Newest checkpoints; None for all of them."""
    replays: int | None = None
    """Newest replays; None for all of them."""


def parse_keep(rules: Sequence[str]) -> Keep:
    """Return the rule of words such as ``best,latest=2,replays=20``, and of none all; ``ValueError`` for other words.

    Checkpoints and replays that no word names go; ``latest`` is one checkpoint, ``replays`` are all of them.
    """
    words = [word for rule in rules for word in rule.split(",") if word]
    if not words or words == ["all"]:
        return Keep()
    counts: dict[str, int | None] = {"latest": 0, "replays": 0}
    for word in words:
        name, _, count = word.partition("=")
        if name not in UNNUMBERED or (count and (name == "best" or not count.isdecimal())):
            raise ValueError(f"--keep {word!r} is no rule, expected all, best, latest=N or replays=N; try best,latest")
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
    """Return the checkpoints and replays of a run that a rule does not keep."""
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
        advice = command("runs", "stop", paths.id) if status.is_alive else command("queue", "rm", paths.id)
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


def archives(home: Path | None = None) -> list[Path]:
    """Return the archives of a runs folder, newest first."""
    folder = runs_home(home) / FOLDER
    return sorted(folder.glob(f"*{SUFFIX}"), reverse=True) if folder.is_dir() else []


def archive(paths: RunPaths, keep: Keep) -> Path:
    """Move what a rule keeps of a run into an archive, delete the run, and return the archive."""
    require_ended(paths)
    folder = paths.root.parent / FOLDER
    make_folder(folder)
    target = folder / f"{paths.id}{SUFFIX}"
    temporary = target.with_name(f".{target.name}.tmp")
    left_out = {str(path.relative_to(paths.root)) for path in removable(paths, keep)} | set(TRANSIENT)
    try:
        names = _write(temporary, paths, left_out)
        _verify(temporary, names)
        fsync(temporary)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    fsync(folder)
    remove(paths)
    return target


def _write(target: Path, paths: RunPaths, left_out: set[str]) -> dict[str, int]:
    """Write an archive and return the size of each of its files by name."""
    names: dict[str, int] = {}

    def choose(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if member.name.partition("/")[2] in left_out:
            return None
        if member.isfile():
            names[member.name] = member.size
        return member

    with tarfile.open(target, "w:gz", compresslevel=COMPRESSION) as file:
        file.add(paths.root, paths.id, filter=choose)
    return names


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[tarfile.TarFile]:
    """Open an archive, and check its sum at the end of the block, which tarfile does not read."""
    with gzip.open(path) as raw:
        with tarfile.open(fileobj=raw) as file:
            yield file
        while raw.read(READ_BYTES):
            pass


def _verify(path: Path, names: dict[str, int]) -> None:
    """Read an archive to its end; ``ValueError`` where a file is missing or damaged."""
    found: dict[str, int] = {}
    try:
        with _reading(path) as file:
            for member in file:
                if (content := file.extractfile(member)) is not None:
                    size = 0
                    while block := content.read(READ_BYTES):
                        size += len(block)
                    found[member.name] = size
    except DAMAGES as error:
        raise ValueError(f"archive {str(path)!r} is damaged: {reason_of(error)}") from error
    if found != names:
        raise ValueError(f"archive {str(path)!r} lacks files of the run")


def restore(path: Path, home: Path | None = None) -> RunPaths:
    """Unpack an archive into the runs folder and return the run; ``ValueError`` where a run of its name exists."""
    root = runs_home(home)
    name = path.name.removesuffix(SUFFIX)
    if not name or name.startswith((".", "-")):
        raise ValueError(f"archive {path.name!r} names no run")
    target, building = root / name, root / f".{name}.restored"
    if os.path.lexists(target):
        raise ValueError(f"run {name!r} exists; try: {command('runs', 'rm', name)}")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir()
    try:
        with _reading(path) as file:
            file.extractall(building, filter="data")
        if [entry.name for entry in building.iterdir()] != [name] or not RunPaths(building / name).spec.is_file():
            raise ValueError(f"archive {str(path)!r} contains no run {name!r}")
        os.rename(building / name, target)
        fsync(root)
    except DAMAGES as error:
        raise ValueError(f"archive {str(path)!r} cannot be restored: {reason_of(error)}") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return RunPaths(target)
