"""League routes: standings, rounds, pages of matches, head-to-head results, and no private data."""

from __future__ import annotations

import os
import random
import re
import stat
import threading
from itertools import combinations, permutations

import pytest

from echelon.arena import standings
from echelon.arena.database import StoreError
from echelon.arena.league import LeagueEntry
from echelon.arena.matchmaking import Fixture
from echelon.arena.store import MatchRecord, Store, league_path
from echelon.replay.typescript import SHAPES
from echelon.server import league as league_routes
from echelon.server.responses import MAX_PAGE
from tests.server.conftest import MATCH, NAME, RUN
from tests.server.test_api import get_json

NAMES = ("a", "b")


@pytest.fixture
def league(home):
    """A league of two entries with three matches, one with a replay, and an unfinished round."""
    with Store(league_path(home)) as store:
        with store.editing() as league:
            for name in NAMES:
                league.entries[name] = LeagueEntry(
                    name, f"/secret/{name}.pt", "candidate", meta={"label": name.upper()}
                )
        period = store.open_period(RUN, 1, [Fixture(n, *NAMES, seed=n) for n in range(3)])
        for number in range(3):
            store.record(period, number, MatchRecord(winner="blue", reason="elimination", score=(3.0, 1.0)))
        store.set_replay(period, 0, f"replays/{NAME}")
        store.set_replay(period, 1, "replays/gone.ecr")
        store.close_period(period)
        store.open_period(RUN, 2, [Fixture(0, *NAMES, seed=9)])
    return league_path(home)


def test_league_returns_standings_matches_and_rounds(ask, league):
    status, found = get_json(ask, "/api/v1/league")
    assert status == 200 and found["total"] == 3
    assert [(row["id"], row["name"], row["wins"]) for row in found["standings"]] == [("a", "A", 3), ("b", "B", 0)]
    assert found["standings"][0]["rating"] > found["standings"][1]["rating"]
    assert found["unfinished"] == [{"job": RUN, "round": 2, "matches": 1, "played": 0}]
    newest = found["matches"][0]
    assert (newest["number"], newest["blue_name"], newest["winner"]) == (2, "A", "blue")


def test_league_lists_the_strongest_entries(ask, league, monkeypatch):
    monkeypatch.setattr(league_routes, "LISTED_ENTRIES", 1)
    _, found = get_json(ask, "/api/v1/league")
    assert [row["id"] for row in found["standings"]] == ["a"]


def test_league_match_links_only_to_existing_replay(ask, league):
    _, found = get_json(ask, "/api/v1/league")
    assert {row["number"]: row["match"] for row in found["matches"]} == {0: MATCH, 1: "", 2: ""}
    assert get_json(ask, f"/api/v1/matches/{MATCH}")[0] == 200


def test_league_filters_and_pages_matches(ask, league):
    assert [m["number"] for m in get_json(ask, "/api/v1/league?limit=1&offset=1")[1]["matches"]] == [1]
    assert get_json(ask, "/api/v1/league?limit=0")[1]["matches"] == []
    assert get_json(ask, "/api/v1/league?entry=nobody'--")[1]["total"] == 0
    assert get_json(ask, "/api/v1/league?entry=b")[1]["total"] == 3


@pytest.mark.parametrize("what", ["", "/matches", "/pairs"])
def test_league_responses_contain_no_local_paths(ask, league, what):
    async def work(client):
        return await (await client.get(f"/api/v1/league{what}")).text()

    text = ask(work)
    assert "secret" not in text and str(league.parent) not in text


def all_pages(ask, choice, limit=200):
    """Return all matches of a filter, page by page, and the number of pages."""
    found, before, pages = [], "", 0
    while True:
        status, page = get_json(ask, f"/api/v1/league/matches?limit={limit}&{choice}{before}")
        assert status == 200 and len(page["matches"]) <= limit
        found, pages = found + page["matches"], pages + 1
        if len(found) >= page["total"]:
            return found, pages
        assert page["matches"], "a page is empty before the last match"
        before = f"&before={page['matches'][-1]['id']}"


