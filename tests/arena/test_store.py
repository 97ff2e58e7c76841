"""The league on disk: transactions, concurrent processes, crashes, full and locked files."""

import contextlib
import json
import os
import signal
import sqlite3
import struct
import subprocess
import sys
import time

import pytest

from echelon.arena import database
from echelon.arena.database import MAX_ROWS
from echelon.arena.league import Glicko2Rating, LeagueEntry
from echelon.arena.matchmaking import Fixture
from echelon.arena.store import MatchRecord, Store, StoreError, league_path

NAMES = ("a", "b", "c")


def won(winner="blue", **more):
    return MatchRecord(winner=winner, reason="elimination", **more)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "league.db") as opened:
        with opened.editing() as league:
            for name in NAMES:
                league.entries[name] = LeagueEntry(name, f"{name}.pt", "candidate", meta={"label": name.upper()})
        yield opened


def planned(count=6, first=0):
    pairs = [(x, y) for x in NAMES for y in NAMES if x != y]
    return [Fixture(n, *pairs[n % len(pairs)], seed=first + n) for n in range(count)]


def play_out(store, job="job", number=1, winner="blue", **how):
    period = store.open_period(job, number, planned())
    for fixture in store.unplayed(period):
        store.record(period, fixture.number, won(winner))
    return period, store.close_period(period, **how)


def test_league_path_is_in_runs_home(tmp_path, monkeypatch):
    monkeypatch.setenv("ECHELON_HOME", str(tmp_path / "it's öde\nhere"))
    path = league_path()
    assert path == tmp_path / "it's öde\nhere" / "league.db"
    with Store(path) as opened:
        assert opened.league().entries == {} and opened.periods() == []


def test_entries_round_trip(store):
    with store.editing() as league:
        one = league.entries["a"]
        one.kind, one.commander_name, one.rating, one.games = "commander", "Ashen Gale #0001", Glicko2Rating(1, 2, 3), 7
        league.env_signature = {"obs_dim": 867}
    again = store.league()
    assert again.entries["a"] == one and list(again.entries) == list(NAMES)
    assert again.env_signature == {"obs_dim": 867}
    with store.editing() as league:
        del league.entries["c"]
    assert list(store.league().entries) == ["a", "b"]


def test_close_period_rates_all_entries(store):
    period = store.open_period("job", 1, planned())
    assert len(store.unplayed(period)) == 6 and not period.closed
    for fixture in store.unplayed(period):
        winner = "blue" if fixture.blue == "a" else "red" if fixture.red == "a" else "draw"
        assert store.record(period, fixture.number, won(winner))
    assert {e.rating for e in store.league().entries.values()} == {Glicko2Rating()}
    closed = store.close_period(period)
    assert closed.rated == 6 and not closed.promoted
    ratings = {i: e.rating.rating for i, e in store.league().entries.items()}
    assert ratings["a"] > 1600 and ratings["b"] == ratings["c"] < 1500
    assert {e.games for e in store.league().entries.values()} == {4}
    assert store.periods("job")[0].closed and store.unplayed(period) == []


def test_record_ignores_duplicate_results(store):
    period = store.open_period("job", 1, planned())
    assert store.record(period, 0, won("blue", styles=({"shots": 2.0}, {"shots": 5.0})))
    assert not store.record(period, 0, won("red", styles=({"shots": 2.0}, {"shots": 5.0})))
    assert not store.record(period, 99, won())
    assert store.read("SELECT winner FROM matches WHERE number = 0")[0][0] == "blue"
    assert store.read("SELECT entry, value FROM styles ORDER BY entry")[0]["value"] == 2.0
    assert store.open_period("job", 1, planned(50)) == period and len(store.unplayed(period)) == 5


def test_close_period_requires_all_matches_and_runs_once(store):
    period = store.open_period("job", 1, planned())
    with pytest.raises(ValueError, match="has 6 unplayed matches"):
        store.close_period(period)
    for fixture in store.unplayed(period):
        store.record(period, fixture.number, won())
    store.close_period(period)
    before = store.league().as_dict()
    with pytest.raises(ValueError, match="is already rated"):
        store.close_period(period)
    assert store.league().as_dict() == before


