"""Leagues of any origin: SQL that must not run, text that is no UTF-8, damaged facts, exports of the largest ones."""

import contextlib
import json
import sqlite3

import pytest

from echelon.arena import database
from echelon.arena.league import League
from echelon.arena.standings import standings
from echelon.arena.store import Store, StoreError
from tests.arena.test_store import NAMES, insert_entries, planned, store, won

__all__ = ["store"]

HOSTILE_SQL = {
    "condition": "CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL, CHECK (length(hex(value)) > 0))",
    "default": "CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL DEFAULT (hex(zeroblob(9))))",
    "generated column": "CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL, g TEXT AS (hex(value)))",
    "collation": "CREATE TABLE settings (key TEXT PRIMARY KEY COLLATE NOCASE, value TEXT NOT NULL)",
    "column called rowid": "CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL, rowid TEXT)",
    "strict": "CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT",
    "without rowid": "CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
}
HOSTILE_STATEMENTS = {
    "index of an expression": "CREATE INDEX hostile ON entries (hex(games))",
    "partial index": "CREATE INDEX hostile ON entries (id) WHERE games > 0",
    "view": "CREATE VIEW hostile AS SELECT * FROM entries",
    "trigger": "CREATE TRIGGER hostile AFTER INSERT ON entries BEGIN DELETE FROM matches; END",
    "virtual table": "CREATE VIRTUAL TABLE hostile USING fts5(text)",
    "statistics": "ANALYZE",
    "lacks an index": "DROP INDEX matches_red",
}


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("name", [*HOSTILE_SQL, *HOSTILE_STATEMENTS])
def test_sql_of_a_league_file_never_runs(store, monkeypatch, name, read_only):
    with contextlib.closing(sqlite3.connect(store.path)) as db, db:
        if name in HOSTILE_SQL:
            db.executescript(f"DROP TABLE settings; {HOSTILE_SQL[name]}")
        else:
            db.execute(HOSTILE_STATEMENTS[name])
    monkeypatch.setattr(Store, "_check_size", lambda *_: pytest.fail("a table was read"))
    with pytest.raises(StoreError, match="has other SQL than a league's in '.*', expected tables that Echelon created"):
        Store(store.path, read_only=read_only)


def test_a_rewritten_league_opens(store, tmp_path):
    copy = tmp_path / "copy.db"
    with contextlib.closing(sqlite3.connect(store.path)) as db, contextlib.closing(sqlite3.connect(copy)) as other:
        other.executescript("\n".join(db.iterdump()).replace(",\n    ", ", "))
        other.execute("PRAGMA user_version = 1")
        other.execute("VACUUM")
    with Store(copy) as again:
        assert list(again.league().entries) == list(NAMES)


@pytest.mark.parametrize(
    "change",
    [
        lambda entry: entry.meta.update(label="x\ud800"),
        lambda entry: entry.meta.update(style={"a\udcff": 1.0}),
        lambda entry: setattr(entry, "ckpt_path", "caf\udce9"),
        lambda entry: setattr(entry, "commander_name", "\udfff"),
    ],
)
def test_text_that_is_no_utf8_is_refused_before_it_is_stored(store, change):
    before = store.league().as_dict()
    with pytest.raises(ValueError, match="entry .* contains .*, expected UTF-8; rename it"), store.editing() as league:
        change(league.entries["a"])
    with pytest.raises(ValueError, match="setting 'env' contains"):
        store.init_setting("env", {"x": "\ud800"})
    assert store.league().as_dict() == before


@pytest.mark.parametrize(("stored", "name"), [('{"label": "x\\ud800"}', r"x\ud800"), ("{[", "a"), ("7", "a")])
def test_damaged_facts_cost_their_entry_only(store, stored, name):
    with contextlib.closing(sqlite3.connect(store.path)) as db, db:
        db.execute("UPDATE entries SET meta = ? WHERE id = 'a'", (stored,))
    assert [row["name"] for row in standings(store)] == [name, "B", "C"]
    with store.editing() as league:
        league.add_scripted("easy")
    with store.editing() as league:
        del league.entries["a"]
    assert sorted(store.league().entries) == ["b", "c", "heuristic:easy"]


def test_a_remark_that_is_no_utf8_keeps_the_result(store):
    period = store.open_period("job", 1, planned(1))
    assert store.record(period, 0, won("blue", note="caf\udce9 is missing"))
    assert store.read("SELECT note FROM matches")[0][0] == r"caf\udce9 is missing"


@pytest.mark.parametrize("char", ["x", "é", "\x01"])
def test_every_stored_league_exports_a_file_that_imports(store, tmp_path, char):
    per_row = database.MAX_ENTRY_CHARS // 20 // len(json.dumps(char).strip('"')) - 200
    meta = json.dumps({"label": char * per_row})
    insert_entries(store.path, ((f"e{n}", meta) for n in range(19)))
    with Store(store.path) as full:
        league = full.league()
    league.save(tmp_path / "league.json")
    again = League.load(tmp_path / "league.json")
    assert {i: e.meta for i, e in again.entries.items()} == {i: e.meta for i, e in league.entries.items()}


def test_export_writes_nothing_that_import_refuses(store, tmp_path, monkeypatch):
    path = tmp_path / "league.json"
    for bound, message in (
        ("MAX_FILE_BYTES", "as JSON, expected at most 9"),
        ("MAX_PARTS", "values, expected at most 9"),
    ):
        with monkeypatch.context() as patch, pytest.raises(ValueError, match=message):
            patch.setattr(f"echelon.arena.league.{bound}", 9)
            store.league().save(path)
    assert not path.exists()
    path.write_bytes(b'{"schema_version": 1, "entries": [' + b"[]," * 2_000_000 + b"[]]}")
    with pytest.raises(ValueError, match="cannot be read: it has 4000004 values"):
        League.load(path)
