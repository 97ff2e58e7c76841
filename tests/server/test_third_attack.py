"""Small files and requests of a third attack: lists, memory of bodies, log, tags, cookies and overwritten files."""

from __future__ import annotations

import asyncio
import copy
import shutil
import threading

import pytest

from echelon.replay.reader import Replay
from echelon.replay.validate import Index
from echelon.server import catalogue, listing, routes
from echelon.server.catalogue import ReplayCatalogue
from echelon.server.responses import RESPONSE_CACHE, accepts, strict_json
from tests.replay import hostile
from tests.replay.hostile import INDEX_LAYOUTS, assemble
from tests.server.conftest import MATCH, NAME, RUN
from tests.server.test_connections import WAIT_S

SECONDS, MARKERS = 20_000, 40_000


def bomb(seed: int, seconds: int = SECONDS, markers: int = MARKERS) -> bytes:
    """Return a small match whose INDEX holds many seconds and markers."""
    parts = copy.deepcopy(hostile.bases()[0])
    parts.header["seed"] = seed
    parts.series = [[1] * INDEX_LAYOUTS["series"].width] * seconds
    parts.markers = [[40] + [1] * (INDEX_LAYOUTS["markers"].width - 1)] * markers
    return assemble(parts)


def test_list_decodes_no_series(home, monkeypatch):
    folder = home / RUN / "replays"
    (folder / "large.ecr").write_bytes(bomb(1))
    (folder / "small.ecr").write_bytes(bomb(2, 500, 500))
    monkeypatch.setattr(Index, "columns", lambda index: pytest.fail("decoded"))
    inflated = []
    original = Replay.payload
    monkeypatch.setattr(Replay, "payload", lambda replay, head: inflated.append(head.raw) or original(replay, head))
    found = {match.path.name: match.summary for match in ReplayCatalogue(home).matches()}
    assert found["small.ecr"]["complete"] and not found["large.ecr"]["complete"] and found["large.ecr"]["chunks"]
    assert max(inflated) < 2**16


def test_list_answers_while_the_first_scan_goes_on(ask, home, monkeypatch):
    monkeypatch.setattr(listing, "LIST_WAIT_S", 0.05)
    second = home / "20270101-000000-quickstart-later"
    shutil.copytree(home / RUN, second)
    entered, go = threading.Event(), threading.Event()
    original = ReplayCatalogue._load_run

    def slow(found, run):
        if run.id == RUN:
            entered.set()
            assert go.wait(WAIT_S)
        return original(found, run)

    monkeypatch.setattr(ReplayCatalogue, "_load_run", slow)

    async def work(client):
        try:
            first = await (await client.get("/api/v1/matches")).json()
            many = await asyncio.gather(*(client.get("/api/v1/matches") for _ in range(20)))
            paths = ("/api/v1/runs", f"/api/v1/worlds/{'0' * 64}")
            others = [(await client.get(path)).status for path in paths]
        finally:
            go.set()
        while (whole := await (await client.get("/api/v1/matches")).json()).get("scanning"):
            await asyncio.sleep(0.01)
        return first, {reply.status for reply in many}, others, whole["total"]

    first, many, others, total = ask(work)
    assert entered.is_set() and first["scanning"] and first["total"] < 2
    assert (many, others, total) == ({200}, [200, 404], 2)


def test_request_without_room_gets_503_and_others_go_on(ask):
    async def work(client):
        cache = client.app[RESPONSE_CACHE]
        cache.max_total, held = 0, cache.max_total
        full = await client.get(f"/api/v1/matches/{MATCH}/index")
        health = await client.get("/api/v1/healthz")
        cache.max_total = held
        again = await client.get(f"/api/v1/matches/{MATCH}/index")
        return full.status, full.headers["Retry-After"], health.status, again.status

    assert ask(work) == (503, "5", 200, 200)


def test_long_json_equals_short_json():
    for value in ([], {}, [1] * 200, {"a": [[1, 2]] * 9000, "b": {}}, ["x"] * 65, [float("nan")] * 65, (1, [2.5])):
        whole = eval(strict_json(value).decode().replace("null", "None"))  # noqa: S307
        expected = [None] * 65 if value == [float("nan")] * 65 or repr(value).startswith("[nan") else value
        assert whole == (list(expected) if isinstance(expected, tuple) else expected)
    assert strict_json({"a": bytes(1000)}) == b'{"a":"1000 bytes"}'