def test_void_match_is_not_rated(store):
    period = store.open_period("job", 1, planned(2))
    store.record(period, 0, MatchRecord(winner="", reason="void", note="its checkpoint is gone"))
    store.record(period, 1, won())
    assert store.close_period(period).rated == 1
    row = store.read("SELECT state, note FROM matches WHERE number = 0")[0]
    assert tuple(row) == ("void", "its checkpoint is gone")
    with pytest.raises(ValueError, match="winner is 'nobody'"):
        store.record(period, 1, won("nobody"))


def test_close_period_promotes_and_retires(store):
    period = store.open_period("job", 1, planned())
    for fixture in store.unplayed(period):
        store.record(period, fixture.number, won("blue" if fixture.blue < fixture.red else "red"))
    closed = store.close_period(period, promote_top=3, keep_top=1, min_games=1)
    assert set(closed.promoted) == set(NAMES) and set(closed.retired) == {"b", "c"}
    kinds = {i: e.kind for i, e in store.league().entries.items()}
    assert kinds == {"a": "commander", "b": "retired", "c": "retired"}


@pytest.mark.parametrize(("conservatism", "rises"), [(None, False), (2.0, False), (0.0, True)])
def test_close_period_promotion_uses_conservatism(store, conservatism, rises):
    with store.editing() as league:
        league.entries["king"] = LeagueEntry("king", "", "commander", rating=Glicko2Rating(1500, 30))
        league.entries["a"].rating = Glicko2Rating(1520, 150)
    period = store.open_period("job", 1, [Fixture(0, "a", "b", seed=1)])
    store.record(period, 0, won("draw"))
    closed = store.close_period(period, promote_top=1, conservatism=conservatism)
    assert closed.after["a"].rating > 1500 and closed.promoted == ["a"] * rises


@pytest.mark.parametrize(("conservatism", "gone"), [(None, "a"), (2.0, "a"), (0.0, "king")])
def test_close_period_retirement_uses_conservatism(store, conservatism, gone):
    with store.editing() as league:
        league.entries["king"] = LeagueEntry("king", "", "commander", rating=Glicko2Rating(1500, 30))
        league.entries["a"].kind, league.entries["a"].rating = "commander", Glicko2Rating(1520, 150)
    period = store.open_period("job", 1, [Fixture(0, "a", "b", seed=1)])
    store.record(period, 0, won("draw"))
    assert store.close_period(period, keep_top=1, conservatism=conservatism).retired == [gone]


def test_recompute_reproduces_ratings(store):
    for number, winner in enumerate(("blue", "red", "draw", "blue"), 1):
        play_out(store, number=number, winner=winner, age_idle=number == 2)
    with store.editing() as league:
        league.entries["late"] = LeagueEntry("late", "", "candidate", rating=Glicko2Rating(1700, 80), games=3)
    play_out(store, "other", age_idle=True)
    before = store.league().as_dict()
    assert store.recompute() == {} and store.league().as_dict() == before
    with store.writing() as db:
        db.execute("UPDATE entries SET rating = 9000 WHERE id = 'a'")
    assert set(store.recompute()) == {"a"} and store.league().as_dict() == before


def test_failed_transaction_rolls_back(store):
    before = store.league().as_dict()
    with pytest.raises(RuntimeError), store.editing() as league:
        league.entries["a"].kind = "commander"
        league.entries["z"] = LeagueEntry("z", "", "candidate")
        raise RuntimeError
    assert store.league().as_dict() == before


WRITER = """
import sys
from pathlib import Path
from echelon.arena.matchmaking import Fixture
from echelon.arena.store import MatchRecord, Store
path, job, done = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
with Store(path) as store:
    for number in range(1, 10_000):
        period = store.open_period(job, number, [Fixture(n, "a", "b", n) for n in range(4)])
        for fixture in store.unplayed(period):
            winner = ("blue", "red", "draw")[(number + fixture.number) % 3]
            if store.record(period, fixture.number, MatchRecord(winner=winner, reason="time_up")):
                with open(done, "a") as file:
                    file.write(f"{period.id} {fixture.number} {winner}\\n")
        if not period.closed:
            store.close_period(period)
"""


