"""Lists of matches, verdicts of pairs, and cycles of three."""

import random
from itertools import combinations, permutations

import pytest

from echelon.arena import standings
from echelon.arena.league import LeagueEntry
from echelon.arena.matchmaking import Fixture
from echelon.arena.store import Store

MATCHES = 210


@pytest.fixture
def store(tmp_path):
    """A league of five: entry a wins as blue, others draw; every hundredth match is void, the last ten are planned."""
    names = "abcde"
    pairs = [(one, other) for one in names for other in names if one != other]
    with Store(tmp_path / "league.db") as store:
        with store.editing() as league:
            for name in names:
                league.entries[name] = LeagueEntry(name, "", "candidate", meta={"label": name.upper()})
        store.open_period("run", 1, [Fixture(n, *pairs[n % len(pairs)], seed=n) for n in range(MATCHES)])
        with store.writing() as db:
            db.execute("UPDATE matches SET state = 'played', winner = 'draw', reason = 'time_up', seconds = 9")
            db.execute("UPDATE matches SET winner = 'blue' WHERE blue = 'a'")
            db.execute("UPDATE matches SET winner = NULL, state = 'void' WHERE number % 100 = 5")
            db.execute("UPDATE matches SET winner = NULL, state = 'planned' WHERE number >= ?", (MATCHES - 10,))
            db.execute("UPDATE matches SET replay = 'x.ecr' WHERE number = 7")
        yield store


def test_matches_are_newest_first_for_an_entry_or_with_a_replay(store):
    def numbers(**choice):
        return [row["number"] for row in standings.matches(store, **choice)]

    assert numbers() == list(range(MATCHES - 11, -1, -1)) and numbers(limit=3) == numbers()[:3]
    rows = standings.matches(store)
    assert numbers(entry="b", limit=20) == [row["number"] for row in rows if "b" in (row["blue"], row["red"])][:20]
    assert numbers(recorded=True) == [7] and rows[0]["blue_name"] == rows[0]["blue"].upper()


def test_pairs_have_verdicts_and_cycles(store):
    found = standings.head_to_head(store)
    pairs = {(p["id"], p["against"]): p for p in found["pairs"]}
    assert [entry["name"] for entry in found["entries"]] == list("ABCDE") and len(pairs) == 20
    assert pairs["b", "c"]["verdict"] == pairs["c", "b"]["verdict"] == ""  # all drawn
    assert pairs["b", "c"]["draws"] >= 18 and pairs["b", "c"]["low"] < 0.5
    assert pairs["a", "b"]["wins"] == pairs["b", "a"]["losses"] >= 8
    assert all(p["score"] + pairs[against, one]["score"] == pytest.approx(1.0) for (one, against), p in pairs.items())
    assert found["cycles"] == []
    with store.writing() as db:
        for one, other in ("bc", "cd", "db"):
            db.execute("UPDATE matches SET winner = 'blue' WHERE blue = ? AND red = ?", (one, other))
            db.execute("UPDATE matches SET winner = 'red' WHERE blue = ? AND red = ?", (other, one))
    after = standings.head_to_head(store)
    verdicts = {(p["id"], p["against"]): p["verdict"] for p in after["pairs"]}
    assert (verdicts["b", "c"], verdicts["c", "b"], verdicts["d", "b"]) == ("won", "lost", "won")
    assert [sorted(ring) for ring in after["cycles"]] == [["B", "C", "D"]]
    best = standings.head_to_head(store, best=2)
    assert [entry["id"] for entry in best["entries"]] == ["a", "b"] and best["left_out"] == 3
    assert {(p["id"], p["against"]) for p in best["pairs"]} == {("a", "b"), ("b", "a")}


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
