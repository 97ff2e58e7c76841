"""The replay catalogue: replay files found by scanning run folders, identified by id and never by path.

A match's id is derived from its run and file name; requests name ids, which are looked up here, so that no request can
name a path. Only plain files inside a run's ``replays`` folder count; links are skipped, and a file is served only
while it is the one that was listed. All methods are thread-safe.
"""

import contextlib
import errno
import hashlib
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from echelon.files import require_regular
from echelon.replay.codec import pack_map
from echelon.replay.match_text import HUMAN, JOINT, LEVEL_PREFIX, shown_pilots
from echelon.replay.reader import Replay, ReplayError
from echelon.replay.schema import SUFFIX, UNDECIDED
from echelon.runs import ID_DIGITS, RunPaths, list_runs, runs_home
from echelon.runs import match_id as match_id
from echelon.server.branches import Parents, branch_of

OPEN_FILES = 32
"""Most replay files open at a time; the least recently read is closed first."""
OPEN_BYTES = 2**28
"""Most bytes that the contents of open replays take by their own estimate; the largest is closed first.

So a hostile match costs itself, and what was computed of others is kept.
"""
SCAN_INTERVAL_S = 0.4
"""Shortest time between two scans of the run folders [s]."""
LIVE_AGE_S = 30.0
"""An incomplete match whose file was written within this time counts as live [s]."""
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
LOG = logging.getLogger(__name__)
T = TypeVar("T")


class ReplacedError(ReplayError):
    """Another file, or none, has taken the place of a match since the last scan; the next one knows."""


@dataclass(frozen=True)
class Match:
    """One replay file as of the last scan."""

    id: str
    run: str
    path: Path
    stamp: tuple[int, int, int]
    """Inode, size and modification time [ns]; changes with the file's content."""
    summary: dict[str, Any]
    world: str
    origin: str = ""
    """SHA-256 of the recording that it continues, "" for a match that is no branch."""
    recorded: int = 0
    """Bytes of its recording, without what was added to the file after the match."""

    @property
    def file(self) -> tuple[Any, ...]:
        """Identity of the file, so that a replaced file of the same name differs, also one that was overwritten.

        That is its id, version, inode, and of a complete match size and time; an unclosed one grows.
        """
        return self.id, self.summary["version"], *self.stamp[: None if self.summary["complete"] else 1]

    @property
    def live(self) -> bool:
        return bool(self.summary["live"])

    def check(self, status: os.stat_result) -> None:
        """Raise ``ReplacedError`` unless an open file is the listed one, which may have grown if it was not closed."""
        inode, size, modified = stamp_of(status)
        same = self.stamp == (inode, size, modified)
        if not same and (self.summary["complete"] or inode != self.stamp[0] or size < self.stamp[1]):
            raise replaced(self)


class OpenReplay:
    """A replay file that requests share: opened by the first read, closed by the last user after it was dropped."""

    def __init__(self, match: Match, root: Path) -> None:
        self.match, self._root = match, root
        self.users, self.dropped = 0, False
        """Guarded by the catalogue."""
        self.gone = False
        """Whether the match is no longer listed; further reads fail, so that long computations end."""
        self.memory = 0
        """Estimated bytes that its contents took after the last read."""
        self._lock = threading.Lock()
        self._replay: Replay | None = None

    def read(self, query: Callable[[Replay], T]) -> T:
        """Return ``query`` of the replay; ``ReplayError`` if the file is damaged, missing or replaced.

        Queries of one file wait for each other, so they must be short.
        """
        try:
            with self._lock:
                if self.gone:
                    raise replaced(self.match)
                if self._replay is None:
                    self._replay = self._open()
                elif self._replay.complete:
                    self.match.check(self._replay.status())
                self._replay.refresh()
                try:
                    return query(self._replay)
                finally:
                    self.memory = self._replay.memory
        except ReplayError:
            raise
        except FileNotFoundError:
            raise replaced(self.match) from None
        except (OSError, ValueError) as error:
            raise unreadable(self.match, error) from None

    def _open(self) -> Replay:
        replay = Replay(self.match.path, partial(open_beneath, self._root))
        try:
            self.match.check(replay.status())
            if version_of(replay.header) != self.match.summary["version"]:
                raise replaced(self.match)
        except BaseException:
            replay.close()
            raise
        return replay

    def close(self) -> None:
        """Close the file; without users."""
        if self._replay is not None:
            self._replay.close()
            self._replay = None


def version_of(header: Mapping[str, Any]) -> str:
    """Return a hash of the header that identifies a recording, since another file may take its name."""
    return hashlib.sha256(pack_map(header)).hexdigest()[:ID_DIGITS]


def home_hash(home: Path) -> str:
    return hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:ID_DIGITS]