def test_header_is_made_beside_the_event_loop(ask, monkeypatch):
    made = []
    monkeypatch.setattr(
        routes, "strict_json", lambda value: made.append(threading.current_thread().name) or strict_json(value)
    )

    async def work(client):
        return (await (await client.get(f"/api/v1/matches/{MATCH}")).json())["summary"]["id"]

    assert ask(work) == MATCH and made and not any("Main" in name for name in made)


@pytest.mark.parametrize("replaced", [True, False], ids=["another inode", "same inode"])
def test_overwritten_match_is_served_after_the_next_scan(ask, home, monkeypatch, replaced):
    monkeypatch.setattr(catalogue, "SCAN_INTERVAL_S", 0.0)
    monkeypatch.setattr(routes, "SCAN_INTERVAL_S", 0.0)
    path = home / RUN / "replays" / NAME
    whole = copy.deepcopy(hostile.bases()[0])
    part = copy.deepcopy(whole)
    part.chunks, part.outcome = part.chunks[:1], {**part.outcome, "winner": 1}
    path.write_bytes(assemble(whole))

    async def work(client):
        found = []
        for data in (None, assemble(part)):
            if data is not None:
                new = path.with_suffix(".new") if replaced else path
                new.write_bytes(data)
                new.replace(path)
            await client.get("/api/v1/matches")
            index = await (await client.get(f"/api/v1/matches/{MATCH}/index")).json()
            second = (await client.get(f"/api/v1/matches/{MATCH}/chunks/1")).status
            found.append((len(index["chunks"]), index["outcome"]["winner"], second))
        return found

    assert ask(work) == [(2, 0, 200), (1, 1, 404)]


@pytest.mark.parametrize("name", ["If-Modified-Since", "If-Unmodified-Since"])
@pytest.mark.parametrize(
    "value", ["Sun, 06 Nov 99999999999999999999 08:49:37 GMT", "Sun, 06 Nov 1994 99999999999999999999:49:37 GMT", "?"]
)
def test_dates_beyond_any_calendar_are_no_error_of_the_server(ask, caplog, name, value):
    async def work(client):
        return (await client.get(f"/api/v1/matches/{MATCH}/file", headers={name: value})).status

    assert ask(work) in (200, 400) and not caplog.records


def test_caches_are_private_where_a_token_is_required(ask, home):
    async def work(client):
        summary = (await (await client.get("/api/v1/matches")).json())["matches"][0]
        chunk = await client.get(f"/api/v1/matches/{MATCH}/chunks/0?v={summary['version']}")
        return chunk.headers["Cache-Control"].split(",")[0]

    assert ask(work) == "public"

    async def with_cookie(client):
        client.session.headers["Cookie"] = f"echelon_token_{client.port}=secret"
        return await work(client)

    assert ask(with_cookie, token="secret") == "private"


def test_compressed_json_has_another_tag(ask):
    async def work(client):
        replies = [await client.get("/api/v1/matches", headers={"Accept-Encoding": c}) for c in ("identity", "gzip")]
        tags = [reply.headers["ETag"] for reply in replies]
        again = {"Accept-Encoding": "gzip", "If-None-Match": tags[1]}
        cached = (await client.get("/api/v1/matches", headers=again)).status
        return {reply.headers["Vary"] for reply in replies}, len(set(tags)), cached

    assert ask(work) == ({"Accept-Encoding"}, 2, 304)
    assert [accepts(text, "gzip") for text in ("gzip, br", "gzip;q=0", "gzip; q=0.0", "br", "", "gzip;q=0.5")] == [
        True, False, False, False, False, True
    ]  # fmt: skip


def test_servers_of_a_host_do_not_take_each_others_cookies(ask):
    async def work(client):
        name = f"echelon_token_{client.port}"
        cookies = (
            "echelon_token=secret", "echelon_token_1=secret", f"{name}=other", f"{name}=secret; {name}=other",
            f"{name}=other; {name}=secret", f"a=b; {name}=secret",
        )  # fmt: skip
        statuses = [(await client.get("/api/v1/runs", headers={"Cookie": cookie})).status for cookie in cookies]
        given = await client.get("/?token=secret", allow_redirects=False)
        return given.headers["Set-Cookie"].startswith(f"{name}="), statuses

    assert ask(work, token="secret") == (True, [401, 401, 401, 200, 200, 200])
