"""The league as the server tells it: standings, rounds and matches with links to their replays, and nothing private."""

from __future__ import annotations

import os
import stat

import pytest

from echelon.arena.database import StoreError
from echelon.arena.league import LeagueEntry
from echelon.arena.matchmaking import Fixture
from echelon.arena.store import Played, Store, league_path
from tests.server.conftest import MATCH, NAME, RUN
from tests.server.test_api import get_json

NAMES = ("a", "b")


@pytest.fixture
def league(home):
    """A league of two with three matches, of which one can be watched, and a round under way."""
    with Store(league_path(home)) as store:
        with store.editing() as league:
            for name in NAMES:
                league.entries[name] = LeagueEntry(
                    name, f"/secret/{name}.pt", "candidate", meta={"label": name.upper()}
                )
        period = store.open_period(RUN, 1, [Fixture(n, *NAMES, seed=n) for n in range(3)])
        for number in range(3):
            store.record(period, number, Played(winner="blue", reason="elimination", score=(3.0, 1.0)))
        store.note_replay(period, 0, f"replays/{NAME}")
        store.note_replay(period, 1, "replays/gone.ecr")
        store.close_period(period)
        store.open_period(RUN, 2, [Fixture(0, *NAMES, seed=9)])
    return league_path(home)


def test_standings_matches_and_rounds_are_told(ask, league):
    status, found = get_json(ask, "/api/v1/league")
    assert status == 200 and found["total"] == 3
    assert [(row["id"], row["name"], row["wins"]) for row in found["standings"]] == [("a", "A", 3), ("b", "B", 0)]
    assert found["standings"][0]["rating"] > found["standings"][1]["rating"]
    assert found["unfinished"] == [{"job": RUN, "round": 2, "matches": 1, "played": 0}]
    newest = found["matches"][0]
    assert (newest["number"], newest["blue_name"], newest["winner"]) == (2, "A", "blue")


def test_a_match_links_to_its_replay_only_where_it_can_be_watched(ask, league):
    _, found = get_json(ask, "/api/v1/league")
    assert {row["number"]: row["match"] for row in found["matches"]} == {0: MATCH, 1: "", 2: ""}
    assert get_json(ask, f"/api/v1/matches/{MATCH}")[0] == 200


def test_matches_of_the_league_are_chosen_and_paged(ask, league):
    assert [m["number"] for m in get_json(ask, "/api/v1/league?limit=1&offset=1")[1]["matches"]] == [1]
    assert get_json(ask, "/api/v1/league?limit=0")[1]["matches"] == []
    assert get_json(ask, "/api/v1/league?entry=nobody'--")[1]["total"] == 0
    assert get_json(ask, "/api/v1/league?entry=b")[1]["total"] == 3


def test_no_path_of_this_machine_is_told(ask, league):
    async def work(client):
        return await (await client.get("/api/v1/league")).text()

    text = ask(work)
    assert "secret" not in text and str(league.parent) not in text


def test_without_a_league_there_is_none_and_nothing_is_made(ask, home):
    status, problem = get_json(ask, "/api/v1/league")
    assert status == 404 and problem["status"] == 404 and not league_path(home).exists()


def test_a_broken_league_is_a_problem_without_a_path(ask, home):
    league_path(home).write_bytes(b"no database at all, and long enough to be one" * 100)
    status, problem = get_json(ask, "/api/v1/league")
    assert status == 422 and problem["title"] == "Unreadable league" and str(home) not in problem["detail"]


def test_looking_leaves_the_league_as_it_is(league):
    before = league.read_bytes()
    with Store(league, read_only=True) as store, pytest.raises(StoreError, match="for reading only"):
        store.fix_setting("x", 1)
    assert league.read_bytes() == before
    with pytest.raises(StoreError, match="does not exist"):
        Store(league.with_name("none.db"), read_only=True)
    assert not league.with_name("none.db").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_league_that_may_only_be_read_is_read(ask, league):
    league.chmod(stat.S_IRUSR)
    assert get_json(ask, "/api/v1/league")[0] == 200