class ReplayCatalogue:
    """The matches under a home folder, rescanned on access at most every ``SCAN_INTERVAL_S``."""

    def __init__(self, home: Path | str | None = None) -> None:
        self.home = runs_home(home)
        self.home_hash = home_hash(self.home)
        """Distinguishes servers of different homes without revealing the path."""
        self._lock = threading.Lock()
        """Guards ``_open`` and the users of its entries; nothing is read or opened under it."""
        self._scanning = threading.Lock()
        """Held by the thread that scans."""
        self._matches: dict[str, Match] = {}
        """Replaced as a whole by each scan, by the first one after each run."""
        self._damaged: dict[Path, tuple[int, int, int]] = {}
        self._parents = Parents(self.open_file)
        self._open: OrderedDict[tuple[Any, ...], OpenReplay] = OrderedDict()
        """By ``Match.file``; least recently read first."""
        self._scanned, self._listed = -SCAN_INTERVAL_S, False

    def matches(self) -> list[Match]:
        """Return all matches: live ones first, then by creation time, newest first."""
        self._scan()
        return self.listed_matches()

    def listed_matches(self) -> list[Match]:
        """Return the matches found so far, in the order of ``matches``; never scans."""
        return sorted(self._matches.values(), key=lambda m: (not m.live, -m.summary["created"], m.id))

    @property
    def listed(self) -> bool:
        return self._listed

    def find(self, ident: str) -> Match | None:
        self._scan()
        return self._matches.get(ident)

    def look_up(self, ident: str) -> tuple[Match | None, bool]:
        """Return the match with this id, or None, and False if another thread is in a scan; waits for none."""
        current = self._scan(wait=False)
        return self._matches.get(ident), current

    @contextlib.contextmanager
    def opened(self, match: Match) -> Iterator[OpenReplay]:
        """Keep the replay of a match open, with what was computed of it, until the context ends."""
        with self._lock:
            entry = self._open.setdefault(match.file, OpenReplay(match, self.home / match.run))
            entry.match, entry.users = match, entry.users + 1
            self._open.move_to_end(match.file)
            while len(self._open) > OPEN_FILES:
                self._drop(next(iter(self._open)))
        try:
            yield entry
        finally:
            with self._lock:
                entry.users -= 1
                if entry.dropped and not entry.users:
                    entry.close()
                while sum(each.memory for each in self._open.values()) > OPEN_BYTES:
                    self._drop(max(self._open, key=lambda file: self._open[file].memory))

    def read(self, match: Match, query: Callable[[Replay], T]) -> T:
        """Return ``query`` of the replay of a match, as ``OpenReplay.read``."""
        with self.opened(match) as replay:
            return replay.read(query)

    def read_alone(self, match: Match, query: Callable[[Replay], T]) -> T:
        """Return a long ``query`` of the replay of a match, opened once more, so that no other reader waits for it."""
        entry = OpenReplay(match, self.home / match.run)
        try:
            return entry.read(query)
        finally:
            entry.close()

    def open_file(self, match: Match) -> BinaryIO:
        """Return the file of a match, opened for reading; ``ReplayError`` if it is missing, replaced or unreadable."""
        try:
            file = open_beneath(self.home / match.run, match.path)
        except FileNotFoundError:
            raise replaced(match) from None
        except OSError as error:
            raise unreadable(match, error) from None
        try:
            match.check(os.fstat(file.fileno()))
        except ReplacedError:
            file.close()
            raise
        return file

    def close(self) -> None:
        with self._lock:
            for file in list(self._open):
                self._drop(file, gone=True)

    def _drop(self, file: tuple[Any, ...], *, gone: bool = False) -> None:
        """Forget an open replay; its last user closes it, so that nothing waits for a query here."""
        entry = self._open.pop(file)
        entry.dropped, entry.gone = True, gone
        if not entry.users:
            entry.close()

    def _scan(self, *, wait: bool = True) -> bool:
        """Scan the run folders if the last scan is old; while another thread scans, the result of the last one stands.

        Without a result, wait for that thread if ``wait``. Returns False if another thread scans.
        """
        if not self._scanning.acquire(blocking=wait and not self._listed):
            return False
        try:
            if time.monotonic() - self._scanned < SCAN_INTERVAL_S:
                return True
            self._scanned = time.monotonic()
            found: dict[str, Match] = {}
            for run in list_runs(self.home):
                found |= self._load_run(run)
                if not self._listed:
                    self._matches = dict(found)
            self._matches, self._listed = self._with_parents(found), True
            with self._lock:
                for gone in set(self._open) - {match.file for match in found.values()}:
                    self._drop(gone, gone=True)
        except (OSError, ValueError) as error:  # such as too many open files: the matches of the last scan stay
            LOG.warning("replays cannot be listed: %s", error)
        finally:
            self._scanning.release()
        return True

    def _with_parents(self, matches: dict[str, Match]) -> dict[str, Match]:
        found = self._parents.find(matches.values())
        for ident, parent in found.items():
            summary = matches[ident].summary
            if summary["parent"]["match"] != parent:
                summary = {**summary, "parent": {**summary["parent"], "match": parent}}
                matches[ident] = replace(matches[ident], summary=summary)
        return matches

    def _load_run(self, run: RunPaths) -> dict[str, Match]:
        """Return the matches of a run by id; those of the last scan where the system cannot list its files."""
        try:
            files = replay_files(run)
        except OSError as error:
            if is_exhausted(error):
                raise
            return {match.id: match for match in self._matches.values() if match.run == run.id}
        matches = (self._load_match(run.id, path, stamp) for path, stamp in files)
        return {match.id: match for match in matches if match is not None}

    def _load_match(self, run: str, path: Path, stamp: tuple[int, int, int]) -> Match | None:
        known = self._matches.get(match_id(run, path.name))
        live = abs(time.time() - stamp[2] / 1e9) < LIVE_AGE_S
        if known is not None and known.stamp == stamp and (known.summary["complete"] or known.live == live):
            return known
        if self._damaged.get(path) == stamp:
            return None
        try:
            with Replay(path, partial(open_beneath, self.home / run)) as replay:
                if replay.status().st_ino != stamp[0]:
                    return known  # replaced since it was listed: the next scan reads it again
                summary = summarize(match_id(run, path.name), run, path, replay, live)
                origin = (replay.header.get("parent") or {}).get("sha256", "")
                world, recorded = replay.header["world"]["sha256"], replay.recorded_bytes
                return Match(summary["id"], run, path, stamp, summary, world, origin, recorded)
        except OSError as error:
            if is_exhausted(error):
                raise
            return known  # an error of the system says nothing about the file: the next scan reads it again
        except ReplayError as error:
            LOG.warning("%s", error)
        except Exception:
            LOG.exception("replay %r is skipped", path.name)
        self._damaged[path] = stamp
        return None


