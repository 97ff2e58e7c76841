"""SQLite file of a league: opening, schema, transactions, and readable errors.

``store`` defines the operations of a league.
"""

import contextlib
import json
import os
import re
import sqlite3
import stat
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from echelon.closing import Closing
from echelon.files import make_folder, reason_of
from echelon.state_files import parse_json, require_utf8

VERSION = 1
BUSY_S = 30.0
"""Longest wait for another writing process [s]."""
OPENING_S = 0.05
"""Time between attempts to open a file that another process creates [s]."""
READ_ONLY_MODES = ("mode=ro", "immutable=1")
"""URI parameters for reading; the second one is for folders that are not writable."""
UNWRITABLE = ("unable to open", "readonly")
"""Parts of SQLite's message where the folder is not writable."""
HINTS = {
    "locked": f"; another process has been writing for {BUSY_S:g} s; try again later",
    "full": "; free disk space and continue, stored data is intact",
    "readonly": "; its folder must be writable",
    "unable to open": "; its folder must exist and be writable",
    "disk I/O": "; the disk reports an error, stored data is intact",
}
WHERE_DAMAGED = "move it away and import an export, if there is one"
DAMAGES = ("not a database", "malformed")

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


SHOWN_CHARS = 60
SHOWN_NAMES = 3
MAX_TEXT_CHARS = 1 << 20
MAX_REAL = 1e15
"""Bounds of stored values; ratings, sums and seconds stay far below."""
CHECKS = {
    "TEXT": f"typeof({{0}}) = 'text' AND length({{0}}) <= {MAX_TEXT_CHARS}",
    "REAL": f"typeof({{0}}) IN ('real', 'integer') AND abs({{0}}) <= {MAX_REAL}",
    "INTEGER": "typeof({0}) = 'integer'",
}
"""SQL condition for a value by the declared type of its column."""


MAX_ROWS = {
    "settings": 1_000,
    "entries": 20_000,
    "periods": 1_000_000,
    "matches": 10_000_000,
    "ratings": 5_000_000,
    "styles": 1_000_000,
}
MAX_ENTRY_CHARS = 12 << 20
"""Most characters of all entries: they are read together, and one has some 600."""
COMPANIONS = ("-wal", "-shm", "-journal")
"""Ends of the names of the files that SQLite opens beside a league."""
JOURNAL = "-journal"
JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")
"""Last bytes of a rollback journal that names a super-journal, a file that SQLite deletes after the rollback.

Only transactions over several files write one; a league is one file.
"""


CHECKED_ONCE = ("matches", "ratings")
"""Long tables: a process checks each of their rows once, so that opening a league does not read all its matches."""

_CHECKED: dict[tuple[str, int], dict[str, int]] = {}
"""Highest checked row of each long table, by path and inode of the file."""


def _schema_of(db: sqlite3.Connection) -> list[tuple[str, str, str, str]]:
    """Return type, name, table and SQL with single blanks of everything in a database."""
    rows = db.execute("SELECT type, name, tbl_name, sql FROM sqlite_schema").fetchall()
    return sorted((str(a), str(b), str(c), re.sub(r"[ \t\r\n\f]+", " ", str(d or ""))) for a, b, c, d in rows)


@cache
def _expected_schema() -> list[tuple[str, str, str, str]]:
    """Return the schema of a file that was created with ``SCHEMA``."""
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.executescript(SCHEMA)
        return _schema_of(db)


@cache
def _table_checks() -> dict[str, dict[str, str]]:
    checks: dict[str, dict[str, str]] = {}
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.executescript(SCHEMA)
        for (table,) in db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall():
            rows = db.execute(f"PRAGMA table_info({table})").fetchall()
            checks[table] = {
                name: f"({CHECKS[declared].format(name)}{'' if required or key else f' OR {name} IS NULL'})"
                for _, name, declared, required, _, key in rows
            }
    return checks


class StoreError(ValueError):
    """The file cannot be read or written; the message gives cause and advice."""


class DamagedStoreError(StoreError):
    """The content of the file is damaged."""


