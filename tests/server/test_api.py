"""The API of matches: summaries, header, index, chunks, file, worlds, runs and live notices."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import shutil
import threading
import zlib

import numpy as np
import pytest

from echelon.replay.codec import world_hash
from echelon.replay.reader import Replay
from echelon.replay.schema import WORLDS_FOLDER
from echelon.replay.validate import Index
from echelon.server import catalogue, listing, routes
from echelon.server.catalogue import ReplayCatalogue, match_id, version_of
from echelon.server.responses import RESPONSE_CACHE, accepts, strict_json
from tests.replay import hostile
from tests.replay.hostile import INDEX_LAYOUTS, assemble
from tests.replay.synthetic import write_match
from tests.server.conftest import GOLDEN, MATCH, NAME, RUN
from tests.server.test_connections import WAIT_S


def get_json(ask, path, **options):
    async def work(client):
        reply = await client.get(path, **options)
        return reply.status, await reply.json(content_type=None)

    return ask(work)


def test_matches_lists_summaries(ask):
    status, found = get_json(ask, "/api/v1/matches")
    assert status == 200 and found["total"] == 1
    (summary,) = found["matches"]
    assert summary["id"] == MATCH and summary["run"] == RUN and summary["file"] == NAME
    assert summary["complete"] and not summary["live"] and summary["chunks"] > 1
    assert summary["winner"] in (0, 1, 2)
    assert summary["levels"] == ["scripted", "scripted"]


def test_matches_filters_and_pages(ask):
    assert get_json(ask, "/api/v1/matches?run=another")[1] == {"total": 0, "matches": []}
    assert get_json(ask, "/api/v1/matches?live=1")[1]["total"] == 0
    assert get_json(ask, "/api/v1/matches?offset=1&limit=5")[1] == {"total": 1, "matches": []}
    assert get_json(ask, "/api/v1/matches?limit=-3&offset=zzz")[0] == 200


def test_match_returns_header_and_index(ask):
    with Replay(GOLDEN) as replay:
        status, found = get_json(ask, f"/api/v1/matches/{MATCH}")
        assert status == 200 and found["header"] == json.loads(json.dumps(replay.header))
        _, index = get_json(ask, f"/api/v1/matches/{MATCH}/index")
        assert index["chunks"] == [[c.tick0, c.tick1, c.length] for c in replay.chunks]
        assert index["live"] is False and index["outcome"]["winner"] == replay.timeline()["outcome"]["winner"]
        assert len(index["series"]["second"]) == len(index["series"]["alive"][0])


def test_chunk_returns_file_bytes_as_immutable(ask):
    async def work(client):
        match = await (await client.get(f"/api/v1/matches/{MATCH}")).json()
        first = await client.get(f"/api/v1/matches/{MATCH}/chunks/0?v={match['summary']['version']}")
        again = await client.get(f"/api/v1/matches/{MATCH}/chunks/0", headers={"If-None-Match": first.headers["ETag"]})
        none = await client.get(f"/api/v1/matches/{MATCH}/chunks/999")
        return await first.read(), first.headers["Cache-Control"], again.status, none.status

    body, caching, again, none = ask(work)
    with Replay(GOLDEN) as replay:
        assert body == replay.chunk_bytes(0)
    assert "immutable" in caching and again == 304 and none == 404


def test_chunk_without_version_is_not_cacheable(ask):
    async def work(client):
        replies = [await client.get(f"/api/v1/matches/{MATCH}/chunks/0{query}") for query in ("", "?v=", "?v=0123")]
        return [(reply.status, reply.headers["Cache-Control"]) for reply in replies]

    assert ask(work) == [(200, "no-cache")] * 3
    headers = []
    for name in ("small.ecr", "smoke.ecr"):
        with Replay(GOLDEN.with_name(name)) as replay:
            headers.append(replay.header)
    assert version_of(headers[0]) != version_of(headers[1]) != version_of({**headers[1], "created": 1.0})


def test_world_is_served_by_hash(ask):
    with Replay(GOLDEN) as replay:
        sha = replay.header["world"]["sha256"]

    async def work(client):
        reply = await client.get(f"/api/v1/worlds/{sha}")
        other = await client.get(f"/api/v1/worlds/{'0' * 64}")
        return await reply.read(), other.status

    body, other = ask(work)
    assert world_hash(zlib.decompress(body)) == sha and other == 404


def test_file_serves_whole_and_ranges(ask):
    async def work(client):
        whole = await client.get(f"/api/v1/matches/{MATCH}/file")
        part = await client.get(f"/api/v1/matches/{MATCH}/file", headers={"Range": "bytes=8-31"})
        wrong = await client.get(f"/api/v1/matches/{MATCH}/file", headers={"Range": "bytes=99999999-"})
        return await whole.read(), part.status, await part.read(), wrong.status

    whole, status, part, wrong = ask(work)
    data = GOLDEN.read_bytes()
    assert whole == data and status == 206 and part == data[8:32] and wrong == 416


def test_file_export_embeds_world(ask, home, tmp_path):
    replays = home / RUN / "replays"
    (replays / NAME).unlink()
    here = write_match(replays / NAME, worlds=replays / WORLDS_FOLDER)

    async def work(client):
        reply = await client.get(f"/api/v1/matches/{MATCH}/file?world=1")
        return reply.headers["Content-Disposition"], await reply.read()

    (tmp_path / "elsewhere").mkdir()
    moved = tmp_path / "elsewhere" / "moved.ecr"
    name, whole = ask(work)
    moved.write_bytes(whole)
    with Replay(moved) as replay, Replay(here) as original:
        assert replay.world == original.world and replay.complete and f"{MATCH}.ecr" in name
        assert len(replay.chunks) == len(original.chunks)


def test_runs_and_health_return_json(ask):
    assert get_json(ask, "/api/v1/runs")[1] == {"runs": [{"id": RUN, "matches": 1}]}
    assert get_json(ask, "/api/v1/healthz")[1]["ok"] is True


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/matches/0000000000000000",
        "/api/v1/matches/..%2f..%2fetc%2fpasswd",
        f"/api/v1/matches/{MATCH.upper()}x",
        f"/api/v1/matches/{MATCH}/chunks/-1",
        "/api/v1/worlds/../../../../etc/passwd",
        "/../../../etc/passwd",
        "/assets/..%2f..%2f..%2fapp.py",
        "/app.py",
    ],
)
def test_uncatalogued_paths_return_404(ask, path):
    async def work(client):
        from yarl import URL

        reply = await client.get(URL(path, encoded=True))
        return reply.status, await reply.text()

    status, text = ask(work)
    assert status == 404
    assert "root:" not in text and "Traceback" not in text


def test_scan_skips_links_and_foreign_files(ask, home):
    replays = home / RUN / "replays"
    os.symlink(GOLDEN, replays / "link.ecr")
    (replays / "foreign.ecr").write_bytes(b"not a replay at all")
    (replays / "cut.ecr").write_bytes(GOLDEN.read_bytes()[:40])
    os.mkfifo(replays / "pipe.ecr")
    assert get_json(ask, "/api/v1/matches")[1]["total"] == 1


def test_damaged_chunk_returns_422(ask, home):
    with Replay(GOLDEN) as replay:
        ref = replay.chunks[1]
    path = home / RUN / "replays" / NAME
    data = bytearray(path.read_bytes())
    data[ref.offset + ref.length // 2] ^= 0xFF
    path.write_bytes(data)
    status, body = get_json(ask, f"/api/v1/matches/{MATCH}/chunks/1")
    assert status == 422 and body["title"] == "Unreadable replay" and body["status"] == 422
    assert get_json(ask, f"/api/v1/matches/{MATCH}")[0] == 200


def test_growing_match_is_live_and_sends_notices(ask, home):
    with Replay(GOLDEN) as replay:
        ends = [c.offset + c.length for c in replay.chunks]
    data, path = GOLDEN.read_bytes(), home / RUN / "replays" / "growing.ecr"
    path.write_bytes(data[: ends[0]])

    async def work(client):
        listed = await (await client.get("/api/v1/matches?live=1")).json()
        notices = []
        async with client.ws_connect("/api/v1/live") as socket:
            notices.append(await socket.receive_json(timeout=5))
            await asyncio.sleep(0.7)
            path.write_bytes(data[: ends[1]])
            notices.append(await socket.receive_json(timeout=5))
            path.write_bytes(data)
            notices.append(await socket.receive_json(timeout=5))
        return listed, notices

    listed, (joined, grown, ended) = ask(work)
    assert listed["total"] == 1 and listed["matches"][0]["chunks"] == 1
    ident = listed["matches"][0]["id"]
    assert joined == {"type": "match", "id": ident, "chunks": 1, "tick1": joined["tick1"]}
    assert grown["type"] == "chunk" and grown["chunks"] == 2 and grown["tick1"] > joined["tick1"]
    assert ended["type"] == "ended" and ended["chunks"] == len(ends)


def test_new_run_is_found_without_restart(ask, home):
    async def work(client):
        before = await (await client.get("/api/v1/matches")).json()
        await asyncio.sleep(0.5)
        other = home / "20260102-000000-duel-brave-lynx"
        (other / "replays").mkdir(parents=True)
        (other / "spec.json").write_text("{}")
        shutil.copy(GOLDEN, other / "replays" / "one.ecr")
        after = await (await client.get("/api/v1/matches")).json()
        return before["total"], after["total"]

    assert ask(work) == (1, 2)


def test_match_newer_than_last_scan_is_found_by_id(ask, home):
    async def work(client):
        await client.get("/api/v1/matches")  # scans
        shutil.copy(GOLDEN, home / RUN / "replays" / "new.ecr")
        return (await client.get(f"/api/v1/matches/{match_id(RUN, 'new.ecr')}")).status

    assert ask(work) == 200


def test_index_has_the_moments_of_the_file_and_the_list_the_top_one(ask):
    with Replay(GOLDEN) as replay:
        expected, top = replay.timeline(), replay.top_moment
    _, found = get_json(ask, f"/api/v1/matches/{MATCH}/index")
    assert {name: found[name] for name in ("win", "moments")} == {n: expected[n] for n in ("win", "moments")}
    assert found["moments"] and {"caption", "rank", "tick", "before", "after"} <= set(found["moments"][0])
    _, matches = get_json(ask, "/api/v1/matches")
    assert [row["moment"] for row in matches["matches"] if row["id"] == MATCH] == [top] and top


def test_index_of_a_truncated_match_has_its_moments_so_far(ask, home):
    path = home / RUN / "replays" / "cut.ecr"
    path.write_bytes(GOLDEN.read_bytes()[:-1400])
    os.utime(path, (1, 1))
    status, found = get_json(ask, f"/api/v1/matches/{match_id(RUN, 'cut.ecr')}/index")
    assert status == 200 and found["outcome"]["winner"] == -1
    assert found["win"]["tick"] and found["moments"] and all(0 < p < 1 for p in found["win"]["blue"])


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


def test_json_has_null_for_numbers_that_are_not_finite_and_base64_for_bytes():
    value = {"a": float("nan"), "b": np.array([1.5, np.inf]), "c": b"\xff", 1: np.int32(2), "d": (1, [2.5])}
    assert strict_json(value) == b'{"a":null,"b":[1.5,null],"c":"_w==","1":2,"d":[1,[2.5]]}'


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