@pytest.fixture
def long_league(home):
    """A league of five with 1,050 matches: entry a wins as blue, other matches are drawn or void by number."""
    names = "abcde"
    pairs = [(one, other) for one in names for other in names if one != other]
    with Store(league_path(home)) as store:
        with store.editing() as league:
            for name in names:
                league.entries[name] = LeagueEntry(name, "", "candidate", meta={"label": name.upper()})
        period = store.open_period(RUN, 1, [Fixture(n, *pairs[n % len(pairs)], seed=n) for n in range(1050)])
        with store.writing() as db:
            db.execute("UPDATE matches SET state = 'played', winner = 'draw', reason = 'time_up', seconds = 9")
            db.execute("UPDATE matches SET winner = 'blue' WHERE blue = 'a'")
            db.execute("UPDATE matches SET winner = NULL, state = 'void' WHERE number % 100 = 5")
            db.execute("UPDATE matches SET winner = NULL, state = 'planned' WHERE number >= 1040")
    return period


def test_league_pages_return_every_match_once(ask, long_league):
    found, pages = all_pages(ask, "")
    assert [row["number"] for row in found] == list(range(1039, -1, -1)) and pages == 6


def test_league_pages_apply_filters(ask, long_league):
    def rows(choice, limit=7):
        return [(row["blue"], row["red"], row["winner"], row["number"]) for row in all_pages(ask, choice, limit)[0]]

    everything = rows("", 200)
    assert rows("entry=b") == [row for row in everything if "b" in row[:2]]
    assert rows("entry=b&against=a") == rows("entry=a&against=b") == [r for r in everything if {*r[:2]} == {"a", "b"}]
    assert rows("entry=a&outcome=won") == [row for row in everything if row[0] == "a" and row[2]]
    lost = [row for row in everything if row[0] == "a" and row[1] == "c" and row[2]]
    assert lost and rows("entry=c&outcome=lost&against=a") == lost and rows("entry=c&outcome=won") == []
    assert rows("outcome=void") == [row for row in everything if row[2] is None] != []
    assert rows("outcome=draw") == [row for row in everything if row[2] == "draw"] != []
    assert rows("entry=b&outcome=draw") == [row for row in everything if row[2] == "draw" and "b" in row[:2]]


def test_new_match_does_not_shift_league_pages(ask, long_league, home):
    _, first = get_json(ask, "/api/v1/league/matches?limit=10")
    with Store(league_path(home)) as store:
        store.record(long_league, 1049, MatchRecord(winner="red", reason="elimination"))
    last = first["matches"][-1]["id"]
    _, second = get_json(ask, f"/api/v1/league/matches?limit=10&before={last}")
    assert [row["number"] for row in second["matches"]] == list(range(1029, 1019, -1)) and second["total"] == 1041


def test_league_page_size_is_bounded_and_unknown_outcome_rejected(ask, long_league):
    assert len(get_json(ask, "/api/v1/league/matches?limit=999999")[1]["matches"]) == MAX_PAGE
    for query in ("outcome=won", "outcome=%27--", "entry=a&outcome=blue"):
        status, problem = get_json(ask, f"/api/v1/league/matches?{query}")
        assert status == 400 and problem["title"] == "Unknown outcome"


@pytest.mark.parametrize(
    "choice",
    [{}, {"entry": "a"}, {"entry": "a", "against": "b"}, {"entry": "a", "outcome": "draw"}, {"outcome": "void"}],
    ids=str,
)
def test_league_page_query_uses_index(long_league, home, choice):
    with Store(league_path(home), read_only=True) as store:
        query, values = standings.match_page_query(before=500, limit=50, **choice)
        plan = [row["detail"] for row in store.read(f"EXPLAIN QUERY PLAN {query}", values)]
        assert [step for step in plan if step.startswith("SCAN matches")] == []
        searches = [step for step in plan if step.startswith("SEARCH matches") and "rowid<?" in step]
        assert len(searches) == (2 if "entry" in choice else 1), plan
        assert all("matches_" in step for step in searches) == ("entry" in choice)
        sorted_at = [at for at, step in enumerate(plan) if "TEMP B-TREE" in step]
        assert sorted_at == [len(plan) - 1], plan  # only the rows of the page are sorted


def test_pairs_return_head_to_head_verdicts_and_cycles(ask, home, long_league):
    _, found = get_json(ask, "/api/v1/league/pairs")
    pairs = {(p["id"], p["against"]): p for p in found["pairs"]}
    assert [entry["name"] for entry in found["entries"]] == list("ABCDE") and len(pairs) == 20
    assert pairs["b", "c"]["verdict"] == pairs["c", "b"]["verdict"] == ""  # all drawn
    assert pairs["b", "c"]["draws"] > 90 and pairs["b", "c"]["high"] < 0.5
    assert pairs["a", "b"]["wins"] == pairs["b", "a"]["losses"] > 40
    assert found["cycles"] == []
    with Store(league_path(home)) as store, store.writing() as db:
        for one, other in ("bc", "cd", "db"):
            db.execute("UPDATE matches SET winner = 'blue' WHERE blue = ? AND red = ?", (one, other))
            db.execute("UPDATE matches SET winner = 'red' WHERE blue = ? AND red = ?", (other, one))
    _, after = get_json(ask, "/api/v1/league/pairs")
    pairs = {(p["id"], p["against"]): p["verdict"] for p in after["pairs"]}
    assert (pairs["b", "c"], pairs["c", "b"], pairs["d", "b"]) == ("won", "lost", "won")
    assert [sorted(ring) for ring in after["cycles"]] == [["B", "C", "D"]]


