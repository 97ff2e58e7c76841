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
DAMAGES = (tarfile.TarError, zlib.error, EOFError, OSError, ValueError, OverflowError)
"""Errors of reading a damaged archive."""
HOME_FILES = ("archive", "filters", "league", "queue", "worlds")
"""First words of the names that other files and folders of a runs folder have."""
MAX_SHOWN = 80
"""Characters of a damaged name in a message."""
BLOCK_BYTES = 512
"""Unit of ``st_blocks``."""
REPLAY_SUFFIX = ".ecr"
UNNUMBERED: dict[str, int | None] = {"best": 1, "latest": 1, "replays": None}
"""Numbers of the words of a rule that name none; None for all."""
MAX_HEADER_BYTES = 1 << 20
"""Bytes that the headers of one member may have; tarfile keeps them in memory."""
MAX_MEMBERS = 200_000
"""Files and folders of an archive; a run of 100 million steps has some thousands."""
MAX_PARTS, MAX_TIME = 32, float(2**40)
"""Parts of a name within an archive, and largest time of a file [s since the epoch]."""
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
        if member.islnk():
            member.type, member.size = tarfile.REGTYPE, os.lstat(paths.root / member.name.partition("/")[2]).st_size
        if member.isfile():
            names[member.name] = member.size
        return member

    # a file with several names is stored as often: archives contain no links
    with contextlib.suppress(FileNotFoundError):
        target.unlink()
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    with os.fdopen(handle, "wb") as raw, tarfile.open(fileobj=raw, mode="w:gz", compresslevel=COMPRESSION) as file:
        file.add(paths.root, paths.id, filter=choose)
    return names


class _Bounded(gzip.GzipFile):
    """A compressed file of which no more than ``budget`` bytes are read until it is set again; None sets no limit."""

    budget: int | None = None

    def read(self, size: int | None = -1) -> bytes:
        if self.budget is not None and size is not None:
            self.budget -= size
            if self.budget < 0:
                raise tarfile.TarError(f"a header has more than {MAX_HEADER_BYTES} bytes")
        return super().read(size)


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]]:
    """Open an archive, and check its sum at the end of the block, which tarfile does not read."""
    with _Bounded(path) as raw:
        raw.budget = MAX_HEADER_BYTES
        with tarfile.open(fileobj=raw, mode="r:") as file:
            yield _members(file, raw)
        raw.budget = None
        while raw.read(READ_BYTES):
            pass


def _members(file: tarfile.TarFile, raw: _Bounded) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Yield the files and folders of an archive; ``TarError`` for other members, or more than any run has."""
    for _ in range(MAX_MEMBERS):
        raw.budget = MAX_HEADER_BYTES
        member = file.next()
        if member is None:
            return
        # a list of all of them would grow with the archive
        file.members = []  # pyright: ignore[reportAttributeAccessIssue]
        if not (member.isfile() or member.isdir()) or member.issparse():
            raise tarfile.TarError(f"{member.name[:MAX_SHOWN]!r} is neither a file nor a folder")
        if member.name.count("/") >= MAX_PARTS or not 0 <= member.mtime <= MAX_TIME:
            raise tarfile.TarError(f"{member.name[:MAX_SHOWN]!r} is nested too deeply, or has no valid time")
        raw.budget = None
        yield file, member
    raise tarfile.TarError(f"it has more than {MAX_MEMBERS} members")


def _verify(path: Path, names: dict[str, int]) -> None:
    """Read an archive to its end; ``ValueError`` where a file is missing or damaged."""
    found: dict[str, int] = {}
    try:
        with _reading(path) as members:
            for file, member in members:
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
    if not name or name.startswith((".", "-")) or name.partition(".")[0] in HOME_FILES:
        raise ValueError(f"archive {path.name!r} names no run")
    target, building = root / name, root / f".{name}.restored"
    if os.path.lexists(target):
        raise ValueError(f"run {name!r} exists; try: {command('runs', 'rm', name)}")
    shutil.rmtree(building, ignore_errors=True)
    building.mkdir()
    try:
        with _reading(path) as members:
            for file, member in members:
                if member.name.partition("/")[0] != name:
                    raise tarfile.TarError(f"{member.name[:MAX_SHOWN]!r} is no file of run {name!r}")
                file.extract(member, building, filter="data")
        if not RunPaths(building / name).spec.is_file():
            raise tarfile.TarError(f"it contains no run {name!r}")
        os.rename(building / name, target)
        fsync(root)
    except DAMAGES as error:
        raise ValueError(f"archive {str(path)!r} cannot be restored: {reason_of(error)}") from error
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return RunPaths(target)