@pytest.mark.long
def test_concurrent_writers_survive_sigkill(tmp_path, repository):
    path = tmp_path / "league.db"
    with Store(path) as store, store.editing() as league:
        for name in "ab":
            league.entries[name] = LeagueEntry(name, "", "candidate")
    environment = {**os.environ, "PYTHONPATH": str(repository)}

    def begin(job):
        log = tmp_path / f"{job}.txt"
        return subprocess.Popen([sys.executable, "-c", WRITER, str(path), job, str(log)], env=environment)

    jobs = [f"job{i}" for i in range(4)]
    try:
        workers = {job: begin(job) for job in jobs}
        for strike in range(4):
            logs = [tmp_path / f"{job}.txt" for job in jobs]
            min_lines = (strike + 1) * 5
            deadline = time.monotonic() + 60
            while not all(log.exists() and len(log.read_text().splitlines()) >= min_lines for log in logs):
                assert time.monotonic() < deadline, "writers make no progress"
                assert all(worker.poll() is None for worker in workers.values())
                time.sleep(0.02)
            doomed = jobs[strike]
            workers[doomed].send_signal(signal.SIGKILL)
            workers[doomed].wait()
            workers[doomed] = begin(doomed)
    finally:
        for worker in workers.values():
            worker.kill()
            worker.wait()
    with Store(path) as store:
        assert store.read("PRAGMA integrity_check")[0][0] == "ok"
        for job in jobs:
            for line in (tmp_path / f"{job}.txt").read_text().splitlines():
                if len(line.split()) == 3:
                    period, number, winner = line.split()
                    got = store.read("SELECT winner FROM matches WHERE period = ? AND number = ?", (period, number))
                    assert got[0][0] == winner, f"{job} lost {line}"
        closed = [p for p in store.periods() if p.closed]
        assert len(closed) > 8 and len({p.job for p in closed}) == 4
        assert {e.games for e in store.league().entries.values()} == {4 * len(closed)}
        before = store.league().as_dict()
        assert store.recompute() == {} and store.league().as_dict() == before


def test_locked_league_raises_store_error(tmp_path):
    path = tmp_path / "league.db"
    Store(path).close()
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    try:
        with Store(path, busy_s=0.05) as store:
            with pytest.raises(StoreError, match="locked; another process"), store.editing():
                pass
            assert store.league().entries == {}, "reading goes on"
    finally:
        blocker.close()


def test_full_disk_raises_store_error_and_keeps_data(store):
    play_out(store)
    before = store.league().as_dict()
    pages = store.read("PRAGMA page_count")[0][0]
    store.read(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreError, match="full; free disk space"):
        store.open_period("big", 1, planned(5000))
    assert store.league().as_dict() == before and store.periods("big") == []
    store.read(f"PRAGMA max_page_count = {pages + 1000}")
    assert len(store.unplayed(store.open_period("big", 1, planned(5000)))) == 5000


def test_open_invalid_file_raises_store_error(tmp_path):
    path = tmp_path / "league.db"
    path.write_bytes(b"this is no database, but long enough to look like a file" * 50)
    with pytest.raises(StoreError, match="not a database; move it away"):
        Store(path)
    with pytest.raises(StoreError, match="does not exist; create one with"):
        Store(tmp_path / "none.db", create=False)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="cannot be opened"):
        Store(tmp_path / "file" / "league.db")


def test_open_other_schema_version_raises_store_error(tmp_path):
    path = tmp_path / "league.db"
    with Store(path) as store:
        store.read("PRAGMA user_version = 7")
    with pytest.raises(StoreError, match="schema version 7, expected 1"):
        Store(path)


def test_init_setting_keeps_first_value(store):
    assert store.setting("env") is None
    assert store.init_setting("env", {"size": 60}) == {"size": 60}
    assert store.init_setting("env", {"size": 99}) == {"size": 60}
    assert json.dumps(store.setting("env")) == '{"size": 60}'


def insert_entries(path, rows):
    columns = (
        "id, ckpt_path, kind, created_at, rating, rd, vol, games, first_rating, first_rd, first_vol, first_games, meta"
    )
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        db.executemany(
            f"INSERT INTO entries ({columns}) VALUES (?, '', 'candidate', '', 1, 1, 1, 0, 1, 1, 1, 0, ?)", rows
        )


@pytest.mark.parametrize("read_only", [True, False])
def test_league_of_too_many_entries_is_refused_before_they_are_read(store, monkeypatch, read_only):
    insert_entries(store.path, ((f"e{n}", "{}") for n in range(MAX_ROWS["entries"] - len(NAMES))))
    Store(store.path).close()
    monkeypatch.setattr(Store, "league", lambda self: pytest.fail("entries were read"))
    insert_entries(store.path, [("one more", "{}")])
    with pytest.raises(StoreError, match="has more than 20000 rows of 'entries', expected at most that"):
        Store(store.path, read_only=read_only)


