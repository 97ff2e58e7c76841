"""The league route: standings and rounds, and no private data."""

import os
import re
import stat
import threading

import pytest

from echelon.arena.database import StoreError
from echelon.arena.league import LeagueEntry
from echelon.arena.matchmaking import Fixture
from echelon.arena.store import MatchRecord, Store, league_path
from echelon.server import routes
from tests.replay.typescript import SHAPES
from tests.server.conftest import RUN, get_json

NAMES = ("a", "b")


@pytest.fixture
def league(home):
    """A league of two entries with three matches and an unfinished round."""
    with Store(league_path(home)) as store:
        with store.editing() as league:
            for name in NAMES:
                league.entries[name] = LeagueEntry(
                    name, f"/secret/{name}.pt", "candidate", meta={"label": name.upper()}
                )
        period = store.open_period(RUN, 1, [Fixture(n, *NAMES, seed=n) for n in range(3)])
        for number in range(3):
            store.record(period, number, MatchRecord(winner="blue", reason="elimination", score=(3.0, 1.0)))
        store.close_period(period)
        store.open_period(RUN, 2, [Fixture(0, *NAMES, seed=9)])
    return league_path(home)


async def test_league_returns_standings_and_rounds(league, client):
    status, found = await get_json(client, "/api/v1/league")
    assert status == 200
    assert [(row["id"], row["name"], row["wins"]) for row in found["standings"]] == [("a", "A", 3), ("b", "B", 0)]
    assert found["standings"][0]["rating"] > found["standings"][1]["rating"]
    assert found["unfinished"] == [{"job": RUN, "round": 2, "matches": 1, "played": 0}]


async def test_league_lists_the_strongest_entries(league, monkeypatch, client):
    monkeypatch.setattr(routes, "LISTED_ENTRIES", 1)
    _, found = await get_json(client, "/api/v1/league")
    assert [row["id"] for row in found["standings"]] == ["a"]


async def test_league_responses_contain_no_local_paths(league, client):
    text = await (await client.get("/api/v1/league")).text()
    assert "secret" not in text and str(league.parent) not in text


async def test_viewer_types_cover_league_fields(league, client):
    def fields(name):
        body = re.search(rf"interface {name} {{([^{{}}]*)}}", SHAPES)
        assert body, f"the viewer has no {name}"
        return set(re.findall(r"(\w+): ", body[1]))

    _, view = await get_json(client, "/api/v1/league")
    assert fields("LeagueView") == view.keys()
    assert fields("Standing") == view["standings"][0].keys()
    assert fields("Round") == view["unfinished"][0].keys()


async def test_missing_league_returns_404_and_creates_nothing(home, client):
    status, problem = await get_json(client, "/api/v1/league")
    assert status == 404 and problem["status"] == 404 and not league_path(home).exists()


async def test_damaged_league_returns_422_without_path(home, client):
    league_path(home).write_bytes(b"no database at all, and long enough to be one" * 100)
    status, problem = await get_json(client, "/api/v1/league")
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
async def test_read_only_league_file_is_served(league, client):
    league.chmod(stat.S_IRUSR)
    assert (await get_json(client, "/api/v1/league"))[0] == 200


async def test_league_json_is_made_beside_the_event_loop(league, monkeypatch, client):
    made = []
    original = routes.strict_json
    monkeypatch.setattr(
        routes, "strict_json", lambda value: made.append(threading.current_thread().name) or original(value)
    )
    assert (await get_json(client, "/api/v1/league"))[0] == 200
    assert len(made) == 1 and made[0].startswith("server-"), "on the pool of what takes seconds"
