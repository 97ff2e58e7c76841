"""A league's file: opening it, its tables, transactions, and what SQLite says put into words for people.

What the tables mean is decided in ``store``.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

VERSION = 1
"""Of the tables."""
BUSY_S = 30.0
"""How long to wait for another process that is writing [s]."""
OPENING_S = 0.05
"""Time between tries to open a file that another process is just making [s]."""
READING = ("mode=ro", "immutable=1")
"""Ways to open a file to look at it; the second is for folders in which nothing can be written."""
UNWRITABLE = ("unable to open", "readonly")
"""Words of SQLite's message where nothing can be written beside a file."""
HINTS = {
    "locked": f"; another process has been writing for {BUSY_S:g} s, try again once it is done",
    "full": "; free some space and go on, nothing that was written is lost",
    "readonly": "; its folder must be writable",
    "unable to open": "; its folder must exist and be writable",
    "not a database": "; put it aside, and import an export if there is one",
    "malformed": "; put it aside, and import an export if there is one",
    "disk I/O": "; the disk does not take it, nothing that was written before is lost",
}
"""What to do, by a word of SQLite's message."""

SCHEMA = """
CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE entries (
    id TEXT PRIMARY KEY, ckpt_path TEXT NOT NULL, kind TEXT NOT NULL, commander_name TEXT, created_at TEXT NOT NULL,
    rating REAL NOT NULL, rd REAL NOT NULL, vol REAL NOT NULL, games INTEGER NOT NULL,
    first_rating REAL NOT NULL, first_rd REAL NOT NULL, first_vol REAL NOT NULL, first_games INTEGER NOT NULL,
    meta TEXT NOT NULL);
CREATE TABLE periods (
    id INTEGER PRIMARY KEY, job TEXT NOT NULL, round INTEGER NOT NULL, opened_at TEXT NOT NULL,
    closed_at TEXT, sequence INTEGER UNIQUE, UNIQUE (job, round));
CREATE TABLE matches (
    id INTEGER PRIMARY KEY, period INTEGER NOT NULL REFERENCES periods (id), number INTEGER NOT NULL,
    blue TEXT NOT NULL REFERENCES entries (id), red TEXT NOT NULL REFERENCES entries (id), seed INTEGER NOT NULL,
    state TEXT NOT NULL DEFAULT 'planned', winner TEXT, reason TEXT NOT NULL DEFAULT '', note TEXT NOT NULL DEFAULT '',
    hp_blue REAL, hp_red REAL, score_blue REAL, score_red REAL, seconds REAL,
    replay TEXT NOT NULL DEFAULT '', played_at TEXT, UNIQUE (period, number));
CREATE INDEX matches_blue ON matches (blue);
CREATE INDEX matches_red ON matches (red);
CREATE TABLE ratings (
    period INTEGER NOT NULL REFERENCES periods (id), entry TEXT NOT NULL REFERENCES entries (id),
    rating REAL NOT NULL, rd REAL NOT NULL, vol REAL NOT NULL, games INTEGER NOT NULL, PRIMARY KEY (period, entry));
CREATE TABLE styles (
    entry TEXT NOT NULL REFERENCES entries (id), name TEXT NOT NULL, value REAL NOT NULL, PRIMARY KEY (entry, name));
"""


class StoreError(ValueError):
    """The league cannot be read or written; the message says why and what to do."""


class Database:
    """One open file; a context manager. ``StoreError`` says in one line what is wrong with it.

    ``read_only`` looks at how the file is now without changing it.
    """

    def __init__(self, path: Path, *, create: bool = True, read_only: bool = False, busy_s: float = BUSY_S) -> None:
        self.path, self.read_only = path, read_only
        create = create and not read_only
        if not create and not path.is_file():
            raise StoreError(f"league {str(path)!r} does not exist; begin one with: echelon arena add or arena run")
        with self._explained():
            if create:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._db = self._look(busy_s) if read_only else self._connect(str(path), busy_s)
        try:
            with self._explained():
                if not read_only:
                    self._prepare(busy_s)
                self._check_version()
        except BaseException:
            self._db.close()
            raise

    @staticmethod
    def _connect(name: str, busy_s: float) -> sqlite3.Connection:
        db = sqlite3.connect(name, timeout=busy_s, isolation_level=None, uri=name.startswith("file:"))
        db.row_factory = sqlite3.Row
        return db

    def _look(self, busy_s: float) -> sqlite3.Connection:
        """Return a connection that sees one moment and cannot write, also where nobody may write beside the file."""
        where = self.path.absolute().as_uri()
        for session in READING:
            with contextlib.ExitStack() as undo:
                try:
                    db = self._connect(f"{where}?{session}", busy_s)
                    undo.callback(db.close)
                    db.execute("BEGIN")
                    db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
                except sqlite3.OperationalError as error:
                    # a file that is just being written must not be read without its journal
                    if session == READING[-1] or not any(word in str(error) for word in UNWRITABLE):
                        raise
                    continue
                undo.pop_all()
                return db
        raise AssertionError("there is no way to open a file")

    def _prepare(self, busy_s: float) -> None:
        deadline = time.monotonic() + busy_s
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                # turning a new file to WAL does not wait for others as writing does
                if "locked" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(OPENING_S)
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute("PRAGMA foreign_keys = ON")
        if self._version() == 0:
            with self.writing():
                if self._version() == 0:
                    for statement in SCHEMA.split(";"):
                        self._db.execute(statement)
                    self._db.execute(f"PRAGMA user_version = {VERSION}")

    def _version(self) -> int:
        return self._db.execute("PRAGMA user_version").fetchone()[0]

    def _check_version(self) -> None:
        if (version := self._version()) != VERSION:
            raise StoreError(f"league {str(self.path)!r} has tables of version {version}, wanted {VERSION}")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what SQLite or the system says into one line that names the file and what to do."""
        try:
            yield
        except sqlite3.Error as error:
            said = str(error)
            hint = next((hint for word, hint in HINTS.items() if word in said), "")
            raise StoreError(f"league {str(self.path)!r} cannot be used: {said}{hint}") from error
        except OSError as error:
            raise StoreError(f"league {str(self.path)!r} cannot be opened: {error.strerror or error}") from error

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give the connection inside one transaction that waits for other writers; a failure undoes all of it."""
        if self.read_only:
            raise StoreError(f"league {str(self.path)!r} is open for reading only, wanted one open for writing")
        with self._explained():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def read(self, query: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        """Return the rows of a query."""
        with self._explained():
            return self._db.execute(query, values).fetchall()

    def setting(self, key: str) -> Any:
        """Return a setting of the league, None if it was never set."""
        rows = self.read("SELECT value FROM settings WHERE key = ?", (key,))
        return json.loads(rows[0][0]) if rows else None

    def init_setting(self, key: str, value: Any) -> Any:
        """Set what was never set before; return what holds now."""
        with self.writing() as db:
            db.execute("INSERT OR IGNORE INTO settings VALUES (?, ?)", (key, json.dumps(value)))
        return self.setting(key)

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
