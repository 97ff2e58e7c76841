"""``queue.db``: the queue of a runs folder on disk, in SQLite, as ``league.db`` is.

It holds the order of the runs that wait, the devices of those that run, how the others ended, the slots, and whether
the queue is paused. Every change is one transaction. Which runs have begun follows from their folders
(``queue_marker``), so no crash between two files loses a run or starts it twice.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from echelon.arena.database import COMPANIONS, DamagedStoreError, Database, StoreError
from echelon.files import fsync, make_folder
from echelon.jobs import lock
from echelon.jobs.queue_marker import QueueMarker, read_marker
from echelon.jobs.slots import Demand, demand_of
from echelon.runs import RunPaths, list_runs, read_json, runs_home

__all__ = ["Entry", "QueueStore", "StoreError", "open_queue", "queue_path"]

FILE_NAME = "queue.db"
REPAIR_LOCK = ".queue.lock"
"""Lock held by whoever moves a damaged queue aside."""
WAITING, STARTING, RUNNING = "waiting", "starting", "running"
OPEN = (WAITING, STARTING, RUNNING)
"""States of entries that have not ended; the others are states of ended jobs, or ``removed``."""
IS_OPEN = f"state IN {OPEN}"
ADOPTED, PAUSED, CLOSED = "adopted", "paused", "closed"
"""Settings: runs with markers are in the queue; nothing new starts; the queue's job has ended or is about to."""
MAX_ENTRIES = 20_000
SHORT_READ = "disk I/O error"
SHORT_READ_PAUSES_S = (0.1, 0.3)
"""Pauses before a file is read again that another process may be replacing [s]."""
MAX_ENDED = 1_000
"""Ended entries that stay in the file."""
ENDS = ("completed", "stopped", "failed", "crashed", "lost", "removed")

SCHEMA = """
CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE slots (device TEXT PRIMARY KEY, count INTEGER NOT NULL);
CREATE TABLE entries (
    id INTEGER PRIMARY KEY, run TEXT NOT NULL, kind TEXT NOT NULL, device TEXT NOT NULL, processes INTEGER NOT NULL,
    position INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL, devices TEXT NOT NULL,
    arguments TEXT NOT NULL, session TEXT NOT NULL, metrics_bytes INTEGER NOT NULL,
    crashes INTEGER NOT NULL, crashed_at_step INTEGER NOT NULL,
    queued_at REAL NOT NULL, started_at REAL, ended_at REAL);
"""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A run of the queue."""

    id: int
    run: str
    kind: str
    """Row of ``kinds.KINDS``."""
    demand: Demand
    position: int
    """Order of start, least first."""
    state: str
    reason: str
    """Why it waits, or how it ended."""
    devices: tuple[str, ...]
    """Devices whose slots it takes."""
    arguments: tuple[str, ...]
    session: str
    """Id of the run's newest session when it was queued."""
    metrics_bytes: int
    """Size of its metrics then."""
    crashes: int
    """Crashes in a row without progress."""
    crashed_at_step: int
    queued_at: float
    started_at: float
    ended_at: float
    """Times [s since the epoch]; 0 where there is none yet."""


def queue_path(home: str | Path | None = None) -> Path:
    """Return the path of the queue file in the runs folder ``home``."""
    return runs_home(home) / FILE_NAME