def test_rows_of_a_league_are_counted_only_where_their_numbers_allow_too_many(store, monkeypatch):
    monkeypatch.setitem(database.MAX_ROWS, "entries", 4)
    with contextlib.closing(sqlite3.connect(store.path)) as db, db:
        db.execute("UPDATE entries SET rowid = -9223372036854775807 WHERE id = 'a'")
        db.execute("UPDATE entries SET rowid = 9223372036854775807 WHERE id = 'c'")
    Store(store.path).close()
    insert_entries(store.path, [("d", "{}")])
    Store(store.path).close()
    insert_entries(store.path, [("e", "{}")])
    with pytest.raises(StoreError, match="more than 4 rows"):
        Store(store.path)


def test_league_of_too_much_text_is_refused(store):
    insert_entries(store.path, ((f"e{n}", '{"a":"' + "x" * 1_000_000 + '"}') for n in range(13)))
    with pytest.raises(StoreError, match="characters of entries, expected at most"):
        Store(store.path)


def test_editing_adds_no_more_entries_than_can_be_read(store, monkeypatch):
    monkeypatch.setitem(database.MAX_ROWS, "entries", 3)
    with pytest.raises(StoreError, match="would have 4 entries, at most 3 fit"), store.editing() as league:
        league.add_scripted("easy")
    assert sorted(store.league().entries) == list(NAMES)
    Store(store.path).close()


def test_values_of_rows_below_zero_are_checked(store):
    play_out(store)
    with contextlib.closing(sqlite3.connect(store.path)) as db, db:
        db.execute("UPDATE matches SET id = -7, seed = 'text' WHERE number = 2")
    database._CHECKED.clear()
    with pytest.raises(StoreError, match="a value in table 'matches' is of a wrong type"):
        Store(store.path)


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("companion", ["", *database.COMPANIONS])
def test_league_with_a_pipe_in_place_of_a_file_is_refused(tmp_path, companion, read_only):
    path = tmp_path / "league.db"
    if companion:
        Store(path).close()
    os.mkfifo(f"{path}{companion}")
    with pytest.raises(StoreError, match=r"is no regular file; delete it|does not exist"):
        Store(path, read_only=read_only)


def write_journal(path, super_journal=None):
    """Write a hot rollback journal of no pages beside a database; ``super_journal`` is the file that it names."""
    with open(path, "rb") as file:
        page = int.from_bytes(file.read(18)[16:18], "big")
    magic = bytes.fromhex("d9d505f920a163d7")
    header = magic + struct.pack(">IIIII", 0, 1, path.stat().st_size // page, 512, page)
    name = b"" if super_journal is None else os.fsencode(super_journal)
    named = struct.pack(">I", (1 << 30) // page + 1) + name + struct.pack(">II", len(name), sum(name)) + magic
    path.with_name(f"{path.name}-journal").write_bytes(header.ljust(512, b"\0") + (named if name else b""))


@pytest.mark.parametrize("read_only", [True, False])
def test_journal_that_names_a_file_to_delete_is_refused(tmp_path, read_only):
    path, victim = tmp_path / "league.db", tmp_path / "victim"
    Store(path).close()
    victim.write_text("mine")
    write_journal(path, victim)
    with pytest.raises(StoreError, match="journal that makes SQLite delete another file"):
        Store(path, read_only=read_only)
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("content", [b"", bytes(600), None])
def test_journal_of_an_own_crash_is_rolled_back(tmp_path, content):
    path = tmp_path / "league.db"
    Store(path).close()
    write_journal(path)
    if content is not None:
        path.with_name("league.db-journal").write_bytes(content)
    with Store(path) as store:
        assert store.league().entries == {}


@pytest.mark.parametrize("version", [0, 1])
def test_database_of_another_program_is_not_changed(tmp_path, version):
    path = tmp_path / "other.db"
    with contextlib.closing(sqlite3.connect(path)) as db:
        db.executescript(f"CREATE TABLE bookmarks (title TEXT); PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="is a database of another program, expected a league"):
        Store(path)
    assert path.read_bytes() == before