class Database(Closing):
    """An open file of a league; a context manager. Errors are one-line ``StoreError``.

    ``read_only`` reads a snapshot of the file without changing it.
    """

    def __init__(self, path: Path, *, create: bool = True, read_only: bool = False, busy_s: float = BUSY_S) -> None:
        self.path, self.read_only = path, read_only
        create = create and not read_only
        if not create and not path.is_file():
            raise StoreError(f"league {str(path)!r} does not exist; create one with: echelon arena add or arena run")
        with self._readable_errors():
            self._require_files()
            if create:
                make_folder(path.parent)
            self._db = self._open_read_only(busy_s) if read_only else self._connect(str(path), busy_s)
        try:
            with self._readable_errors():
                if not read_only:
                    self._prepare(busy_s)
                self._check_version()
                self._check_content()
        except BaseException:
            self._db.close()
            raise

    def _require_files(self) -> None:
        """Raise ``StoreError`` for a pipe or another thing in place of a file: SQLite would wait for it."""
        name = os.path.realpath(self.path)
        for file in (name, *(name + companion for companion in COMPANIONS)):
            with contextlib.suppress(FileNotFoundError):
                if not stat.S_ISREG(os.lstat(file).st_mode):
                    raise StoreError(f"league file {file!r} is no regular file; delete it")
        with contextlib.suppress(FileNotFoundError), open(name + JOURNAL, "rb") as journal:
            journal.seek(max(0, journal.seek(0, os.SEEK_END) - len(JOURNAL_MAGIC)))
            if journal.read(len(JOURNAL_MAGIC)) == JOURNAL_MAGIC:
                raise StoreError(
                    f"league file {name + JOURNAL!r} is a journal that makes SQLite delete another file, "
                    "expected none: Echelon writes no such journal; move it away"
                )

    def _require_kind(self) -> None:
        """Raise ``StoreError``, before anything is written, for a database that is neither empty nor of this kind."""
        # a file gets tables and version in one transaction, so that its version is read after its tables
        tables = {name for (name,) in self._db.execute("SELECT name FROM sqlite_schema")}
        version = self._version()
        if tables and (version == 0 or (version == VERSION and not tables >= _table_checks().keys())):
            raise StoreError(f"{str(self.path)!r} is a database of another program, expected a league; name another")
        if tables and version == VERSION:
            self._require_schema()

    def _require_schema(self) -> None:
        """Raise ``StoreError``, before a table is read, unless the SQL of the file is that of its kind.

        Views, triggers, virtual tables, conditions, defaults, generated columns and indexes of expressions would run
        SQL of whoever wrote the file.
        """
        found, expected = _schema_of(self._db), _expected_schema()
        if found != expected:
            names = sorted({row[1] for row in set(found) ^ set(expected)})
            shown = ", ".join(repr(name[:SHOWN_CHARS]) for name in names[:SHOWN_NAMES])
            raise StoreError(
                f"league {str(self.path)!r} has other SQL than a league's in {shown}, expected tables that "
                f"Echelon created; {WHERE_DAMAGED}"
            )

    @staticmethod
    def _connect(name: str, busy_s: float) -> sqlite3.Connection:
        db = sqlite3.connect(name, timeout=busy_s, isolation_level=None, uri=name.startswith("file:"))
        db.row_factory = sqlite3.Row
        return db

    def _open_read_only(self, busy_s: float) -> sqlite3.Connection:
        """Return a read-only connection to a snapshot, also in a folder that is not writable."""
        uri = self.path.absolute().as_uri()
        for mode in READ_ONLY_MODES:
            with contextlib.ExitStack() as undo:
                try:
                    db = self._connect(f"{uri}?{mode}", busy_s)
                    undo.callback(db.close)
                    db.execute("BEGIN")
                    db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
                except sqlite3.OperationalError as error:
                    # a file that is being written must not be read without its journal
                    if mode == READ_ONLY_MODES[-1] or not any(word in str(error) for word in UNWRITABLE):
                        raise
                    continue
                undo.pop_all()
                return db
        raise AssertionError("unreachable")

    def _prepare(self, busy_s: float) -> None:
        deadline = time.monotonic() + busy_s
        while True:
            try:
                self._require_kind()
                self._db.execute("PRAGMA journal_mode = WAL")
                break
            except sqlite3.OperationalError as error:
                # switching to WAL does not honour the busy timeout
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
            raise StoreError(f"league {str(self.path)!r} has schema version {version}, expected {VERSION}")

    def _check_content(self) -> None:
        """Raise ``StoreError`` unless the tables hold what the schema says: its origin is unknown."""
        self._require_schema()
        checked = _CHECKED.setdefault((os.path.abspath(self.path), os.stat(self.path).st_ino), {})
        for table, checks in _table_checks().items():
            self._check_size(table)
            # rows may have numbers below 0
            unchecked = f"rowid > {checked[table]} AND " if table in checked else ""
            wrong = f"SELECT 1 FROM {table} WHERE {unchecked}NOT ({' AND '.join(checks.values())}) LIMIT 1"
            if self._db.execute(wrong).fetchone():
                raise DamagedStoreError(
                    f"league {str(self.path)!r} is damaged: a value in table {table!r} is of a wrong type"
                )
        for table in CHECKED_ONCE:
            if (newest := self._db.execute(f"SELECT max(rowid) FROM {table}").fetchone()[0]) is not None:
                checked[table] = newest

    def _check_size(self, table: str) -> None:
        """Raise ``StoreError`` for a table that would take seconds or gigabytes to read."""
        limit, ends = MAX_ROWS[table], f"(SELECT max(rowid) FROM {table}) - (SELECT min(rowid) FROM {table})"
        # the numbers of rows have gaps: rows are counted only where there may be too many
        (span,) = self._db.execute(f"SELECT {ends}").fetchone()
        if (span or 0) >= limit and self._db.execute(f"SELECT 1 FROM {table} LIMIT 1 OFFSET {limit}").fetchone():
            raise StoreError(
                f"league {str(self.path)!r} has more than {limit} rows of {table!r}, expected at most that"
            )
        if table == "entries":
            lengths = " + ".join(f"coalesce(length({name}), 0)" for name in _table_checks()[table])
            (chars,) = self._db.execute(f"SELECT sum({lengths}) FROM {table}").fetchone()
            if (chars or 0) > MAX_ENTRY_CHARS:
                raise StoreError(
                    f"league {str(self.path)!r} has {chars} characters of {table}, expected at most {MAX_ENTRY_CHARS}"
                )

    @contextlib.contextmanager
    def _readable_errors(self) -> Iterator[None]:
        """Turn SQLite and system errors into one-line ``StoreError`` with file and advice."""
        try:
            yield
        except sqlite3.Error as error:
            message = str(error)
            damaged = any(part in message for part in DAMAGES)
            advice = (hint for part, hint in HINTS.items() if part in message)
            hint = f"; {WHERE_DAMAGED}" if damaged else next(advice, "")
            raise (DamagedStoreError if damaged else StoreError)(
                f"league {str(self.path)!r} cannot be used: {message}{hint}"
            ) from error
        except OSError as error:
            raise StoreError(f"league {str(self.path)!r} cannot be opened: {reason_of(error)}") from error

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Give the connection inside one transaction, which waits for other writers and rolls back on failure."""
        if self.read_only:
            raise StoreError(f"league {str(self.path)!r} is open for reading only, expected open for writing")
        with self._readable_errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def read(self, query: str, values: Sequence[Any] = ()) -> list[sqlite3.Row]:
        with self._readable_errors():
            return self._db.execute(query, values).fetchall()

    def setting(self, key: str) -> Any:
        rows = self.read("SELECT value FROM settings WHERE key = ?", (key,))
        try:
            return parse_json(rows[0][0]) if rows else None
        except ValueError as error:
            raise StoreError(f"league {str(self.path)!r} is damaged: {error}") from None

    @staticmethod
    def entry_meta(text: str) -> dict[str, Any]:
        """Return the facts of an entry; damaged ones are lost, the entry is not."""
        with contextlib.suppress(ValueError):
            if isinstance(facts := parse_json(text), dict):
                return facts
        return {"damaged": text[:SHOWN_CHARS]}

    def init_setting(self, key: str, value: Any) -> Any:
        """Set a setting that is not set yet; return its current value."""
        require_utf8(value, f"setting {key!r}")
        with self.writing() as db:
            db.execute("INSERT OR IGNORE INTO settings VALUES (?, ?)", (key, json.dumps(value)))
        return self.setting(key)

    def close(self) -> None:
        self._db.close()