class QueueStore(Database):
    """An open queue file."""

    NOUN: ClassVar[str] = "queue"
    SCHEMA: ClassVar[str] = SCHEMA
    VERSION: ClassVar[int] = 1
    MAX_ROWS: ClassVar[Mapping[str, int]] = {"settings": 100, "slots": 1_000, "entries": MAX_ENTRIES}
    MAX_CHARS: ClassVar[Mapping[str, int]] = {"entries": 64 << 20}
    CHECKED_ONCE: ClassVar[tuple[str, ...]] = ()
    WHERE_MISSING: ClassVar[str] = "queue a run with: echelon train --queue"
    WHERE_DAMAGED: ClassVar[str] = "move it away and try again; runs that wait are queued again"

    @property
    def home(self) -> Path:
        return self.path.parent

    def _check_content(self) -> None:
        super()._check_content()
        states = f"SELECT 1 FROM entries WHERE state NOT IN {(*OPEN, *ENDS)} LIMIT 1"
        if self._db.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok" or self._db.execute(states).fetchone():
            raise DamagedStoreError(f"queue {str(self.path)!r} is damaged; {self.WHERE_DAMAGED}")

    def entries(self, states: Sequence[str] = OPEN, limit: int = MAX_ENTRIES) -> list[Entry]:
        """Return the entries in these states in order of start, or all in order of their end for no states."""
        if states:
            where = f"WHERE state IN ({', '.join('?' * len(states))}) ORDER BY position, id"
        else:
            where = "WHERE ended_at IS NOT NULL ORDER BY ended_at DESC, id DESC"
        return [self._entry(row) for row in self.read(f"SELECT * FROM entries {where} LIMIT ?", (*states, limit))]

    def _entry(self, row: Any) -> Entry:
        arguments = self.parsed(row["arguments"])
        if not isinstance(arguments, list) or not all(isinstance(word, str) for word in arguments):
            raise DamagedStoreError(f"queue {str(self.path)!r} is damaged: arguments of {row['run']!r}")
        return Entry(
            id=row["id"],
            run=row["run"],
            kind=row["kind"],
            demand=Demand(device=row["device"], processes=row["processes"]),
            position=row["position"],
            state=row["state"],
            reason=row["reason"],
            devices=tuple(filter(None, row["devices"].split(","))),
            arguments=tuple(arguments),
            session=row["session"],
            metrics_bytes=row["metrics_bytes"],
            crashes=row["crashes"],
            crashed_at_step=row["crashed_at_step"],
            queued_at=row["queued_at"],
            started_at=row["started_at"] or 0.0,
            ended_at=row["ended_at"] or 0.0,
        )

    def add(self, run: RunPaths, marker: QueueMarker) -> int:
        """Append a run and return the number of entries that start before it; ``StoreError`` where it is queued."""
        with self.writing() as db:
            if db.execute(f"SELECT 1 FROM entries WHERE run = ? AND {IS_OPEN}", (run.id,)).fetchone():
                raise StoreError(f"run {run.id!r} is in the queue already; see: echelon queue list")
            if db.execute("SELECT count(*) FROM entries").fetchone()[0] >= MAX_ENTRIES:
                raise StoreError(f"queue {str(self.path)!r} has {MAX_ENTRIES} entries, expected fewer")
            self._insert(run, marker)
            return db.execute("SELECT count(*) FROM entries WHERE state = 'waiting'").fetchone()[0] - 1

    def _insert(self, run: RunPaths, marker: QueueMarker) -> None:
        """Append a run inside a transaction."""
        spec = read_json(run.spec) or {}
        kind, config = str(spec.get("kind", "")), spec.get("config")
        demand = demand_of(kind, config if isinstance(config, dict) else {})
        self._db.execute(
            "INSERT INTO entries (run, kind, device, processes, position, state, reason, devices, arguments, session, "
            "metrics_bytes, crashes, crashed_at_step, queued_at) "
            "VALUES (?, ?, ?, ?, (SELECT coalesce(max(position), 0) + 1 FROM entries), 'waiting', '', '', ?, ?, ?, "
            "0, -1, ?)",
            (run.id, kind, demand.device, demand.processes, json.dumps(marker.arguments), marker.session,
             marker.metrics_bytes, marker.queued_at),
        )  # fmt: skip

    def adopt(self) -> list[str]:
        """Queue every run that has a marker and no entry, and return their ids: those of a damaged or deleted file."""
        marked = [(run, marker) for run in list_runs(self.home) if (marker := read_marker(run))]
        with self.writing() as db:
            queued = {row[0] for row in db.execute(f"SELECT run FROM entries WHERE {IS_OPEN}")}
            lost = sorted((marker.queued_at, run.id, run, marker) for run, marker in marked if run.id not in queued)
            for _, _, run, marker in lost:
                self._insert(run, marker)
            db.execute("INSERT OR REPLACE INTO settings VALUES (?, 'true')", (ADOPTED,))
        return [name for _, name, _, _ in lost]

    def claim(self, entry: Entry, devices: Iterable[str]) -> bool:
        """Mark an entry as being started on these devices; return False where it has been removed."""
        with self.writing() as db:
            changed = db.execute(
                "UPDATE entries SET state = 'starting', devices = ?, reason = '' "
                "WHERE id = ? AND state IN ('waiting', 'starting')",
                (",".join(devices), entry.id),
            )
            return changed.rowcount > 0

    def set_running(self, entry: Entry) -> None:
        """Mark an entry as running."""
        with self.writing() as db:
            db.execute(
                "UPDATE entries SET state = 'running', reason = '', started_at = coalesce(started_at, ?) WHERE id = ?",
                (time.time(), entry.id),
            )

    def set_waiting(self, entry: Entry, reason: str = "", *, crashes: int | None = None, step: int = -1) -> None:
        """Mark an entry as waiting, at its position; with ``crashes`` it crashed that often at ``step``."""
        with self.writing() as db:
            db.execute(
                "UPDATE entries SET state = 'waiting', devices = '', reason = ? WHERE id = ?", (reason, entry.id)
            )
            if crashes is not None:
                db.execute(
                    "UPDATE entries SET crashes = ?, crashed_at_step = ? WHERE id = ?", (crashes, step, entry.id)
                )

    def end(self, entry: Entry, state: str, reason: str = "") -> None:
        """Mark an entry as ended."""
        with self.writing() as db:
            db.execute(
                "UPDATE entries SET state = ?, reason = ?, devices = '', ended_at = ? WHERE id = ?",
                (state, reason, time.time(), entry.id),
            )
            db.execute(
                f"DELETE FROM entries WHERE NOT ({IS_OPEN}) AND id NOT IN (SELECT id FROM entries "
                f"WHERE NOT ({IS_OPEN}) ORDER BY ended_at DESC LIMIT {MAX_ENDED})"
            )

    def remove(self, entry: Entry, *, starting: bool = False) -> bool:
        """Remove an entry that waits, with ``starting`` also one that is being started; return whether it did."""
        with self.writing() as db:
            states = ("waiting", "starting") if starting else ("waiting", "waiting")
            return db.execute(f"DELETE FROM entries WHERE id = ? AND state IN {states}", (entry.id,)).rowcount > 0

    def move(self, entry: Entry, index: int) -> None:
        """Move an entry to a place among those that wait, 0 to start it next."""
        with self.writing() as db:
            rows = db.execute("SELECT id, position FROM entries WHERE state = 'waiting' ORDER BY position, id")
            ids, positions = zip(*rows.fetchall(), strict=True)
            order = [number for number in ids if number != entry.id]
            order.insert(index, entry.id)
            for number, position in zip(order, sorted(positions), strict=True):
                db.execute("UPDATE entries SET position = ? WHERE id = ?", (position, number))

    def slots(self) -> dict[str, int]:
        """Return the numbers of slots that were set, by device."""
        return {row["device"]: row["count"] for row in self.read("SELECT device, count FROM slots")}

    def set_slots(self, device: str, count: int) -> None:
        """Set the number of slots of a device."""
        with self.writing() as db:
            db.execute("INSERT OR REPLACE INTO slots VALUES (?, ?)", (device, count))

    @property
    def is_paused(self) -> bool:
        """Whether nothing new starts."""
        return bool(self.setting(PAUSED))

    def set_paused(self, paused: bool) -> None:
        """Pause or continue the queue."""
        with self.writing() as db:
            db.execute("INSERT OR REPLACE INTO settings VALUES (?, ?)", (PAUSED, json.dumps(paused)))

    def reopen(self) -> None:
        """Record that a job of the queue has begun."""
        with self.writing() as db:
            db.execute("DELETE FROM settings WHERE key = ?", (CLOSED,))

    def close_if_idle(self) -> bool:
        """Whether the queue's job has nothing to do; then it ends, and whoever adds an entry starts another."""
        with self.writing() as db:
            states = (RUNNING, STARTING) if self.is_paused else OPEN
            if self.entries(states, limit=1):
                return False
            db.execute("INSERT OR REPLACE INTO settings VALUES (?, 'true')", (CLOSED,))
            return True

    @property
    def is_closed(self) -> bool:
        """Whether the newest job of the queue found nothing to do, and ends without another look."""
        return bool(self.setting(CLOSED))