def replaced(match: Match) -> ReplacedError:
    return ReplacedError(f"replay {match.path.name!r} was replaced or removed; try again in a moment")


def stamp_of(status: os.stat_result) -> tuple[int, int, int]:
    """Return inode, size and modification time [ns] of a file."""
    return status.st_ino, status.st_size, status.st_mtime_ns


def unreadable(match: Match, error: Exception) -> Exception:
    """Return the error to report for a match whose file raised ``error``, unchanged if descriptors ran out."""
    if is_exhausted(error):
        return error
    return ReplayError(f"replay {match.path.name!r} cannot be read")


def is_exhausted(error: BaseException | None) -> bool:
    """Return whether an error comes from a process or machine without free descriptors or buffers; it passes."""
    return isinstance(error, OSError) and error.errno in EXHAUSTED


def replay_files(run: RunPaths) -> list[tuple[Path, tuple[int, int, int]]]:
    """Return the plain replay files of a run with their stamps; links and special files are skipped.

    ``OSError`` where the system cannot list them, such as without a free descriptor.
    """
    found = []
    if run.replays.is_symlink():
        return []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(run.replays) as entries:
        for entry in entries:
            with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                if entry.name.endswith(SUFFIX) and entry.is_file(follow_symlinks=False):
                    found.append((Path(entry.path), stamp_of(entry.stat(follow_symlinks=False))))
    return found


def _team_name(team: Mapping[str, Any]) -> str:
    name = team["name"]
    return name if HUMAN in name.split(JOINT) else team["policy"] or name


def summarize(ident: str, run: str, path: Path, replay: Replay, fresh: bool) -> dict[str, Any]:
    """Return a match's row for the match list; ``fresh`` tells that its file was written recently."""
    header = replay.header
    teams = [shown_pilots(_team_name(team), header["run"]) for team in header["teams"]]
    outcome = replay.outcome or {"winner": UNDECIDED, "reason": "", "score": [0.0, 0.0], "alive": [0, 0]}
    return {
        "id": ident,
        "version": version_of(header),
        "run": run,
        "file": path.name,
        "created": header["created"],
        "seed": header["seed"],
        "map_seed": header["map_seed"],
        "blue": teams[0],
        "red": teams[1],
        "levels": [team["level"].removeprefix(LEVEL_PREFIX) for team in header["teams"]],
        "update": header["update"],
        "mechs": header["mechs"],
        "size": list(header["world"]["size"]),
        "live": fresh and not replay.complete,
        "complete": replay.complete,
        "chunks": len(replay.chunks),
        "ticks": replay.ticks,
        "bytes": replay.status().st_size,
        **{name: outcome[name] for name in ("winner", "reason", "score", "alive")},
        "moment": replay.top_moment,
        "parent": branch_of(header),
    }


def open_beneath(root: Path, path: Path) -> BinaryIO:
    """Open a regular file below ``root`` for reading; ``OSError`` for a link at any level below ``root``.

    Each folder is opened relative to the one before, so that none can be replaced by a link meanwhile. ``root`` itself
    may be a link.
    """
    *folders, name = path.relative_to(root).parts
    at = os.open(root, FOLDER)
    try:
        for folder in folders:
            inner = os.open(folder, FOLDER | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = inner
        handle = os.open(name, FILE, dir_fd=at)
    finally:
        os.close(at)
    return os.fdopen(require_regular(handle, path), "rb")
