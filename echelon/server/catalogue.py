"""The replay catalogue: replay files found by scanning run folders, identified by id and never by path.

A match's id is derived from its run and file name; requests name ids, which are looked up here, so that no request can
name a path. Only plain files inside a run's ``replays`` folder count; links are skipped. All methods are thread-safe.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from echelon.replay.codec import pack_map
from echelon.replay.reader import Replay, ReplayError
from echelon.runs import RunPaths, list_runs, runs_home

SUFFIX = ".ecr"
ID_DIGITS = 16
OPEN_FILES = 32
"""Most replay files open at a time; the least recently read is closed first."""
SCAN_INTERVAL_S = 0.4
"""Shortest time between two scans of the run folders [s]."""
LIVE_AGE_S = 30.0
"""An incomplete match whose file was written within this time counts as live [s]."""
EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
LOG = logging.getLogger(__name__)
T = TypeVar("T")


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
    """SHA-256 of its world."""

    @property
    def file(self) -> tuple[str, int, str]:
        """Identity of the file: match id, inode and version, so that a replaced file of the same name differs."""
        return self.id, self.stamp[0], self.summary["version"]

    @property
    def live(self) -> bool:
        """Whether the match is still being played."""
        return bool(self.summary["live"])


def match_id(run: str, name: str) -> str:
    """Return the id of file ``name`` of a run."""
    return hashlib.sha256(os.fsencode(f"{run}/{name}")).hexdigest()[:ID_DIGITS]


def version_of(header: Mapping[str, Any]) -> str:
    """Return a hash of the header that identifies a recording, since another file may take its name."""
    return hashlib.sha256(pack_map(header)).hexdigest()[:ID_DIGITS]


def home_hash(home: Path) -> str:
    """Return a hash of the home folder's path."""
    return hashlib.sha256(str(home.resolve()).encode()).hexdigest()[:ID_DIGITS]


class ReplayCatalogue:
    """The matches under a home folder, rescanned on access at most every ``SCAN_INTERVAL_S``."""

    def __init__(self, home: Path | str | None = None) -> None:
        self.home = runs_home(home)
        self.home_hash = home_hash(self.home)
        """Distinguishes servers of different homes without revealing the path."""
        self._lock = threading.RLock()
        self._matches: dict[str, Match] = {}
        self._damaged: dict[Path, tuple[int, int, int]] = {}
        self._open: OrderedDict[tuple[str, int, str], tuple[threading.Lock, Replay]] = OrderedDict()
        """By ``Match.file``; least recently read first."""
        self._scanned = -SCAN_INTERVAL_S

    def matches(self) -> list[Match]:
        """Return all matches: live ones first, then by creation time, newest first."""
        with self._lock:
            self._scan()
            return sorted(self._matches.values(), key=lambda m: (not m.live, -m.summary["created"], m.id))

    def runs(self) -> list[dict[str, Any]]:
        """Return id and number of matches of each run that has any, newest run first."""
        counts: dict[str, int] = {}
        for match in self.matches():
            counts[match.run] = counts.get(match.run, 0) + 1
        return [{"id": run, "matches": counts[run]} for run in sorted(counts, reverse=True)]

    def find(self, ident: str) -> Match | None:
        """Return the match with this id, or None."""
        with self._lock:
            self._scan()
            return self._matches.get(ident)

    def find_by_world(self, sha256: str) -> Match | None:
        """Return a match that was played in this world, or None."""
        return next((m for m in self.matches() if m.world == sha256), None)

    def read(self, match: Match, query: Callable[[Replay], T]) -> T:
        """Return ``query`` of the opened replay; ``ReplayError`` if the file is damaged or missing."""
        while True:
            with self._lock:
                lock, replay = self._open_replay(match)
            with lock:
                if replay.closed:  # evicted between the two locks
                    continue
                try:
                    replay.refresh()
                    return query(replay)
                except ReplayError:
                    raise
                except (OSError, ValueError) as error:
                    raise unreadable(match, error) from None

    def close(self) -> None:
        """Close all open files."""
        with self._lock:
            for _, replay in self._open.values():
                replay.close()
            self._open.clear()

    def _open_replay(self, match: Match) -> tuple[threading.Lock, Replay]:
        if match.file not in self._open:
            try:
                self._open[match.file] = (threading.Lock(), Replay(match.path))
            except OSError as error:
                raise unreadable(match, error) from None
            while len(self._open) > OPEN_FILES:
                _, (lock, replay) = self._open.popitem(last=False)
                with lock:
                    replay.close()
        self._open.move_to_end(match.file)
        return self._open[match.file]

    def _scan(self) -> None:
        if time.monotonic() - self._scanned < SCAN_INTERVAL_S:
            return
        self._scanned = time.monotonic()
        found: dict[str, Match] = {}
        try:
            for run in list_runs(self.home):
                found |= self._load_run(run)
        except (OSError, ValueError) as error:  # such as too many open files: the matches of the last scan stay
            LOG.warning("replays cannot be listed: %s", error)
            return
        for gone in set(self._open) - {match.file for match in found.values()}:
            lock, replay = self._open.pop(gone)
            with lock:
                replay.close()
        self._matches = found

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
        live = time.time() - stamp[2] / 1e9 < LIVE_AGE_S
        if known is not None and known.stamp == stamp and (known.summary["complete"] or known.live == live):
            return known
        if self._damaged.get(path) == stamp:
            return None
        try:
            with Replay(path) as replay:
                summary = summarize(match_id(run, path.name), run, path, replay, live)
                return Match(summary["id"], run, path, stamp, summary, replay.header["world"]["sha256"])
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


def unreadable(match: Match, error: Exception) -> Exception:
    """Return the error of a match whose file raised ``error``; a lack of descriptors is none of the file."""
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
                    info = entry.stat(follow_symlinks=False)
                    found.append((Path(entry.path), (info.st_ino, info.st_size, info.st_mtime_ns)))
    return found


def summarize(ident: str, run: str, path: Path, replay: Replay, fresh: bool) -> dict[str, Any]:
    """Return a match's row for the match list; ``fresh`` tells that its file was written recently."""
    header = replay.header
    teams = [str(team.get("policy") or team.get("name") or "") for team in header["teams"]]
    outcome: dict[str, Any] = (replay.index or {}).get("outcome") or {}
    return {
        "id": ident,
        "version": version_of(header),
        "run": run,
        "file": path.name,
        "created": float(header.get("created", 0.0)),
        "seed": header.get("seed", 0),
        "map_seed": header.get("map_seed", 0),
        "blue": teams[0],
        "red": teams[1],
        "update": header.get("update", 0),
        "mechs": header["mechs"],
        "size": list(header["world"]["size"]),
        "live": fresh and not replay.complete,
        "complete": replay.complete,
        "chunks": len(replay.chunks),
        "ticks": replay.ticks,
        "bytes": path.stat().st_size,
        "winner": outcome.get("winner", -1),
        "reason": outcome.get("reason", ""),
        "score": list(outcome.get("score", [0.0, 0.0])),
        "alive": list(outcome.get("alive", [0, 0])),
    }