def open_queue(home: str | Path | None = None, *, create: bool = True) -> tuple[QueueStore, list[str]]:
    """Return the queue of a runs folder, and what happened to it in one line each.

    A damaged file is moved aside; runs that wait or run are queued again, in the order in which they were queued.
    """
    path, notices = queue_path(home), []
    if create:
        make_folder(path.parent)
    try:
        store = _opened(path, create)
    except DamagedStoreError as error:
        notices.append(str(error).partition(";")[0])
        if (handle := lock.acquire(path.with_name(REPAIR_LOCK))) is None:
            raise
        try:
            with contextlib.suppress(DamagedStoreError):
                _opened(path, create).close()
                notices.clear()
            if notices:
                notices[0] += f"; moved to {_move_aside(path).name!r}"
        finally:
            os.close(handle)
        store = QueueStore(path)
    try:
        if not store.setting(ADOPTED) and (adopted := store.adopt()):
            notices.append(f"queued again: {', '.join(adopted)}")
    except BaseException:
        store.close()
        raise
    return store, notices


def _opened(path: Path, create: bool) -> QueueStore:
    """Return an open queue file; ``DamagedStoreError`` also where SQLite reads less than the file should have.

    That is an error of the disk to SQLite, which a file that can be read to its end refutes.
    """
    for pause_s in (*SHORT_READ_PAUSES_S, None):
        try:
            return QueueStore(path, create=create)
        except StoreError as error:
            if SHORT_READ not in str(error) or isinstance(error, DamagedStoreError):
                raise
            if pause_s is None:
                path.read_bytes()
                raise DamagedStoreError(f"queue {str(path)!r} is damaged") from error
            time.sleep(pause_s)
    raise AssertionError("unreachable")


def _move_aside(path: Path) -> Path:
    """Rename a damaged file with its companions and return its new name."""
    target = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}")
    for companion in ("", *COMPANIONS):
        with contextlib.suppress(FileNotFoundError):
            os.replace(f"{path}{companion}", f"{target}{companion}")
    fsync(path.parent)
    return target