def test_viewer_types_cover_league_fields(ask, long_league):
    def fields(name):
        body = re.search(rf"interface {name} {{([^{{}}]*(?:{{[^{{}}]*}}[^{{}}]*)*)}}", SHAPES)
        assert body, f"the viewer has no {name}"
        return set(re.findall(r"(\w+): ", re.sub(r"{.*?}", "", body[1])))

    _, view = get_json(ask, "/api/v1/league")
    _, page = get_json(ask, "/api/v1/league/matches")
    _, pairs = get_json(ask, "/api/v1/league/pairs")
    assert fields("LeagueView") == view.keys()
    assert fields("Standing") == view["standings"][0].keys()
    assert fields("LeagueMatchPage") == page.keys()
    assert fields("LeagueMatch") == page["matches"][0].keys()
    assert fields("PairsView") == pairs.keys()
    assert fields("Pair") == pairs["pairs"][0].keys()


def test_missing_league_returns_404_and_creates_nothing(ask, home):
    status, problem = get_json(ask, "/api/v1/league")
    assert status == 404 and problem["status"] == 404 and not league_path(home).exists()


def test_damaged_league_returns_422_without_path(ask, home):
    league_path(home).write_bytes(b"no database at all, and long enough to be one" * 100)
    status, problem = get_json(ask, "/api/v1/league")
    assert status == 422 and problem["title"] == "Unreadable league" and str(home) not in problem["detail"]


def test_read_only_store_leaves_league_unchanged(league):
    before = league.read_bytes()
    with Store(league, read_only=True) as store, pytest.raises(StoreError, match="for reading only"):
        store.init_setting("x", 1)
    assert league.read_bytes() == before
    with pytest.raises(StoreError, match="does not exist"):
        Store(league.with_name("none.db"), read_only=True)
    assert not league.with_name("none.db").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_league_file_is_served(ask, league):
    league.chmod(stat.S_IRUSR)
    assert get_json(ask, "/api/v1/league")[0] == 200


def test_pairs_are_those_of_the_strongest_entries_and_all_are_counted(ask, long_league, monkeypatch):
    _, everything = get_json(ask, "/api/v1/league/pairs")
    monkeypatch.setattr(league_routes, "PAIR_ENTRIES", 3)
    _, found = get_json(ask, "/api/v1/league/pairs")
    ids = {entry["id"] for entry in found["entries"]}
    assert found["total"] == everything["total"] == 5 and found["entries"] == everything["entries"][:3]
    assert found["pairs"] == [p for p in everything["pairs"] if {p["id"], p["against"]} <= ids] and len(ids) == 3


def test_cycles_are_those_of_plain_python_and_bounded():
    draw = random.Random(1)
    order = [f"e{n}" for n in range(24)]
    beats = {(a, b) if draw.random() < 0.5 else (b, a) for a, b in combinations(order, 2) if draw.random() < 0.8}
    rank = order.index
    plain = [
        (a, b, c)
        for a, b, c in permutations(order, 3)
        if rank(a) < min(rank(b), rank(c)) and {(a, b), (b, c), (c, a)} <= beats
    ]
    assert list(standings._cycles(order, beats)) == plain and len(plain) > 100
    ring = [f"r{n}" for n in range(2000)]
    many = {(a, b) for a, b in zip(ring, ring[1:] + ring[:1], strict=True)}
    assert list(standings._cycles(ring, many)) == []


@pytest.mark.parametrize("what", ["", "/matches", "/pairs"])
def test_league_json_is_made_beside_the_event_loop(ask, long_league, monkeypatch, what):
    made = []
    original = league_routes.strict_json
    monkeypatch.setattr(
        league_routes, "strict_json", lambda value: made.append(threading.current_thread().name) or original(value)
    )
    assert get_json(ask, f"/api/v1/league{what}")[0] == 200
    assert len(made) == 1 and made[0].startswith("server-"), "on the pool of what takes seconds"
